"""Spans for OpenTelemetry: one for each request, and in it one for the work in the engine.

Whoever wants them configures an SDK, such as by ``opentelemetry-instrument omnigraph serve``. Without one, nothing is
made. A span says who asked what of which graph and how it ended: never a token, a parameter, a query or a value.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from opentelemetry import propagate
from opentelemetry.trace import (
    ProxyTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer_provider,
)

from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from omnigraph.server.request_log import RequestRecord

_NAME: Final = "omnigraph.server"


@contextmanager
def trace_request(headers: Mapping[str, str], record: RequestRecord) -> Generator[None]:
    """Make a span of a request in the block, below the span that its caller names in ``traceparent``."""
    tracer = _find_tracer()
    if tracer is None:
        yield
        return
    parent = propagate.extract(headers)
    with tracer.start_as_current_span(record.method, parent, SpanKind.SERVER, record_exception=False) as span:
        try:
            yield
        finally:
            _describe(span, record)


def trace_work(name: str) -> AbstractContextManager[None]:
    """Make a span of what the engine does for a request."""
    tracer = _find_tracer()
    return nullcontext() if tracer is None else _trace_work(tracer, name)


@contextmanager
def _trace_work(tracer: Tracer, name: str) -> Generator[None]:
    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        try:
            yield
        except Exception as error:
            # The text of an error may hold a value.
            code = error.code if isinstance(error, OmniGraphError) else type(error).__name__
            span.set_attribute("error.type", code)
            span.set_status(StatusCode.ERROR)
            raise


def _find_tracer() -> Tracer | None:
    provider = get_tracer_provider()
    return None if isinstance(provider, ProxyTracerProvider) else _tracer_of(provider)


@cache
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer(_NAME, version("omnigraph"))


def _describe(span: Span, record: RequestRecord) -> None:
    route = record.route or "unknown"
    span.update_name(f"{record.method} {route}")
    attributes = {
        "http.request.method": record.method,
        "http.route": route,
        "http.response.status_code": record.status,
        "client.address": record.address,
        "user.id": record.actor,
        "omnigraph.request_id": record.request_id,
        "omnigraph.graph": record.graph,
        "omnigraph.branch": record.branch,
        "omnigraph.commit": record.commit,
        "omnigraph.rows": record.rows,
        "omnigraph.decision": record.decision,
    }
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if record.status is not None and record.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)
