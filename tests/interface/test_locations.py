"""Every argument that takes a location: they all go through one parser."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ParameterError
from omnigraph.graph import Graph
from omnigraph.storage.location import Location, locate
from omnigraph.storage.objects import Objects
from tests.s3 import S3Server

SCHEMA: Final = "node Port { code: String @key }\nedge Leg: Port -> Port"
GOOD: Final[dict[str, object]] = {"type": "Port", "data": {"code": "ams"}}
BAD: Final[dict[str, object]] = {"type": "Port", "data": {}}


def load_file(graph: Graph, place: str) -> object:
    return graph.load(place)


def load_rows(graph: Graph, place: str) -> object:
    return graph.load(nodes={"Port": f"{place}.csv"})


def reject(graph: Graph, place: str) -> object:
    return graph.load([GOOD, BAD], on_error="quarantine", rejects=place)


ARGUMENTS: Final[dict[str, Callable[[Graph, str], object]]] = {
    "init": lambda _, place: omnigraph.init(place, SCHEMA),
    "open": lambda _, place: omnigraph.open(place),
    "load": load_file,
    "load(nodes=)": load_rows,
    "load(rejects=)": reject,
    "export": lambda graph, place: graph.export(place),
    "export_tables": lambda graph, place: graph.export(place, format="parquet"),
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph.og", SCHEMA)


@pytest.mark.parametrize("uri", ["dbfs:/place", "gs://bucket/place"])
@pytest.mark.parametrize("take", ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_unknown_scheme_is_never_a_local_folder(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Callable[[Graph, str], object], uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ParameterError):
        take(graph, uri)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("form", ["file:{}", "file://{}"])
@pytest.mark.parametrize("take", ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_file_uri_is_the_local_path(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Callable[[Graph, str], object], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "a place"
    if take is ARGUMENTS["open"]:
        omnigraph.init(place, SCHEMA)
    elif take is load_file:
        place.write_text('{"type": "Port", "data": {"code": "bcn"}}\n')
    elif take is load_rows:
        Path(f"{place}.csv").write_text("code\nbcn\n")
    take(graph, form.format(place))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("file")]
    if take not in (load_file, load_rows):
        assert place.exists()
    else:
        assert graph.info().nodes == {"Port": 1}


@pytest.fixture
def whole_bucket(s3_server: S3Server) -> Location:
    return locate(f"s3a://{s3_server.create_bucket()}", s3_server.options)


def test_a_graph_at_the_root_of_a_bucket_writes_to_no_other_bucket(whole_bucket: Location) -> None:
    graph = omnigraph.init(whole_bucket.uri, SCHEMA, storage_options=dict(whole_bucket.storage_options))
    result = graph.load([GOOD, BAD], on_error="quarantine")
    assert result.rejected == 1
    assert str(result.rejects_path).startswith(f"s3://{whole_bucket.bucket}/__rejects/")
    assert [info.path for info in Objects(whole_bucket).list("__rejects")]
    assert graph.verify().is_sound


def test_rejects_go_to_the_object_store_that_is_named(s3_location: Location) -> None:
    graph = omnigraph.init(s3_location.uri, SCHEMA, storage_options=dict(s3_location.storage_options))
    place = f"s3a://{s3_location.base}-rejects/bad.jsonl"
    assert graph.load([GOOD, BAD], on_error="quarantine", rejects=place).rejects_path == place.replace("s3a", "s3")
    written = Objects(locate(f"s3://{s3_location.base}-rejects", dict(s3_location.storage_options))).get("bad.jsonl")
    assert written is not None
    assert b"code" in BytesIO(written).readline()
    with pytest.raises(AlreadyExists):
        graph.load([GOOD, BAD], mode="merge", on_error="quarantine", rejects=place)
    with pytest.raises(ParameterError, match="inside the graph"):
        graph.load([BAD], on_error="quarantine", rejects=f"{s3_location.uri}/bad.jsonl")
