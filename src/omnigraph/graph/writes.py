"""Verbs that write commits: mutations, loads, merges, reverts, embeddings, and changes of the schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.defaults import MUTATION_RETRIES, TEXTS_PER_EMBEDDING_CALL
from omnigraph.graph.base import GraphBase
from omnigraph.language.source import Source
from omnigraph.late_imports import LateModule
from omnigraph.manifest import handle
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.memory import MemoryLimit

if TYPE_CHECKING:
    from omnigraph.language.schema import MigrationPlan
    from omnigraph.spark import engine_choice
    from omnigraph.write import commit, embed, evolve, mutation
    from omnigraph.write import load as loads
    from omnigraph.write import merge as merges
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.evolve import SchemaApplied
    from omnigraph.write.load import LoadResult
    from omnigraph.write.merge import MergeResult
    from omnigraph.write.mutation import MutationResult
else:
    # Most processes use a few verbs: the rooms of the others need not be imported.
    engine_choice = LateModule("omnigraph.spark.engine_choice")
    embed = LateModule("omnigraph.write.embed")
    evolve = LateModule("omnigraph.write.evolve")
    loads = LateModule("omnigraph.write.load")
    merges = LateModule("omnigraph.write.merge")
    mutation = LateModule("omnigraph.write.mutation")
    commit = LateModule("omnigraph.write.commit")


@observe_timeouts
@check_calls
class WriteVerbs(GraphBase):
    """Write commits."""

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
        key: commit.Key = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
    ) -> MutationResult:
        """Run an insert, update or delete as one commit.

        If other writers change the tables that it read or writes, it is run again, at last while they wait.
        ``retries``: how often to run it again after another conflict, such as a schema change. With 0 any change is a
        ``ConflictError``, except for a mutation that only inserts.

        ``txn=(application, number)`` and ``key`` make it safe to repeat a call whose outcome is not known: the second
        one finds the commit of the first, and changes nothing. A number counts upwards and is known for ever; a key is
        a text that belongs to one call, and is known for a day. ``memory`` is how much its match may use, as for a
        query.

        Examples:
            >>> graph.create_branch("ages")
            >>> older = "query older($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
            >>> graph.mutate(older, params={"name": "bob", "age": 29}, branch="ages").affected_nodes
            1
        """
        self._check_writable()
        self._ask("change", actor, branch=branch)
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "mutate", branch, str(source), name, params)
        options = commit.CommitOptions(
            branch, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key
        )
        options = mutation.begin_mutation(self._manifest, options)
        matching = self._query_options(memory)
        return mutation.retry_on_conflict(
            lambda: mutation.mutate(self._manifest, source, name, params, options, matching, runs_again=retries > 0),
            retries,
        )

    def transaction(
        self,
        branch: str = MAIN,
        message: str | None = None,
        actor: str | None = None,
        *,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
        key: commit.Key = None,
        timeout: Timeout = None,
    ) -> mutation.Transaction:
        """Return a context manager: its mutations become one commit, or nothing if an exception leaves the block.

        Examples:
            >>> graph.create_branch("two")
            >>> add = "query add($name: String) { insert Person { name: $name } }"
            >>> with graph.transaction("two", message="both or none") as work:
            ...     for name in ("fay", "gus"):
            ...         _ = work.mutate(add, params={"name": name})
            >>> work.result.affected_nodes
            2
        """
        self._check_writable()
        self._ask("change", actor, branch=branch)
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "transaction", branch)
        options = commit.CommitOptions(
            branch, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key
        )
        return mutation.Transaction(self._manifest, self.schema, options, self._query_options())

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
        key: commit.Key = None,
        progress: Callable[[int], object] | None = None,
        timeout: Timeout = None,
    ) -> LoadResult:
        """Load records, or frames and files of each type, as one commit. With ``check``, report and write nothing.

        With mode "merge" the graph has what the input has: a second load of the same input changes nothing.
        With mode "update" rows must exist, the properties that a record mentions change, and all others stay.
        ``identity`` names the columns that identify records without an id, such as
        ``{"CallsAt": ["from", "to", "at"]}``.

        With ``strict`` a record with a value that would be rounded is rejected: a time below a millisecond, an integer
        that the float cannot hold, or a number that becomes 0. Without it ``rounded`` of the result counts them.

        ``columns={"Person": {"name": "full_name"}}`` says which columns are read as what, ``ignore={"Person": ["x"]}``
        which are not read, and ``options={"sep": ";"}`` how files are read. ``progress`` is called with the number of
        bytes each time that this process has read some. ``{nodes}`` and ``{edges}`` in the message become counts.
        ``allow_empty`` lets an overwrite remove all rows of a type, and loads a ``RecordBatchReader`` without rows.
        A blob whose URI names nothing is refused, unless ``allow_missing_blobs`` says that it may come later.

        Examples:
            >>> records = [{"type": "Person", "data": {"name": name, "age": 32}} for name in ("ann", "hal")]
            >>> graph.load(records, mode="merge", branch="load/july", from_branch="main").nodes
            {'Person': 2}
        """
        if not check:
            self._check_writable()
            self._ask("change", actor, branch=branch)
            if from_branch is not None and branch not in handle.branch_names(self._manifest):
                self._ask("branch_create", actor, branch=str(from_branch), target_branch=branch)
        count_bytes = progress or loads.ignore_bytes
        given = loads.LoadInput(
            source,
            nodes or {},
            edges or {},
            columns or {},
            ignore or {},
            options or {},
            count_bytes,
            allow_empty=allow_empty,
        )
        load_options = loads.LoadOptions(
            mode,
            on_error,
            rejects,
            engine,
            check,
            indexes,
            from_branch,
            identity=identity,
            allow_missing_blobs=allow_missing_blobs,
            strict=strict,
        )
        actor = actor or self.actor
        named = str(source) if isinstance(source, str | Path) else ""
        write_key = commit.resolve_key(key, actor, "load", branch, mode, on_error, str(from_branch), named)
        commit_options = commit.CommitOptions(
            branch, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key
        )
        return engine_choice.run_load(self._manifest, self.schema, given, load_options, commit_options)

    def embed(
        self,
        type_name: str,
        *,
        branch: str = MAIN,
        batch: int = TEXTS_PER_EMBEDDING_CALL,
        commit_each: bool = False,
        changed_since: str | None = None,
        actor: str | None = None,
        key: commit.Key = None,
        timeout: Timeout = None,
    ) -> EmbedResult:
        """Fill the missing ``@embed`` vectors of a type, with one commit at the end or one for each batch.

        ``changed_since``, a commit, a tag or a time, also replaces vectors that are older than their texts: those whose
        text changed after it, and that did not change themselves since.

        Examples:
            >>> graph.embed("Paper")  # doctest: +SKIP
            EmbedResult(...)
        """
        self._check_writable()
        self._ask("change", actor, branch=branch)
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "embed", branch, type_name, changed_since)
        options = commit.CommitOptions(branch, actor=actor, key=write_key)
        return embed.embed(
            self._manifest,
            self.schema,
            type_name,
            options,
            settings=self._embedding,
            batch=batch,
            commit_each=commit_each,
            changed_since=changed_since,
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
        key: commit.Key = None,
        timeout: Timeout = None,
    ) -> MergeResult:
        """Merge a branch, a commit or a tag into a branch as one commit. Conflicts raise ``MergeConflicts``.

        Examples:
            >>> graph.create_branch("target")
            >>> graph.merge("review", into="target").outcome
            'fast-forward'
        """
        if not dry_run:
            self._check_writable()
            self._ask("branch_merge", actor, branch=str(source), target_branch=into)
            if delete_branch:
                self._ask("branch_delete", actor, target_branch=str(source))
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "merge", str(source), into, by, prefer, str(resolve))
        options = commit.CommitOptions(into, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key)
        merge_options = merges.MergeOptions(by, prefer, resolve, dry_run, delete_branch)
        return merges.merge(self._manifest, self.schema, source, merge_options, options)

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
        key: commit.Key = None,
        timeout: Timeout = None,
    ) -> MergeResult:
        """Undo a commit with a new commit. For a merge commit, ``side`` is the parent to go back to: 1 or 2.

        Examples:
            >>> graph.create_branch("undo")
            >>> wrong = graph.mutate('query q() { delete Person where name = "eve" }', branch="undo")
            >>> undone = graph.revert(wrong.commit.id, branch="undo")
            >>> graph.get("Person", "eve", branch="undo") is not None
            True
        """
        if not dry_run:
            self._check_writable()
            self._ask("change", actor, branch=branch)
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "revert", str(ref), branch, side, by, prefer, str(resolve))
        options = commit.CommitOptions(
            branch, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key
        )
        merge_options = merges.MergeOptions(by, prefer, resolve, dry_run)
        return merges.revert(self._manifest, self.schema, ref, side, merge_options, options)

    def plan_schema(self, source: str | Path | Source, *, allow_data_loss: bool = False) -> MigrationPlan:
        """Return the migration steps from the current schema to a new one, and what each does to stored rows.

        Examples:
            >>> wider = "node Person { name: String @key  age: I32?  city: String? }  edge Knows: Person -> Person"
            >>> {step.tier.value for step in graph.plan_schema(wider).steps}
            {'metadata'}
        """
        return evolve.plan_schema(self._manifest, source, allow_data_loss=allow_data_loss)

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
        key: commit.Key = None,
        timeout: Timeout = None,
    ) -> SchemaApplied:
        """Change the schema in one commit on main. Rows that break a new rule raise an error that lists them.

        Dropped data stays readable in older versions, unless ``allow_data_loss`` is set.

        Examples:
            >>> towns = og.init(folder / "towns.og", "node Town { name: String @key }")
            >>> applied = towns.apply_schema("node Town { name: String @key  people: I64? }")
            >>> sorted(towns.schema.catalog.nodes["Town"].properties)
            ['name', 'people']
        """
        self._check_writable()
        self._ask("schema_apply", actor, target_branch=MAIN)
        change_options = evolve.SchemaChangeOptions(allow_data_loss, rewrite_ids)
        actor = actor or self.actor
        write_key = commit.resolve_key(key, actor, "apply_schema", str(source), allow_data_loss, rewrite_ids)
        options = commit.CommitOptions(MAIN, actor=actor, message=message, if_commit=if_commit, txn=txn, key=write_key)
        return evolve.apply_schema(self._manifest, source, change_options, options)
