"""Loads: records and frames of any size, read once, checked against every rule, made one commit.

The input is read in blocks. Rows that pass the row rules are gathered, in memory or as fragments that nobody sees; then
set rules look at them and the snapshot together, and each table is committed once. What fails is reported with nothing
changed, or goes into quarantine while the rest is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias, cast, get_args

from omnigraph.errors import AlreadyExists, OmniGraphError, ParameterError, ValidationError
from omnigraph.language.schema import Catalog, Schema, split_by_kind
from omnigraph.manifest.branches import branch_names, create_branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.references import Reference, branch_point, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot, open_pin, pins_of
from omnigraph.manifest.state import View
from omnigraph.storage.pinned import branch_uri
from omnigraph.storage.table import WriteMode
from omnigraph.write.commit import CommitOptions, catch_up, commit, heal_branch
from omnigraph.write.executor import Executor
from omnigraph.write.indexes import ensure_id_indexes, ensure_loaded_indexes
from omnigraph.write.load.data_frames import ArrowStream, TypedFrame, read_frame, resolve_frame_types
from omnigraph.write.load.incoming_rows import FragmentTarget, IncomingRows
from omnigraph.write.load.load_operation import LOCAL_LOAD_ENGINE, LoadEngine, LoadMode, LoadOperation, LoadOutcome
from omnigraph.write.load.quarantine import (
    MOST_VIOLATIONS,
    Quarantine,
    RejectDelivery,
    RejectSink,
    ViolationCollector,
    choose_rejects_target,
)
from omnigraph.write.load.records import read_records
from omnigraph.write.load.row_buffer import RowBuffer
from omnigraph.write.load.sources import RecordSource
from omnigraph.write.load.validation import RawBatch, RejectedRecord, validate_batch

OnError: TypeAlias = Literal["fail", "quarantine"]
Engine: TypeAlias = Literal["auto", "local", "spark"]
IndexPolicy: TypeAlias = Literal["auto", "always", "never"]

INDEX_ABOVE_ROWS: Final = 100_000
"""Loads of more rows than this are followed by the indexes that keep later writes from scanning."""
_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class LoadInput:
    """What is loaded: records, and frames by type."""

    source: RecordSource | None = None
    nodes: Mapping[str, ArrowStream] = field(default_factory=dict[str, ArrowStream])
    edges: Mapping[str, ArrowStream] = field(default_factory=dict[str, ArrowStream])


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How it is loaded. ``engine`` is the one that was chosen."""

    mode: LoadMode = "append"
    on_error: OnError = "fail"
    rejects: str | Path | None = None
    engine: Engine = "local"
    check: bool = False
    indexes: IndexPolicy = "auto"
    from_branch: Reference | None = None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did: rows by type, and where the rejected records are. ``commit`` is None when nothing changed.

    ``replayed``: the ``txn`` was loaded before, by this commit; nothing was read now.
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


@dataclass(frozen=True, slots=True)
class LoadContext:
    """What the input is read into. ``homes`` are the tables that rows may be written to while it is read."""

    manifest: Manifest
    catalog: Catalog
    input: LoadInput
    options: LoadOptions
    targets: FragmentTargets


@dataclass(frozen=True, slots=True)
class ParsedInput:
    """The input once it was read: the rows that passed the row rules, and what is wrong with the others.

    ``discard`` deletes what was written to the graph meanwhile; no commit may ever have been asked to show it.
    ``runner`` builds what the schema declares of indexes once the rows are committed; without one, only those on ids
    are built, here.
    """

    tables: Mapping[str, IncomingRows]
    collected: ViolationCollector
    quarantine: RejectDelivery | None
    engine: LoadEngine
    discard: Callable[[], None]
    executor: Executor | None = None


InputReader: TypeAlias = Callable[[LoadContext], AbstractContextManager[ParsedInput]]
"""Reads the input; what it read is there until its context ends."""


def load(
    manifest: Manifest,
    schema: Schema,
    given: LoadInput,
    manner: LoadOptions,
    terms: CommitOptions,
    reader: InputReader | None = None,
) -> LoadResult:
    """Load everything as one commit, or nothing. Without a reader the input is read in this process."""
    _check_manner(given, manner, terms)
    terms = CommitOptions(terms.branch, schema.hash, terms.actor, terms.message, txn=terms.txn)
    missing = manner.from_branch is not None and terms.branch not in branch_names(manifest)
    if terms.txn is not None and not (missing or manner.check):
        # A load that died after its rows were committed may still be finished: then its rows are not in their own way.
        heal_branch(manifest, terms.branch)
    replayed = None if missing else _replayed(manifest, manner, terms)
    if replayed is not None:
        return replayed
    if not (missing or manner.check):
        catch_up(manifest, terms)
    # With DynamoDB no table can be audited in place.
    closed = manner.check or missing or manifest.location.scheme == "s3+ddb"
    homes = FragmentTargets(manifest, terms.branch, manner.mode, closed=closed)
    intake = LoadContext(manifest, schema.catalog, given, manner, homes)
    with (reader or _read_here)(intake) as read:
        work = LoadOperation(schema.catalog, read.tables, manner.mode, read.quarantine, manner.check, read.engine)
        try:
            if read.collected.violations:
                basis = _basis(manifest, manner, terms, missing=missing)
                raise read.collected.to_error(work.find_set_violations(basis, read.collected.violations))
        except BaseException:
            read.discard()
            raise
        terms = replace(terms, incarnation=homes.incarnation)
        return _committed(manifest, work, read, manner, terms, missing=missing)


def _check_manner(given: LoadInput, manner: LoadOptions, terms: CommitOptions) -> None:
    for name, value, allowed in (
        ("mode", manner.mode, LoadMode),
        ("on_error", manner.on_error, OnError),
        ("engine", manner.engine, Engine),
        ("indexes", manner.indexes, IndexPolicy),
    ):
        words = cast("tuple[str, ...]", get_args(allowed))
        if value not in words:
            raise ParameterError(f"{name} is {value!r}", hint=f"use {', '.join(words)}")
    if given.source is None and not given.nodes and not given.edges:
        raise ParameterError("there is nothing to load", hint="give a source, or nodes= and edges=")
    if manner.rejects is not None and manner.on_error != "quarantine":
        raise ParameterError("rejects is given", hint='it goes with on_error="quarantine"')
    if terms.txn is not None:
        _check_txn(terms.txn)


def _check_txn(txn: object) -> None:
    match txn:
        case (str(app), int(number)) if app and number >= 0 and not isinstance(number, bool):
            return
        case _:
            raise ParameterError(f"txn is {txn!r}", hint='give an application and a number, such as ("import", 7)')


# --------------------------------------------------------------------------------------------- reading


class FragmentTargets:
    """Where rows are written while a load is read: to the tables that its branch owns already, and to no others."""

    def __init__(self, manifest: Manifest, branch: str, mode: LoadMode, *, closed: bool) -> None:
        self._manifest = manifest
        self._branch = branch
        self._mode: WriteMode = "overwrite" if mode == "overwrite" else "append"
        self._closed = closed
        self._begun_on: View | None = None

    @property
    def incarnation(self) -> str | None:
        """That of the branch when rows were first to be written to it; None, if that never was."""
        return self._begun_on and self._begun_on.incarnation

    def find(self, table_key: str) -> FragmentTarget | None:
        """The home of a table's rows; None while nothing may be written to the table."""
        if self._closed:
            return None
        self._begun_on = self._begun_on or self._manifest.view(self._branch)
        pin = pins_of(self._begun_on).get(table_key)
        if pin is None or (pin.branch or MAIN) != self._branch:
            return None
        return FragmentTarget(open_pin(self._manifest, pin), self._mode, branch_uri(pin.location, pin.branch))


@contextmanager
def _read_here(intake: LoadContext) -> Generator[ParsedInput]:
    """Read the input in this process, into memory or into files of this machine and staged fragments."""
    manifest, manner = intake.manifest, intake.options
    with TemporaryDirectory(prefix="omnigraph-load-") as name:
        folder, collected = Path(name), ViolationCollector(None if manner.check else MOST_VIOLATIONS)
        gathering = RowBuffer(folder, intake.targets.find)

        def discard() -> None:
            gathering.discard(manifest.objects)

        quarantine = None
        if manner.on_error == "quarantine":
            quarantine = Quarantine(folder / "rejected.jsonl", choose_rejects_target(manifest.location, manner.rejects))
        with quarantine or nullcontext():
            try:
                _gather(intake.catalog, intake.input, gathering, quarantine or collected)
            except BaseException:
                discard()
                raise
            yield ParsedInput(gathering.incoming_rows(), collected, quarantine, LOCAL_LOAD_ENGINE, discard)


def _gather(catalog: Catalog, given: LoadInput, gathering: RowBuffer, rejects: RejectSink) -> None:
    """Read the input once; what passes the row rules is gathered, everything else is rejected."""
    frames = resolve_frame_types(catalog, given.nodes, given.edges)
    with gathering:
        for type_, _, _ in frames:
            gathering.buffer_of(type_)
        for found in _found(catalog, given.source, frames):
            if isinstance(found, RejectedRecord):
                rejects.take(found)
                continue
            admitted = validate_batch(found)
            gathering.add(admitted)
            for rejected in admitted.rejected:
                rejects.take(rejected)


def _found(
    catalog: Catalog, source: RecordSource | None, frames: Iterable[TypedFrame]
) -> Iterator[RawBatch | RejectedRecord]:
    if source is not None:
        yield from read_records(catalog, source)
    for type_, name, frame in frames:
        yield from read_frame(catalog, type_, name, frame)


# --------------------------------------------------------------------------------------------- committing


def _committed(
    manifest: Manifest,
    work: LoadOperation,
    read: ParsedInput,
    manner: LoadOptions,
    terms: CommitOptions,
    *,
    missing: bool,
) -> LoadResult:
    if manner.check or missing:
        # A branch that is made for a load that then fails would be a change.
        loaded = work.prepare(_basis(manifest, manner, terms, missing=missing)).outcome
        if manner.check:
            return _result(None, loaded, manner, terms)
    if missing:
        _fork(manifest, manner, terms)
    try:
        result = commit(manifest, work, terms)
    except ValidationError:
        # Rules are looked at before anything is committed. After any other failure what was written stays for cleanup:
        # a commit that was not taken back yet may still show it.
        read.discard()
        # The rows that are in the way may be our own: of two retries at once the other one was first.
        replayed = _replayed(manifest, manner, terms)
        if replayed is None:
            raise
        return replayed
    if result.commit is None:
        read.discard()
    if result.replayed:
        return _result(result.commit and commit_of(result.commit), LoadOutcome({}), manner, terms, replayed=True)
    _index(manifest, manner, terms, result.outcome, read.executor)
    return _result(result.commit and commit_of(result.commit), result.outcome, manner, terms)


def _basis(manifest: Manifest, manner: LoadOptions, terms: CommitOptions, *, missing: bool) -> Snapshot:
    if not missing or manner.from_branch is None:
        return take_snapshot(manifest, terms.branch)
    branch, version = branch_point(manifest, manner.from_branch)
    return take_snapshot(manifest, branch, version)


def _fork(manifest: Manifest, manner: LoadOptions, terms: CommitOptions) -> None:
    assert manner.from_branch is not None
    source, version = branch_point(manifest, manner.from_branch)
    # Another load may have made it meanwhile: then this one goes there too.
    with suppress(AlreadyExists):
        create_branch(manifest, terms.branch, source, version)


def _replayed(manifest: Manifest, manner: LoadOptions, terms: CommitOptions) -> LoadResult | None:
    """The result of a load whose ``txn``, or a later one of the same application, is on the branch already."""
    if terms.txn is None:
        return None
    view = manifest.view(terms.branch, with_lineage=True)
    last = view.tables.txns.get(terms.txn[0])
    if last is None or terms.txn[1] > last.number:
        return None
    known = view.history.find(last.commit_id)
    return _result(known and commit_of(known), LoadOutcome({}), manner, terms, replayed=True)


def _index(
    manifest: Manifest, manner: LoadOptions, terms: CommitOptions, loaded: LoadOutcome, runner: Executor | None
) -> None:
    wanted = manner.indexes == "always" or (manner.indexes == "auto" and sum(loaded.rows.values()) > INDEX_ABOVE_ROWS)
    if not wanted:
        return
    try:
        if runner is None:
            ensure_id_indexes(manifest, terms.branch, loaded.rows, terms.actor)
        else:
            ensure_loaded_indexes(manifest, terms.branch, loaded.rows, terms.actor, runner)
    except OmniGraphError as error:
        # The rows are committed, and are the same without an index.
        _log.warning("the indexes after a load on '%s' were not built: %s", terms.branch, error)


def _result(
    made: Commit | None, loaded: LoadOutcome, manner: LoadOptions, terms: CommitOptions, *, replayed: bool = False
) -> LoadResult:
    nodes, edges = split_by_kind(loaded.rows)
    return LoadResult(
        made,
        terms.branch,
        manner.mode,
        manner.engine,
        nodes,
        edges,
        loaded.rejected,
        loaded.rejects_path,
        replayed,
    )
