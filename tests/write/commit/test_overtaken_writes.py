"""Loads and merges that another writer overtakes: only the rows that it changed are checked again.

Whatever both write, the result is the same as if the other writer had come first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import MergeConflicts, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.write.commit import CommitOptions
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.merge import (
    LOCAL_MERGE_ENGINE,
    ConflictResolver,
    MergeBase,
    MergeBy,
    MergeOptions,
    MergePlan,
    MergeSnapshots,
    merge,
)
from tests.counting import counting_scans
from tests.crash import fresh_copy
from tests.graphs import rows_of
from tests.selection import daily

SCHEMA = """
node P { code: String @key  n: I32?  mail: String? @unique }
edge K: P -> P @card(0..2) { n: I32? }
"""
ROWS = 2_000
FEW = 100
"""Far fewer rows than a preparation reads, and more than the other writers change."""

Act: TypeAlias = "Callable[[Graph], object]"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with many people, one of whom knows another, and a branch that changes many people and deletes one."""
    graph = omnigraph.init(tmp_path_factory.mktemp("overtaken") / "g.og", SCHEMA)
    graph.load(nodes={"P": people(range(ROWS), 0)}, edges={"K": knows(["p1"], ["p2"])}, indexes="never")
    graph.create_branch("dev")
    graph.load(nodes={"P": people(range(10, ROWS), 7)}, mode="merge", branch="dev", indexes="never")
    graph.mutate('query q() { delete P where code = "p30" }', branch="dev")
    return Path(graph.uri)


def people(numbers: range, n: int) -> pa.Table:
    codes = [f"p{number}" for number in numbers]
    return pa.table({"code": codes, "n": pa.array([n] * len(codes), pa.int32())})


def knows(sources: list[str], targets: list[str]) -> pa.Table:
    return pa.table({"from": sources, "to": targets})


@contextmanager
def overtaken(graph: Graph, act: Act) -> Generator[None]:
    """Let another writer act after the first time that something was staged for a commit."""
    others = [omnigraph.open(graph.uri)]

    def happen(when: When, step: WriteStep) -> None:
        if when == "after" and step.name == "table.stage" and others:
            act(others.pop())

    with _arm(happen):
        yield
    assert not others


def load_edges(graph: Graph) -> object:
    """Load an edge between many people, who have to be looked up."""
    codes = [f"p{number}" for number in range(1, ROWS)]
    return graph.load(edges={"K": knows(codes, codes[::-1])}, indexes="never")


def load_new_people(graph: Graph) -> object:
    """Load many people with mails."""
    codes = [f"q{number}" for number in range(ROWS)]
    return graph.load(nodes={"P": pa.table({"code": codes, "mail": codes})}, indexes="never")


def merge_load(graph: Graph) -> object:
    """Load many people in mode merge, some of whom are there as they are."""
    return graph.load(nodes={"P": people(range(ROWS // 2, ROWS + 50), 0)}, mode="merge", indexes="never")


def update_load(graph: Graph) -> object:
    """Load new values of many people."""
    return graph.load(nodes={"P": people(range(ROWS // 2), 3)}, mode="update", indexes="never")


def merge_branch(graph: Graph) -> object:
    """Merge the branch."""
    return graph.merge("dev")


WRITES: dict[str, Act] = {
    "load edges": load_edges,
    "load new people": load_new_people,
    "load in mode merge": merge_load,
    "load in mode update": update_load,
    "merge": merge_branch,
}


def mutate(statement: str) -> Act:
    return lambda graph: graph.mutate(f"query q() {{ {statement} }}")


OTHERS: dict[str, Act] = {
    "adds another person": mutate('insert P { code: "other" }'),
    "adds another edge": mutate('insert K { from: "p0", to: "p0" }'),
    "changes a person": mutate('update P set { n: 9 } where code = "p20"'),
    "changes a person as theirs did": mutate('update P set { n: 7 } where code = "p20"'),
    "changes a person that is loaded unchanged": mutate('update P set { n: 9 } where code = "p1500"'),
    "adds a person who is loaded": mutate('insert P { code: "p2010" n: 4 }'),
    "adds a person with a mail that is loaded": mutate('insert P { code: "other" mail: "q7" }'),
    "adds a person with the key of a new one": mutate('insert P { code: "q7" }'),
    "deletes a person": mutate('delete P where code = "p40"'),
    "adds an edge to one who is deleted": mutate('insert K { from: "p0", to: "p30" }'),
    "adds an edge from one who has two soon": mutate('insert K { from: "p1", to: "p0" }'),
}


def outcome_of(graph: Graph, write: Act) -> object:
    """Return the kind of error, or the rows."""
    error = None
    try:
        write(graph)
    except (ValidationError, MergeConflicts) as raised:
        error = type(raised).__name__
    assert graph.verify().findings == ()
    people = {str(row["code"]): (row["n"], row["mail"]) for row in rows_of(graph, "P")}
    return error, people, sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "K"))


PAIRS = [(write, other) for write in WRITES for other in OTHERS]
DAILY = [
    ("load edges", "deletes a person"),
    ("load edges", "adds an edge from one who has two soon"),
    ("load new people", "adds a person with a mail that is loaded"),
    ("load new people", "adds a person with the key of a new one"),
    ("load in mode merge", "changes a person that is loaded unchanged"),
    ("load in mode merge", "adds a person who is loaded"),
    ("load in mode update", "deletes a person"),
    ("merge", "changes a person"),
    ("merge", "adds an edge to one who is deleted"),
    ("merge", "adds another person"),
]


@pytest.mark.parametrize(("write", "other"), daily(PAIRS, DAILY))
def test_the_result_is_that_of_the_other_writer_first(template: Path, write: str, other: str) -> None:
    late, early = (omnigraph.open(fresh_copy(template)) for _ in range(2))

    def write_late(graph: Graph) -> None:
        with overtaken(graph, OTHERS[other]):
            WRITES[write](graph)

    OTHERS[other](early)
    assert outcome_of(late, write_late) == outcome_of(early, WRITES[write])


@dataclass(slots=True)
class CountingEngine:
    """Merges in this process, and counts how often."""

    merges: int = 0
    executor: Executor = LOCAL

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Merge once more."""
        self.merges += 1
        return LOCAL_MERGE_ENGINE.merge_tables(sides, base, by, resolver)


@pytest.mark.parametrize(("other", "merges"), [("adds another person", 1), ("changes a person as theirs did", 2)])
def test_a_merge_is_prepared_again_only_if_it_depends_on_the_others(template: Path, other: str, merges: int) -> None:
    graph, engine = omnigraph.open(fresh_copy(template)), CountingEngine()
    with overtaken(graph, OTHERS[other]):
        result = merge(graph._manifest, graph.schema, "dev", MergeOptions(), CommitOptions(), engine)
    assert engine.merges == merges
    before = graph.commits()[1]
    assert (result.outcome, result.target) == ("merged", before.id)
    assert result.commit is not None
    assert result.commit.parents == (before.id, result.source)


# An update finds stored rows by other columns too, so it looks them up again.
@pytest.mark.parametrize("write", sorted(WRITES.keys() - {"load in mode update"}))
def test_the_rows_of_others_are_all_that_is_read_again(template: Path, write: str) -> None:
    alone, late = (omnigraph.open(fresh_copy(template)) for _ in range(2))
    with counting_scans() as count:
        WRITES[write](alone)
        scanned = count()
    with counting_scans() as count:
        with overtaken(late, OTHERS["adds another person"]):
            WRITES[write](late)
        assert count() <= scanned + FEW
