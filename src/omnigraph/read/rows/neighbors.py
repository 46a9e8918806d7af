"""Find and count the edges of one node, by the indexes on edge ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa

from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.scan import Key, resolve_id
from omnigraph.read.rows.type_rows import (
    open_type_rows,
    public_schema_of,
    require_edge_type,
    require_node_type,
    value_columns_of,
)
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.storage.filters import ValueIn

Direction: TypeAlias = Literal["out", "in", "both"]
OneDirection: TypeAlias = Literal["out", "in"]

_ENDS: Final[Mapping[str, tuple[str, ...]]] = {"out": ("src",), "in": ("dst",), "both": ("src", "dst")}
_TEXTS: Final = ("edge", "id", "from", "to", "direction", "neighbor", "neighbor_type")


def find_neighbors(
    snapshot: Snapshot, catalog: Catalog, name: str, key: Key, edge: str | None, direction: Direction
) -> pa.Table:
    """Return the edges of a node, sorted by type and id: ``edge, id, from, to, direction, neighbor, neighbor_type``.

    If one edge type is given, its properties follow. A loop is listed once, as outgoing.
    """
    if direction not in _ENDS:
        raise ParameterError(f"direction is {direction!r}", hint=f"use {', '.join(get_args(Direction))}")
    node = require_node_type(catalog, name)
    id_ = resolve_id(node, key)
    edges = list(catalog.edges_of(node.name)) if edge is None else [_select_edge_type(catalog, edge, node, direction)]
    properties = [] if edge is None else [each for each in value_columns_of(edges[0]) if each in edges[0].properties]
    schema = pa.schema([pa.field(text, pa.string(), nullable=False) for text in _TEXTS])
    if properties:
        schema = pa.unify_schemas([schema, public_schema_of(edges[0], properties)])
    found = [
        rows
        for each in edges
        for rows in _read_edges(snapshot, each, id_, _ends_at(each, node, direction), properties, schema)
    ]
    return pa.Table.from_batches(found, schema).sort_by([("edge", "ascending"), ("id", "ascending")])


def slice_rows(found: pa.Table, offset: int, limit: int | None) -> pa.Table:
    """Return ``limit`` rows from ``offset`` on; all of them without a limit."""
    for name, number in (("offset", offset), ("limit", limit)):
        if number is not None and number < 0:
            raise ParameterError(f"{name} is {number}", hint="give a number of rows, 0 or more")
    first = min(offset, found.num_rows)
    return found.slice(first, found.num_rows if limit is None else min(limit, found.num_rows))


def count_edges_at(snapshot: Snapshot, catalog: Catalog, name: str, key: Key) -> dict[tuple[str, OneDirection], int]:
    """Count the edges of a node by edge type and direction. A loop counts in both directions."""
    node = require_node_type(catalog, name)
    at_id = pa.array([resolve_id(node, key)], pa.string())
    directions: tuple[OneDirection, ...] = get_args(OneDirection)
    return {
        (edge.name, direction): sum(
            rows.num_rows for rows in open_type_rows(snapshot, edge).read(["id"], [ValueIn(ends, at_id)])
        )
        for edge in catalog.edges_of(node.name)
        for direction in directions
        if (ends := _ends_at(edge, node, direction))
    }


def _select_edge_type(catalog: Catalog, name: str, node: NodeType, direction: Direction) -> EdgeType:
    edge = require_edge_type(catalog, name)
    if not _ends_at(edge, node, direction):
        verb = {"out": "begins", "in": "ends", "both": "begins or ends"}[direction]
        hint = f"{edge.name} goes from {edge.from_type} to {edge.to_type}"
        raise ParameterError(f"no {edge.name} {verb} at a {node.name}", hint=hint)
    return edge


def _ends_at(edge: EdgeType, node: NodeType, direction: Direction) -> tuple[str, ...]:
    """The end columns of an edge type where a node of this type can be, for a direction."""
    at = {"src": edge.from_type, "dst": edge.to_type}
    return tuple(end for end in _ENDS[direction] if at[end] == node.name)


def _read_edges(
    snapshot: Snapshot,
    edge: EdgeType,
    id_: str,
    ends: tuple[str, ...],
    properties: Sequence[str],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    if not ends:
        return
    at_node = ValueIn(ends, pa.array([id_], pa.string()))
    for rows in open_type_rows(snapshot, edge).read(["id", "src", "dst", *properties], [at_node]):
        source, target = column_of(rows, "src"), column_of(rows, "dst")
        is_outgoing = compute("equal", source if "src" in ends else target, id_)
        if "src" not in ends:
            is_outgoing = compute("invert", is_outgoing)
        columns = [
            _repeat(edge.name, rows.num_rows),
            column_of(rows, "id"),
            source,
            target,
            compute("if_else", is_outgoing, "out", "in"),
            compute("if_else", is_outgoing, target, source),
            compute("if_else", is_outgoing, edge.to_type, edge.from_type),
            *(column_of(rows, name) for name in properties),
        ]
        arrays = [column.cast(type_) for column, type_ in zip(columns, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _repeat(text: str, count: int) -> Values:
    return pa.array([text]).take(pa.array([0] * count, pa.int64()))
