"""Files that a writer staged and a cleanup deletes: the writer finds them gone, or the cleanup finds them needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import ConflictError, ParameterError, StorageError
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup_ages import refuse_wrong_clock
from omnigraph.maintain.orphans import ReclaimKind
from omnigraph.manifest.settings import LOAD_CONCURRENCY
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.write.commit import list_sidecars
from tests import crash

SCHEMA: Final = "node Port { code: String @key }\nnode Sea { name: String @key }\nedge Leg: Port -> Port"
FIRST: Final[list[dict[str, object]]] = [
    {"type": "Port", "data": {"code": "ams"}},
    {"type": "Port", "data": {"code": "bcn"}},
    {"type": "Sea", "data": {"name": "north"}},
]
NEXT: Final[list[dict[str, object]]] = [
    {"type": "Port", "data": {"code": "cph"}},
    {"type": "Sea", "data": {"name": "east"}},
    {"edge": "Leg", "from": "ams", "to": "cph"},
]
WRITES: Final[dict[str, Callable[[Graph], object]]] = {
    "load": lambda graph: graph.load(NEXT),
    "overwrite": lambda graph: graph.load(NEXT[:1], mode="overwrite"),
    "insert": lambda graph: graph.mutate('query add() { insert Port { code: "dub" } }', retries=0),
    "delete": lambda graph: graph.mutate('query drop() { delete Port where code = "bcn" }', retries=0),
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    graph.load(FIRST)
    return graph


def shown(graph: Graph) -> list[object]:
    return [graph.nodes("Port").to_arrow().to_pylist(), graph.nodes("Sea").to_arrow().to_pylist()]


@contextmanager
def cleaning_up(graph: Graph, after: str) -> Generator[None]:
    """Clean up, through another handle, as soon as a writer has made its first durable write of a kind."""
    waiting = [omnigraph.open(graph.uri)]

    def act(when: When, step: WriteStep) -> None:
        if (when, step.name) == ("after", after) and waiting:
            waiting.pop().cleanup(staged_older_than="0s", confirm=True)

    with _arm(act):
        yield
    assert not waiting


@pytest.mark.parametrize("name", ["load", "overwrite", "insert", "delete"])
def test_a_writer_whose_staged_files_are_gone_changes_nothing(graph: Graph, name: str) -> None:
    before = shown(graph)
    with cleaning_up(graph, after="table.stage"), pytest.raises(ConflictError, match="stage again"):
        WRITES[name](graph)
    assert shown(omnigraph.open(graph.uri)) == before
    assert list_sidecars(graph._manifest.objects) == []
    WRITES[name](graph)
    assert shown(graph) != before
    assert graph.verify().is_sound


def test_a_mutation_that_is_run_again_stages_again(graph: Graph) -> None:
    with cleaning_up(graph, after="table.stage"):
        graph.mutate('query add() { insert Port { code: "dub" } }')
    assert graph.info().nodes == {"Port": 3, "Sea": 1}


def die_loading(uri: str) -> None:
    # One table after another, so that the last write comes last.
    os.environ[LOAD_CONCURRENCY] = "1"
    omnigraph.open(uri).load(NEXT)


def test_files_of_a_killed_load_are_freed_when_asked(graph: Graph) -> None:
    steps = crash.record(die_loading, str(crash.fresh_copy(Path(graph.uri))))
    last = max(step.number for step in steps if step.name == "table.stage")
    crash.kill_at(die_loading, (graph.uri,), last, "after")
    kinds = {each.kind for each in graph.cleanup(staged_older_than="1d").reclaimed}
    assert ReclaimKind.STAGED not in kinds
    (staged,) = graph.cleanup(staged_older_than=timedelta(0), confirm=True).reclaimed
    assert (staged.kind, staged.count) == (ReclaimKind.STAGED, 3)
    assert graph.load(NEXT).commit is not None
    assert graph.verify().is_sound


def test_a_clock_that_differs_from_that_of_the_storage_is_refused(graph: Graph) -> None:
    objects = Objects(graph._manifest.location)
    now = datetime.now(UTC)
    refuse_wrong_clock(objects, now + timedelta(minutes=59))
    for wrong in (now + timedelta(minutes=62), now - timedelta(minutes=62)):
        with pytest.raises(StorageError, match="clocks of this machine and of the storage differ"):
            refuse_wrong_clock(objects, wrong)


def test_an_age_that_is_none_is_refused(graph: Graph, s3_location: Location) -> None:
    with pytest.raises(ParameterError, match="staged_older_than is -1 day"):
        graph.cleanup(staged_older_than=timedelta(days=-1))
    with pytest.raises(ParameterError, match="'soon' is not an age"):
        graph.cleanup(staged_older_than="soon")
    stored = omnigraph.init(s3_location.uri, SCHEMA, storage_options=dict(s3_location.storage_options))
    with pytest.raises(ParameterError, match="2 hours or more"):
        stored.cleanup(staged_older_than="90m")
