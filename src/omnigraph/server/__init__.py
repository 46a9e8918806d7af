"""Serve graphs over HTTP. Needs the extra ``server``; only the commands that use it import this package."""

from omnigraph.server.access import Role, Token, create_token, parse_lifetime, read_token_file, revoke_token
from omnigraph.server.app import build_app
from omnigraph.server.checking import ServerCheck, check_server, run_policy_tests
from omnigraph.server.config import (
    DEFAULT_BIND,
    AgentSettings,
    Limits,
    QueryFolder,
    ServedGraph,
    ServerSettings,
    TlsFiles,
    make_graph_id,
    parse_bind,
    read_config,
    read_query_folder,
)
from omnigraph.server.hosting import Hosting, open_hosting
from omnigraph.server.process import LogFormat, LogSettings, serve, start_log
from omnigraph.server.stdio import serve_agent, serve_remote_agent

__all__ = [
    "DEFAULT_BIND",
    "AgentSettings",
    "Hosting",
    "Limits",
    "LogFormat",
    "LogSettings",
    "QueryFolder",
    "Role",
    "ServedGraph",
    "ServerCheck",
    "ServerSettings",
    "TlsFiles",
    "Token",
    "build_app",
    "check_server",
    "create_token",
    "make_graph_id",
    "open_hosting",
    "parse_bind",
    "parse_lifetime",
    "read_config",
    "read_query_folder",
    "read_token_file",
    "revoke_token",
    "run_policy_tests",
    "serve",
    "serve_agent",
    "serve_remote_agent",
    "start_log",
]
