"""Run a mutation: compile it with its parameters, stage its changes on a snapshot, check them, and commit once.

A mutation that only inserts is repeated on newer data, so concurrent writes do not stop it. One that has a match,
updates or deletes is run again too, at last while the others wait, unless the caller wants a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from time import monotonic
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph.errors import (
    ConflictError,
    ParameterError,
    PreconditionFailed,
    Unsupported,
)
from omnigraph.language.query import CompiledQuery, InsertEdge, InsertNode, TypedMutation, compile_query
from omnigraph.language.query.plan import tables_of
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source
from omnigraph.language.values import ConstantValue, now_milliseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.rows import CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.query import PlannedQuery, QueryOptions, plan_compiled, read_columns
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import Table, audit_version
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    CommitResult,
    PreparedWrite,
    TableChange,
    WriterKind,
    begin_write,
    commit_operation,
    run_on_newest,
)
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.mutation.statement_rows import MAX_VIOLATIONS, StatementRows, make_violation_error
from omnigraph.write.mutation.statements import AffectedCounts, run_statement
from omnigraph.write.rounding import RoundedColumn, join_rounded
from omnigraph.write.rules import check_changes, check_rows

MatchReader: TypeAlias = Callable[[PlannedQuery], pa.Table]
"""Reads all rows of a match, in the Arrow types of tables: here, or on Spark."""
Outcome = TypeVar("Outcome")

_LONG_SECONDS: Final = 5.0
"""A mutation that takes longer is never run while other writers wait."""


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The result of a mutation. ``commit`` is None if nothing changed, and inside a transaction.

    ``replayed``: an earlier mutation with this ``txn`` or key made the commit; this one changed nothing.
    ``rounded`` are the properties whose values were rounded, as in the result of a load.
    """

    commit: Commit | None
    affected_nodes: int
    affected_edges: int
    replayed: bool = False
    rounded: tuple[RoundedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class MutationCall:
    """A checked mutation with the values of its parameters, how its match runs, and the time that ``now()`` returns."""

    compiled: CompiledQuery
    parameters: Mapping[str, ConstantValue]
    query_options: QueryOptions = field(default_factory=QueryOptions)
    now: int = field(default_factory=now_milliseconds)
    rounded_parameters: frozenset[str] = frozenset()

    @property
    def mutation(self) -> TypedMutation:
        """The checked mutation."""
        assert isinstance(self.compiled.typed, TypedMutation), "reads are refused when they are compiled"
        return self.compiled.typed

    @property
    def strict(self) -> bool:
        """Whether the result depends on existing rows: it has a match, updates or deletes."""
        inserts = all(isinstance(statement, InsertNode | InsertEdge) for statement in self.mutation.statements)
        return self.mutation.is_driven or not inserts

    def run(self, catalog: Catalog, staging: StagingArea, read_match: MatchReader = read_columns) -> AffectedCounts:
        """Evaluate the match, then run the statements in order. Their changes go to the staging area."""
        given = self._evaluate_match(catalog, staging, read_match)
        affected = AffectedCounts()
        for statement in self.mutation.statements:
            affected += run_statement(catalog, staging, statement, given)
        return affected

    def _evaluate_match(self, catalog: Catalog, staging: StagingArea, read_match: MatchReader) -> StatementRows:
        """Evaluate the match on what is staged so far; what it reads belongs to what the commit compares."""
        if self.mutation.match is None:
            return StatementRows(self.parameters, self.now, rounded_parameters=self.rounded_parameters)
        shown = show_pending(catalog, staging) if self.mutation.is_driven else staging.snapshot
        planned = plan_compiled(self.compiled, catalog, shown, self.parameters, self.now, self.query_options)
        # A branch can lack the table of a new type; it comes with a schema change, which is compared by itself.
        staging.reads.update(key for key in tables_of(planned.plan) if key in staging.snapshot.pins)
        rows = read_match(planned) if self.mutation.is_driven else read_columns(planned)
        columns = {column.expression: column_of(rows, column.name) for column in self.mutation.row_values}
        return StatementRows(self.parameters, self.now, rows.num_rows, columns, self.rounded_parameters)


@dataclass(frozen=True, slots=True)
class MutationOperation:
    """Mutation calls as one write operation. ``progress`` is their result if they already ran on a snapshot."""

    catalog: Catalog
    calls: tuple[MutationCall, ...]
    progress: MutationProgress | None = None
    kind: WriterKind = WriterKind.MUTATION
    read_match: MatchReader = read_columns
    runs_again: bool = False
    """Whether it is run again on newer data, whatever it does. A transaction is not: its caller has seen results."""
    keeps_txn: bool = False
    """Whether to commit even if nothing changes, so that a repetition with the same ``txn`` finds it."""

    @property
    def strict(self) -> bool:
        """Whether one of the calls is strict, or rows were read that the calls may depend on."""
        if self.runs_again:
            return False
        has_read = self.progress is not None and bool(self.progress.staging.reads)
        return has_read or any(call.strict for call in self.calls)

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[AffectedCounts]:
        """Run the calls on a snapshot, unless they already ran there, and check the result."""
        began = monotonic()
        progress = self.progress
        if progress is None or progress.staging.snapshot is not snapshot:
            progress = MutationProgress(StagingArea(snapshot))
            for call in self.calls:
                progress = progress.run_call(self.catalog, call, self.read_match)
        prepared = prepare_changes(self.catalog, progress)
        return replace(prepared, force_commit=self.keeps_txn, is_long=monotonic() - began > _LONG_SECONDS)


@dataclass(frozen=True, slots=True)
class MutationProgress:
    """What the calls staged so far, and how many rows they affected."""

    staging: StagingArea
    affected: AffectedCounts = field(default_factory=AffectedCounts)

    def run_call(
        self, catalog: Catalog, call: MutationCall, read_match: MatchReader = read_columns
    ) -> MutationProgress:
        """Return the progress after one more call. If the call fails, nothing is staged here."""
        staging = self.staging.copy()
        return MutationProgress(staging, self.affected + call.run(catalog, staging, read_match))


def compile_call(
    source: str | Path | Source,
    catalog: Catalog,
    name: str | None = None,
    parameters: Mapping[str, object] | None = None,
    query_options: QueryOptions | None = None,
) -> MutationCall:
    """Compile a call. Everything that can be wrong without looking at the data is raised here."""
    compiled = compile_query(source, catalog, name)
    if not isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a read and changes nothing", hint="run it as a query")
    bound = compiled.bind_parameters(parameters)
    rounded = compiled.find_rounded_parameters(parameters, bound)
    return MutationCall(compiled, bound, query_options or QueryOptions(), rounded_parameters=rounded)


def begin_mutation(manifest: Manifest, options: CommitOptions) -> CommitOptions:
    """Remember the identity of the branch, without a request if this handle seems to have written it last.

    If another process has written since, the mutation begins again: see :func:`run_on_newest`.
    """
    return options if manifest.assume_view(options.branch) is not None else begin_write(manifest, options)


def mutate(
    manifest: Manifest,
    source: str | Path | Source,
    name: str | None,
    parameters: Mapping[str, object] | None,
    commit_options: CommitOptions,
    query_options: QueryOptions | None = None,
    read_match: MatchReader = read_columns,
    *,
    runs_again: bool = False,
) -> MutationResult:
    """Compile a mutation and run it as one commit. ``query_options`` say how its match runs."""

    def run_on(basis: Snapshot) -> CommitResult[AffectedCounts]:
        schema = load_schema_of(manifest, basis.schema_ir_hash)
        call = compile_call(source, schema.catalog, name, parameters, query_options)
        keeps_txn = commit_options.txn is not None
        operation = MutationOperation(
            schema.catalog, (call,), read_match=read_match, runs_again=runs_again, keeps_txn=keeps_txn
        )
        return commit_operation(manifest, operation, replace(commit_options, schema_ir_hash=schema.hash), basis)

    try:
        return to_mutation_result(run_on_newest(manifest, commit_options.branch, run_on))
    except AlreadyCommitted as earlier:
        return to_replayed_mutation(earlier.commit)


def retry_on_conflict(attempt: Callable[[], Outcome], retries: int) -> Outcome:
    """Repeat an attempt while another writer commits first. A failed precondition is not retried."""
    if retries < 0:
        raise ParameterError(f"retries is {retries}", hint="give 0 or more")
    for _ in range(retries):
        try:
            return attempt()
        except PreconditionFailed:
            raise
        except ConflictError:
            continue
    return attempt()


def to_mutation_result(result: CommitResult[AffectedCounts]) -> MutationResult:
    """Convert the result of a commit."""
    made = None if result.commit is None else to_commit(result.commit)
    outcome = result.outcome
    return MutationResult(made, outcome.nodes, outcome.edges, rounded=join_rounded(outcome.rounded))


def to_replayed_mutation(earlier: CommitRecord) -> MutationResult:
    """Return the result of a repetition: the commit that exists, and what it affected as far as it is known."""
    key = earlier.key
    nodes, edges = (0, 0) if key is None else (key.nodes, key.edges)
    return MutationResult(to_commit(earlier), nodes, edges, replayed=True)


def prepare_changes(catalog: Catalog, progress: MutationProgress) -> PreparedWrite[AffectedCounts]:
    """Check every rule on the staged changes and return them for the commit; ``ValidationError`` if one is broken."""
    staging, changed = progress.staging, list(progress.staging.list_changed())
    violations = [one for table in changed for one in check_rows(table.type, table.rows, limit=MAX_VIOLATIONS)]
    if violations:
        raise make_violation_error(violations)
    result = check_changes(
        catalog, staging.snapshot, [table.to_row_changes() for table in changed], limit=MAX_VIOLATIONS
    )
    if result.violations:
        # The error tells what these tables hold, and a transaction may go on after it.
        staging.reads.update(result.reads)
        raise make_violation_error(result.violations)
    changes = tuple(table.to_change(result.locations.get(table.type.table_key)) for table in changed)
    affected = progress.affected
    return PreparedWrite(changes, result.reads | staging.reads, affected, affected=(affected.nodes, affected.edges))


def show_pending(catalog: Catalog, staging: StagingArea) -> Snapshot:
    """Return a snapshot that shows the staged changes to this process only. They must not break a rule of the schema.

    The written files are never committed; cleanup deletes them once they are old.
    """
    snapshot = staging.snapshot
    if next(staging.list_changed(), None) is None:
        return snapshot
    changes = prepare_changes(catalog, MutationProgress(staging)).changes
    pending = {change.table_key: _open_pending(snapshot, change) for change in changes}
    return snapshot.with_tables({key: table for key, table in pending.items() if table is not None})


def _open_pending(snapshot: Snapshot, change: TableChange) -> Table | None:
    """Return a table that shows a pending change; None if the change has no effect."""
    pinned = snapshot.table(change.table_key)
    if pinned.uri.startswith("s3+ddb://"):
        raise Unsupported(
            "a transaction cannot be queried if DynamoDB manages the versions", hint="query after it ends"
        )
    staged = change.stage(pinned)
    return None if staged is None else audit_version(pinned, staged)
