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
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.blobs import blob_texts
from omnigraph.read.rows.export_files import local_path, new_file, new_folder
from omnigraph.read.rows.export_json import record_lines, text_of
from omnigraph.read.rows.export_rows import whole_rows
from omnigraph.read.rows.type_rows import TypeRows, rows_of, type_of
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
class Export:
    """Some types of a graph at one moment."""

    snapshot: Snapshot
    types: tuple[NodeType | EdgeType, ...]

    def rows(self) -> Iterator[TypeRows]:
        """The rows of each type."""
        return (rows_of(self.snapshot, type_) for type_ in self.types)


def export_of(snapshot: Snapshot, catalog: Catalog, types: Iterable[str] | None) -> Export:
    """What is to be exported: everything, or what is named. A name that a node and an edge type share means both."""
    if types is None:
        return Export(snapshot, tuple(catalog.types()))
    if isinstance(types, str):
        raise ParameterError(f"types is {types!r}", hint=f"give a list, such as [{types!r}]")
    wanted = {key for name in types for key in _table_keys(catalog, name)}
    return Export(snapshot, tuple(type_ for type_ in catalog.types() if type_.table_key in wanted))


def _table_keys(catalog: Catalog, name: str) -> list[str]:
    node, edge = catalog.nodes.get(name), catalog.edges.get(name)
    return [found.table_key for found in (node, edge) if found] or [type_of(catalog, name).table_key]


def export_lines(export: Export, format_: Format) -> Iterator[str]:
    """The records as JSONL, each with the end of its line."""
    if _checked(format_) != "jsonl":
        raise _no_stream()
    return (line for rows in export.rows() for lines in _lines(rows) for line in cast("list[str]", to_list(lines)))


def export_to(export: Export, target: Target, format_: Format) -> ExportResult:
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


def _to_jsonl(export: Export, target: Target) -> ExportResult:
    path = local_path(target) if isinstance(target, str | os.PathLike) else None
    counts: dict[str, int] = {}
    with nullcontext(target) if path is None else new_file(path) as stream:
        for rows in export.rows():
            counts[rows.type.table_key] = 0
            for lines in _lines(rows):
                _write(stream, text_of(lines))
                counts[rows.type.table_key] += len(lines)
    return _result(export, "jsonl", None if path is None else str(path), counts)


def _to_parquet(export: Export, target: str | os.PathLike[str]) -> ExportResult:
    # Imported here: whoever exports JSONL need not wait for it.
    from omnigraph.read.rows.export_parquet import write_parquet

    path = local_path(target)
    with new_folder(path) as folder:
        counts = {rows.type.table_key: write_parquet(rows, folder) for rows in export.rows()}
    return _result(export, "parquet", str(path), counts)


def _lines(rows: TypeRows) -> Iterator[Values]:
    return (record_lines(rows.type, piece) for piece in whole_rows(rows, blob_texts))


def _write(stream: object, text: memoryview) -> None:
    if isinstance(stream, TextIOBase):
        stream.write(str(text, "utf-8"))
        return
    while text:
        # A raw stream may take only a part.
        taken = cast("Writable", stream).write(cast(bytes, text))
        text = text[taken:] if isinstance(taken, int) else text[len(text) :]


def _result(export: Export, format_: Format, path: str | None, counts: Mapping[str, int]) -> ExportResult:
    nodes, edges = (
        {key.partition(":")[2]: count for key, count in counts.items() if key.startswith(kind)}
        for kind in ("node:", "edge:")
    )
    return ExportResult(export.snapshot.commit, export.snapshot.branch, format_, path, nodes, edges)
