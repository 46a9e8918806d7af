"""``Graph``, the facade: one short method per verb, no logic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, overload

from omnigraph.arguments import check_arguments, check_calls
from omnigraph.deadlines import Timeout, observe, observe_timeouts
from omnigraph.defaults import COMMITS_TO_KEEP, TEXTS_PER_EMBEDDING_CALL
from omnigraph.errors import ParameterError, ReadOnly
from omnigraph.language.schema import Catalog, MigrationPlan, Schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.late_imports import LateModule
from omnigraph.manifest import branches, contract, genesis, handle, history, opening, references, settings, tags
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.tags import Tag
from omnigraph.read.memory import MemoryLimit, parse_bytes
from omnigraph.storage.durability import Durability
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockKind
from omnigraph.write import commit
from omnigraph.write.commit import CommitOptions, Recovery
from omnigraph.write.executor import LOCAL, Executor

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from omnigraph import analytics
    from omnigraph.analytics import Analysis, GraphProjection
    from omnigraph.maintain import cleanup, optimize, repair, upkeep, verify
    from omnigraph.maintain.cleanup import Cleaned
    from omnigraph.maintain.optimize import Optimized
    from omnigraph.maintain.repair import Repaired
    from omnigraph.maintain.verify import Verified
    from omnigraph.read import changes, query, rows, search
    from omnigraph.read.changes import ChangeBlock, Changes, Diff
    from omnigraph.read.profile import Profile
    from omnigraph.read.result import Result
    from omnigraph.spark import engine_choice, inputs
    from omnigraph.spark.graph import SparkGraph
    from omnigraph.write import embed, evolve, indexes, mutation
    from omnigraph.write import load as loads
    from omnigraph.write import merge as merges
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.evolve import SchemaApplied
    from omnigraph.write.indexes import IndexReport
    from omnigraph.write.load import LoadResult
    from omnigraph.write.merge import MergeResult
    from omnigraph.write.mutation import MutationResult
else:
    # Most processes use a few verbs: the rooms of the others need not be imported.
    analytics = LateModule("omnigraph.analytics")
    cleanup = LateModule("omnigraph.maintain.cleanup")
    optimize = LateModule("omnigraph.maintain.optimize")
    repair = LateModule("omnigraph.maintain.repair")
    upkeep = LateModule("omnigraph.maintain.upkeep")
    verify = LateModule("omnigraph.maintain.verify")
    changes = LateModule("omnigraph.read.changes")
    query = LateModule("omnigraph.read.query")
    rows = LateModule("omnigraph.read.rows")
    search = LateModule("omnigraph.read.search")
    engine_choice = LateModule("omnigraph.spark.engine_choice")
    inputs = LateModule("omnigraph.spark.inputs")
    embed = LateModule("omnigraph.write.embed")
    evolve = LateModule("omnigraph.write.evolve")
    indexes = LateModule("omnigraph.write.indexes")
    loads = LateModule("omnigraph.write.load")
    merges = LateModule("omnigraph.write.merge")
    mutation = LateModule("omnigraph.write.mutation")

Mode: TypeAlias = Literal["rw", "ro"]
StorageOptions: TypeAlias = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """What ``Graph.info`` returns: location, format, branches, newest commit, and row counts on main."""

    uri: str
    mode: Mode
    format: int
    schema_ir_hash: str | None
    branches: tuple[str, ...]
    head: Commit | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]


@observe_timeouts
@check_calls
class Graph:
    """A versioned, typed property graph. Safe to share between threads; unpickling opens it again."""

    def __init__(
        self,
        manifest: Manifest,
        mode: Mode,
        actor: str | None,
        embed: search.EmbeddingSettings | None = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
    ) -> None:
        self._manifest = manifest
        self._schema: Schema | None = None
        self._embedding = embed
        self.timeout = timeout
        self.memory = None if memory is None else parse_bytes(memory)
        self.mode: Mode = mode
        self.actor = actor
        self._background: upkeep.BackgroundUpkeep | None = None
        if mode == "rw" and settings.should_do_upkeep():
            manifest.on_crowded = self._start_upkeep

    @property
    def uri(self) -> str:
        """The location of the graph, as given."""
        return self._manifest.location.uri

    @property
    def schema(self) -> Schema:
        """The current schema, reloaded only when it has changed."""
        if self._schema is None or self._schema.hash != self._manifest.schema_hash():
            self._schema = contract.load_current_schema(self._manifest)
        return self._schema

    def schema_at(self, ref: Reference, branch: str = MAIN) -> Schema:
        """Return the schema at a commit, a version, a time or a tag."""
        return contract.load_schema_of(self._manifest, self.snapshot(branch, ref).schema_ir_hash)

    def info(self) -> GraphInfo:
        """Return location, format, branches, newest commit, and row counts on main."""
        now = self.snapshot()
        counts = {(pin.kind, pin.type_name): pin.row_count for pin in now.pins.values()}
        return GraphInfo(
            self.uri,
            self.mode,
            opening.format_version_of(self._manifest),
            now.schema_ir_hash,
            tuple(handle.branch_names(self._manifest)),
            now.commit,
            {name: count for (kind, name), count in counts.items() if kind == "node"},
            {name: count for (kind, name), count in counts.items() if kind == "edge"},
        )

    def branches(self) -> list[Branch]:
        """List the branches with their heads: main first, then the others by name."""
        return branches.list_branches(self._manifest)

    def create_branch(self, name: str, from_: Reference = MAIN) -> None:
        """Create a branch from a branch, a commit, a tag, a manifest version of main, or a time on main."""
        self._check_writable()
        references.create_branch(self._manifest, name, from_, commit.finish_removals)

    def delete_branch(self, name: str) -> None:
        """Delete a branch and the data only it has. Refused for main, and while a branch or a tag depends on it."""
        self._check_writable()
        branches.delete_branch(self._manifest, name, commit.heal)

    def tags(self) -> list[Tag]:
        """List the tags, sorted by name."""
        return tags.list_tags(self._manifest)

    def create_tag(self, name: str, ref: Reference = MAIN, *, branch: str = MAIN, actor: str | None = None) -> Tag:
        """Name a commit: the newest of a branch, or the one at a reference on ``branch``. A tag never moves."""
        self._check_writable()
        return references.create_tag(self._manifest, name, ref, branch, actor or self.actor, commit.finish_removals)

    def delete_tag(self, name: str) -> None:
        """Delete a tag. The commit stays, but cleanup may delete it like any other."""
        self._check_writable()
        references.delete_tag(self._manifest, name)

    def mutate(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        if_commit: str | None = None,
        retries: int = 0,
        message: str | None = None,
        actor: str | None = None,
        timeout: Timeout = None,
    ) -> MutationResult:
        """Run an insert, update or delete as one commit. ``retries``: how often to run it again on a conflict."""
        self._check_writable()
        options = CommitOptions(branch, actor=actor or self.actor, message=message, if_commit=if_commit)
        return mutation.retry_on_conflict(
            lambda: mutation.mutate(self._manifest, self.schema, source, name, params, options), retries
        )

    def query(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
    ) -> Result:
        """Run a query on one snapshot: the newest, or the one at a commit, a manifest version or a time.

        ``memory`` is how much it may use: bytes, or a text such as "512MB".
        """
        return query.run_query(
            self._manifest, query.QueryRequest(source, name, params), branch, at, self._query_options(memory)
        )

    def explain(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
    ) -> str:
        """Return the plan of a query, or of a mutation with a match, with the estimated rows of each step.

        Reads no data.
        """
        return query.explain_query(
            self._manifest, query.QueryRequest(source, name, params), branch, at, self._query_options()
        )

    def profile(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
    ) -> Profile:
        """Run a query and measure the rows and the time of each step. Of a mutation only the match runs."""
        return query.profile_query(
            self._manifest, query.QueryRequest(source, name, params), branch, at, self._query_options(memory)
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
        check: bool = False,
        indexes: loads.IndexPolicy = "auto",
        identity: loads.Identity | None = None,
        progress: Callable[[int], object] | None = None,
        timeout: Timeout = None,
    ) -> LoadResult:
        """Load records, or frames and files of each type, as one commit. With ``check``, report and write nothing.

        With mode "merge" the graph has what the input has: a second load of the same input changes nothing.
        With mode "update" rows must exist, the properties that a record mentions change, and all others stay.
        ``identity`` names the columns that identify records without an id, such as
        ``{"CallsAt": ["from", "to", "at"]}``.

        ``columns={"Person": {"name": "full_name"}}`` says which columns are read as what, ``ignore={"Person": ["x"]}``
        which are not read, and ``options={"sep": ";"}`` how files are read. ``progress`` is called with the number of
        bytes each time that this process has read some.
        """
        if not check:
            self._check_writable()
        count_bytes = progress or loads.ignore_bytes
        given = loads.LoadInput(
            source, nodes or {}, edges or {}, columns or {}, ignore or {}, options or {}, count_bytes
        )
        load_options = loads.LoadOptions(
            mode, on_error, rejects, engine, check, indexes, from_branch, identity=identity
        )
        commit_options = CommitOptions(branch, actor=actor or self.actor, message=message, txn=txn)
        return engine_choice.run_load(self._manifest, self.schema, given, load_options, commit_options)

    def ensure_indexes(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        *,
        timeout: Timeout = None,
    ) -> IndexReport:
        """Build the indexes that the schema declares, where they are missing or do not cover all rows."""
        self._check_writable()
        return indexes.ensure_indexes(self._manifest, branch, types, actor or self.actor)

    def embed(
        self,
        type_name: str,
        *,
        branch: str = MAIN,
        batch: int = TEXTS_PER_EMBEDDING_CALL,
        commit_each: bool = False,
        actor: str | None = None,
        timeout: Timeout = None,
    ) -> EmbedResult:
        """Fill the missing ``@embed`` vectors of a type, with one commit at the end or one for each batch."""
        self._check_writable()
        options = CommitOptions(branch, actor=actor or self.actor)
        return embed.embed(
            self._manifest,
            self.schema,
            type_name,
            options,
            settings=self._embedding,
            batch=batch,
            commit_each=commit_each,
        )

    def transaction(
        self, branch: str = MAIN, message: str | None = None, actor: str | None = None, *, timeout: Timeout = None
    ) -> mutation.Transaction:
        """Return a context manager: its mutations become one commit, or nothing if an exception leaves the block."""
        self._check_writable()
        options = CommitOptions(branch, actor=actor or self.actor, message=message)
        return mutation.Transaction(self._manifest, self.schema, options, self._query_options())

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
        timeout: Timeout = None,
    ) -> MergeResult:
        """Merge a branch, a commit or a tag into a branch as one commit. Conflicts raise ``MergeConflicts``."""
        if not dry_run:
            self._check_writable()
        options = CommitOptions(into, actor=actor or self.actor, message=message, if_commit=if_commit)
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
        timeout: Timeout = None,
    ) -> MergeResult:
        """Undo a commit with a new commit. For a merge commit, ``side`` is the parent to go back to: 1 or 2."""
        if not dry_run:
            self._check_writable()
        options = CommitOptions(branch, actor=actor or self.actor, message=message)
        merge_options = merges.MergeOptions(by, prefer, resolve, dry_run)
        return merges.revert(self._manifest, self.schema, ref, side, merge_options, options)

    def plan_schema(self, source: str | Path | Source, *, allow_data_loss: bool = False) -> MigrationPlan:
        """Return the migration steps from the current schema to a new one, and what each does to stored rows."""
        return evolve.plan_schema(self._manifest, source, allow_data_loss=allow_data_loss)

    def apply_schema(
        self,
        source: str | Path | Source,
        *,
        allow_data_loss: bool = False,
        rewrite_ids: bool = False,
        actor: str | None = None,
        message: str | None = None,
        timeout: Timeout = None,
    ) -> SchemaApplied:
        """Change the schema in one commit on main. Rows that break a new rule raise an error that lists them.

        Dropped data stays readable in older versions, unless ``allow_data_loss`` is set.
        """
        self._check_writable()
        change_options = evolve.SchemaChangeOptions(allow_data_loss, rewrite_ids)
        return evolve.apply_schema(
            self._manifest, source, change_options, CommitOptions(MAIN, actor=actor or self.actor, message=message)
        )

    def commits(
        self,
        branch: str = MAIN,
        limit: int | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        upkeep: bool = False,
    ) -> list[Commit]:
        """List the commits of a branch, newest first; with ``upkeep`` also those that changed no row."""
        return history.list_commits(
            self._manifest, branch, limit=limit, actor=actor, since=since, until=until, upkeep=upkeep
        )

    def ancestry(self, branch: str | None = None, limit: int | None = None, *, upkeep: bool = False) -> list[Commit]:
        """List all commits, or the ancestors of one branch with merged ones: newest first, children before parents."""
        return history.list_ancestry(self._manifest, branch, limit, upkeep=upkeep)

    def commit(self, ref: Reference) -> Commit:
        """Return one commit: by id or tag, or the newest at a version or time of main."""
        return history.to_commit(references.commit_at(self._manifest, ref))

    def snapshot(self, branch: str = MAIN, at: Reference | None = None) -> Snapshot:
        """Return a snapshot: the newest, or the one at a commit, a manifest version or a time."""
        return references.take_snapshot(self._manifest, branch, at)

    def diff(
        self,
        a: Reference,
        b: Reference | None = None,
        *,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        timeout: Timeout = None,
    ) -> Diff:
        """Compare A with B: each a branch, a commit, a tag, or a version or time of ``branch``.

        Without B, a branch is compared with main, and anything else with the current state of ``branch``.
        """
        return changes.compute_diff(self._manifest, a, b, types, branch)

    def changes(
        self,
        start: str | None = None,
        cursor: str | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> Changes:
        """Follow changes commit by commit, from ``"now"``, the ``"beginning"``, ``"after:REF"``, or a cursor."""
        return changes.follow_changes(self._manifest, branch, start, cursor, types)

    def baseline(
        self,
        at: Reference | None = None,
        *,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        timeout: Timeout = None,
    ) -> ChangeBlock:
        """Return the state at a commit as inserts, with the cursor after it: to start following, or to restart."""
        return changes.take_baseline(self._manifest, branch, at, types)

    def nodes(
        self,
        name: str,
        filter: rows.Filter | None = None,  # noqa: A002  the word that Lance and Arrow use
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> rows.Scan:
        """Scan the nodes of a type as Arrow, lazily. Filters: ``[("age", ">", 30)]`` or ``{"name": "Ann"}``."""
        return rows.scan_nodes(*self._read(branch, at), name, filter, columns)

    def edges(
        self,
        name: str,
        filter: rows.Filter | None = None,  # noqa: A002  as in nodes
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> rows.Scan:
        """Scan the edges of a type as Arrow, lazily. Their ends are the columns ``from`` and ``to``."""
        return rows.scan_edges(*self._read(branch, at), name, filter, columns)

    def get(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  what it is called everywhere
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> dict[str, object] | None:
        """Return one node or edge by its id, or a node by the values of its key; None if there is none."""
        return rows.get_entity(*self._read(branch, at), name, id, columns)

    def neighbors(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in get
        edge: str | None = None,
        direction: rows.Direction = "out",
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        timeout: Timeout = None,
    ) -> pa.Table:
        """Return the outgoing or incoming edges of a node, or both, with the node at the other end of each.

        ``limit`` and ``offset`` choose a part of them; they are sorted by type and id.
        """
        found = rows.find_neighbors(*self._read(branch, at), name, id, edge, direction)
        return rows.slice_rows(found, offset, limit)

    def degrees(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in get
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        timeout: Timeout = None,
    ) -> dict[tuple[str, rows.OneDirection], int]:
        """Count the edges of a node by edge type and direction. A loop counts in both directions."""
        return rows.count_edges_at(*self._read(branch, at), name, id)

    def blob(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in get
        property: str,  # noqa: A002  as the schema calls it
        offset: int = 0,
        length: int | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> bytes | None:
        """Read a blob, whole or in part; None if there is no blob."""
        return rows.read_blob(*self._read(branch, at), name, id, property, offset, length)

    @overload
    def export(
        self,
        target: None = None,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        format: Literal["jsonl"] = "jsonl",
        *,
        timeout: Timeout = None,
    ) -> Iterator[str]: ...

    @overload
    def export(
        self,
        target: rows.Target,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        format: rows.Format = "jsonl",
        *,
        timeout: Timeout = None,
    ) -> rows.ExportResult: ...

    def export(
        self,
        target: rows.Target | None = None,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        format: rows.Format = "jsonl",  # noqa: A002  what it is called everywhere
        *,
        timeout: Timeout = None,
    ) -> Iterator[str] | rows.ExportResult:
        """Export the graph, or some types, to a path or an open stream. Without a target, yield lines of JSONL."""
        chosen = rows.plan_export(*self._read(branch, at), types)
        return rows.export_lines(chosen, format) if target is None else rows.export_to(chosen, target, format)

    @property
    def analytics(self) -> GraphProjection:
        """Algorithms over the graph: all types on main, or what ``project`` chooses."""
        target = analytics.WriteTarget(self._manifest, self.actor, is_writable=self.mode == "rw")
        return analytics.project_all(target, self.timeout)

    def analyses(self, branch: str = MAIN, *, timeout: Timeout = None) -> list[Analysis]:
        """List the results of algorithms that were written on a branch, newest first, and whether they are stale."""
        return analytics.list_analyses(self._manifest, branch)

    def spark(self, session: SparkSession | None = None) -> SparkGraph:
        """Return the graph as Spark works on it: in the given session, the running one, or a new one."""
        # A late import: only this needs PySpark, and only this may start Java.
        inputs.require_pyspark()
        from omnigraph.spark.graph import SparkGraph

        writable = self.mode == "rw"
        return SparkGraph(self._manifest, session, actor=self.actor, writable=writable, embedding=self._embedding)

    def optimize(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        runner: Executor = LOCAL,
        *,
        timeout: Timeout = None,
    ) -> Optimized:
        """Compact the tables of a branch, build the declared indexes, and compact the manifest."""
        self._check_writable()
        return optimize.optimize(self._manifest, branch, types, actor or self.actor, runner)

    def cleanup(
        self,
        keep: int | None = COMMITS_TO_KEEP,
        older_than: timedelta | str | None = None,
        *,
        confirm: bool = False,
    ) -> Cleaned:
        """Delete unneeded files and old history; the newest ``keep`` commits of each branch and younger ones stay."""
        self._check_writable()
        return cleanup.cleanup(self._manifest, keep, older_than, confirm=confirm)

    def repair(self, *, confirm: bool = False, force: bool = False) -> Repaired:
        """Report tables that were changed outside the graph (drift). With ``confirm``, repair them."""
        self._check_writable()
        return repair.repair(self._manifest, confirm=confirm, force=force)

    def do_upkeep(self, branch: str = MAIN) -> None:
        """Do the upkeep that is due on a branch: merge many small fragments into few, extend indexes over them.

        It follows commits by itself. Call it where that is switched off.
        """
        self._check_writable()
        upkeep.do_upkeep(self._manifest, branch)

    def delegate_upkeep(self, start: Callable[[str], object]) -> None:
        """Call ``start`` with the branch where upkeep is due after a commit, instead of doing it in a thread."""
        if self._manifest.on_crowded is not None:
            self._manifest.on_crowded = lambda branch, _tables: start(branch)

    def verify(self, *, timeout: Timeout = None) -> Verified:
        """Read the whole graph and report everything that is wrong with it."""
        return verify.verify(self._manifest)

    def recoveries(self) -> list[Recovery]:
        """List the recoveries: writes that another process finished or rolled back, newest first."""
        return commit.list_recoveries(self._manifest)

    def close(self) -> None:
        """Free cached memory, after waiting for upkeep for at most 2 seconds. The graph itself needs no closing."""
        if self._background is not None:
            self._background.join()
        self._manifest.forget_all()

    def _start_upkeep(self, branch: str, table_keys: Collection[str]) -> None:
        """Merge small fragments in a thread of this process, after the commit that left too many."""
        if self._background is None:
            self._background = upkeep.BackgroundUpkeep(self._manifest)
        self._background.request(branch, table_keys)

    def _read(self, branch: str, at: Reference | None) -> tuple[Snapshot, Catalog]:
        """Return a snapshot and the catalog to read it with."""
        snapshot = references.take_snapshot(self._manifest, branch, at)
        return snapshot, contract.load_schema_of(self._manifest, snapshot.schema_ir_hash).catalog

    def _query_options(self, memory: MemoryLimit = None) -> query.QueryOptions:
        return query.QueryOptions(self._embedding, memory=self.memory if memory is None else parse_bytes(memory))

    def _check_writable(self) -> None:
        if self.mode == "ro":
            raise ReadOnly(f"{self.uri} was opened read-only", hint='open it with mode="rw"')

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    def __reduce__(self) -> tuple[object, ...]:
        location, durability = self._manifest.location, self._manifest.access.durability
        options = dict(location.storage_options)
        limits = (self.timeout, self.memory)
        return _reopen, (location.uri, self.mode, self.actor, options, durability, self._embedding, *limits)


@check_arguments
def init(
    uri: str | Path,
    schema: str | Path | Source,
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
    durability: Durability | None = None,
) -> Graph:
    """Create a graph with a schema, or complete an interrupted init. The graph keeps ``lock`` and ``durability``."""
    parsed = parse_schema(schema)
    location = locate(uri, storage_options)
    chosen = settings.choose_new_settings(location, durability, lock)
    manifest = opening.create_manifest(location, chosen)
    genesis.init_graph(manifest, parsed, chosen, actor)
    return Graph(manifest, "rw", actor)


@check_arguments
def open(  # noqa: A001  the public name
    uri: str | Path,
    mode: Mode = "rw",
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
    durability: Durability | None = None,
    embed: search.EmbeddingSettings | Mapping[str, object] | None = None,
    timeout: Timeout = None,
    memory: MemoryLimit = None,
) -> Graph:
    """Open a graph. Read-only never writes a byte; read-write migrates older formats and ends interrupted writes.

    ``durability`` holds for what is written through this handle; the default is that of the graph. ``timeout`` is how
    long opening it, and each later call, may take: seconds, or a :class:`Deadline`. ``memory`` is how much each query
    may use: bytes, or a text such as "512MB".
    """
    if mode not in ("rw", "ro"):
        raise ParameterError(f"mode is {mode!r}", hint='use "rw" or "ro"')
    location = locate(uri, storage_options)
    with observe(timeout):
        manifest = opening.open_manifest(location, durability, lock)
        if mode == "rw":
            commit.prepare_for_writing(manifest)
    embedding = None if embed is None else search.resolve_embedding_settings(embed)
    return Graph(manifest, mode, actor, embedding, timeout, memory)


def _reopen(
    uri: str,
    mode: Mode,
    actor: str | None,
    storage_options: StorageOptions,
    durability: Durability,
    embed: search.EmbeddingSettings | None,
    timeout: Timeout,
    memory: MemoryLimit,
) -> Graph:
    return open(
        uri,
        mode,
        actor=actor,
        storage_options=storage_options,
        durability=durability,
        embed=embed,
        timeout=timeout,
        memory=memory,
    )
