"""The graph, or some types of it, written out: as JSONL that a load reads back, or as Parquet.

Rows stream from the tables to the target, nodes before edges; what is in memory at a time does not depend on how many
there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from io import TextIOBase
from typing import Literal, Protocol, TypeAlias, cast, get_args

from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType, split_by_kind
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.export_files import create_file, create_folder, parse_local_path
from omnigraph.read.rows.export_json import join_lines, to_json_lines
from omnigraph.read.rows.export_rows import read_export_rows
from omnigraph.read.rows.stored_blobs import read_blob_texts
from omnigraph.read.rows.type_rows import TypeRows, open_type_rows, require_type
from omnigraph.storage.columns import Values, to_list

Format: TypeAlias = Literal["jsonl", "parquet"]


class Writable(Protocol):
    """An open file, text or binary."""

    def write(self, data: bytes, /) -> object:
        """Take some of it; the answer may say how much."""
        ...


Target: TypeAlias = "str | os.PathLike[str] | Writable | TextIOBase"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What was written: rows by type, as of which commit, and where to, if that has a name."""

    commit: Commit | None
    branch: str
    format: Format
    path: str | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Some types of a graph at one moment."""

    snapshot: Snapshot
    types: tuple[NodeType | EdgeType, ...]

    def open_types(self) -> Iterator[TypeRows]:
        """The rows of each type."""
        return (open_type_rows(self.snapshot, type_) for type_ in self.types)


def plan_export(snapshot: Snapshot, catalog: Catalog, types: Iterable[str] | None) -> ExportPlan:
    """What is to be exported: everything, or what is named. A name that a node and an edge type share means both."""
    if types is None:
        return ExportPlan(snapshot, tuple(catalog.types()))
    if isinstance(types, str):
        raise ParameterError(f"types is {types!r}", hint=f"give a list, such as [{types!r}]")
    wanted = {key for name in types for key in _table_keys(catalog, name)}
    return ExportPlan(snapshot, tuple(type_ for type_ in catalog.types() if type_.table_key in wanted))


def _table_keys(catalog: Catalog, name: str) -> list[str]:
    node, edge = catalog.nodes.get(name), catalog.edges.get(name)
    return [found.table_key for found in (node, edge) if found] or [require_type(catalog, name).table_key]


def export_lines(export: ExportPlan, format_: Format) -> Iterator[str]:
    """The records as JSONL, each with the end of its line."""
    if _checked(format_) != "jsonl":
        raise _no_stream()
    return (
        line for rows in export.open_types() for lines in _lines(rows) for line in cast("list[str]", to_list(lines))
    )


def export_to(export: ExportPlan, target: Target, format_: Format) -> ExportResult:
    """Write everything to a path, or as JSONL to an open stream."""
    if _checked(format_) == "jsonl":
        return _to_jsonl(export, target)
    if not isinstance(target, str | os.PathLike):
        raise _no_stream()
    return _to_parquet(export, target)


def _checked(format_: Format) -> Format:
    if format_ not in get_args(Format):
        raise ParameterError(f"format is {format_!r}", hint=f"use {' or '.join(get_args(Format))}")
    return format_


def _no_stream() -> ParameterError:
    return ParameterError("Parquet is a folder of files", hint="give its path as the target")


def _to_jsonl(export: ExportPlan, target: Target) -> ExportResult:
    path = parse_local_path(target) if isinstance(target, str | os.PathLike) else None
    counts: dict[str, int] = {}
    with nullcontext(target) if path is None else create_file(path) as stream:
        for rows in export.open_types():
            counts[rows.type.table_key] = 0
            for lines in _lines(rows):
                _write(stream, join_lines(lines))
                counts[rows.type.table_key] += len(lines)
    return _result(export, "jsonl", None if path is None else str(path), counts)


def _to_parquet(export: ExportPlan, target: str | os.PathLike[str]) -> ExportResult:
    # Imported here: whoever exports JSONL need not wait for it.
    from omnigraph.read.rows.export_parquet import write_parquet

    path = parse_local_path(target)
    with create_folder(path) as folder:
        counts: dict[str, int] = {rows.type.table_key: write_parquet(rows, folder) for rows in export.open_types()}
    return _result(export, "parquet", str(path), counts)


def _lines(rows: TypeRows) -> Iterator[Values]:
    return (to_json_lines(rows.type, piece) for piece in read_export_rows(rows, read_blob_texts))


def _write(stream: object, text: memoryview) -> None:
    if isinstance(stream, TextIOBase):
        stream.write(str(text, "utf-8"))
        return
    while text:
        # A raw stream may take only a part.
        taken = cast("Writable", stream).write(cast(bytes, text))
        text = text[taken:] if isinstance(taken, int) else text[len(text) :]


def _result(export: ExportPlan, format_: Format, path: str | None, counts: Mapping[str, int]) -> ExportResult:
    nodes, edges = split_by_kind(counts)
    return ExportResult(export.snapshot.commit, export.snapshot.branch, format_, path, nodes, edges)
