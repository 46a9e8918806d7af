"""The input of a load: records, and for each type a frame or files.

The types, files and columns are found before anything is read, and everything that is wrong with them is reported
together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast

import pyarrow as pa

from omnigraph.errors import Json, NotFound, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.write.load.inputs.column_selection import ColumnNames, ColumnSelection, select_columns
from omnigraph.write.load.inputs.data_frames import ArrowStream
from omnigraph.write.load.inputs.sources import ByteCounter, RecordSource, ignore_bytes
from omnigraph.write.load.inputs.table_files import (
    DataFile,
    FileOptions,
    PathLike,
    expand_path,
    find_files,
    find_table_format,
    parse_file_options,
)
from omnigraph.write.load.rows import RowForm

_Given = TypeVar("_Given")

TableInput: TypeAlias = "ArrowStream | PathLike | Sequence[PathLike]"
"""The rows of one type: a frame, or paths of files."""

_SCHEMA_HINT: Final = "name types and properties as the schema does; `omnigraph schema show` prints it"

_TEXTS: Final = {
    ".pg": ("a schema", "make a graph of it with `omnigraph init`, or give it to `omnigraph schema apply`"),
    ".gq": ("queries", "run it with `omnigraph query` or `omnigraph mutate`"),
}
"""What files of the two languages have, by their endings."""


@dataclass(frozen=True, slots=True)
class LoadInput:
    """The data to load: records, and frames or files by type name.

    ``columns``, ``ignored`` and ``file_options`` say how frames and files are read. ``count_bytes`` is told how much
    was read, if this process reads the files. ``form`` follows from the mode of the load. ``allow_empty``: an overwrite
    may leave a table without rows, and a ``RecordBatchReader`` may have none.
    """

    source: RecordSource | None = None
    nodes: Mapping[str, TableInput] = field(default_factory=dict[str, TableInput])
    edges: Mapping[str, TableInput] = field(default_factory=dict[str, TableInput])
    columns: Mapping[str, ColumnNames] = field(default_factory=dict[str, ColumnNames])
    ignored: Mapping[str, Iterable[str]] = field(default_factory=dict[str, Iterable[str]])
    file_options: Mapping[str, object] = field(default_factory=dict[str, object])
    count_bytes: ByteCounter = ignore_bytes
    form: RowForm = RowForm.WHOLE
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class TypedTable:
    """Rows of one type: a frame or a file, its name in messages, and the columns to read."""

    type: NodeType | EdgeType
    name: str
    rows: ArrowStream | DataFile
    selection: ColumnSelection


def refuse_empty_reader(given: LoadInput, table: TypedTable) -> None:
    """Raise an error for a table that has no rows, if it is a reader: one that was read before looks the same."""
    if isinstance(table.rows, pa.RecordBatchReader) and not given.allow_empty:
        raise ParameterError(
            f"{table.name} is a RecordBatchReader without a row: it has none, or it was read before",
            hint="give a new reader, or the Arrow table; allow_empty=True loads a reader without rows",
        )


def list_table_files(given: LoadInput) -> list[str]:
    """Return the paths of all files of rows, before anything is known of their types."""
    paths = [path for rows in (*given.nodes.values(), *given.edges.values()) for path in _to_paths(rows) or ()]
    return [path for given_path in paths for path in expand_path(os.fspath(given_path))]


def resolve_tables(catalog: Catalog, given: LoadInput) -> list[TypedTable]:
    """Find the type, the files and the column names of all frames and files. All problems are reported together."""
    options, problems = parse_file_options(given.file_options)
    found: list[TypedTable] = []
    named: set[str] = set()
    missing: list[str] = []
    for kind, name, rows in _list_given(given):
        type_ = catalog.nodes.get(name) if kind == "node" else catalog.find_edge(name)
        if type_ is None:
            problems.append(_describe_unknown_type(catalog, kind, name))
            continue
        columns, ignored = (
            _find_given(given.columns, type_, name, named),
            _find_given(given.ignored, type_, name, named),
        )
        selection, wrong = select_columns(catalog, type_, columns or {}, ignored or (), given.form)
        problems += wrong
        tables, wrong, absent = _list_tables(type_, f"{kind}s['{name}']", rows, selection, options)
        found += tables
        problems += wrong
        missing += absent
    for argument, types in (("columns", given.columns), ("ignore", given.ignored)):
        problems += [_describe_not_loaded(given, argument, name) for name in types if name not in named]
    if missing and not problems:
        raise NotFound("; ".join(missing), hint="paths are relative to the working directory, and may be patterns")
    refuse_problems([*problems, *missing])
    return found


def list_types_with_assumed_ids(catalog: Catalog, given: LoadInput) -> list[NodeType | EdgeType]:
    """Return the types whose tables give the ids of rows by a column that only its name makes the id.

    A node with a key is left out: its id must be that of the key.
    """
    found: list[NodeType | EdgeType] = []
    for kind, name, _ in _list_given(given):
        type_ = catalog.nodes.get(name) if kind == "node" else catalog.find_edge(name)
        if type_ is None or (isinstance(type_, NodeType) and type_.key is not None):
            continue
        if "id" not in (_find_given(given.columns, type_, name, set()) or {}):
            found.append(type_)
    return found


def _list_given(given: LoadInput) -> Iterator[tuple[str, str, TableInput]]:
    yield from (("node", name, rows) for name, rows in given.nodes.items())
    yield from (("edge", name, rows) for name, rows in given.edges.items())


def _list_tables(
    type_: NodeType | EdgeType, name: str, rows: TableInput, selection: ColumnSelection, options: FileOptions
) -> tuple[list[TypedTable], list[str], list[str]]:
    """Return the frame or the files of one type, the problems, and what is missing."""
    paths = _to_paths(rows)
    if paths is None:
        return [TypedTable(type_, name, cast("ArrowStream", rows), selection)], [], []
    if not paths:
        return [], [f"{name} names no file"], []
    found = find_files(paths, options)
    tables = [TypedTable(type_, file.path, file, selection) for file in found.files]
    return tables, list(found.problems), [f"there is no file '{path}'" for path in found.missing]


def _to_paths(rows: object) -> Sequence[PathLike] | None:
    """Return the paths, or None for a frame."""
    if isinstance(rows, str | os.PathLike):
        return [cast("PathLike", rows)]
    if isinstance(rows, list | tuple):
        parts = cast("Sequence[object]", rows)
        if all(isinstance(part, str | os.PathLike) for part in parts):
            return cast("Sequence[PathLike]", parts)
    return None


def _find_given(given: Mapping[str, _Given], type_: NodeType | EdgeType, name: str, named: set[str]) -> _Given | None:
    """Return what is given for a type, under the name of the type or the name that its rows have."""
    for each in dict.fromkeys((name, type_.name)):
        if each in given:
            named.add(each)
            return given[each]
    return None


def _describe_unknown_type(catalog: Catalog, kind: str, name: str) -> str:
    known, others = (catalog.nodes, catalog.edges) if kind == "node" else (catalog.edges, catalog.nodes)
    hint = f"it is a type of {'edges' if kind == 'node' else 'nodes'}" if name in others else None
    hint = hint or suggest_similar(name, known)
    return f"no {kind} type '{name}'" + (f", {hint}" if hint else "")


def _describe_not_loaded(given: LoadInput, argument: str, name: str) -> str:
    hint = suggest_similar(name, [*given.nodes, *given.edges])
    return f"{argument} names '{name}', of which nothing is loaded" + (f", {hint}" if hint else "")


def refuse_problems(problems: Iterable[str]) -> None:
    """Raise all problems as one error."""
    found: list[Json] = list(problems)
    if found:
        raise ParameterError("; ".join(map(str, found)), hint=_SCHEMA_HINT, details={"problems": found})


# --------------------------------------------------------------------------------------------- tables as records


def refuse_files_without_records(source: RecordSource | None) -> None:
    """Refuse tables, schemas and queries where records are expected, and show what to do with them."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple):
        return
    names = [os.fspath(path) for path in paths if isinstance(path, str | os.PathLike)]
    tables = [name for name in names if find_table_format(name) not in (None, "jsonl")]
    if tables:
        listed = ", ".join(f"'{name}'" for name in tables)
        raise ParameterError(
            f"{listed} {'is a table' if len(tables) == 1 else 'are tables'}, not graph records",
            hint=f'name the type of the rows: load(nodes={{"Person": "{tables[0]}"}}), or '
            f"omnigraph load --node Person={tables[0]}; edges={{...}} and --edge for edges",
        )
    for name in names:
        kind, hint = _TEXTS.get(Path(name).suffix.lower(), (None, None))
        if kind is not None:
            raise ParameterError(f"'{name}' has {kind}, not graph records", hint=hint)
