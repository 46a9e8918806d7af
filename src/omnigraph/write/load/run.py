"""Run a load: read the input, check it, and commit every table in one commit.

The input is read in blocks. Rows that pass the row rules are buffered in memory or written as invisible fragments. The
set rules then check them together with the snapshot, and each table is committed once. If anything fails, the load
reports it and changes nothing; with a quarantine, the failing records go there and the rest is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias, cast, get_args

from omnigraph.deadlines import check_deadline
from omnigraph.errors import AlreadyExists, NotFound, OmniGraphError, ParameterError, ValidationError
from omnigraph.language.schema import Catalog, Schema, split_by_kind
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest, branch_names, missing_branch
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import (
    Reference,
    create_branch,
    find_branch_point,
    take_snapshot,
)
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot, open_pin
from omnigraph.storage.external_objects import find_missing_objects
from omnigraph.storage.machine_memory import release_unused_memory
from omnigraph.storage.tables import WriteMode, branch_uri
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    begin_write,
    catch_up,
    check_basis_schema,
    commit_operation,
    delete_branch_at,
    finish_removals,
    make_recreated_error,
    refuse_repeated,
    take_basis,
)
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.indexes import ensure_id_indexes, ensure_loaded_indexes
from omnigraph.write.load.inputs import (
    LoadInput,
    OpenedTable,
    TypedTable,
    list_types_with_assumed_ids,
    open_tables,
    read_records,
    refuse_empty_reader,
    refuse_files_without_records,
    resolve_tables,
)
from omnigraph.write.load.load_operation import (
    LOCAL_LOAD_ENGINE,
    LoadEngine,
    LoadOperation,
    LoadOutcome,
    PreparedLoad,
    RecordCounts,
)
from omnigraph.write.load.matching import MATCHING_MODES, Identity, LoadMode, resolve_identity
from omnigraph.write.load.rows import (
    MAX_VIOLATIONS,
    ConversionReport,
    FragmentTarget,
    IncomingRows,
    Quarantine,
    RawBatch,
    RejectDelivery,
    RejectedRecord,
    RejectSink,
    RoundingPolicy,
    RowBuffer,
    RowForm,
    ViolationCollector,
    choose_rejects_target,
    table_key_of,
    validate_batch,
)
from omnigraph.write.rounding import RoundedColumn

OnError: TypeAlias = Literal["fail", "quarantine"]
Engine: TypeAlias = Literal["auto", "local", "spark"]
IndexPolicy: TypeAlias = Literal["auto", "always", "never"]

INDEX_ABOVE_ROWS: Final = 100_000
"""Loads of more rows than this also build the indexes that save later writes a scan."""
_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of a load. ``engine`` is the engine that was chosen, never "auto".

    ``keeps_txn``: a load with a ``txn`` makes a commit even if it changes no rows, so that a retry finds it.
    ``allow_missing_blobs``: blobs may refer to objects that are not there.
    ``identity``: the columns by which a merge or an update finds the stored rows of records without an id, by type.
    ``strict``: reject records with values that would be rounded.
    ``replaced_head``: the newest commit of the branch, if the load replaces it by a new branch at ``from_branch``.
    """

    mode: LoadMode = "append"
    on_error: OnError = "fail"
    rejects: str | Path | None = None
    engine: Engine = "local"
    check: bool = False
    indexes: IndexPolicy = "auto"
    from_branch: Reference | None = None
    keeps_txn: bool = True
    identity: Identity | None = None
    allow_missing_blobs: bool = False
    replaced_head: str | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load: what became of each record that was read, and the path of the rejected ones.

    ``nodes`` and ``edges`` are the accepted records by type, and ``counts`` has all records by table, such as
    ``node:Person``; rejected records of no known type are counted as ``unknown``. ``commit`` is None if nothing changed
    and there is no ``txn`` to keep. ``replayed``: an earlier load with this ``txn`` or key made the commit; this one
    read nothing. ``notes`` say what the load took for granted.
    ``rounded`` are the properties whose values were rounded: times below a millisecond, integers that the float cannot
    hold, and numbers that became 0. The values of rejected records do not count.
    """

    commit: Commit | None
    branch: str
    mode: LoadMode
    engine: Engine
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    rejected: int
    rejects_path: str | None
    replayed: bool
    notes: tuple[str, ...] = ()
    counts: Mapping[str, RecordCounts] = field(default_factory=dict[str, RecordCounts])
    rounded: tuple[RoundedColumn, ...] = ()

    @property
    def total(self) -> RecordCounts:
        """What became of the records of all types."""
        return sum(self.counts.values(), RecordCounts())


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Everything a reader needs to read the input. ``targets`` are the tables it may write fragments to."""

    manifest: Manifest
    catalog: Catalog
    input: LoadInput
    options: LoadOptions
    targets: FragmentTargets
    policy: RoundingPolicy


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """The input after reading: the rows that passed the row rules, and the violations of the others.

    ``discard`` deletes the fragments written to the graph; call it only if no commit was ever asked to show them.
    ``executor`` builds the declared indexes after the commit; without one, this process builds the id indexes only.
    """

    tables: Mapping[str, IncomingRows]
    collected: ViolationCollector
    quarantine: RejectDelivery | None
    engine: LoadEngine
    discard: Callable[[], None]
    executor: Executor | None = None
    report: ConversionReport = field(default_factory=ConversionReport)


InputReader: TypeAlias = Callable[[LoadContext], AbstractContextManager[ParsedInput]]
"""Reads the input. The result is valid until the context ends."""


def load(
    manifest: Manifest,
    schema: Schema,
    load_input: LoadInput,
    options: LoadOptions,
    commit_options: CommitOptions,
    reader: InputReader | None = None,
    executor: Executor = LOCAL,
) -> LoadResult:
    """Load everything as one commit, or nothing. Without ``reader``, this process reads the input.

    ``executor`` brings the rows of a branch to the current schema, if it lags behind.
    """
    check_load_options(load_input, options)
    try:
        return _run_load(manifest, schema, load_input, options, commit_options, reader, executor)
    except NotFound as missing:
        branch = commit_options.branch
        if options.from_branch is not None or missing.details.get("branch") != branch:
            raise
        raise missing_branch(manifest.location, branch, "from_branch") from missing


def _run_load(
    manifest: Manifest,
    schema: Schema,
    load_input: LoadInput,
    options: LoadOptions,
    commit_options: CommitOptions,
    reader: InputReader | None,
    executor: Executor,
) -> LoadResult:
    identity = resolve_identity(schema.catalog, options.identity, options.mode)
    commit_options = replace(commit_options, schema_ir_hash=schema.hash)
    is_replaced = options.replaced_head is not None
    if not is_replaced:
        commit_options = begin_write(manifest, commit_options)
    is_new_branch = options.from_branch is not None and (
        is_replaced or commit_options.branch not in branch_names(manifest)
    )
    if not is_new_branch:
        try:
            refuse_repeated(manifest, commit_options, can_heal=not options.check)
        except AlreadyCommitted as earlier:
            return _to_replay(earlier, options, commit_options)
    if not (is_new_branch or options.check):
        commit_options = catch_up(manifest, commit_options, executor)
    # DynamoDB manages the versions, so a detached version cannot show fragments in the table's folder.
    # The rows of an update have other columns than the table.
    closed = options.check or is_new_branch or options.mode == "update" or manifest.location.scheme == "s3+ddb"
    targets = FragmentTargets(manifest, commit_options, options.mode, closed=closed)
    form = RowForm.PARTIAL if options.mode == "update" else RowForm.WHOLE
    policy = RoundingPolicy(options.strict, identity)
    context = LoadContext(manifest, schema.catalog, replace(load_input, form=form), options, targets, policy)
    with _notice_lost_branch(targets), (reader or _read_locally)(context) as parsed:
        keeps_txn = options.keeps_txn and commit_options.txn is not None
        operation = LoadOperation(
            schema.catalog,
            parsed.tables,
            options.mode,
            parsed.quarantine,
            options.check,
            parsed.engine,
            keeps_txn,
            identity,
            allow_empty=load_input.allow_empty,
        )
        try:
            if parsed.collected.violations:
                basis = _take_base_snapshot(manifest, options, commit_options, is_new_branch=is_new_branch)
                raise parsed.collected.to_error(*operation.find_set_violations(basis, parsed.collected.counts.ids))
        except BaseException:
            parsed.discard()
            raise
        message = _fill_counts(commit_options.message, parsed.tables)
        commit_options = replace(commit_options, message=message)
        result = _commit_load(
            manifest, operation, parsed, options, commit_options, executor, is_new_branch=is_new_branch
        )
        if result.replayed:
            return result
        notes = (*_note_assumed_ids(context, parsed.tables), *parsed.report.list_notes(schema.catalog.types()))
        return replace(result, notes=notes, rounded=parsed.report.list_rounded())


def _fill_counts(message: str | None, tables: Mapping[str, IncomingRows]) -> str | None:
    """Replace ``{nodes}`` and ``{edges}`` in a message by what the input has, such as "2 nodes"."""
    if message is None or "{" not in message:
        return message
    nodes, edges = split_by_kind({key: rows.given for key, rows in tables.items()})
    for word, counts in (("node", nodes), ("edge", edges)):
        count = sum(counts.values())
        message = message.replace(f"{{{word}s}}", f"{count} {word}{'' if count == 1 else 's'}")
    return message


def _note_assumed_ids(context: LoadContext, tables: Mapping[str, IncomingRows]) -> tuple[str, ...]:
    """Note for each type of how many rows the id is that of a column which nothing but its name makes the id."""
    if context.options.mode == "update":
        return ()
    types = list_types_with_assumed_ids(context.catalog, context.input)
    counts = {type_.name: tables[type_.table_key].count - tables[type_.table_key].generated.count for type_ in types}
    return tuple(
        f"{name}: {count} row{'' if count == 1 else 's'} took the id from the column id; "
        "if it is something else, map it to a property or ignore it"
        for name, count in counts.items()
        if count
    )


def check_load_options(load_input: LoadInput, options: LoadOptions) -> None:
    """Refuse words that no option knows, and a load of nothing."""
    for name, value, allowed in (
        ("mode", options.mode, LoadMode),
        ("on_error", options.on_error, OnError),
        ("engine", options.engine, Engine),
        ("indexes", options.indexes, IndexPolicy),
    ):
        words = cast("tuple[str, ...]", get_args(allowed))
        if value not in words:
            raise ParameterError(f"{name} is {value!r}", hint=f"use {', '.join(words)}")
    if load_input.source is None and not load_input.nodes and not load_input.edges:
        raise ParameterError("there is nothing to load", hint="give a source, or nodes= and edges=")
    refuse_files_without_records(load_input.source)
    if options.rejects is not None and options.on_error != "quarantine":
        raise ParameterError("rejects is given without a quarantine", hint='add on_error="quarantine"')


# --------------------------------------------------------------------------------------------- reading


class FragmentTargets:
    """Finds where a load may write fragments while it reads: only tables that its branch already owns.

    Rows that are merged into a table with rows wait elsewhere: most of them may be there already.
    """

    def __init__(self, manifest: Manifest, commit_options: CommitOptions, mode: LoadMode, *, closed: bool) -> None:
        self._manifest = manifest
        self._commit_options = commit_options
        self._mode: WriteMode = "overwrite" if mode == "overwrite" else "append"
        self._is_matching = mode in MATCHING_MODES
        self._closed = closed
        self._begun_on: Snapshot | None = None

    @property
    def branch(self) -> str:
        """The branch that the load writes to."""
        return self._commit_options.branch

    def is_branch_recreated(self) -> bool:
        """Whether another branch has the name since the load began. Raise ``NotFound`` if none has."""
        known = self._commit_options.incarnation
        return known is not None and self._manifest.read_incarnation(self.branch) != known

    def find(self, table_key: str) -> FragmentTarget | None:
        """Return where the rows of a table are written; None if its folder may not be written to yet."""
        if self._closed:
            return None
        if self._begun_on is None:
            self._begun_on = take_basis(self._manifest, self._commit_options)
        pin = self._begun_on.pins.get(table_key)
        if pin is None or (pin.branch or MAIN) != self.branch or (self._is_matching and pin.row_count):
            return None
        return FragmentTarget(open_pin(self._manifest, pin), self._mode, branch_uri(pin.location, pin.branch))


@contextmanager
def _notice_lost_branch(targets: FragmentTargets) -> Generator[None]:
    """Say that the branch was deleted, where Lance only knows that a folder went away."""
    try:
        yield
    except NotFound as error:
        if targets.is_branch_recreated():
            raise make_recreated_error(targets.branch) from error
        raise


@contextmanager
def _read_locally(context: LoadContext) -> Generator[ParsedInput]:
    """Read the input in this process, into memory, local files and staged fragments."""
    manifest, options = context.manifest, context.options
    with TemporaryDirectory(prefix="omnigraph-load-") as name:
        folder, collected = Path(name), ViolationCollector(None if options.check else MAX_VIOLATIONS)
        buffer = RowBuffer(folder, context.targets.find, context.input.form)

        def discard() -> None:
            buffer.discard(manifest.objects)

        quarantine = None
        if options.on_error == "quarantine":
            quarantine = Quarantine(
                folder / "rejected.jsonl", choose_rejects_target(manifest.location, options.rejects)
            )
        with quarantine or nullcontext():
            try:
                report = _fill_buffer(context, buffer, quarantine or collected)
            except BaseException:
                discard()
                raise
            tables = buffer.to_incoming_rows()
            if any(rows.is_large for rows in tables.values()):
                release_unused_memory()
            yield ParsedInput(tables, collected, quarantine, LOCAL_LOAD_ENGINE, discard, report=report)


def _fill_buffer(context: LoadContext, buffer: RowBuffer, rejects: RejectSink) -> ConversionReport:
    """Read the input once: buffer the rows that pass the row rules, reject the others. Return what was rounded."""
    catalog, load_input, report = context.catalog, context.input, ConversionReport()
    find_missing = None
    if not context.options.allow_missing_blobs:
        find_missing = partial(find_missing_objects, storage_options=context.manifest.location.options())
    tables = resolve_tables(catalog, load_input)
    opened = open_tables(catalog, tables)
    with buffer:
        for table in tables:
            buffer.buffer_of(table.type)
        for item in _read_input(catalog, load_input, list(zip(tables, opened, strict=True))):
            if isinstance(item, RejectedRecord):
                rejects.take(item)
                rejected_type = catalog.find_type(table_key_of(item))
                if rejected_type is not None:
                    buffer.buffer_of(rejected_type)
                continue
            check_deadline()
            batch = validate_batch(item, find_missing, context.policy)
            buffer.add(batch)
            report.add(batch)
            for rejected in batch.rejected:
                rejects.take(rejected)
    return report


def _read_input(
    catalog: Catalog, load_input: LoadInput, tables: Iterable[tuple[TypedTable, OpenedTable]]
) -> Iterator[RawBatch | RejectedRecord]:
    if load_input.source is not None:
        yield from read_records(catalog, load_input.source, load_input.count_bytes, load_input.form)
    for table, opened in tables:
        has_rows = False
        for item in opened.read(load_input.count_bytes):
            has_rows = has_rows or isinstance(item, RejectedRecord) or len(item.lines) > 0
            yield item
        if not has_rows:
            refuse_empty_reader(load_input, table)


# --------------------------------------------------------------------------------------------- committing


def _commit_load(
    manifest: Manifest,
    operation: LoadOperation,
    parsed: ParsedInput,
    options: LoadOptions,
    commit_options: CommitOptions,
    executor: Executor,
    *,
    is_new_branch: bool,
) -> LoadResult:
    prepared: PreparedLoad | None = None
    if options.check or is_new_branch:
        # Check before creating the branch: a failed load must not leave one behind.
        basis = _take_base_snapshot(manifest, options, commit_options, is_new_branch=is_new_branch)
        prepared = PreparedLoad(operation, basis, operation.prepare(basis))
        if options.check:
            return _to_result(None, prepared.result.outcome, options, commit_options)
    if is_new_branch:
        _create_branch(manifest, options, commit_options)
    try:
        result = commit_operation(manifest, prepared or operation, commit_options, executor=executor)
    except (ValidationError, ParameterError):
        # Rules run before anything is committed. After any other failure the fragments stay for cleanup: a commit that
        # was not rolled back yet may still show them.
        parsed.discard()
        raise
    except AlreadyCommitted as earlier:
        if isinstance(earlier.__cause__, ValidationError):
            parsed.discard()
        return _to_replay(earlier, options, commit_options)
    if result.commit is None:
        parsed.discard()
    _build_indexes(manifest, options, commit_options, result.outcome, parsed.executor)
    return _to_result(result.commit and to_commit(result.commit), result.outcome, options, commit_options)


def _take_base_snapshot(
    manifest: Manifest, options: LoadOptions, commit_options: CommitOptions, *, is_new_branch: bool
) -> Snapshot:
    if not is_new_branch or options.from_branch is None:
        basis = take_snapshot(manifest, commit_options.branch)
    else:
        branch, version = find_branch_point(manifest, options.from_branch)
        basis = take_snapshot(manifest, branch, version)
        schema = manifest.current_schema()
        if schema is not None:
            # The new branch is read with the current schema, wherever it begins.
            basis = basis.read_with(schema)
    check_basis_schema(basis, commit_options)
    return basis


def _create_branch(manifest: Manifest, options: LoadOptions, commit_options: CommitOptions) -> None:
    assert options.from_branch is not None
    if options.replaced_head is not None:
        delete_branch_at(manifest, commit_options.branch, options.replaced_head, hint="run it again")
    # Another load may have created the branch in the meantime; then this one loads into it too.
    with suppress(AlreadyExists):
        create_branch(manifest, commit_options.branch, options.from_branch, finish_removals)


def _to_replay(earlier: AlreadyCommitted, options: LoadOptions, commit_options: CommitOptions) -> LoadResult:
    return _to_result(to_commit(earlier.commit), LoadOutcome({}), options, commit_options, replayed=True)


def _build_indexes(
    manifest: Manifest,
    options: LoadOptions,
    commit_options: CommitOptions,
    outcome: LoadOutcome,
    executor: Executor | None,
) -> None:
    is_large = outcome.changed > INDEX_ABOVE_ROWS
    if options.indexes == "never" or (options.indexes == "auto" and not is_large):
        return
    if is_large:
        release_unused_memory()
    try:
        if executor is None:
            ensure_id_indexes(manifest, commit_options.branch, outcome.rows, commit_options.actor)
        else:
            ensure_loaded_indexes(manifest, commit_options.branch, outcome.rows, commit_options.actor, executor)
    except OmniGraphError as error:
        # The rows are committed, and queries work without the indexes.
        _log.warning("the load on '%s' is committed, but its indexes were not built: %s", commit_options.branch, error)


def _to_result(
    commit_made: Commit | None,
    outcome: LoadOutcome,
    options: LoadOptions,
    commit_options: CommitOptions,
    *,
    replayed: bool = False,
) -> LoadResult:
    nodes, edges = split_by_kind(outcome.rows)
    return LoadResult(
        commit_made,
        commit_options.branch,
        options.mode,
        options.engine,
        nodes,
        edges,
        sum(each.rejected for each in outcome.counts.values()),
        outcome.rejects_path,
        replayed,
        counts={str(key): each for key, each in outcome.counts.items()},
    )
