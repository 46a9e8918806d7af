"""Blobs in a load: what is a blob, and URIs of files and objects that are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import httpx
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load import TableInput
from tests.graphs import written
from tests.s3 import S3Server

SCHEMA = "node Doc { name: String @key  body: Blob? }\nedge Cites: Doc -> Doc { scan: Blob? }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.chdir(tmp_path)
    Path("here.bin").write_bytes(b"here")
    return omnigraph.init("docs.og", SCHEMA)


def uri(name: str) -> str:
    return Path(name).absolute().as_uri()


def doc(name: str, body: str | None) -> dict[str, object]:
    return {"type": "Doc", "data": {"name": name, "body": body}}


@pytest.mark.parametrize("text", ["AAEC", "", "here.bin", "/here.bin", "base64:?", "data:text/plain,x"])
def test_a_text_that_is_no_blob_is_a_violation(graph: Graph, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        graph.load([doc("a", text)])
    (violation,) = caught.value.violations
    assert (violation.property, violation.value) == ("body", text)
    assert violation.message.endswith("; give a URI or 'base64:...'")
    with pytest.raises(ParameterError, match=r"give base64:\.\.\. or a URI"):
        graph.mutate('query q($b: Blob) { insert Doc { name: "a", body: $b } }', params={"b": text})


def test_an_empty_text_of_a_csv_file_is_no_blob(graph: Graph) -> None:
    Path("docs.csv").write_text('name,body\na,""\nb,\nc,base64:\n')
    graph.load(nodes={"Doc": "docs.csv"})
    assert [graph.blob("Doc", name, "body") for name in ("a", "b", "c")] == [None, None, b""]


@pytest.mark.parametrize("kind", ["records", "frame", "csv"])
def test_a_uri_of_nothing_is_refused_with_its_row(graph: Graph, kind: str) -> None:
    before, missing = written(graph), uri("gone.bin")
    here = uri("here.bin")
    Path("docs.csv").write_text(f"name,body\na,{here}\nb,{missing}\n")
    table: dict[str, TableInput] = {"frame": pa.table({"name": ["a", "b"], "body": [here, missing]}), "csv": "docs.csv"}
    source = [doc("a", here), doc("b", missing)] if kind == "records" else None
    with pytest.raises(ValidationError) as caught:
        graph.load(source, nodes={"Doc": table[kind]} if kind in table else None, check=kind == "csv")
    (violation,) = caught.value.violations
    assert (violation.line, violation.id, violation.property) == (3 if kind == "csv" else 2, "b", "body")
    assert (violation.rule, violation.value) == ("blob file", missing)
    assert violation.message == (
        f"'body': there is no file '{missing}'; put it there, or give allow_missing_blobs (--allow-missing-blobs)"
    )
    assert written(graph) == before


def test_rows_with_a_uri_of_nothing_are_set_aside_or_allowed(graph: Graph) -> None:
    records = [doc("a", uri("gone.bin")), doc("b", uri("here.bin"))]
    edge = {"edge": "Cites", "from": "b", "to": "b", "data": {"scan": uri(".")}}
    result = graph.load([*records, edge], on_error="quarantine")
    assert (result.nodes, result.edges, result.rejected) == ({"Doc": 1}, {"Cites": 0}, 2)
    result = graph.load([*records, edge], mode="merge", allow_missing_blobs=True)
    assert (result.nodes, result.edges, result.rejected) == ({"Doc": 2}, {"Cites": 1}, 0)
    Path("gone.bin").write_bytes(b"late")
    assert graph.blob("Doc", "a", "body") == b"late"


def test_objects_of_a_store_are_asked_for(graph: Graph, s3_server: S3Server, s3_bucket: str) -> None:
    httpx.put(f"{s3_server.endpoint}/{s3_bucket}/scans/a%20b%2525.bin", content=b"x").raise_for_status()
    opened = omnigraph.open(graph.uri, storage_options={**s3_server.options, "allow_http": "true"})
    there, gone = (f"s3://{s3_bucket}/scans/{name}" for name in ("a%20b%2525.bin", "gone.bin"))
    with pytest.raises(ValidationError) as caught:
        opened.load([doc("a", there), doc("b", gone), doc("c", "http://localhost/x"), doc("d", "s3://[x/y")])
    assert [(each.id, each.message.partition(";")[0].partition("\n")[0]) for each in caught.value.violations] == [
        ("b", f"'body': there is no object '{gone}'"),
        ("c", "'body': 'http://localhost/x': Invalid user input: No object store provider found for scheme: 'http'"),
        ("d", "'body': 's3://[x/y' is no URI: Invalid IPv6 URL"),
    ]
    opened.load([doc("a", there)])
    assert opened.blob("Doc", "a", "body") == b"x"


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv"])
def test_a_missing_file_stops_no_export_and_verify_names_its_row(
    graph: Graph, form: Literal["jsonl", "parquet", "csv"]
) -> None:
    records = [doc("a", "base64:AAEC"), doc("b", uri("here.bin")), doc("c", uri("gone.bin")), doc("d", None)]
    graph.load(records, allow_missing_blobs=True)
    findings = graph.verify().findings
    assert [each.where for each in findings] == ["main: Doc c, body"]
    graph.export(f"exported.{form}")
    copy = omnigraph.init("copy.og", SCHEMA)
    table = {"parquet": "exported.parquet/node/Doc", "csv": "exported.csv/node/Doc.csv"}.get(form)
    source, nodes = (f"exported.{form}", None) if table is None else (None, {"Doc": table})
    with pytest.raises(ValidationError, match=r"there is no file .*gone\.bin"):
        copy.load(source, nodes=nodes)
    copy.load(source, nodes=nodes, allow_missing_blobs=True)
    bodies = {each["data"]["name"]: each["data"]["body"] for each in map(json.loads, copy.export())}
    assert bodies == {"a": "base64:AAEC", "b": uri("here.bin"), "c": uri("gone.bin"), "d": None}
