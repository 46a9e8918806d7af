"""Transactions: several mutations as one commit. Each sees the changes of those before it; others see all or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from omnigraph.arguments import check_calls
from omnigraph.deadlines import CarriedDeadlines
from omnigraph.errors import ParameterError
from omnigraph.language.query.plan import tables_of
from omnigraph.language.schema import Schema
from omnigraph.language.source import Source
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import CommitRecord
from omnigraph.read.query import QueryOptions, QueryRequest, execute_query, plan_query
from omnigraph.read.result import Result
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    begin_write,
    catch_up,
    commit_operation,
    heal_branch,
    refuse_repeated,
    take_basis,
)
from omnigraph.write.mutation.run import (
    MutationCall,
    MutationOperation,
    MutationProgress,
    MutationResult,
    compile_call,
    show_pending,
    to_mutation_result,
    to_replayed_mutation,
)
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.rounding import join_rounded


@check_calls
class Transaction:
    """A ``with`` block whose mutations become one commit at its end, or nothing if an exception leaves it.

    It works on the snapshot taken at its start, and is serializable: if it queries, updates or deletes, and others
    change a table that it read or writes before it ends, its end raises ``ConflictError``. ``result`` is set after the
    block. Use it in one thread only. If its ``txn`` or key is committed already, its mutations change nothing.
    """

    def __init__(
        self,
        manifest: Manifest,
        schema: Schema,
        commit_options: CommitOptions,
        query_options: QueryOptions | None = None,
    ) -> None:
        self._manifest = manifest
        self._query_options = query_options or QueryOptions()
        self._catalog = schema.catalog
        self._commit_options = replace(commit_options, schema_ir_hash=schema.hash)
        self._deadlines = CarriedDeadlines()
        self._calls: list[MutationCall] = []
        self._progress: MutationProgress | None = None
        self._earlier: CommitRecord | None = None
        """The commit that exists already, of a repetition."""
        self.result: MutationResult | None = None

    def mutate(
        self, source: str | Path | Source, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> MutationResult:
        """Run a mutation on top of the changes so far. A mutation that fails leaves no trace."""
        progress = self._require_open()
        call = compile_call(source, self._catalog, name, params, self._query_options)
        if self._earlier is not None:
            return MutationResult(None, 0, 0, replayed=True)
        with self._deadlines.observe():
            self._progress = progress.run_call(self._catalog, call)
        self._calls.append(call)
        affected = self._progress.affected - progress.affected
        return MutationResult(None, affected.nodes, affected.edges, rounded=join_rounded(affected.rounded))

    def query(
        self, source: str | Path | Source, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> Result:
        """Run a query on top of the changes so far. They must not break a rule of the schema at this point.

        ``commit`` of the result is the commit that the transaction started from.
        """
        progress = self._require_open()
        with self._deadlines.observe():
            return self._query(progress, QueryRequest(source, name, params))

    def _query(self, progress: MutationProgress, request: QueryRequest) -> Result:
        snapshot = progress.staging.snapshot
        shown = show_pending(self._catalog, progress.staging)
        planned = plan_query(self._manifest, shown, request, self._query_options)
        # A branch can lack the table of a new type; it comes with a schema change, which is compared by itself.
        progress.staging.reads.update(key for key in tables_of(planned.plan) if key in snapshot.pins)
        return execute_query(planned)

    def _require_open(self) -> MutationProgress:
        if self._progress is None:
            raise ParameterError("the transaction is not open", hint="use it inside its `with` block")
        return self._progress

    def __enter__(self) -> Self:
        if self._progress is not None or self.result is not None:
            raise ParameterError("the transaction was already used", hint="call g.transaction() for another one")
        with self._deadlines.observe():
            self._commit_options = begin_write(self._manifest, self._commit_options)
            heal_branch(self._manifest, self._commit_options.branch)
            try:
                refuse_repeated(self._manifest, self._commit_options, can_heal=False)
            except AlreadyCommitted as earlier:
                self._earlier = earlier.commit
            else:
                self._commit_options = catch_up(self._manifest, self._commit_options)
        self._progress = MutationProgress(StagingArea(take_basis(self._manifest, self._commit_options)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        progress, self._progress = self._require_open(), None
        if kind is None:
            with self._deadlines.observe():
                self.result = self._commit(progress)

    def _commit(self, progress: MutationProgress) -> MutationResult:
        keeps_txn = self._commit_options.txn is not None
        operation = MutationOperation(self._catalog, tuple(self._calls), progress, keeps_txn=keeps_txn)
        try:
            if self._earlier is not None:
                raise AlreadyCommitted(self._earlier)
            result = commit_operation(self._manifest, operation, self._commit_options, progress.staging.snapshot)
        except AlreadyCommitted as earlier:
            return to_replayed_mutation(earlier.commit)
        return to_mutation_result(result)
