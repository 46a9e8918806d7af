"""A graph as two DataFrames in the shape of GraphFrames: vertices with ``id``, edges with ``src`` and ``dst``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from omnigraph.errors import ParameterError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import list_names
from omnigraph.read.rows import require_edge_type, require_node_type
from omnigraph.spark.source.snapshot import SparkSnapshot

SEPARATOR: Final = "/"
"""Between the type and the id of a vertex, where there are several node types."""


def make_graph_frames(
    moment: SparkSnapshot, nodes: Sequence[str] | None, edges: Sequence[str] | None
) -> tuple[DataFrame, DataFrame]:
    """Return the vertices and the edges. Without ``edges``, all between the nodes; without ``nodes``, their ends."""
    catalog = moment.catalog
    chosen = None if nodes is None else [require_node_type(catalog, name) for name in nodes]
    links = [require_edge_type(catalog, name) for name in edges] if edges is not None else list(catalog.edges.values())
    if chosen is None:
        ends = {end for edge in links for end in (edge.from_type, edge.to_type)}
        chosen = [node for node in catalog.nodes.values() if edges is None or node.name in ends]
    known = {node.name for node in chosen}
    open_ends = [edge.name for edge in links if not {edge.from_type, edge.to_type} <= known]
    if edges is None:
        links = [edge for edge in links if edge.name not in open_ends]
    elif open_ends:
        raise ParameterError(
            f"the edges of {', '.join(open_ends)} end at types that are not among the nodes",
            hint="add them to nodes, or leave nodes out",
        )
    if not chosen or not links:
        raise ParameterError("there are no edge types between the nodes", hint=list_names(catalog.edges, "edge types"))
    is_one = len(chosen) == 1
    vertices = [_select_vertices(moment, node, is_one=is_one) for node in chosen]
    rows = [_select_edges(moment, edge, is_one=is_one, has_values=len(links) == 1) for edge in links]
    return reduce(DataFrame.unionByName, vertices), reduce(DataFrame.unionByName, rows)


def _name_vertex(type_name: str, column: str, *, is_one: bool) -> SparkColumn:
    return sql.col(column) if is_one else sql.concat(sql.lit(f"{type_name}{SEPARATOR}"), sql.col(column))


def _select_vertices(moment: SparkSnapshot, node: NodeType, *, is_one: bool) -> DataFrame:
    rows = moment.rows(node, None if is_one else ["id"])
    properties = _select_properties(rows, ("id",), ("id", "type"))
    own = _name_vertex(node.name, "id", is_one=is_one).alias("id")
    return rows.select(own, sql.lit(node.name).alias("type"), *properties)


def _select_edges(moment: SparkSnapshot, edge: EdgeType, *, is_one: bool, has_values: bool) -> DataFrame:
    rows = moment.rows(edge, None if has_values else ["from", "to"])
    properties = _select_properties(rows, ("id", "from", "to"), ("src", "dst", "relationship"))
    begin = _name_vertex(edge.from_type, "from", is_one=is_one).alias("src")
    end = _name_vertex(edge.to_type, "to", is_one=is_one).alias("dst")
    return rows.select(begin, end, sql.lit(edge.name).alias("relationship"), *properties)


def _select_properties(rows: DataFrame, ids: Sequence[str], taken: Sequence[str]) -> list[SparkColumn]:
    """Return the columns that are no ids. One whose name GraphFrames needs gets an underscore: ``type_``."""
    used = {name.lower() for name in (*rows.columns, *taken)}
    found: list[SparkColumn] = []
    for name in rows.columns:
        free = name
        while free.lower() in taken or (free != name and free.lower() in used):
            free += "_"
        used.add(free.lower())
        found += [] if name in ids else [sql.col(f"`{name}`").alias(free)]
    return found
