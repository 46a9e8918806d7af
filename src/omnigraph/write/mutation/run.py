"""Run a mutation: compile it with its parameters, stage its changes on a snapshot, check them, and commit once.

A mutation that only inserts is repeated on newer data, so concurrent writes do not stop it. For one that updates or
deletes, a concurrent change is a conflict; the caller may run it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from omnigraph.errors import ConflictError, ParameterError, PreconditionFailed, ValidationError, Violation
from omnigraph.language.query import InsertEdge, InsertNode, TypedMutation, compile_query
from omnigraph.language.schema import Catalog, Schema
from omnigraph.language.source import Source
from omnigraph.language.values import ConstantValue, now_milliseconds
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.commit import CommitOptions, CommitResult, PreparedWrite, WriterKind, commit_operation
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.mutation.statements import AffectedCounts, ExpressionContext, run_statement
from omnigraph.write.rules import check_changes, check_rows

_MAX_VIOLATIONS: Final = 100
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The result of a mutation. ``commit`` is None if nothing changed, and inside a transaction."""

    commit: Commit | None
    affected_nodes: int
    affected_edges: int


@dataclass(frozen=True, slots=True)
class MutationCall:
    """A checked mutation with the values of its parameters, and the time that ``now()`` returns."""

    mutation: TypedMutation
    parameters: Mapping[str, ConstantValue]
    now: int = field(default_factory=now_milliseconds)

    @property
    def strict(self) -> bool:
        """Whether the result depends on existing rows: it updates or deletes."""
        return any(not isinstance(statement, InsertNode | InsertEdge) for statement in self.mutation.statements)

    def run(self, catalog: Catalog, staging: StagingArea) -> AffectedCounts:
        """Run the statements in order. Their changes go to the staging area."""
        context = ExpressionContext(self.parameters, self.now)
        affected = AffectedCounts()
        for statement in self.mutation.statements:
            affected += run_statement(catalog, staging, statement, context)
        return affected


@dataclass(frozen=True, slots=True)
class MutationOperation:
    """Mutation calls as one write operation. ``progress`` is their result if they already ran on a snapshot."""

    catalog: Catalog
    calls: tuple[MutationCall, ...]
    progress: MutationProgress | None = None
    kind: WriterKind = WriterKind.MUTATION

    @property
    def strict(self) -> bool:
        """Whether one of the calls is strict, or rows were read that the calls may depend on."""
        has_read = self.progress is not None and bool(self.progress.staging.reads)
        return has_read or any(call.strict for call in self.calls)

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[AffectedCounts]:
        """Run the calls on a snapshot, unless they already ran there, and check the result."""
        progress = self.progress
        if progress is None or progress.staging.snapshot is not snapshot:
            progress = MutationProgress(StagingArea(snapshot))
            for call in self.calls:
                progress = progress.run_call(self.catalog, call)
        return prepare_changes(self.catalog, progress)


@dataclass(frozen=True, slots=True)
class MutationProgress:
    """What the calls staged so far, and how many rows they affected."""

    staging: StagingArea
    affected: AffectedCounts = field(default_factory=AffectedCounts)

    def run_call(self, catalog: Catalog, call: MutationCall) -> MutationProgress:
        """Return the progress after one more call. If the call fails, nothing is staged here."""
        staging = self.staging.copy()
        return MutationProgress(staging, self.affected + call.run(catalog, staging))


def compile_call(
    source: str | Path | Source,
    catalog: Catalog,
    name: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> MutationCall:
    """Compile a call. Everything that can be wrong without looking at the data is raised here."""
    compiled = compile_query(source, catalog, name)
    if not isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a read and changes nothing", hint="run it as a query")
    return MutationCall(compiled.typed, compiled.bind_parameters(parameters))


def mutate(
    manifest: Manifest,
    schema: Schema,
    source: str | Path | Source,
    name: str | None,
    parameters: Mapping[str, object] | None,
    commit_options: CommitOptions,
) -> MutationResult:
    """Compile a mutation and run it as one commit."""
    operation = MutationOperation(schema.catalog, (compile_call(source, schema.catalog, name, parameters),))
    return to_mutation_result(
        commit_operation(manifest, operation, replace(commit_options, schema_ir_hash=schema.hash))
    )


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
    return MutationResult(made, result.outcome.nodes, result.outcome.edges)


def prepare_changes(catalog: Catalog, progress: MutationProgress) -> PreparedWrite[AffectedCounts]:
    """Check every rule on the staged changes and return them for the commit; ``ValidationError`` if one is broken."""
    staging, changed = progress.staging, list(progress.staging.list_changed())
    violations = [one for table in changed for one in check_rows(table.type, table.rows, limit=_MAX_VIOLATIONS)]
    if violations:
        raise _to_error(violations)
    result = check_changes(
        catalog, staging.snapshot, [table.to_row_changes() for table in changed], limit=_MAX_VIOLATIONS
    )
    if result.violations:
        # The error tells what these tables hold, and a transaction may go on after it.
        staging.reads.update(result.reads)
        raise _to_error(result.violations)
    changes = tuple(table.to_change(result.locations.get(table.type.table_key)) for table in changed)
    return PreparedWrite(changes, result.reads | staging.reads, progress.affected)


def _to_error(violations: Sequence[Violation]) -> ValidationError:
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ValidationError(f"{violations[0].message}{more}", violations[:_MAX_VIOLATIONS])
