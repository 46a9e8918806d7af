"""Export a graph, or some of its types, as JSONL, as Parquet or as CSV.

Rows are streamed from the tables to the target, nodes before edges; memory does not depend on their number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from io import TextIOBase
from pathlib import PurePath
from typing import Final, Literal, Protocol, TypeAlias, cast, get_args

from omnigraph.deadlines import CarriedDeadlines
from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType, split_by_kind
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.progress import follow_steps
from omnigraph.read.rows.export_files import create_file, create_folder, parse_target
from omnigraph.read.rows.export_formats import (
    TABLE_WRITERS,
    join_lines,
    open_export_reader,
    read_export_rows,
    to_json_lines,
)
from omnigraph.read.rows.type_rows import TypeRows, open_type_rows, require_type
from omnigraph.storage.columns import Values, to_list

Format: TypeAlias = Literal["jsonl", "parquet", "csv"]

_FORMATS_BY_SUFFIX: Final[Mapping[str, Format]] = {
    "": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".csv": "csv",
}


class Writable(Protocol):
    """An open binary file."""

    def write(self, data: bytes, /) -> object:
        """Write some or all of the data; may return the number of bytes written."""
        ...


Target: TypeAlias = str | os.PathLike[str] | Writable | TextIOBase


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What was exported: the rows of each type, the commit, and the path if the target is one."""

    commit: Commit | None
    branch: str
    format: Format
    path: str | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The types to export and the snapshot to read them from."""

    snapshot: Snapshot
    types: tuple[NodeType | EdgeType, ...]

    def open_types(self) -> Iterator[TypeRows]:
        """Open the rows of each type."""
        followed = follow_steps("exporting", self.types, lambda type_: type_.table_key)
        return (open_type_rows(self.snapshot, type_) for type_ in followed)


def plan_export(snapshot: Snapshot, catalog: Catalog, types: Iterable[str] | None) -> ExportPlan:
    """Plan the export of all types or of the named ones. A name that a node and an edge type share means both."""
    if types is None:
        return ExportPlan(snapshot, tuple(catalog.types()))
    selected = {key for name in types for key in _find_table_keys(catalog, name)}
    return ExportPlan(snapshot, tuple(type_ for type_ in catalog.types() if type_.table_key in selected))


def _find_table_keys(catalog: Catalog, name: str) -> list[str]:
    node, edge = catalog.nodes.get(name), catalog.edges.get(name)
    return [found.table_key for found in (node, edge) if found] or [require_type(catalog, name).table_key]


def export_lines(export: ExportPlan) -> Iterator[str]:
    """Yield the records as lines of JSONL, each with its newline."""
    pieces = CarriedDeadlines().iterate(lambda: (lines for rows in export.open_types() for lines in _read_lines(rows)))
    return (line for lines in pieces for line in cast("list[str]", to_list(lines)))


def export_to(export: ExportPlan, target: Target, format_: Format) -> ExportResult:
    """Write the export to a path, or as JSONL to an open stream."""
    if format_ == "jsonl":
        return _write_jsonl(export, target)
    return _write_folder(export, cast("str | os.PathLike[str]", target), format_)


def choose_export_format(target: Target | None, format_: Format | None) -> Format:
    """Return the format of an export: the given one, or the one of the file extension. Streams get JSONL.

    Refuse an unknown format, and a target that cannot take the format.
    """
    is_path = isinstance(target, str | os.PathLike)
    if target is not None and not is_path and not hasattr(target, "write"):
        raise ParameterError(f"target is {target!r}", hint="give a path, or an open stream")
    chosen = format_ or (_find_format(target) if isinstance(target, str | os.PathLike) else "jsonl")
    if chosen not in get_args(Format):
        raise ParameterError(f"format is {chosen!r}", hint=f"use {' or '.join(get_args(Format))}")
    if chosen in TABLE_WRITERS and not is_path:
        raise ParameterError("tables are a folder of files", hint="give its path as the target")
    return chosen


def _find_format(path: str | os.PathLike[str]) -> Format:
    found = _FORMATS_BY_SUFFIX.get(PurePath(path).suffix.lower())
    if found is None:
        known = ", ".join(filter(None, _FORMATS_BY_SUFFIX))
        raise ParameterError(
            f"the extension of '{os.fspath(path)}' names no format",
            hint=f"give the format, or use one of {known}",
        )
    return found


def _write_jsonl(export: ExportPlan, target: Target) -> ExportResult:
    path = parse_target(target) if isinstance(target, str | os.PathLike) else None
    counts: dict[str, int] = {}
    with nullcontext(target) if path is None else create_file(path) as stream:
        for rows in export.open_types():
            counts[rows.type.table_key] = 0
            for lines in _read_lines(rows):
                write_text(stream, join_lines(lines))
                counts[rows.type.table_key] += len(lines)
    return _build_result(export, "jsonl", None if path is None else str(path), counts)


def _write_folder(export: ExportPlan, target: str | os.PathLike[str], format_: Format) -> ExportResult:
    path = parse_target(target)
    with create_folder(path) as folder:
        counts: dict[str, int] = {
            rows.type.table_key: TABLE_WRITERS[format_](rows.type.table_key, open_export_reader(rows), folder)
            for rows in export.open_types()
        }
    return _build_result(export, format_, str(path), counts)


def _read_lines(rows: TypeRows) -> Iterator[Values]:
    return (to_json_lines(rows.type, piece) for piece in read_export_rows(rows))


def write_text(stream: object, text: memoryview) -> None:
    """Write UTF-8 to an open stream, of bytes or of text."""
    if isinstance(stream, TextIOBase):
        stream.write(str(text, "utf-8"))
        return
    while text:
        # A raw stream may write only a part.
        written = cast("Writable", stream).write(cast(bytes, text))
        text = text[written:] if isinstance(written, int) else text[len(text) :]


def _build_result(export: ExportPlan, format_: Format, path: str | None, counts: Mapping[str, int]) -> ExportResult:
    nodes, edges = split_by_kind(counts)
    return ExportResult(export.snapshot.commit, export.snapshot.branch, format_, path, nodes, edges)
