"""Index builds and compactions beside writers: computed once, never under a lock, published for the rows they cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from threading import BoundedSemaphore, RLock

import pytest

import omnigraph
from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.storage import tables
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import Table
from omnigraph.write import indexes
from omnigraph.write.indexes import OVERTAKEN
from tests.maintain.ports import SCHEMA, add, fragments, remove, shown
from tests.selection import daily

RENAME = 'query rename($code: String) { update Port set { name: "moved" } where code = $code }'
ALL = [f"p{number:02}" for number in range(12)]


@dataclass
class Builds:
    """The builds that were made, and what others do after each of them, while no lock is held."""

    graph: Graph
    branch: str = MAIN
    others: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    made: Counter[str] = field(default_factory=Counter[str])
    guard: RLock = field(default_factory=RLock)
    """Others hold it while they write, so that a lock that is held belongs to the upkeep. Tables build in threads."""

    def _take_lock(self) -> None:
        manifest = self.graph._manifest
        with branch_lock(manifest.location, self.branch, replace(manifest.locks, timeout=0.0)):
            pass

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("build_segment", "run_compaction"):
            patch.setattr(tables, name, self._counting(name, getattr(tables, name)))

    def _counting(self, name: str, build: Callable[..., object]) -> Callable[..., object]:
        def counting(table: Table, *arguments: object) -> object:
            if table.uri.endswith("__manifest"):
                # Its own compaction is quick and belongs under the lock.
                return build(table, *arguments)
            with self.guard, ThreadPoolExecutor(1) as pool:
                # Raises LockTimeout if the build runs under the lock.
                pool.submit(self._take_lock).result()
            built = build(table, *arguments)
            with self.guard:
                self.made[name] += 1
                if self.others:
                    self.others.pop(0)()
            return built

        return counting


@pytest.fixture
def builds(ports: Graph, monkeypatch: pytest.MonkeyPatch) -> Builds:
    found = Builds(ports)
    found.watch(monkeypatch)
    # Others build within a build of ours: in its thread, which holds the guard, and though it is not over.
    monkeypatch.setattr(indexes, "BUILT_AT_ONCE", 1)
    monkeypatch.setattr(indexes, "_builds", BoundedSemaphore(100))
    return found


def assert_answers_are_right(graph: Graph, branch: str = MAIN) -> None:
    """Compare lookups, traversals and text search with what a scan of all rows shows."""
    ports, near = shown(graph, branch)
    by_key = "query q($code: String) { match { $p: Port { code: $code } } return { $p.name as name } }"
    hops = "query q($code: String) { match { $p: Port { code: $code }  $p near $q } return { $q } }"
    named = "query q($name: String) { match { $p: Port  search($p.name, $name) } return { $p } }"
    for code in {*ALL, *ports}:
        found = graph.query(by_key, params={"code": code}, branch=branch).rows
        assert len(found) == ports.count(code)
        name = found[0]["name"] if found else code
        assert graph.query(hops, params={"code": code}, branch=branch).rows == [
            {"q": to} for source, to in near if source == code
        ]
        if name == code:
            assert graph.query(named, params={"name": name}, branch=branch).rows == [{"p": code}] * len(found)


def covered(graph: Graph, type_name: str, branch: str = MAIN) -> dict[str, int]:
    return {each.columns[0]: each.rows for each in graph.snapshot(branch).table(type_name).list_indexes().values()}


def test_each_index_is_built_once_beside_a_writer_that_never_rests(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)
    builds.others = [lambda number=number: add(other, f"late{number}") for number in range(99)]
    report = ports.ensure_indexes()
    assert {index.column for index in report.built} == {"id", "code", "name", "src", "dst"}
    assert report.deferred == ()
    assert builds.made == {"build_segment": len(report.built)}
    assert set(covered(ports, "Port").values()) == set(covered(ports, "Near").values()) == {12}
    assert len(shown(ports)[0]) == 12 + len(report.built)
    assert report.commit == ports.commits(upkeep=True)[0]
    assert_answers_are_right(ports)


def test_the_next_build_covers_what_came_meanwhile(ports: Graph, builds: Builds) -> None:
    builds.others = [lambda: add(omnigraph.open(ports.uri), "late")]
    ports.ensure_indexes()
    ports.ensure_indexes()
    assert set(covered(ports, "Port").values()) == {13}
    assert ports.ensure_indexes().commit is None


@pytest.mark.parametrize(
    ("change", "branch"),
    daily(
        product(["delete", "update", "delete all"], [MAIN, "dev"]),
        [("delete", "dev"), ("update", MAIN), ("delete all", MAIN)],
    ),
)
def test_rows_that_changed_meanwhile_are_found_as_they_are(
    ports: Graph, builds: Builds, change: str, branch: str
) -> None:
    other = omnigraph.open(ports.uri)
    if branch != MAIN:
        ports.create_branch(branch)
        add(ports, "dock", branch)
        builds.branch = branch

    def act() -> None:
        if change == "update":
            other.mutate(RENAME, params={"code": "p03"}, branch=branch)
        for code in {"delete": ["p03"], "delete all": ALL[:11]}.get(change, []):
            remove(other, code, branch)

    builds.others = [act]
    report = ports.ensure_indexes(branch)
    assert report.deferred == ()
    assert builds.made == {"build_segment": len(report.built)}
    assert_answers_are_right(ports, branch)


def test_an_index_over_rows_that_were_compacted_meanwhile_waits(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)

    def compact_ports() -> None:
        builds.others.clear()
        other.optimize(types=["Port"])

    builds.others = [compact_ports]
    report = ports.ensure_indexes(types=["Port"])
    # The other one built the indexes on what it compacted.
    assert (report.built, report.deferred, report.commit) == ((), (), None)
    assert {index.column for index in report.present} == {"id", "code", "name"}
    assert covered(ports, "Port") == {"id": 12, "code": 12, "name": 12}
    assert_answers_are_right(ports)


def test_an_index_without_rows_is_deferred_with_the_reason(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)
    fresh = [{"type": "Port", "data": {"code": "new"}}, {"edge": "Near", "from": "new", "to": "new"}]
    builds.others = [lambda: other.load(fresh, mode="overwrite")]
    report = ports.ensure_indexes(types=["Port"])
    assert (report.built, report.commit) == ((), None)
    assert {each.reason for each in report.deferred} == {OVERTAKEN}
    assert covered(ports, "Port") == {}
    assert_answers_are_right(ports)


def test_of_two_builds_at_once_one_is_published(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)

    def build() -> None:
        builds.others.clear()
        other.ensure_indexes(types=["Port"])

    builds.others = [build]
    report = ports.ensure_indexes(types=["Port"])
    assert (report.built, report.deferred, report.commit) == ((), (), None)
    assert len(report.present) == 3
    assert len([commit for commit in ports.commits(upkeep=True) if commit.message == "ensure indexes"]) == 1
    assert_answers_are_right(ports)


def test_a_dropped_type_is_no_wedge(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)
    builds.others = [lambda: other.apply_schema(SCHEMA.replace("edge Near: Port -> Port", ""))]
    with pytest.raises(ConflictError, match="the schema of the graph changed"):
        ports.ensure_indexes(types=["Near"])
    assert ports.ensure_indexes().deferred == ()
    add_port = 'query add() { insert Port { code: "next" } }'
    assert ports.mutate(add_port).commit is not None


# --------------------------------------------------------------------------------------------- compaction


def test_a_compaction_is_published_beside_a_writer_that_never_rests(ports: Graph, builds: Builds) -> None:
    other = omnigraph.open(ports.uri)
    builds.others = [lambda number=number: add(other, f"late{number}") for number in range(99)]
    result = ports.optimize()
    assert [table.skipped for table in result.tables] == [None, None]
    assert builds.made["run_compaction"] == 2
    assert builds.made["build_segment"] == sum(len(table.indexed) for table in result.tables) == 6
    assert all(count < 12 for count in fragments(ports).values())
    assert_answers_are_right(ports)


@pytest.mark.parametrize("change", ["delete", "update"])
def test_a_compaction_of_rows_that_changed_meanwhile_is_made_again(ports: Graph, builds: Builds, change: str) -> None:
    other = omnigraph.open(ports.uri)
    touch = {
        "delete": lambda: remove(other, "p03"),
        "update": lambda: other.mutate(RENAME, params={"code": "p03"}),
    }
    builds.others = [touch[change]]
    result = ports.optimize(types=["Port"])
    assert [table.skipped for table in result.tables] == [None]
    assert builds.made["run_compaction"] == 2
    assert fragments(ports)["node:Port"] == 1
    assert_answers_are_right(ports)
