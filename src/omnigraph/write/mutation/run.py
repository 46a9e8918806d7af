"""Mutations: a compiled ``.gq`` mutation with its parameters, run on a snapshot, checked as a whole, made one commit.

A mutation that only inserts may be run again on newer data, so what others write meanwhile does not stop it; for one
that updates or deletes it is a conflict, which the caller may answer by running it again.
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
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.commit import CommitOptions, CommitResult, PreparedWrite, WriterKind, commit
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.mutation.statements import AffectedCounts, ExpressionContext, run_statement
from omnigraph.write.rules import check_changes, check_rows

MOST_VIOLATIONS: Final = 100
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation did. ``commit`` is None when nothing changed, and inside a transaction."""

    commit: Commit | None
    affected_nodes: int
    affected_edges: int


@dataclass(frozen=True, slots=True)
class MutationCall:
    """One call of a mutation: checked, with the values of its parameters, and the time that ``now()`` is."""

    mutation: TypedMutation
    parameters: Mapping[str, ConstantValue]
    now: int = field(default_factory=now_milliseconds)

    @property
    def strict(self) -> bool:
        """Whether what it does depends on the rows that are there: it updates or deletes."""
        return any(not isinstance(statement, InsertNode | InsertEdge) for statement in self.mutation.statements)

    def run(self, catalog: Catalog, staging: StagingArea) -> AffectedCounts:
        """Run its statements in order; what they do is pending afterwards."""
        values = ExpressionContext(self.parameters, self.now)
        affected = AffectedCounts()
        for statement in self.mutation.statements:
            affected += run_statement(catalog, staging, statement, values)
        return affected


@dataclass(frozen=True, slots=True)
class MutationOperation:
    """Calls as the commit path takes them, to become one commit. ``begun`` is what they did where they ran already."""

    catalog: Catalog
    calls: tuple[MutationCall, ...]
    progress: MutationProgress | None = None
    kind: WriterKind = WriterKind.MUTATION

    @property
    def strict(self) -> bool:
        """Whether one of the calls is."""
        return any(call.strict for call in self.calls)

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[AffectedCounts]:
        """Run the calls on a snapshot, if they did not run there, and check what comes of them."""
        done = self.progress
        if done is None or done.staging.snapshot is not snapshot:
            done = MutationProgress(StagingArea(snapshot))
            for call in self.calls:
                done = done.run_call(self.catalog, call)
        return prepare_changes(self.catalog, done)


@dataclass(frozen=True, slots=True)
class MutationProgress:
    """What calls did so far, and how many rows they affected."""

    staging: StagingArea
    affected: AffectedCounts = field(default_factory=AffectedCounts)

    def run_call(self, catalog: Catalog, call: MutationCall) -> MutationProgress:
        """The same and one more call; one that fails leaves this as it is."""
        staging = self.staging.copy()
        return MutationProgress(staging, self.affected + call.run(catalog, staging))


def compile_call(
    source: str | Path | Source,
    catalog: Catalog,
    name: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> MutationCall:
    """A call that is ready to run: whatever is wrong with it, the data apart, is raised here."""
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
    terms: CommitOptions,
) -> MutationResult:
    """Compile a mutation and run it as one commit."""
    work = MutationOperation(schema.catalog, (compile_call(source, schema.catalog, name, parameters),))
    return to_mutation_result(commit(manifest, work, replace(terms, schema_ir_hash=schema.hash)))


def retry_on_conflict(attempt: Callable[[], Outcome], retries: int) -> Outcome:
    """Do something again when another writer was first; a precondition that failed will not hold the next time."""
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
    """The public form of what the commit path gives."""
    made = None if result.commit is None else commit_of(result.commit)
    return MutationResult(made, result.outcome.nodes, result.outcome.edges)


def prepare_changes(catalog: Catalog, done: MutationProgress) -> PreparedWrite[AffectedCounts]:
    """What is pending as changes to commit, once every rule holds for it; else ``ValidationError``."""
    staging, touched = done.staging, list(done.staging.list_changed())
    broken = [one for table in touched for one in check_rows(table.type, table.rows, limit=MOST_VIOLATIONS)]
    if broken:
        raise _to_error(broken)
    found = check_changes(catalog, staging.snapshot, [table.to_image() for table in touched], limit=MOST_VIOLATIONS)
    if found.violations:
        raise _to_error(found.violations)
    changes = tuple(table.to_change(found.locations.get(table.type.table_key)) for table in touched)
    return PreparedWrite(changes, found.reads | staging.reads, done.affected)


def _to_error(violations: Sequence[Violation]) -> ValidationError:
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ValidationError(f"{violations[0].message}{more}", violations[:MOST_VIOLATIONS])
