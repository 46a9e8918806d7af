"""The processes of a server: sockets, signals, workers and their log."""

from omnigraph.server.process.listen import serve
from omnigraph.server.process.server_log import LogFormat, LogSettings, start_log

__all__ = ["LogFormat", "LogSettings", "serve", "start_log"]
