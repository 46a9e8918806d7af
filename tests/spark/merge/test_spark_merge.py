"""Merges and reverts on executors: they come to what this process comes to, row by row and conflict by conflict."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import Conflict, MergeConflicts, ReadOnly, StorageError, ValidationError, Violation
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.spark import shuffle
from omnigraph.spark.graph import SparkGraph
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.load import staging as load_staging
from omnigraph.spark.merge import candidate_rows, merged_rows
from omnigraph.spark.merge import run as merge
from omnigraph.spark.merge.merge_task import MergeTask
from omnigraph.spark.rules.set_rules import check_changes
from omnigraph.write.commit.section import HANDOFF_MESSAGE
from omnigraph.write.merge import engine as merge_means
from omnigraph.write.merge.alignment import MergeBase
from omnigraph.write.merge.deltas import Counts
from omnigraph.write.merge.resolver import ConflictResolver
from omnigraph.write.merge.rules import MergeSnapshots
from omnigraph.write.merge.run import MergeResult
from omnigraph.write.rules.check import RuleCheckResult
from tests.graphs import written
from tests.model.merge_model import By
from tests.selection import daily
from tests.write.evolve import people_graph
from tests.write.evolve.test_evolve_branches import OTHER as OTHER_SCHEMAS
from tests.write.merge.social_graph import Rows, edit, knows, make, person, state
from tests.write.merge.test_merge_truth import truth_graph
from tests.write.merge.test_merge_types import ONE, OTHER
from tests.write.merge.test_merge_types import SCHEMA as THINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEOPLE = {name: person(30) for name in ("ann", "bob", "cid")}


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many: in several parts, and never by this process."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ROWS", 0)
    monkeypatch.setattr(candidate_rows, "MIN_ROWS_PER_PARTITION", 1)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ENGINE", NOBODY)


class _Nobody:
    """What is not to be done in this process."""

    def merge_tables(self, sides: MergeSnapshots, base: MergeBase, by: By, resolver: ConflictResolver) -> NoReturn:
        raise AssertionError("the executors were not asked", sides, base, by, resolver)


NOBODY = _Nobody()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three people, two of whom know each other."""
    return make(tmp_path, PEOPLE, {"a-b": knows("ann", "bob", 2001)})


def lines(graph: Graph, branch: str) -> list[str]:
    """All that a branch shows."""
    return sorted(graph.export(branch=branch))


def outcome_of(merging: Callable[[], MergeResult]) -> MergeResult | tuple[Conflict, ...] | tuple[Violation, ...]:
    """What came of a merge, without what every commit has of its own."""
    try:
        return replace(merging(), commit=None)
    except MergeConflicts as error:
        return error.conflicts
    except ValidationError as error:
        return error.violations


def on_both(
    spark: SparkSession, graph: Graph, into: str, merging: Callable[[Graph | SparkGraph], MergeResult]
) -> object:
    """Merge here, and in a copy on executors: both come to the same."""
    folder = Path(graph.uri)
    copy = omnigraph.open(shutil.copytree(folder, folder.with_name(f"{folder.stem}-{len(graph.ancestry())}.og")))
    copy.repair(confirm=True)
    here, there = outcome_of(lambda: merging(graph)), outcome_of(lambda: merging(copy.spark(spark)))
    assert there == here
    assert lines(copy, into) == lines(graph, into)
    assert copy.verify().findings == ()
    assert [commit.message for commit in copy.ancestry()] == [commit.message for commit in graph.ancestry()]
    assert sorted(path.name for path in folder.parent.iterdir() if path.suffix != ".og") == [], "nothing lies beside it"
    shutil.rmtree(copy.uri)
    return here


def merged(spark: SparkSession, graph: Graph, source: str = "dev", into: str = MAIN) -> MergeResult:
    """The same, for a merge without a conflict."""
    found = on_both(spark, graph, into, lambda each: each.merge(source, into))
    assert isinstance(found, MergeResult)
    return found


# --------------------------------------------------------------------------------------------- the truth table


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Everything that two sides can do to one entity."""
    return truth_graph(tmp_path_factory.mktemp("truth"))


@pytest.mark.parametrize("by", ["property", pytest.param("row", marks=pytest.mark.slow)])
def test_every_pair_is_decided_alike(spark: SparkSession, truths: Graph, by: By) -> None:
    before = written(truths)
    here = truths.merge("dev", by=by, dry_run=True)
    there = truths.spark(spark).merge("dev", by=by, dry_run=True)
    assert len(here.conflicts) > 20
    assert there == here
    assert written(truths) == before


@pytest.mark.slow
@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("by", ["row", "property"])
def test_a_side_that_is_preferred_is_alike(
    spark: SparkSession, truths: Graph, by: By, side: Literal["ours", "theirs"]
) -> None:
    for name in ("here", "there"):
        truths.create_branch(f"{name}-{by}-{side}")
    here = truths.merge("dev", f"here-{by}-{side}", by=by, prefer=side)
    there = truths.spark(spark).merge("dev", f"there-{by}-{side}", by=by, prefer=side)
    assert (there.nodes, there.edges) == (here.nodes, here.edges)
    assert state(truths, f"there-{by}-{side}") == state(truths, f"here-{by}-{side}")


@pytest.mark.slow
def test_a_file_decides_alike(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, people={"ann": person(1), "bob": person(1), "cid": person(1)})
    edit(graph, "dev", people={"ann": person(2), "bob": person(2), "cid": None})
    entries: list[dict[str, object]] = [
        {"kind": "DivergentUpdate", "type": "Person", "id": "ann", "choose": "theirs"},
        {"kind": "DivergentUpdate", "type": "Person", "id": "bob", "choose": {"age": 3, "mail": None}},
        {"kind": "DeleteVsUpdate", "type": "Person", "id": "cid", "choose": "theirs"},
    ]
    wrong = {"conflicts": [*entries[:1], {**entries[1], "choose": {"age": "x"}}, {**entries[2], "id": "dan"}]}
    found = on_both(spark, graph, MAIN, lambda each: each.merge("dev", resolve=wrong))
    assert isinstance(found, tuple), "the same is wrong with it"
    done = on_both(spark, graph, MAIN, lambda each: each.merge("dev", resolve={"conflicts": entries}))
    assert isinstance(done, MergeResult)
    assert state(graph) == {
        ("Person", "ann"): person(2),
        ("Person", "bob"): person(3),
        ("Knows", "a-b"): knows("ann", "bob", 2001),
    }


# --------------------------------------------------------------------------------------------- traps


@pytest.mark.slow
def test_histories_that_met_more_than_once(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("dev")
    mine = edit(graph, people={"ann": person(1)}, knows={"b-c": knows("bob", "cid")})
    edit(graph, "dev", people={"bob": person(1)})
    graph.merge("dev")
    graph.merge(mine.id, "dev")
    edit(graph, people={"ann": person(2)})
    edit(graph, "dev", people={"bob": person(2)}, knows={"b-c": None})
    merged(spark, graph)
    assert merged(spark, graph, "main", "dev").outcome == "fast-forward"
    assert state(graph) == state(graph, "dev")


@pytest.mark.slow
def test_both_sides_earlier_merged_the_same_third_branch(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("third")
    edit(graph, "third", people={"zed": person(1), "ann": person(99), "cid": None})
    graph.create_branch("dev")
    for branch in ("dev", "main"):
        graph.merge("third", branch)
    edit(graph, "dev", people={"zed": person(2), "ann": None}, knows={"a-b": None})
    edit(graph, people={"bob": person(77)})
    assert merged(spark, graph).nodes == {"Person": Counts(0, 1, 1)}


@pytest.mark.slow
def test_a_reload_resurrects_nothing_and_edits_that_net_to_zero_merge(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("zero")
    edit(graph, "zero", people={"dan": person(4), "ann": person(99)})
    edit(graph, "zero", people={"dan": None, "ann": person(30)})
    graph.create_branch("dev")
    rows = [{"type": "Person", "data": {"name": name, "age": 30 if name != "cid" else 44}} for name in PEOPLE]
    graph.load(
        [*rows, {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "a-b", "since": 2001}}],
        mode="overwrite",
        branch="dev",
    )
    edit(graph, people={"bob": person(55)}, knows={"a-b": None})
    found = merged(spark, graph)
    assert (found.nodes, found.edges) == ({"Person": Counts(0, 1, 0)}, {})
    assert merged(spark, graph, "zero").nodes == {}


@pytest.mark.slow
def test_rows_that_only_go_leave_what_others_hold(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"cid": None}, knows={"a-b": None})
    edit(graph, people={"dan": person(1)})
    found = merged(spark, graph)
    assert (found.nodes, found.edges) == ({"Person": Counts(0, 0, 1)}, {"Knows": Counts(0, 0, 1)})


@pytest.mark.slow
def test_a_table_that_was_only_inherited_is_adopted_or_forked(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_means, "LONG_STAGING_ROWS", 0)
    graph.create_branch("dev")
    edit(graph, people={"dan": person(1)})
    merged(spark, graph, "main", "dev")
    assert graph.snapshot("dev").pins["node:Person"].branch is None
    graph.create_branch("late")
    edit(graph, "dev", people={"ann": person(5)})
    merged(spark, graph, "dev", "late")
    assert [commit.message for commit in graph.commits("late")][1] == HANDOFF_MESSAGE


@pytest.mark.slow
@pytest.mark.parametrize("change", OTHER_SCHEMAS)
def test_a_branch_that_lags_behind_the_schema_is_merged_alike(spark: SparkSession, tmp_path: Path, change: str) -> None:
    graph = people_graph.make(tmp_path)
    people_graph.load(graph, {"type": "Person", "data": {"name": "cid", "age": 1}})
    graph.create_branch("dev")
    people_graph.load(graph, {"type": "Person", "data": {"name": "dev", "age": 5, "nick": "d"}}, branch="dev")
    graph.apply_schema(OTHER_SCHEMAS[change])
    people_graph.load(graph, {"type": "Person", "data": {"name": "eve", "age": 6}})
    assert merged(spark, graph).nodes == {"Person": Counts(1, 0, 0)}
    # The branch catches up first, in a commit of its own.
    assert graph.spark(spark).merge("main", "dev").nodes == {"Person": Counts(1, 0, 0)}
    assert people_graph.people(graph, "dev") == people_graph.people(graph)
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- rules


BROKEN: list[tuple[str, tuple[Rows, Rows], tuple[Rows, Rows]]] = [
    ("OrphanEdge", ({"cid": None}, {}), ({}, {"b-c": knows("bob", "cid")})),
    ("OrphanEdge", ({}, {"b-c": knows("bob", "cid")}), ({"cid": None, "eve": person()}, {})),
    ("UniqueViolation", ({"ann": person(30, "x")}, {}), ({"bob": person(30, "x")}, {})),
    ("CardinalityViolation", ({}, {"a-c": knows("ann", "cid")}), ({}, {"a-a": knows("ann", "ann")})),
]


@pytest.mark.parametrize(("kind", "ours", "theirs"), daily(BROKEN, BROKEN[-1:]))
def test_what_both_sides_break_together_is_the_same_conflict(
    spark: SparkSession,
    graph: Graph,
    kind: str,
    ours: tuple[Rows, Rows],
    theirs: tuple[Rows, Rows],
) -> None:
    graph.create_branch("dev")
    for branch, (people, edges) in (("main", ours), ("dev", theirs)):
        edit(graph, branch, people=people, knows=edges)
    found = on_both(spark, graph, MAIN, lambda each: each.merge("dev"))
    assert isinstance(found, tuple)
    assert [each.kind for each in cast("tuple[Conflict, ...]", found)] == [kind]
    decided = on_both(spark, graph, MAIN, lambda each: each.merge("dev", prefer="theirs"))
    assert isinstance(decided, MergeResult)


@pytest.mark.slow
@pytest.mark.usefixtures("eight_partitions")
def test_many_broken_rules_are_found_and_decided_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    """Edges to deleted nodes, shared values and nodes with too many edges, together, in rows of several tasks."""
    names = [f"p{number:02}" for number in range(24)]
    graph = make(tmp_path, {name: person(30) for name in names})
    graph.create_branch("dev")
    ours = dict.fromkeys(names[:4]) | {name: person(1, f"{name}@x") for name in names[4:8]}
    theirs = {name: person(2, f"{other}@x") for name, other in zip(names[8:11], names[4:7], strict=True)}
    edit(graph, people=ours, knows={f"o{at}": knows(names[12], names[at]) for at in (13, 14)})
    edit(graph, "dev", people={**theirs, "new": person(3, "p07@x"), names[20]: None})
    edges = {f"t{at}": knows(names[16], names[at]) for at in (0, 1)} | {"u": knows(names[12], names[15])}
    edit(graph, "dev", knows={**edges, "v": knows(names[17], names[18])})
    for branch in ("ours", "theirs", "values"):
        graph.create_branch(branch)
    found = on_both(spark, graph, MAIN, lambda each: each.merge("dev"))
    kinds = Counter(each.kind for each in cast("tuple[Conflict, ...]", found))
    assert kinds == {"OrphanEdge": 2, "UniqueViolation": 4, "CardinalityViolation": 1}
    for side in ("ours", "theirs"):
        done = on_both(spark, graph, side, lambda each, side=side: each.merge("dev", side, prefer=side))
        assert isinstance(done, MergeResult)
    entries: list[dict[str, object]] = [
        {"kind": "UniqueViolation", "type": "Person", "id": id_, "choose": {"mail": f"{id_}@y", "age": age}}
        for id_, age in ((names[8], 4), (names[9], 5), (names[10], 6))
    ]
    # Another age breaks another rule, which is then decided too.
    entries[0]["choose"] = {"mail": None, "age": 200}
    entries.append({"kind": "ValueConstraintViolation", "type": "Person", "id": names[8], "choose": {"age": 44}})
    resolved = on_both(
        spark, graph, "values", lambda each: each.merge("dev", "values", resolve={"conflicts": entries}, prefer="ours")
    )
    assert isinstance(resolved, MergeResult)
    assert state(graph, "values")["Person", names[8]] == person(44)


# --------------------------------------------------------------------------------------------- values and reverts


def test_values_of_every_type_come_through(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "things.og", THINGS)
    graph.load([{"type": "Thing", "data": {"code": code, **ONE}} for code in "abc"])
    graph.create_branch("dev")
    half = dict(list(OTHER.items())[::2])
    graph.load([{"type": "Thing", "data": {"code": code, **ONE, **half}} for code in "ad"], mode="merge", branch="dev")
    graph.load([{"type": "Thing", "data": {"code": "a", **OTHER, **{name: ONE[name] for name in half}}}], mode="merge")
    found = on_both(spark, graph, MAIN, lambda each: each.merge("dev", by="property"))
    assert isinstance(found, MergeResult)
    assert found.nodes == {"Thing": Counts(1, 1, 0)}
    assert graph.blob("Thing", "d", "body") is not None


@pytest.mark.slow
def test_a_commit_is_taken_back_alike(spark: SparkSession, graph: Graph) -> None:
    undone = edit(graph, people={"ann": person(99), "dan": person(1), "cid": None})
    edit(graph, people={"bob": person(77)})
    found = on_both(spark, graph, MAIN, lambda each: each.revert(undone.id, by="property"))
    assert isinstance(found, MergeResult)
    assert found.nodes == {"Person": Counts(1, 1, 1)}
    again = on_both(spark, graph, MAIN, lambda each: each.revert(undone.id))
    assert isinstance(again, MergeResult)
    assert again.outcome == "already-up-to-date"


def fails_at_once(*_: object) -> NoReturn:
    """A task that does nothing."""
    raise StorageError("no disk")


class FailsWhenAllIsWritten(MergeTask):
    """A part whose rows are all written, and nobody is told."""

    def merge_partition(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(MergeTask.merge_partition(self, batches))
        raise StorageError("no disk")


@pytest.mark.parametrize(
    ("module", "name", "failing", "doing"),
    [
        (shuffle, "_pack_input", fails_at_once, "merging"),
        (merge, "MergeTask", FailsWhenAllIsWritten, "merging"),
        pytest.param(load_staging, "_remove_rows", fails_at_once, "staging a merge", marks=pytest.mark.slow),
    ],
)
def test_a_task_that_fails_changes_nothing(
    spark: SparkSession,
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    failing: object,
    doing: str,
) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(5)})
    before, lies = written(graph), sorted(Path(graph.uri).parent.iterdir())
    monkeypatch.setattr(module, name, failing)
    with pytest.raises(StorageError, match=f"{doing} failed on Spark: no disk"):
        graph.spark(spark).merge("dev")
    assert written(graph) == before
    assert sorted(Path(graph.uri).parent.iterdir()) == lies, "nothing lies beside it"


def test_a_graph_that_is_only_read_is_not_merged_into(spark: SparkSession, graph: Graph) -> None:
    with pytest.raises(ReadOnly):
        omnigraph.open(graph.uri, "ro").spark(spark).merge("dev")
    with pytest.raises(ReadOnly):
        omnigraph.open(graph.uri, "ro").spark(spark).revert("main")


def test_few_rows_are_merged_here(spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(5)})
    monkeypatch.setattr(merge, "LOCAL_MERGE_ENGINE", merge_means.LOCAL_MERGE_ENGINE)
    # What was and what is.
    monkeypatch.setattr(merge, "LOCAL_MERGE_ROWS", 2)
    for name in ("shuffle_rows", "create_scratch_table"):
        monkeypatch.setattr(merge, name, fails_at_once)
    assert graph.spark(spark).merge("dev").nodes == {"Person": Counts(0, 1, 0)}
    edit(graph, "dev", people={"ann": person(6), "bob": person(6)})
    with pytest.raises(StorageError, match="no disk"):
        graph.spark(spark).merge("dev")


@pytest.mark.slow
def test_a_target_that_moves_meanwhile_is_merged_into_as_it_is_then(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(5)}, knows={"a-b": None})
    others = [{"bob": person(6)}, {"dan": person(7)}]

    def check(*given: Any) -> RuleCheckResult:
        if others:
            edit(graph, people=others.pop())
        return check_changes(*given)

    monkeypatch.setattr(merged_rows, "check_changes", check)
    assert graph.spark(spark).merge("dev").nodes == {"Person": Counts(0, 1, 0)}
    people = {"ann": person(5), "bob": person(6), "cid": person(30), "dan": person(7)}
    assert state(graph) == {("Person", name): row for name, row in people.items()}


# --------------------------------------------------------------------------------------------- many rows


@pytest.mark.slow
def test_a_large_merge_is_alike(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "many.og", "node Item { code: String @key  size: I32 }")
    graph.load(nodes={"Item": items("p", range(30_000), 1)})
    graph.create_branch("dev")
    graph.load(nodes={"Item": items("p", range(0, 10_000, 10), 2)}, mode="merge")
    graph.load(nodes={"Item": items("p", range(5_005, 20_000), 3)}, mode="merge", branch="dev")
    graph.mutate('query q() { delete Item where code >= "p27000" }', branch="dev")
    graph.load(nodes={"Item": items("q", range(5_000), 1)}, branch="dev")
    found = on_both(spark, graph, MAIN, lambda each: each.merge("dev", prefer="ours"))
    assert isinstance(found, MergeResult)
    assert found.nodes == {"Item": Counts(5_000, 14_995 - 499, 3_000)}


def items(letter: str, numbers: range, size: int) -> pa.Table:
    """Items of one size."""
    return pa.table(
        {"code": [f"{letter}{number:05}" for number in numbers], "size": pa.array([size] * len(numbers), pa.int32())}
    )
