"""Questions of ``query.py`` answered from the Lance tables of a graph alone: scans, and a little Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import pyarrow as pa

if TYPE_CHECKING:
    from lance.dataset import LanceDataset

Row: TypeAlias = tuple[object, ...]
Parameters: TypeAlias = Mapping[str, int | str]
Tables: TypeAlias = Callable[[str], "LanceDataset"]
"""The Lance dataset of a table key."""
Scan: TypeAlias = Callable[[Tables, Parameters], list[Row]]


def rows_of(found: pa.Table) -> list[Row]:
    """A small table, row by row."""
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def most_reached(tables: Tables, edge_type: str, node_type: str, columns: Sequence[str]) -> list[Row]:
    """The three nodes with the most edges to them, the columns of each and how many; equals by their number."""
    counted = tables(f"edge:{edge_type}").to_table(columns=["dst"])["dst"].value_counts()
    ids, edges = cast(pa.StringArray, counted.field("values")), cast(pa.Int64Array, counted.field("counts"))
    ranked = pa.Table.from_pydict({"id": ids, "number": ids.cast(pa.int64()), "edges": edges})
    best = ranked.sort_by([("edges", "descending"), ("number", "ascending")]).slice(0, 3)
    wanted = cast("list[str]", best["id"].to_pylist())
    found = tables(f"node:{node_type}").to_table(columns=["id", *columns], filter=_among("id", wanted))
    by_id = {row[0]: row[1:] for row in rows_of(found)}
    return [(*by_id[id_], count) for id_, count in zip(wanted, best["edges"].to_pylist(), strict=True)]


def reached_in_two_hops(tables: Tables, edge_type: str, number: int | str) -> list[Row]:
    """How many other nodes are one or two edges away."""
    edges = tables(f"edge:{edge_type}")
    first = edges.to_table(columns=["dst"], filter=_among("src", [str(number)]))["dst"].unique()
    second = edges.to_table(columns=["dst"], filter=_among("src", cast("list[str]", first.to_pylist())))["dst"].unique()
    reached = {*first.to_pylist(), *second.to_pylist()} - {str(number)}
    return [(len(reached),)]


def _among(column: str, ids: Sequence[str]) -> str:
    # The ids are numbers here, so there is nothing to escape.
    return f"{column} IN ({', '.join(repr(id_) for id_ in ids)})" if ids else "false"
