"""The log of a server on stderr: lines for people, or one JSON object for each."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import orjson

from omnigraph.lazy_dataclass import dataclass

LogFormat: TypeAlias = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How much is logged, and how."""

    format: LogFormat = "text"
    level: int = logging.WARNING


class _JsonFormatter(logging.Formatter):
    """One line for each record. Those of the audit are objects already."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


class _AuditFormatter(logging.Formatter):
    """The audit writes JSON itself."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return record.getMessage()


def start_log(settings: LogSettings) -> None:
    """Begin to log in this process, in place of what logged before."""
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    if settings.format == "json":
        handler.setFormatter(_JsonFormatter())
        audit = logging.getLogger("omnigraph.audit")
        lines = logging.StreamHandler(sys.stderr)
        lines.setFormatter(_AuditFormatter())
        audit.handlers, audit.propagate = [lines], False
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root.handlers = [handler]
    logging.getLogger("omnigraph").setLevel(settings.level)
