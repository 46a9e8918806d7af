"""What ``graph.health`` tells: unfinished writes, fragments, deleted rows and what indexes cover."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound
from omnigraph.maintain.automatic_cleanup import clean_up_if_due
from omnigraph.maintain.health import IndexHealth, TableHealth
from omnigraph.storage.tables import IndexKind
from tests import crash

SCHEMA = "node Port { code: String @key  berths: I32? @index }\nedge Near: Port -> Port"
ADD = "query add($code: String) { insert Port { code: $code } }"


def write(root: str) -> None:
    omnigraph.open(root).mutate(ADD, params={"code": "dead"})


def test_a_graph_that_was_written_to_and_deleted_from(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Port", "data": {"code": code}} for code in ("a", "b", "c")])
    graph.ensure_indexes(types=["Port"])
    graph.mutate(ADD, params={"code": "d"})
    graph.create_branch("more")
    found = graph.health()
    assert (found.branch, found.locks, found.sidecars, found.branches) == ("main", "flock", 0, 2)
    assert (found.commits, found.manifest_rows > found.commits) == (len(graph.commits(upkeep=True)), True)
    ports, near = found.tables
    assert (ports.table_key, ports.rows, ports.fragments, ports.deleted_rows) == ("node:Port", 4, 2, 0)
    assert {index.column: index.rows for index in ports.indexes} == {"id": 3, "berths": 3, "code": 3}
    assert ports.uncovered_rows == 1
    graph.mutate('query gone() { delete Port where code = "a" }')
    ports = graph.health().tables[0]
    assert (ports.rows, ports.fragments, ports.deleted_rows) == (3, 2, 1)
    ends = tuple(IndexHealth(column, IndexKind.BTREE, 0) for column in ("id", "src", "dst"))
    assert near == TableHealth(near.table_key, 0, 0, 0, ends)
    assert graph.health("more").commits == found.commits
    with pytest.raises(NotFound):
        graph.health("nothing")


def test_a_write_that_was_killed_is_counted_until_the_next_one(tmp_path: Path) -> None:
    root = tmp_path / "g.og"
    omnigraph.init(root, SCHEMA)
    steps = crash.record(write, str(crash.fresh_copy(root)))
    number = next(step.number for step in steps if "__recovery" in str(step))
    crash.kill_at(write, (str(root),), number, "after")
    assert omnigraph.open(root, "ro").health().sidecars == 1
    omnigraph.open(root).mutate(ADD, params={"code": "next"})
    assert omnigraph.open(root, "ro").health().sidecars == 0


def test_when_the_graph_was_last_cleaned_up(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.cleanup(1)
    assert graph.health().last_cleanup is None
    began = datetime.now(UTC)
    graph.cleanup(1, confirm=True)
    by_hand = graph.health().last_cleanup
    assert by_hand is not None
    assert began <= by_hand <= datetime.now(UTC)
    automatic = omnigraph.open(tmp_path / "g.og", keep="1s")
    assert clean_up_if_due(automatic._manifest, "1s") is not None, "a cleanup by hand is not one by age"
    last = automatic.health().last_cleanup
    assert last is not None
    assert last > by_hand
    (tmp_path / "g.og" / "__cleanup.json").write_text("{")
    assert graph.health().last_cleanup is None
