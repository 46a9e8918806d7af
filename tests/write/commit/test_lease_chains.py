"""A handle that wrote last under a lease does not look again before it writes: what others did meanwhile still counts.

Two handles of one graph take turns. The first one has written and would like to assume that nothing has changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import DriftDetected, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.write.commit import list_sidecars
from tests import crash
from tests.graphs import rows_of
from tests.selection import daily

SCHEMA: Final = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
WIDER: Final = SCHEMA.replace("I32?", "I32?  town: String?")
ADD: Final = "query add($name: String) { insert Person { name: $name } }"
GROW: Final = "query grow($name: String) { update Person set { age: 7 } where name = $name }"
DROP: Final = "query drop($name: String) { delete Person where name = $name }"
MEET: Final = 'query meet($name: String) { insert Knows { from: "ann", to: $name } }'
MOVE: Final = 'query move($name: String) { update Person set { town: "Rome" } where name = $name }'


def run(graph: Graph, text: str, name: str, branch: str = "main") -> int:
    return graph.mutate(text, params={"name": name}, branch=branch).affected_nodes


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(str(row["name"]) for row in rows_of(graph, "Person", branch))


@pytest.fixture
def handles(tmp_path: Path) -> tuple[Graph, Graph]:
    """A handle that has just written, and another one."""
    first = omnigraph.init(str(tmp_path / "g"), SCHEMA, lock="lease")
    first.create_branch("dev")
    run(first, ADD, "ann")
    run(first, ADD, "ann", "dev")
    return first, omnigraph.open(first.uri)


def assumes(graph: Graph, branch: str = "main") -> bool:
    return graph._manifest.assume_view(branch) is not None


def test_a_handle_that_wrote_last_goes_on_without_a_look(handles: tuple[Graph, Graph]) -> None:
    first, other = handles
    assert assumes(first)
    assert assumes(first, "dev")
    assert not assumes(other)
    run(first, ADD, "bob")
    assert assumes(first)
    assert names(other) == ["ann", "bob"]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_what_others_wrote_meanwhile_is_seen(handles: tuple[Graph, Graph], branch: str) -> None:
    first, other = handles
    run(other, ADD, "bob", branch)
    assert run(first, GROW, "bob", branch) == 1
    run(other, DROP, "ann", branch)
    run(first, ADD, "ann", branch)
    assert run(other, GROW, "ann", branch) == 1
    run(other, ADD, "cleo", branch)
    assert run(first, DROP, "cleo", branch) == 1
    run(other, ADD, "dora", branch)
    run(first, ADD, "dora", branch)
    assert names(first, branch) == names(other, branch) == ["ann", "bob", "dora"]
    run(other, ADD, "eve", branch)
    first.mutate(MEET, params={"name": "eve"}, branch=branch)


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_schema_that_changed_meanwhile_is_the_one_that_counts(handles: tuple[Graph, Graph], branch: str) -> None:
    first, other = handles
    other.apply_schema(WIDER)
    assert run(first, MOVE, "ann", branch) == 1


def test_a_branch_that_was_created_anew_is_the_one_that_is_written(handles: tuple[Graph, Graph]) -> None:
    first, other = handles
    other.delete_branch("dev")
    other.create_branch("dev")
    run(first, ADD, "bob", "dev")
    assert names(first, "dev") == ["ann", "bob"]
    other.delete_branch("dev")
    with pytest.raises(OmniGraphError, match="no branch 'dev'"):
        run(first, ADD, "cleo", "dev")


def test_rows_that_somebody_else_put_into_a_table_are_not_buried(handles: tuple[Graph, Graph]) -> None:
    first, _ = handles
    table = first.snapshot().table("Person")
    intruder = pa.Table.from_pylist([{"id": "intruder", "name": "intruder"}], schema=table.schema)
    lance.dataset(table.uri).insert(intruder)
    with pytest.raises(DriftDetected, match="repair"):
        run(first, ADD, "bob")
    assert lance.dataset(table.uri).count_rows() == 2


def die_adding(uri: str, name: str) -> None:
    run(omnigraph.open(uri), ADD, name)


@pytest.mark.parametrize("step", daily(["objects.put", "table.commit", "table.merge"], ["table.commit"]))
def test_what_a_dead_writer_left_is_finished(handles: tuple[Graph, Graph], step: str) -> None:
    first, other = handles
    steps = crash.record(die_adding, first.uri, "recorded")
    number = next(each.number for each in steps if each.name == step and "__locks" not in each.detail)
    run(first, GROW, "recorded")
    assert assumes(first)
    crash.kill_at(die_adding, (first.uri, "dead"), number, "after")
    assert run(first, GROW, "ann") == 1
    assert list_sidecars(first._manifest.objects) == []
    assert names(other) == names(first) == sorted(["ann", "recorded", *(["dead"] if step != "objects.put" else [])])


def failing(act: Callable[[], object]) -> bool:
    try:
        act()
    except OmniGraphError:
        return True
    return False


def test_a_failed_write_ends_the_assumption_or_leaves_it_right(handles: tuple[Graph, Graph]) -> None:
    first, other = handles
    assert failing(lambda: run(first, MEET, "nobody"))
    assert run(first, GROW, "nobody") == 0
    run(other, ADD, "bob")
    assert run(first, GROW, "bob") == 1
    assert names(other) == ["ann", "bob"]
