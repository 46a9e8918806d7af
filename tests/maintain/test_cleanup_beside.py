"""Cleanup beside branches, tags and merges: nothing begins at what is gone, nothing that began loses its ground."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConflictError, HistoryGone, StorageError
from omnigraph.graph import Graph
from omnigraph.manifest.common_ancestors import find_common_ancestors
from omnigraph.manifest.references import Reference
from omnigraph.storage import tables
from omnigraph.write.commit import CommitOptions, list_sidecars
from omnigraph.write.commit.audit import RecoveryKind
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.merge import (
    LOCAL_MERGE_ENGINE,
    ConflictResolver,
    MergeBase,
    MergeBy,
    MergeOptions,
    MergePlan,
    MergeResult,
    MergeSnapshots,
    merge,
)
from tests.crash import fresh_copy, kill_at, record
from tests.maintain.ports import add, cleanup_now, remove, shown
from tests.selection import daily
from tests.write.writers import open_manifest

# --------------------------------------------------------------------------------------------- where a branch begins


@pytest.mark.parametrize("kind", daily(["commit", "version", "time", "commit of a branch"], ["commit of a branch"]))
def test_no_branch_begins_at_a_commit_that_is_gone(ports: Graph, kind: str) -> None:
    ports.create_branch("dev")
    first = add(ports, "d1", "dev")
    add(ports, "d2", "dev")
    old = ports.commits()[8]
    references: dict[str, Reference] = {
        "commit": old.id,
        "version": old.manifest_version,
        "time": old.created_at,
        "commit of a branch": first,
    }
    ports.create_tag("kept", ports.commits()[10].id)
    cleanup_now(ports, 1)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.create_branch("late", references[kind])
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.create_tag("late", references[kind])
    assert {branch.name for branch in ports.branches()} == {"main", "dev"}
    ports.create_branch("late", "kept")
    assert len(shown(ports, "late")[0]) == 2
    add(ports, "l1", "late")
    assert ports.verify().findings == ()


def test_no_load_makes_a_branch_of_a_commit_that_is_gone(ports: Graph) -> None:
    old = ports.commits()[8].id
    ports.create_tag("kept", ports.commits()[10].id)
    cleanup_now(ports, 1)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.load(nodes={"Port": pa.table({"code": ["x"]})}, branch="late", from_branch=old)
    assert [branch.name for branch in ports.branches()] == ["main"]


# --------------------------------------------------------------------------------------------- what a merge adopts


@dataclass(frozen=True, slots=True)
class OvertakenEngine:
    """Merges in this process; after each time somebody else acts."""

    others: list[Callable[[], object]]
    executor: Executor = LOCAL

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Merge, then let the next of the others act."""
        plan = LOCAL_MERGE_ENGINE.merge_tables(sides, base, by, resolver)
        if self.others:
            self.others.pop()()
        return plan


def merge_overtaken(graph: Graph, source: Reference, into: str, *others: Callable[[], object]) -> MergeResult:
    """Merge a branch while others act between its reads and its commit."""
    engine = OvertakenEngine(list(others))
    return merge(graph._manifest, graph.schema, source, MergeOptions(), CommitOptions(into), engine)


@pytest.mark.parametrize(
    ("source", "own_rows"), daily(product(["main", "other"], [False, True]), [("main", False), ("other", True)])
)
def test_a_merge_adopts_no_version_that_cleanup_took(ports: Graph, source: str, own_rows: bool) -> None:
    ports.create_branch("dev")
    if own_rows:
        ports.mutate('query near() { insert Near { from: "p00", to: "p01" } }', branch="dev")
    add(ports, "q1")
    if source != "main":
        ports.create_branch(source)

    def overtake() -> None:
        add(ports, "q2")
        if source != "main":
            ports.delete_branch(source)
        cleanup_now(ports, 1)

    before = shown(ports, "dev")
    with pytest.raises(ConflictError, match="was merged, and cleanup removed"):
        merge_overtaken(ports, source, "dev", overtake)
    assert shown(ports, "dev") == before
    add(ports, "d1", "dev")
    ports.merge("main", "dev")
    assert {"q1", "q2", "d1"} <= set(shown(omnigraph.open(ports.uri), "dev")[0])
    cleanup_now(ports, 1)
    assert ports.verify().findings == ()


def test_a_merge_that_is_overtaken_again_and_again_adopts_under_the_lock(ports: Graph) -> None:
    """The last round is prepared under the lock: what it adopts is checked there too."""
    ports.create_branch("dev")
    add(ports, "q1")

    def overtake(code: str) -> None:
        """Add a port, and add or delete one that is merged, so that the merge has to be prepared again."""
        ports.mutate("query n($c: String) { insert Port { code: $c } }", params={"c": code}, branch="dev")
        if "q1" in shown(ports, "dev")[0]:
            ports.mutate('query q() { delete Port where code = "q1" }', branch="dev")
        else:
            add(ports, "q1", "dev")

    def overtake_and_clean() -> None:
        overtake("d3")
        add(ports, "q2")
        cleanup_now(ports, 1)

    rounds = [overtake_and_clean, *(lambda code=f"d{number}": overtake(code) for number in range(3))]
    with pytest.raises(ConflictError, match="was merged, and cleanup removed"):
        merge_overtaken(ports, "main", "dev", *rounds)
    ports.merge("main", "dev")
    assert {"q1", "q2", "d0", "d1", "d2", "d3"} <= set(shown(ports, "dev")[0])


def merge_main(uri: str) -> None:
    """Merge main into the branch."""
    omnigraph.open(uri).merge("main", "dev")


def kill_merge_before_its_publish(graph: Graph) -> Graph:
    """Write the edges of the branch and adopt the ports of main, but die before the commit; main moves on."""
    graph.create_branch("dev")
    graph.mutate('query near() { insert Near { from: "p00", to: "p01" } }', branch="dev")
    add(graph, "q1")
    root = fresh_copy(Path(graph.uri))
    steps = record(merge_main, str(fresh_copy(Path(graph.uri))))
    last = max(number for number, step in enumerate(steps, 1) if step.name == "table.commit")
    kill_at(merge_main, (str(root),), last, "after")
    left = Graph(open_manifest(root), "rw", "tests")
    (sidecar,) = list_sidecars(left._manifest.objects)
    assert [each.table_key for each in sidecar.adopted] == ["node:Port"]
    return left


def test_cleanup_keeps_what_a_dead_merge_adopts(ports: Graph) -> None:
    left = kill_merge_before_its_publish(ports)
    add(left, "q2")
    cleanup_now(left, 1)
    assert "q1" in shown(left, "dev")[0]
    assert left.verify().findings == ()


def test_a_dead_merge_whose_adopted_version_is_gone_is_rolled_back(ports: Graph) -> None:
    """An older release let cleanup take it."""
    left = kill_merge_before_its_publish(ports)
    adopted = left.snapshot().pin("Port").version
    add(left, "q2")
    assert tables.drop_versions(left.snapshot().table("Port"), [adopted]) > 0
    add(left, "d1", "dev")
    assert "q1" not in shown(left, "dev")[0]
    assert [each.kind for each in left.recoveries()] == [RecoveryKind.ROLLED_BACK]
    left.merge("main", "dev")
    assert {"q1", "q2", "d1"} <= set(shown(left, "dev")[0])
    assert left.verify().findings == ()


@pytest.mark.parametrize("deleted", ["dev", "into"])
def test_a_side_of_a_merge_that_is_deleted_before_its_base_is_found(ports: Graph, deleted: str) -> None:
    for branch in ("dev", "into"):
        ports.create_branch(branch)
        add(ports, branch, branch)
    snapshots = {branch: ports.snapshot(branch) for branch in ("dev", "into")}
    ports.delete_branch(deleted)
    ids = [snapshot.commit.id for snapshot in snapshots.values() if snapshot.commit is not None]
    with pytest.raises(ConflictError, match="its branch was deleted"):
        find_common_ancestors(ports._manifest, ids[0], ids[1], snapshots)


def test_a_merge_reads_a_branch_that_is_deleted_meanwhile(ports: Graph) -> None:
    """A merge that has read everything needs its source no more."""
    ports.create_branch("dev")
    add(ports, "d1", "dev")
    remove(ports, "p00", "dev")
    merge_overtaken(ports, "dev", "main", lambda: ports.delete_branch("dev"))
    assert "d1" in shown(ports)[0]
    assert "p00" not in shown(ports)[0]


# --------------------------------------------------------------------------------------------- readers


def test_a_reader_whose_files_go_is_told_what_happened(ports: Graph) -> None:
    """The version was there when it was opened, and goes while it is read."""
    ports.ensure_indexes()
    ports.create_branch("dev")
    add(ports, "d1", "dev")
    reader = omnigraph.open(ports.uri)
    opened = [reader.snapshot(branch).table("Port") for branch in ("main", "dev")]
    rows = reader.nodes("Port")
    remove(ports, "p00")
    ports.optimize()
    ports.delete_branch("dev")
    cleanup_now(ports, 1)
    reads: list[Callable[[], object]] = [rows.to_arrow]
    for table in opened:
        reads += [table.scan().read_all, lambda table=table: table.count_rows("code = 'p01'")]
    for read in reads:
        with pytest.raises(HistoryGone, match="removed while it was read, by cleanup or with its branch"):
            read()


def test_a_reader_beside_cleanup_that_took_files_and_not_yet_the_version_is_told_what_happened(ports: Graph) -> None:
    """Lance removes the files of a version before the version itself, and may die between the two."""
    old = ports.snapshot().table("Port")
    files = old.list_files()
    remove(ports, "p00")
    ports.optimize()
    for name in files - ports.snapshot().table("Port").list_files():
        Path(old.uri, name).unlink()
    with pytest.raises(HistoryGone, match="removed while it was read"):
        old.scan().read_all()


def test_a_lost_file_is_not_blamed_on_cleanup(ports: Graph) -> None:
    table = ports.snapshot().table("Port")
    add(ports, "newer")
    for file in Path(table.uri, "data").iterdir():
        file.unlink()
    for each in (table, ports.snapshot().table("Port")):
        with pytest.raises(StorageError, match="Not found"):
            each.scan().read_all()


# --------------------------------------------------------------------------------------------- handles that remember


@pytest.mark.parametrize("named_by", ["branch", "tag", "merge"])
def test_a_version_that_this_handle_committed_is_looked_for_before_anybody_refers_to_it(
    ports: Graph, named_by: str
) -> None:
    """The table is still open here, but cleanup of another process has removed the version."""
    ports.create_branch("dev")
    ports.create_tag("old", ports.commits()[3].id)
    mine = add(ports, "mine")
    other = omnigraph.open(ports.uri)
    source = Graph(ports._manifest, "rw", "tests")

    def overtake() -> None:
        add(other, "theirs")
        cleanup_now(other, 1)

    if named_by == "merge":
        with pytest.raises(ConflictError, match="was merged, and cleanup removed"):
            merge_overtaken(source, "main", "dev", overtake)
    else:
        overtake()
        create = ports.create_branch if named_by == "branch" else ports.create_tag
        with pytest.raises(HistoryGone, match="removed by cleanup"):
            create("late", mine)
    again = omnigraph.open(ports.uri)
    assert all(shown(again, branch.name) for branch in again.branches())
    assert again.verify().findings == ()
