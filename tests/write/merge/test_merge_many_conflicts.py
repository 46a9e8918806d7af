"""Many conflicts: the CPU time of a merge grows with their number, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from omnigraph.write.merge import PreferredSide
from omnigraph.write.merge.deltas import Counts
from omnigraph.write.spill import spill_partitions
from tests.selection import LARGE

SCHEMA = """
node P { code: String @key  n: I32?  mail: String? @unique }
edge K: P -> P @card(0..1) { n: I32? }
"""
FEW = 500
MOST_GROWTH = 12


def make(folder: Path, count: int, conflict: Callable[[Graph, int], None]) -> Graph:
    """Create a graph whose two branches have so many conflicts."""
    graph = omnigraph.init(folder / f"{count}.og", SCHEMA)
    graph.load(nodes={"P": people(count, n=0)}, indexes="never")
    graph.create_branch("dev")
    conflict(graph, count)
    return omnigraph.open(graph.uri)


def codes(count: int, first: int = 0) -> list[str]:
    return [f"p{number:07}" for number in range(first, first + count)]


def people(count: int, *, n: int) -> pa.Table:
    return pa.table({"code": codes(count), "n": pa.array([n] * count, pa.int32())})


def change_values(graph: Graph, count: int) -> None:
    """Both sides give a value to the same people."""
    for branch, n in (("dev", 1), ("main", 2)):
        graph.load(nodes={"P": people(count, n=n)}, mode="merge", branch=branch, indexes="never")


def orphan_edges(graph: Graph, count: int) -> None:
    """Theirs adds an edge to each person, and ours deletes all people."""
    graph.load(edges={"K": pa.table({"from": codes(count), "to": codes(count)})}, branch="dev", indexes="never")
    graph.mutate("query q() { delete P where n = 0 }")


def give_mails(graph: Graph, count: int) -> None:
    """Both sides give the same mails to different new people."""
    mails = [f"{number}@x" for number in range(count)]
    for branch, first in (("dev", count), ("main", 2 * count)):
        graph.load(nodes={"P": pa.table({"code": codes(count, first), "mail": mails})}, branch=branch, indexes="never")


def add_edges(graph: Graph, count: int) -> None:
    """Both sides add an edge to each person, who may have one."""
    for branch, id_ in (("dev", "t"), ("main", "o")):
        ends = {"id": [f"{id_}{code}" for code in codes(count)], "from": codes(count), "to": codes(count)}
        graph.load(edges={"K": pa.table(ends)}, branch=branch, indexes="never")


CONFLICTS: Mapping[str, Callable[[Graph, int], None]] = {
    "values": change_values,
    "orphan edges": orphan_edges,
    "unique values": give_mails,
    "too many edges": add_edges,
}


def measure(merge: Callable[[], object]) -> float:
    """Return the CPU seconds of a merge in this process."""
    start = time.process_time()
    merge()
    return time.process_time() - start


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("kind", CONFLICTS)
def test_a_preferred_side_decides_eight_times_as_many_in_twelve_times_the_cpu(
    tmp_path: Path, kind: str, side: PreferredSide
) -> None:
    few, many = (make(tmp_path, count, CONFLICTS[kind]) for count in (FEW, 8 * FEW))
    with pytest.raises(MergeConflicts) as raised:
        few.merge("dev")
    assert len(raised.value.conflicts) >= FEW
    seconds = [measure(lambda graph=graph: graph.merge("dev", prefer=side)) for graph in (few, many)]
    assert seconds[1] <= MOST_GROWTH * seconds[0], seconds


def test_the_entries_of_a_resolution_are_found_without_a_search(tmp_path: Path) -> None:
    def resolve(graph: Graph, count: int) -> None:
        entries = [
            {"kind": "DivergentUpdate", "type": "P", "id": code, "choose": {"n": 7} if at % 2 else "theirs"}
            for at, code in enumerate(codes(count))
        ]
        assert graph.merge("dev", resolve={"conflicts": entries}).nodes == {"P": Counts(0, count, 0)}

    graphs = {count: make(tmp_path, count, change_values) for count in (FEW, 8 * FEW)}
    seconds = [measure(lambda count=count: resolve(graphs[count], count)) for count in graphs]
    assert seconds[1] <= MOST_GROWTH * seconds[0], seconds


def test_single_rows_are_combined_before_they_are_divided() -> None:
    schema = pa.schema([pa.field("id", pa.string())])

    def spill(count: int) -> None:
        pieces = (pa.table({"id": [str(number)]}) for number in range(count))
        assert sum(part.num_rows for part in spill_partitions(schema, pieces, "id", 4)) == count

    seconds = [measure(lambda count=count: spill(count)) for count in (2_000, 16_000)]
    assert seconds[1] <= MOST_GROWTH * seconds[0], seconds


@pytest.mark.slow
@pytest.mark.skipif(not LARGE, reason="many rows")
def test_400_000_conflicts_cost_five_times_the_merge_without_them(tmp_path: Path) -> None:
    def change_theirs(graph: Graph, count: int) -> None:
        graph.load(nodes={"P": people(count, n=1)}, mode="merge", branch="dev", indexes="never")

    seconds: list[float] = []
    for name, conflict in (("without", change_theirs), ("with", change_values)):
        (tmp_path / name).mkdir()
        graph = make(tmp_path / name, 400_000, conflict)
        seconds.append(measure(lambda graph=graph: graph.merge("dev", prefer="theirs")))
    assert seconds[1] <= 5 * seconds[0], seconds
