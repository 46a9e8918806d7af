"""Sources of GraphAr in a pipeline: the vertices or the edges of one type, from all chunks of all their properties.

The number of a vertex is its place: its chunk, and its row there. The rows of two groups of properties belong together
by their places too, so that files are joined by name and row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

from omnigraph.errors import ParameterError
from omnigraph.language.source import suggest_name
from omnigraph.pipeline.imports import (
    DESTINATION_INDEX,
    SOURCE_INDEX,
    VERTEX_INDEX,
    GraphArGroup,
    GraphArVertices,
    read_graphar,
)
from omnigraph.storage.internal_columns import InternalColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE: Final = (InternalColumn.FILE, InternalColumn.ROW)


def read_graphar_rows(session: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """Return the vertices or the edges of one type; the option ``vertices`` or ``edges`` names it."""
    graph = read_graphar(path, partial(_read_text, session))
    vertices = {each.type: each for each in graph.vertices}
    edges = {each.name: each for each in graph.edges}
    if len(options) != 1 or not {"vertices", "edges"}.issuperset(options):
        raise ParameterError(
            "a source of graphar has one option, vertices or edges", hint="options: {vertices: person}"
        )
    ((kind, name),) = options.items()
    known = vertices if kind == "vertices" else edges
    if name not in known:
        raise ParameterError(f"the graph has no {kind} '{name}'", hint=suggest_name(name, known, kind))
    if kind == "vertices":
        return _read_vertices(session, vertices[name])
    found = edges[name]
    ends = _read_places(session, found.adjacency, [SOURCE_INDEX, DESTINATION_INDEX])
    return _join_groups(session, ends, found.groups).drop(*_PLACE)


def _read_text(session: SparkSession, path: str) -> str:
    """Read a whole file where Spark finds it, which may be an object store."""
    return "\n".join(row[0] for row in session.read.text(path, wholetext=True).collect())


def _read_vertices(session: SparkSession, vertices: GraphArVertices) -> DataFrame:
    first, *others = vertices.groups
    rows = _read_places(session, first.folder, [each.name for each in first.properties])
    chunk = sql.regexp_extract(InternalColumn.FILE, r"([0-9]+)$", 1).cast("bigint")
    number = (chunk * vertices.chunk_size + sql.col(InternalColumn.ROW)).alias(VERTEX_INDEX)
    joined = _join_groups(session, rows, others)
    return joined.select(number, *(sql.col(f"`{each.name}`") for each in vertices.properties))


def _join_groups(session: SparkSession, rows: DataFrame, groups: Sequence[GraphArGroup]) -> DataFrame:
    for group in groups:
        names = [each.name for each in group.properties]
        more = _read_places(session, group.folder, names).withColumn(InternalColumn.FOUND, sql.lit(1))
        # A chunk that is missing would look like values that are.
        place = (sql.lit(f"GraphAr has no values below {group.folder} for the rows of "), sql.col(InternalColumn.FILE))
        missing = sql.col(InternalColumn.FOUND).isNull()
        checked = {
            name: sql.when(missing, sql.raise_error(sql.concat(*place))).otherwise(sql.col(f"`{name}`"))
            for name in names
        }
        rows = rows.join(more, list(_PLACE), "left").withColumns(checked).drop(InternalColumn.FOUND)
    return rows


def _read_places(session: SparkSession, folder: str, columns: Sequence[str]) -> DataFrame:
    """Return columns of the chunks below a folder, with the file below it and the row there."""
    frame = session.read.option("recursiveFileLookup", "true").parquet(folder)
    # A property may be called `_metadata`, too.
    metadata = frame.metadataColumn("_metadata")
    path = metadata["file_path"]
    # ``chunk0`` of vertices, ``part0/chunk0`` of edges.
    found = sql.regexp_extract(path, r"((?:part[0-9]+/)?chunk[0-9]+)(?:\.parquet)?$", 1)
    # Without its place, a row would be joined with rows of other files.
    wrong = sql.raise_error(sql.concat(sql.lit("GraphAr names no such chunk: "), path))
    file = sql.when(found != "", found).otherwise(wrong)
    chosen = (sql.col(f"`{name}`") for name in columns)
    return frame.select(file.alias(InternalColumn.FILE), metadata["row_index"].alias(InternalColumn.ROW), *chosen)
