"""Several mutations, one commit: each sees what those before it did, others see all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from omnigraph.errors import ParameterError, Unsupported
from omnigraph.language.schema import Schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.query import QueryOptions, QueryRequest, execute_query, plan_query
from omnigraph.read.result import Result
from omnigraph.storage.pinned import Table
from omnigraph.storage.table import audit_version
from omnigraph.write.commit import CommitOptions, TableChange, catch_up, commit
from omnigraph.write.mutation.run import (
    MutationCall,
    MutationOperation,
    MutationProgress,
    MutationResult,
    compile_call,
    prepare_changes,
    to_mutation_result,
)
from omnigraph.write.mutation.staging import StagingArea


class Transaction:
    """A ``with`` block whose mutations become one commit at its end, or nothing if an exception leaves it.

    It stands on the snapshot that it began on. If it updates or deletes and others change what it read or writes
    before it ends, its end raises ``ConflictError``. ``result`` is there afterwards. It is for one thread.
    """

    def __init__(
        self, manifest: Manifest, schema: Schema, terms: CommitOptions, manner: QueryOptions | None = None
    ) -> None:
        self._manifest = manifest
        self._query_options = manner or QueryOptions()
        self._catalog = schema.catalog
        self._commit_options = replace(terms, schema_ir_hash=schema.hash)
        self._calls: list[MutationCall] = []
        self._progress: MutationProgress | None = None
        self.result: MutationResult | None = None

    def mutate(
        self, source: str | Path, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> MutationResult:
        """Run a mutation on what the transaction made so far; one that fails leaves no trace in it."""
        begun = self._require_open()
        call = compile_call(source, self._catalog, name, params)
        self._progress = begun.run_call(self._catalog, call)
        self._calls.append(call)
        affected = self._progress.affected - begun.affected
        return MutationResult(None, affected.nodes, affected.edges)

    def query(self, source: str | Path, name: str | None = None, params: Mapping[str, object] | None = None) -> Result:
        """Answer a query on what the transaction made so far, which must break no rule of the schema by then.

        ``commit`` of the result is the one that the transaction began on.
        """
        begun = self._require_open()
        snapshot = begun.staging.snapshot
        changes = prepare_changes(self._catalog, begun).changes
        pending = {change.table_key: _open_pending(snapshot, change) for change in changes}
        shown = snapshot.showing({key: table for key, table in pending.items() if table is not None})
        return execute_query(plan_query(self._manifest, shown, QueryRequest(source, name, params), self._query_options))

    def _require_open(self) -> MutationProgress:
        if self._progress is None:
            raise ParameterError("the transaction is not open", hint="use it inside of its `with` block")
        return self._progress

    def __enter__(self) -> Self:
        if self._progress is not None or self.result is not None:
            raise ParameterError("the transaction was begun already", hint="call g.transaction() for another one")
        self._commit_options = catch_up(self._manifest, self._commit_options)
        self._progress = MutationProgress(StagingArea(take_snapshot(self._manifest, self._commit_options.branch)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun, self._progress = self._require_open(), None
        if kind is None:
            work = MutationOperation(self._catalog, tuple(self._calls), begun)
            self.result = to_mutation_result(commit(self._manifest, work, self._commit_options, begun.staging.snapshot))


def _open_pending(snapshot: Snapshot, change: TableChange) -> Table | None:
    """A table with the rows of a change, which nobody else sees; None, where they change nothing.

    What is written for it is left to cleanup by its age, as all rows are that were staged and never committed.
    """
    pinned = snapshot.table(change.table_key)
    if pinned.uri.startswith("s3+ddb://"):
        raise Unsupported("a transaction cannot be asked where DynamoDB keeps the versions", hint="query it afterwards")
    staged = change.stage(pinned)
    return None if staged is None else audit_version(pinned, staged)
