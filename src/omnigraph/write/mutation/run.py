"""Mutations: a compiled ``.gq`` mutation with its parameters, run on a snapshot, checked as a whole, made one commit.

A mutation that only inserts may be run again on newer data, so what others write meanwhile does not stop it; for one
that updates or deletes it is a conflict, which the caller may answer by running it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from omnigraph.errors import ConflictError, ParameterError, PreconditionFailed, ValidationError, Violation
from omnigraph.language.query import InsertEdge, InsertNode, TypedMutation, bind_parameters, compile_query
from omnigraph.language.schema import Catalog, Schema
from omnigraph.language.source import Source
from omnigraph.language.values import ConstantValue
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.commit import CommitOptions, PreparedWrite, Result, WriterKind, commit
from omnigraph.write.mutation.staging import Staging
from omnigraph.write.mutation.statements import Affected, Values, run_statement
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
class Call:
    """One call of a mutation: checked, with the values of its parameters, and the time that ``now()`` is."""

    mutation: TypedMutation
    parameters: Mapping[str, ConstantValue]
    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    @property
    def strict(self) -> bool:
        """Whether what it does depends on the rows that are there: it updates or deletes."""
        return any(not isinstance(statement, InsertNode | InsertEdge) for statement in self.mutation.statements)

    def run(self, catalog: Catalog, staging: Staging) -> Affected:
        """Run its statements in order; what they do is pending afterwards."""
        values = Values(self.parameters, self.now)
        affected = Affected()
        for statement in self.mutation.statements:
            affected += run_statement(catalog, staging, statement, values)
        return affected


@dataclass(frozen=True, slots=True)
class Mutate:
    """Calls as the commit path takes them, to become one commit. ``begun`` is what they did where they ran already."""

    catalog: Catalog
    calls: tuple[Call, ...]
    begun: Begun | None = None
    kind: WriterKind = WriterKind.MUTATION

    @property
    def strict(self) -> bool:
        """Whether one of the calls is."""
        return any(call.strict for call in self.calls)

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[Affected]:
        """Run the calls on a snapshot, if they did not run there, and check what comes of them."""
        done = self.begun
        if done is None or done.staging.snapshot is not snapshot:
            done = Begun(Staging(snapshot))
            for call in self.calls:
                done = done.then(self.catalog, call)
        return checked(self.catalog, done)


@dataclass(frozen=True, slots=True)
class Begun:
    """What calls did so far, and how many rows they affected."""

    staging: Staging
    affected: Affected = field(default_factory=Affected)

    def then(self, catalog: Catalog, call: Call) -> Begun:
        """The same and one more call; one that fails leaves this as it is."""
        staging = self.staging.copy()
        return Begun(staging, self.affected + call.run(catalog, staging))


def compile_call(
    source: str | Path | Source,
    catalog: Catalog,
    name: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Call:
    """A call that is ready to run: whatever is wrong with it, the data apart, is raised here."""
    compiled = compile_query(source, catalog, name)
    if not isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a read and changes nothing", hint="run it as a query")
    return Call(compiled.typed, bind_parameters(compiled.typed.parameters, parameters))


def mutate(
    manifest: Manifest,
    schema: Schema,
    source: str | Path | Source,
    name: str | None,
    parameters: Mapping[str, object] | None,
    terms: CommitOptions,
) -> MutationResult:
    """Compile a mutation and run it as one commit."""
    work = Mutate(schema.catalog, (compile_call(source, schema.catalog, name, parameters),))
    return result_of(commit(manifest, work, replace(terms, schema_ir_hash=schema.hash)))


def retried(attempt: Callable[[], Outcome], retries: int) -> Outcome:
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


def result_of(result: Result[Affected]) -> MutationResult:
    """The public form of what the commit path gives."""
    made = None if result.commit is None else commit_of(result.commit)
    return MutationResult(made, result.outcome.nodes, result.outcome.edges)


def checked(catalog: Catalog, done: Begun) -> PreparedWrite[Affected]:
    """What is pending as changes to commit, once every rule holds for it; else ``ValidationError``."""
    staging, touched = done.staging, list(done.staging.touched())
    broken = [one for table in touched for one in check_rows(table.type, table.rows, limit=MOST_VIOLATIONS)]
    if broken:
        raise _broken(broken)
    found = check_changes(catalog, staging.snapshot, [table.image() for table in touched], limit=MOST_VIOLATIONS)
    if found.violations:
        raise _broken(found.violations)
    changes = tuple(table.change(found.standing.get(table.type.table_key)) for table in touched)
    return PreparedWrite(changes, found.reads | staging.reads, done.affected)


def _broken(violations: Sequence[Violation]) -> ValidationError:
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return ValidationError(f"{violations[0].message}{more}", violations[:MOST_VIOLATIONS])
