"""Spans for OpenTelemetry: one of each request, below that of its caller, with one of the work in the engine."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from omnigraph.server import tracing
from tests.server.client import Client

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "a-value-that-nobody-else-may-see"
ONE = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def list_spans(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ReadableSpan]:
    """The span of the work, which ends first, and that of its request."""
    inner, outer = exporter.get_finished_spans()
    exporter.clear()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    return inner, outer


def test_a_request_and_its_work(client: Client, spans: InMemorySpanExporter) -> None:
    answer = client.post("query", {"query": ONE, "params": {"name": SECRET}}, traceparent=CALLER)
    assert answer.status_code == 200
    inner, outer = list_spans(spans)
    assert inner.name == "run_read_query"
    assert (outer.name, outer.kind) == ("POST /graphs/{graph_id}/query", SpanKind.SERVER)
    assert outer.parent is not None
    assert f"{outer.parent.trace_id:032x}-{outer.parent.span_id:016x}" == CALLER[3:-3]
    found = dict(outer.attributes or {})
    assert found.pop("client.address") is not None
    assert found == {
        "http.request.method": "POST",
        "http.route": "/graphs/{graph_id}/query",
        "http.response.status_code": 200,
        "user.id": "act-test",
        "omnigraph.request_id": answer.headers["x-request-id"],
        "omnigraph.graph": "brain",
        "omnigraph.commit": answer.json()["commit"],
        "omnigraph.rows": 0,
        "omnigraph.decision": "allowed",
    }
    assert SECRET not in inner.to_json() + outer.to_json()


def test_a_refusal_says_its_code_and_no_value(client: Client, spans: InMemorySpanExporter) -> None:
    assert client.post("query", {"query": ONE, "params": {"name": SECRET, "nope": 1}}).status_code == 400
    inner, outer = list_spans(spans)
    assert dict(inner.attributes or {}) == {"error.type": "parameter_error"}
    assert inner.status.status_code is StatusCode.ERROR
    # What the client did wrong is no failure of the server.
    assert outer.status.status_code is StatusCode.UNSET
    assert "nope" not in inner.to_json() + outer.to_json()


def test_what_goes_no_further_has_one_span(client: Client, spans: InMemorySpanExporter) -> None:
    assert client.send("GET", "/graphs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    (only,) = spans.get_finished_spans()
    assert dict(only.attributes or {})["http.response.status_code"] == 401
    assert "wrong" not in only.to_json()


def test_without_an_sdk_nothing_is_made(client: Client) -> None:
    with tracing.trace_work("x"):
        assert not trace.get_current_span().get_span_context().is_valid
    assert client.get("commits").status_code == 200
