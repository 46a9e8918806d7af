"""Write rows of one type from Spark as one commit: ``df.write.format("omnigraph")``.

Spark runs the tasks, and afterwards the commit in a Python process beside the driver. That process has no session, so
it checks the rows by itself, as ``graph.load`` does, and spills what does not fit in memory.

A task writes its rows to a scratch folder beside the graph, and reports its files. Spark reports one attempt of each
task to the commit, so the files of failed, killed and speculative attempts are never read. The folder is deleted with
the commit or the abort; if the driver dies before, a later job deletes it after a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.errors import Json, ParameterError, Unsupported
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import contract, opening, references
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import require_type
from omnigraph.spark.catalog import CATALOG_HINT, CATALOG_REFUSAL
from omnigraph.spark.scratch import ScratchFolder, create_scratch_folder, remove_scratch_folder
from omnigraph.spark.source.spark_types import arrow_schema_of
from omnigraph.spark.source.type_reader import STORAGE_PREFIX, storage_options_of
from omnigraph.spark.spool import SpooledFile, read_frame_files, write_frame_files
from omnigraph.storage.location import locate
from omnigraph.write import load as loads
from omnigraph.write.commit import CommitOptions, prepare_for_writing
from omnigraph.write.load import (
    LoadInput,
    LoadMode,
    LoadOptions,
    UnreadRows,
    map_columns,
    refuse_problems,
    resolve_tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_WRITTEN_ROWS: Final = 10_000_000
"""More rows than these are refused: one process checks them."""

WRITE_OPTIONS: Final = ("message", "actor", "txn_app", "txn_version", "allow_empty", "allow_missing_blobs", "strict")
"""Options that only a write has."""
_OPTIONS: Final = ("path", "type", "branch", *WRITE_OPTIONS)
_EXECUTION: Final = "spark.sql.execution.id"
_ROOT_EXECUTION: Final = "spark.sql.execution.root.id"
_STREAM_BATCH: Final = "streaming.sql.batchId"
"""Local properties of a task that name its execution."""


@dataclass(frozen=True, slots=True)
class TypeWriteOptions:
    """The parsed options of a write."""

    path: str
    type: str
    branch: str = MAIN
    message: str | None = None
    actor: str | None = None
    txn: tuple[str, int] | None = None
    allow_empty: bool = False
    allow_missing_blobs: bool = False
    strict: bool = False
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def open_manifest(self) -> Manifest:
        """Open the graph for writing, with the settings that it keeps."""
        manifest = opening.open_manifest(locate(self.path, self.storage_options))
        prepare_for_writing(manifest)
        return manifest


def parse_write_options(options: Mapping[str, str]) -> TypeWriteOptions:
    """Parse the options of a write; report all problems together."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE_PREFIX)}
    problems = [_unknown_option(name) for name in given if name not in _OPTIONS]
    if not given.get("path"):
        problems.append('the path of the graph is missing: give it as in save("s3://bucket/graph")')
    if "type" not in given:
        problems.append('the type is missing: give it as in option("type", "Person")')
    app, version = given.get("txn_app"), given.get("txn_version")
    if (app is None) != (version is None):
        problems.append("txn_app and txn_version belong together: a name, and a number that grows")
    if version is not None and not version.isdecimal():
        problems.append(f"txn_version is '{version}', which is not a number")
    problems += [
        f"{name} is '{given[name]}', which is neither true nor false"
        for name in ("allow_empty", "allow_missing_blobs", "strict")
        if given.get(name, "false") not in ("true", "false")
    ]
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), details={"problems": listed})
    return TypeWriteOptions(
        path=given["path"],
        type=given["type"],
        branch=given.get("branch", MAIN),
        message=given.get("message"),
        actor=given.get("actor"),
        txn=None if app is None or version is None else (app, int(version)),
        allow_empty=given.get("allow_empty") == "true",
        allow_missing_blobs=given.get("allow_missing_blobs") == "true",
        strict=given.get("strict") == "true",
        storage_options=storage_options_of(options),
    )


def _unknown_option(name: str) -> str:
    hint = suggest_similar(name, _OPTIONS) or f"the options of a write are {', '.join(_OPTIONS)} and {STORAGE_PREFIX}*"
    return f"no option '{name}', {hint}"


def open_type_writer(options: Mapping[str, str], schema: StructType, mode: LoadMode) -> TypeWriter:
    """Return the writer of a type. Raises whatever is wrong with the options and the columns, before a task runs."""
    parsed = parse_write_options(options)
    manifest = parsed.open_manifest()
    snapshot = references.take_snapshot(manifest, parsed.branch, None)
    catalog = contract.load_current_schema(manifest).catalog
    type_ = require_type(catalog, parsed.type)
    if mode == "overwrite":
        _refuse_orphans(type_, catalog, snapshot)
    _check_columns(type_, catalog, arrow_schema_of(schema))
    return TypeWriter(parsed, schema, mode, create_scratch_folder(manifest))


def _check_columns(type_: NodeType | EdgeType, catalog: Catalog, columns: pa.Schema) -> None:
    (table,) = resolve_tables(catalog, _to_input(type_, columns.empty_table().to_reader()))
    refuse_problems(map_columns(catalog, table.selection, columns)[1])


def _refuse_orphans(type_: NodeType | EdgeType, catalog: Catalog, snapshot: Snapshot) -> None:
    """Refuse to overwrite nodes that edges point to: the edges would have to be replaced in the same commit."""
    if isinstance(type_, EdgeType):
        return
    pins = {edge.name: snapshot.pins.get(edge.table_key) for edge in catalog.edges.values() if _ends_at(edge, type_)}
    counts = [f"{pin.row_count:,} of {name}" for name, pin in pins.items() if pin is not None and pin.row_count]
    if counts:
        raise Unsupported(
            f"{type_.name} cannot be overwritten alone: edges point to it ({', '.join(counts)})",
            hint=f'replace both in one commit: graph.spark().load(nodes={{"{type_.name}": df}}, '
            f'edges={{"{next(iter(pins))}": df2}}, mode="overwrite"); or use mode="merge" there to change single nodes',
        )


def _ends_at(edge: EdgeType, type_: NodeType) -> bool:
    return type_.name in (edge.from_type, edge.to_type)


def _to_input(type_: NodeType | EdgeType, rows: pa.RecordBatchReader) -> LoadInput:
    unread = {type_.name: UnreadRows(rows)}
    return LoadInput(edges=unread) if isinstance(type_, EdgeType) else LoadInput(nodes=unread)


# --------------------------------------------------------------------------------------------- tasks and the commit


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that an attempt of a task wrote."""

    files: tuple[SpooledFile, ...]


class TypeWriter(DataSourceArrowWriter):
    """Writes rows of one type. It is pickled: tasks run in executors, the commit in a process beside the driver."""

    def __init__(self, options: TypeWriteOptions, schema: StructType, mode: LoadMode, folder: ScratchFolder) -> None:
        self._options = options
        self._schema = schema
        self._mode: LoadMode = mode
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of a task to the scratch folder."""
        _refuse_table_creation()
        files: list[SpooledFile] = []
        for file in write_frame_files(self._folder, iterator):
            files.append(file)
            self._refuse_many(files)
        return WrittenFiles(tuple(files))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Load the files of all tasks as one commit."""
        files = [file for message in messages for file in cast("WrittenFiles", message).files]
        try:
            self._refuse_many(files)
            self._load(files)
        finally:
            remove_scratch_folder(self._folder)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  Spark's signature
        """Delete what tasks have written."""
        remove_scratch_folder(self._folder)

    def _load(self, files: Sequence[SpooledFile]) -> None:
        options = self._options
        manifest = options.open_manifest()
        schema = contract.load_current_schema(manifest)
        batches = read_frame_files(self._folder, [file.path for file in files])
        first = next(batches, None)
        rows = pa.RecordBatchReader.from_batches(
            arrow_schema_of(self._schema) if first is None else first.schema, _prepend(first, batches)
        )
        loads.load(
            manifest,
            schema,
            replace(_to_input(require_type(schema.catalog, options.type), rows), allow_empty=options.allow_empty),
            LoadOptions(self._mode, allow_missing_blobs=options.allow_missing_blobs, strict=options.strict),
            CommitOptions(options.branch, actor=options.actor, message=options.message, txn=options.txn),
        )

    def _refuse_many(self, files: Iterable[SpooledFile]) -> None:
        rows = sum(file.rows for file in files)
        if rows > MAX_WRITTEN_ROWS:
            raise Unsupported(
                f"df.write takes at most {MAX_WRITTEN_ROWS:,} rows, which one process checks; here are {rows:,}",
                hint=f'load them with the executors: graph.spark().load(nodes={{"{self._options.type}": df}}), '
                "or edges= for an edge type",
            )


def _refuse_table_creation() -> None:
    """Refuse ``saveAsTable`` and ``CREATE TABLE ... AS SELECT``: Spark could not read the table.

    Such a write is part of another execution, and ``save`` is not. A batch of a stream is part of one too.
    """
    context = TaskContext.get()
    if context is None or context.getLocalProperty(_STREAM_BATCH) is not None:
        return
    execution, root = (context.getLocalProperty(name) for name in (_EXECUTION, _ROOT_EXECUTION))
    if execution != root and root is not None:
        raise Unsupported(CATALOG_REFUSAL, hint=CATALOG_HINT)


def _prepend(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    yield from rest
