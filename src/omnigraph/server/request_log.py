"""What is kept of requests: one audit line for each, and counts for Prometheus.

A line says who did what to which graph and how it ended. It never has a token, a parameter, a query or a value.
"""

from __future__ import annotations

import logging
import os
from dataclasses import field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Final, Literal

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import (
    MultiProcessCollector,
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType]  it has no types
)

from omnigraph.lazy_dataclass import dataclass

METRICS_TYPE: Final = "text/plain"
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder of the counts, where several workers serve; the library looks there."""
AuditDecision = Literal["allowed", "denied", "unauthorized"]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods that are counted by name: clients could invent any number of others."""
_audit = logging.getLogger("omnigraph.audit")


@dataclass(slots=True)
class RequestRecord:
    """What is known of a request so far."""

    request_id: str
    method: str
    route: str | None = None
    """The path as it is declared, with the names of its parameters: others would be too many for a count."""
    address: str = ""
    """Where it came from."""
    actor: str | None = None
    token_id: str | None = None
    action: str | None = None
    graph: str | None = None
    branch: str | None = None
    decision: AuditDecision | None = None
    rule: str | None = None
    """The rule of the policy that decided."""
    rows: int | None = None
    commit: str | None = None
    status: int | None = None
    """How it was answered, once it has ended; 499 if its client was gone."""
    began: float = field(default_factory=monotonic)

    def to_line(self, status: int, milliseconds: float) -> bytes:
        """Return the audit line."""
        found = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "request_id": self.request_id,
            "address": self.address,
            "actor": self.actor,
            "token": self.token_id,
            "method": self.method,
            "route": self.route,
            "action": self.action,
            "graph": self.graph,
            "branch": self.branch,
            "decision": self.decision,
            "rule": self.rule,
            "status": status,
            "ms": round(milliseconds, 3),
            "rows": self.rows,
            "commit": self.commit,
        }
        return orjson.dumps(found)


def forget_worker(pid: int) -> None:
    """Forget what a dead worker had under way. What it counted stays in the sums."""
    mark_process_dead(pid)


class RequestLog:
    """Writes the audit and keeps the counts of one server."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._registry = CollectorRegistry()
        labels = ("route", "method", "status")
        self._requests = Counter("omnigraph_requests", "Requests that ended", labels, registry=self._registry)
        self._seconds = Histogram(
            "omnigraph_request_seconds", "How long requests took", ("route", "method"), registry=self._registry
        )
        self._under_way = Gauge(
            "omnigraph_requests_under_way", "Requests under way", registry=self._registry, multiprocess_mode="livesum"
        )

    def set_under_way(self, count: int) -> None:
        """Note how many requests are under way."""
        self._under_way.set(count)

    def record_end(self, record: RequestRecord, status: int | None) -> None:
        """Keep a request that has ended; without a status, its client was gone."""
        seconds = monotonic() - record.began
        ended = record.status = 499 if status is None else status
        if ended == HTTPStatus.UNAUTHORIZED:
            record.decision = "unauthorized"
        elif record.action is not None and record.decision is None:
            record.decision = "denied" if ended == HTTPStatus.FORBIDDEN else "allowed"
        route, method = record.route or "none", record.method if record.method in _METHODS else "other"
        self._requests.labels(route, method, str(ended)).inc()
        self._seconds.labels(route, method).observe(seconds)
        self._write(record.to_line(ended, seconds * 1000))

    def export_metrics(self) -> bytes:
        """Return the counts of all workers in the text format of Prometheus."""
        if METRICS_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)

    def _write(self, line: bytes) -> None:
        if self._path is None:
            _audit.info("%s", line.decode())
            return
        # Opened for every line: whoever rotates the file needs to tell nobody.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line + b"\n")
        finally:
            os.close(descriptor)
