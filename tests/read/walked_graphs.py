"""People who know each other and live in cities: small graphs on disk, and the same as the plain evaluator has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.frames.frame import EntityColumn, Frame
from omnigraph.read.frames.paths import PathSet
from omnigraph.read.match.counting import weights_of
from omnigraph.read.memory import MemoryPool, QueryMemory
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, to_list
from omnigraph.storage.tables import Table, TableFragment
from tests.graphs import rows_of
from tests.language.query.plan import plan_evaluator
from tests.language.query.plan.plan_evaluator import Entity

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Likes: Person -> Person
edge LivesIn: Person -> City
"""


def ample_memory() -> QueryMemory:
    """The memory of a query that is never refused any."""
    return QueryMemory(MemoryPool(2**40))


@dataclass(frozen=True)
class Links:
    """Edges by the names of their ends; each has a year of its own."""

    pairs: Sequence[tuple[str, str]]

    def table(self) -> pa.Table:
        begins, ends = [begin for begin, _ in self.pairs], [end for _, end in self.pairs]
        return pa.table({"from": pa.array(begins, pa.string()), "to": pa.array(ends, pa.string())})


class Scans:
    """How many rows each scan of a type's table, or of a small fragment of it, has read since the last look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._rows: list[int] = []
        scan = Table.scan

        def counted(table: Table, *args: object, **kwargs: object) -> pa.RecordBatchReader:
            found = scan(table, *args, **kwargs).read_all()  # pyright: ignore[reportArgumentType]  as they came
            if "__manifest" not in table.uri:
                self._rows.append(found.num_rows)
            return found.to_reader()

        read, take = Table.read, tables.take_fragment

        def counted_rows(table: Table, columns: Sequence[str], filter: str) -> pa.Table:  # noqa: A002  as there
            found = read(table, columns, filter)
            self._rows.append(found.num_rows)
            return found

        def counted_fragment(table: Table, fragment: TableFragment, columns: Sequence[str]) -> pa.Table:
            self._rows.append(fragment.num_rows)
            return take(table, fragment, columns)

        monkeypatch.setattr(Table, "scan", counted)
        monkeypatch.setattr(Table, "read", counted_rows)
        monkeypatch.setattr(tables, "take_fragment", counted_fragment)

    def taken(self) -> list[int]:
        rows, self._rows = self._rows, []
        return rows


def people(names: Sequence[str], first_age: int = 0) -> pa.Table:
    ages = pa.array([first_age + number for number in range(len(names))], pa.int32())
    return pa.table({"name": pa.array(names, pa.string()), "age": ages})


def new_graph(folder: Path) -> Graph:
    return omnigraph.init(folder / "people.og", SCHEMA)


def random_graph(folder: Path, seed: int, size: int = 12, edges: int = 30) -> Graph:
    """A multigraph with loops and parallel edges; some people know nobody, and a city has nobody."""
    rng = np.random.default_rng(seed)
    names, cities = [f"p{number}" for number in range(size)], ["here", "there", "nowhere"]
    knows = [(names[int(a)], names[int(b)]) for a, b in rng.integers(0, size - 2, (edges, 2)).tolist()]
    lives = [(names[int(a)], cities[int(b)]) for a, b in rng.integers(0, (size, 2), (size, 2)).tolist()]
    likes = [(names[int(a)], names[int(b)]) for a, b in rng.integers(0, size, (size, 2)).tolist()]
    # One text is the id of a person and of a city.
    graph = new_graph(folder)
    graph.load(
        nodes={"Person": people(names), "City": pa.table({"name": [*cities, "p0"]})},
        edges={
            "Knows": Links([*knows, knows[0], ("p1", "p1"), ("p1", "p1")]).table(),
            "Likes": Links([*likes, ("p2", "p2")]).table(),
            "LivesIn": Links(lives).table(),
        },
    )
    return graph


def evaluated(graph: Graph) -> plan_evaluator.Graph:
    """The whole graph for the plain evaluator."""

    def entity(row: dict[str, object]) -> Entity:
        ends = cast(str, row.get("src", "")), cast(str, row.get("dst", ""))
        return Entity(cast(str, row["id"]), row, *ends)

    def entities(name: str) -> list[Entity]:
        return [entity(dict(row)) for row in rows_of(graph, name)]

    nodes = {name: {node.id: node for node in entities(name)} for name in ("Person", "City")}
    return plan_evaluator.Graph(nodes, {name: tuple(entities(name)) for name in ("Knows", "Likes", "LivesIn")}, {})


def _identities(column: EntityColumn) -> list[object]:
    """Ids, or the nodes and edges of paths."""
    if not isinstance(column.entities, PathSet):
        return to_list(cast("Values", column.entities.take_ids(column.positions)))
    lists = [to_list(column.entities.take_values(each, column.positions)) for each in ("nodes", "edges", "hops")]
    found = [tuple(tuple(cast("list[str]", ids)) for ids in both) for both in zip(*lists[:2], strict=True)]
    assert [len(edges) for _, edges in found] == lists[2]
    return list(found)


def ids_of(frame: Frame) -> list[tuple[tuple[str, object], ...]]:
    """The rows of a frame as ids by variable, sorted; a row as often as it stands for."""
    frame = frame.take(np.repeat(np.arange(frame.num_rows), weights_of(frame)))
    columns = {name: _identities(each) for name, each in sorted(frame.bindings.items())}
    return sorted(tuple(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
