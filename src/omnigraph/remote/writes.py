"""Verbs that write, of a graph on a server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

from omnigraph.arguments import check_calls
from omnigraph.deadlines import CarriedDeadlines, Timeout, observe_timeouts
from omnigraph.defaults import MUTATION_RETRIES
from omnigraph.errors import Json, ParameterError, Unsupported
from omnigraph.language.schema import Catalog, MigrationPlan, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.memory import MemoryLimit
from omnigraph.read.result import Result
from omnigraph.remote.base import ACTOR_REASON, MEMORY_REASON, RemoteBase, list_objects, txn_text
from omnigraph.remote.connection import Fields, Request, encode_json, make_key
from omnigraph.remote.error_bodies import to_conflict
from omnigraph.remote.uploads import TAR, spool_input
from omnigraph.remote.wire_values import (
    read_query_text,
    refuse_given,
    to_counts,
    to_json_value,
    to_left_out,
    to_reference_text,
)
from omnigraph.write import load as loads
from omnigraph.write import merge as merges
from omnigraph.write.commit import CommitOptions, Key
from omnigraph.write.evolve import SchemaApplied
from omnigraph.write.load import LoadResult
from omnigraph.write.merge import MergeResult, read_resolution_document
from omnigraph.write.mutation import MutationResult, Transaction
from omnigraph.write.rounding import RoundedColumn

_NO_TYPES: Final = Catalog({}, {}, {})


@observe_timeouts
@check_calls
class RemoteWrites(RemoteBase):
    """Write to a graph on a server. Every write that makes a commit has a key, so that it happens once."""

    def mutate(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        if_commit: str | None = None,
        retries: int = MUTATION_RETRIES,
        message: str | None = None,
        actor: str | None = None,
        txn: tuple[str, int] | None = None,
        key: Key = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
    ) -> MutationResult:
        """Run an insert, update or delete as one commit. ``retries``: as for ``Graph.mutate``."""
        refuse_given(ACTOR_REASON, actor=actor)
        refuse_given(MEMORY_REASON, memory=memory)
        body: dict[str, Json] = {
            **_step(source, name, params),
            "branch": branch,
            "if_commit": if_commit,
            "retries": retries,
            "message": message,
            "txn": txn_text(txn),
        }
        return self._to_mutation(self._write("mutate", body, key))

    def _to_mutation(self, answer: Fields) -> MutationResult:
        return MutationResult(
            self._commit_of(answer),
            cast(int, answer["affected_nodes"]),
            cast(int, answer["affected_edges"]),
            bool(answer["replayed"]),
            _read_rounded(answer),
        )

    def transaction(
        self,
        branch: str = MAIN,
        message: str | None = None,
        actor: str | None = None,
        *,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
        key: Key = None,
        timeout: Timeout = None,
    ) -> Transaction:
        """Return a context manager: its mutations become one commit, or nothing if an exception leaves the block.

        They are sent together at the end of the block, so each of them returns no counts.
        """
        refuse_given(ACTOR_REASON, actor=actor)
        self._check_writable()
        # What is wrong is said now, not at the end of the block.
        CommitOptions(branch, message=message, if_commit=if_commit, txn=txn)
        options: dict[str, Json] = {
            "branch": branch,
            "message": message,
            "if_commit": if_commit,
            "txn": txn_text(txn),
        }
        return RemoteTransaction(
            lambda steps: self._to_mutation(self._write("transaction", {**options, "steps": steps}, key))
        )

    def load(
        self,
        source: loads.RecordSource | None = None,
        *,
        nodes: Mapping[str, loads.TableInput] | None = None,
        edges: Mapping[str, loads.TableInput] | None = None,
        columns: Mapping[str, loads.ColumnNames] | None = None,
        ignore: Mapping[str, Collection[str]] | None = None,
        options: Mapping[str, object] | None = None,
        mode: loads.LoadMode = "append",
        branch: str = MAIN,
        from_branch: Reference | None = None,
        on_error: loads.OnError = "fail",
        rejects: str | Path | None = None,
        txn: tuple[str, int] | None = None,
        engine: loads.Engine = "auto",
        message: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        check: bool = False,
        indexes: loads.IndexPolicy = "auto",
        identity: loads.Identity | None = None,
        allow_empty: bool = False,
        allow_missing_blobs: bool = False,
        strict: bool = False,
        key: Key = None,
        progress: Callable[[int], object] | None = None,
        timeout: Timeout = None,
    ) -> LoadResult:
        """Load records, or frames of each type, as one commit. With ``check``, report and write nothing."""
        refuse_given(ACTOR_REASON, actor=actor)
        refuse_given("the first rejected records are in the answer of the server", rejects=rejects)
        if allow_missing_blobs:
            raise Unsupported("a server takes the bytes of blobs and no URI", hint="leave allow_missing_blobs out")
        if engine == "spark":
            raise Unsupported("Spark loads where the graph is stored", hint='use engine="auto"')
        if indexes != "auto":
            raise Unsupported("the server decides when indexes are built", hint='use indexes="auto"')
        if not check:
            self._check_writable()
        if key is not None and not isinstance(key, str):
            raise Unsupported("a digested key cannot be sent", hint="give the key as a text")
        query: dict[str, Json] = {
            "mode": mode,
            "branch": branch,
            "from": to_reference_text(from_branch),
            "on_error": on_error,
            "check": check,
            "allow_empty": allow_empty,
            "message": message,
            "if_commit": if_commit,
            "txn": txn_text(txn),
            "identity": None if identity is None else encode_json(to_json_value(identity)).decode(),
            "strict": strict,
        }
        given = loads.LoadInput(
            source,
            nodes or {},
            edges or {},
            columns or {},
            ignore or {},
            options or {},
            progress or loads.ignore_bytes,
            loads.RowForm.PARTIAL if mode == "update" else loads.RowForm.WHOLE,
            allow_empty,
        )
        loads.check_load_options(given, loads.LoadOptions(mode, on_error, None, engine, check, indexes))
        # Only tables are read by the schema before they are sent.
        catalog = self.schema.catalog if given.nodes or given.edges else _NO_TYPES
        with spool_input(given, catalog) as reopen:
            request = Request("POST", "load", query, content=reopen, content_type=TAR)
            answer = self._connection.write(request, None if check else key or make_key())
        return LoadResult(
            self._commit_of(answer),
            str(answer["branch"]),
            mode,
            "local",
            cast("Mapping[str, int]", answer["nodes"]),
            cast("Mapping[str, int]", answer["edges"]),
            cast(int, answer["rejected"]),
            None,
            bool(answer["replayed"]),
            tuple(cast("list[str]", answer["notes"])),
            {
                key: loads.RecordCounts(**counts)
                for key, counts in cast("Mapping[str, Mapping[str, int]]", answer["counts"]).items()
            },
            _read_rounded(answer),
        )

    def merge(
        self,
        source: Reference,
        into: str = MAIN,
        *,
        by: merges.MergeBy = "row",
        dry_run: bool = False,
        prefer: merges.PreferredSide | None = None,
        resolve: str | Path | Mapping[str, object] | None = None,
        message: str | None = None,
        actor: str | None = None,
        delete_branch: bool = False,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
        key: Key = None,
        timeout: Timeout = None,
    ) -> MergeResult:
        """Merge a branch, a commit or a tag into a branch as one commit. Conflicts raise ``MergeConflicts``."""
        refuse_given(ACTOR_REASON, actor=actor)
        body: dict[str, Json] = {
            "source": to_reference_text(source),
            "target": into,
            "by": by,
            "dry_run": dry_run,
            "prefer": prefer,
            "resolve": _read_resolution(resolve),
            "message": message,
            "delete_branch": delete_branch,
            "if_commit": if_commit,
            "txn": txn_text(txn),
        }
        return self._to_merge(self._reconcile("merges", body, key, dry_run=dry_run))

    def revert(
        self,
        ref: Reference,
        *,
        branch: str = MAIN,
        side: int | None = None,
        by: merges.MergeBy = "row",
        prefer: merges.PreferredSide | None = None,
        resolve: str | Path | Mapping[str, object] | None = None,
        dry_run: bool = False,
        message: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
        key: Key = None,
        timeout: Timeout = None,
    ) -> MergeResult:
        """Undo a commit with a new commit. For a merge commit, ``side`` is the parent to go back to: 1 or 2."""
        refuse_given(ACTOR_REASON, actor=actor)
        body: dict[str, Json] = {
            "commit": to_reference_text(ref),
            "branch": branch,
            "side": side,
            "by": by,
            "prefer": prefer,
            "resolve": _read_resolution(resolve),
            "dry_run": dry_run,
            "message": message,
            "if_commit": if_commit,
            "txn": txn_text(txn),
        }
        return self._to_merge(self._reconcile("reverts", body, key, dry_run=dry_run))

    def _reconcile(self, path: str, body: Mapping[str, Json], key: Key, *, dry_run: bool) -> Fields:
        if dry_run:
            return self._connection.ask(path, {name: value for name, value in body.items() if value is not None})
        return self._write(path, body, key)

    def _to_merge(self, answer: Fields) -> MergeResult:
        outcome = str(answer["outcome"]).replace("_", "-")
        return MergeResult(
            cast("merges.MergeKind", outcome),
            self._commit_of(answer),
            str(answer["base"]),
            str(answer["source_commit"]),
            str(answer["target_commit"]),
            tuple(to_conflict(each) for each in list_objects(answer, "conflicts")),
            to_counts(answer["nodes"]),
            to_counts(answer["edges"]),
            cast("str | None", answer.get("branch_kept")),
            bool(answer["replayed"]),
            tuple(to_left_out(each) for each in list_objects(answer, "left_out")),
        )

    def plan_schema(self, source: str | Path | Source, *, allow_data_loss: bool = False) -> MigrationPlan:
        """Return the migration steps from the current schema to a new one, and what each does to stored rows."""
        return plan_migration(self.schema.ir, parse_schema(source).ir, allow_data_loss=allow_data_loss)

    def apply_schema(
        self,
        source: str | Path | Source,
        *,
        allow_data_loss: bool = False,
        rewrite_ids: bool = False,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
        key: Key = None,
        timeout: Timeout = None,
    ) -> SchemaApplied:
        """Change the schema in one commit on main. Rows that break a new rule raise an error that lists them."""
        refuse_given(ACTOR_REASON, actor=actor)
        self._check_writable()
        new = parse_schema(source)
        plan = plan_migration(self.schema.ir, new.ir, allow_data_loss=allow_data_loss)
        body: dict[str, Json] = {
            "schema_source": new.text,
            "allow_data_loss": allow_data_loss,
            "rewrite_ids": rewrite_ids,
            "message": message,
            "if_commit": if_commit,
            "txn": txn_text(txn),
        }
        answer = self._write("schema/apply", body, key)
        steps = plan.steps if answer["step_count"] else ()
        return SchemaApplied(bool(answer["applied"]), self._commit_of(answer), steps, bool(answer["replayed"]))


@check_calls
class RemoteTransaction(Transaction):
    """Mutations that are sent together, at the end of the block."""

    def __init__(self, send: Callable[[list[Json]], MutationResult]) -> None:  # pyright: ignore[reportMissingSuperCall]  what the base has is on the server
        self._send = send
        self._steps: list[Json] | None = None
        self._deadlines = CarriedDeadlines()
        self.result: MutationResult | None = None

    def mutate(
        self, source: str | Path | Source, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> MutationResult:
        """Add a mutation. What it affects is known after the block."""
        if self._steps is None:
            raise ParameterError("the transaction is not open", hint="use it inside its `with` block")
        self._steps.append(_step(source, name, params))
        return MutationResult(None, 0, 0)

    def query(
        self, source: str | Path | Source, name: str | None = None, params: Mapping[str, object] | None = None
    ) -> Result:
        """Refuse: the mutations are not on the server yet."""
        raise Unsupported("a transaction on a server cannot be queried", hint="query before it, or after it")

    def __enter__(self) -> Self:
        if self._steps is not None or self.result is not None:
            raise ParameterError("the transaction was already used", hint="call g.transaction() for another one")
        self._steps = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        steps, self._steps = self._steps or [], None
        if kind is None:
            with self._deadlines.observe():
                self.result = self._send(steps) if steps else MutationResult(None, 0, 0)


def _step(source: str | Path | Source, name: str | None, params: Mapping[str, object] | None) -> dict[str, Json]:
    step: dict[str, Json] = {"query": read_query_text(source), "name": name, "params": None}
    if params is not None:
        step["params"] = to_json_value(params)
    return step


def _read_resolution(resolve: str | Path | Mapping[str, object] | None) -> Json:
    return None if resolve is None else to_json_value(read_resolution_document(resolve)[0])


def _read_rounded(answer: Fields) -> tuple[RoundedColumn, ...]:
    columns = cast("list[dict[str, Any]]", answer["rounded"])
    return tuple(RoundedColumn(**column) for column in columns)
