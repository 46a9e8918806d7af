"""The Spark interface of a graph: its types as DataFrames, and the operations that run on executors."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyspark.sql import DataFrame, SparkSession

from omnigraph.arguments import check_calls
from omnigraph.defaults import MUTATION_RETRIES, TEXTS_PER_EMBEDDING_CALL
from omnigraph.errors import ReadOnly
from omnigraph.language.source import Source
from omnigraph.maintain.optimize import Optimized, optimize
from omnigraph.manifest import contract, references
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import compute_diff
from omnigraph.read.query import QueryRequest
from omnigraph.read.rows import Filter
from omnigraph.read.search import EmbeddingSettings
from omnigraph.spark.session import get_session
from omnigraph.spark.source import SparkSnapshot, view_names
from omnigraph.storage.location import parse_local_path
from omnigraph.write import evolve
from omnigraph.write import merge as merges
from omnigraph.write.commit import CommitOptions
from omnigraph.write.embed import EmbedPace, EmbedResult, embed_in_tasks
from omnigraph.write.evolve import SchemaApplied
from omnigraph.write.indexes import IndexReport, ensure_indexes
from omnigraph.write.load import (
    ColumnNames,
    Engine,
    Identity,
    IndexPolicy,
    LoadInput,
    LoadMode,
    LoadOptions,
    LoadResult,
    OnError,
    TableInput,
)
from omnigraph.write.load import RecordSource as RecordSource
from omnigraph.write.merge import MergeBy, MergeResult, PreferredSide
from omnigraph.write.mutation import MutationResult, begin_mutation, mutate, retry_on_conflict

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from omnigraph.analytics import GraphProjection
    from omnigraph.spark.stream import BatchObserver, OutputMode, Route, StreamMode


@check_calls
class SparkGraph:
    """A graph in a Spark session. ``graph.spark()`` creates one."""

    def __init__(
        self,
        manifest: Manifest,
        session: SparkSession | None,
        *,
        actor: str | None,
        writable: bool,
        embedding: EmbeddingSettings | None = None,
    ) -> None:
        self.manifest = manifest
        self.session = get_session(session)
        self.actor = actor
        self.writable = writable
        self.embedding = embedding
        self._temporary = ExitStack()

    def close(self) -> None:
        """Delete the temporary files of queries and algorithms. Otherwise they go when the session ends."""
        self._temporary.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep_open(self, files: ExitStack) -> None:
        self._temporary.push(files)
        # DataFrames that are made from others know the session, and nothing else of ours.
        weakref.finalize(self.session, files.close)

    def snapshot(self, branch: str = MAIN, at: Reference | None = None) -> SparkSnapshot:
        """Return the graph at one moment: now, or at a commit, a manifest version or a time."""
        snapshot = references.take_snapshot(self.manifest, branch, at)
        catalog = contract.load_schema_of(self.manifest, snapshot.schema_ir_hash).catalog
        return SparkSnapshot(self.session, snapshot, catalog, self.manifest.location)

    def nodes(
        self,
        name: str,
        columns: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        filter: Filter | None = None,  # noqa: A002  the word that Lance and Arrow use
    ) -> DataFrame:
        """Return the nodes of a type, now or at another moment; the DataFrame stays at that moment.

        Lance applies ``filter``, which is that of ``graph.nodes``. Spark applies conditions in ``where`` afterwards.
        """
        return self.snapshot(branch, at).nodes(name, columns, filter)

    def edges(
        self,
        name: str,
        columns: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        filter: Filter | None = None,  # noqa: A002  as in nodes
    ) -> DataFrame:
        """Return the edges of a type; their ends are the columns ``from`` and ``to``."""
        return self.snapshot(branch, at).edges(name, columns, filter)

    def to_graphframes(
        self,
        nodes: Sequence[str] | None = None,
        edges: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
    ) -> tuple[DataFrame, DataFrame]:
        """Return vertices (``id``, ``type``) and edges (``src``, ``dst``, ``relationship``), as GraphFrames takes them.

        Where there are several node types an id is ``Type/id``. Of one node type, and of one edge type, all properties
        come along. No jar is needed: ``GraphFrame(*sg.to_graphframes())`` is up to you.
        """
        from omnigraph.spark.source import make_graph_frames

        return make_graph_frames(self.snapshot(branch, at), nodes, edges)

    def create_views(self, branch: str = MAIN, at: Reference | None = None) -> dict[str, str]:
        """Create a temporary view of every type, all of one moment; return the name of the view of each table key."""
        snapshot = self.snapshot(branch, at)
        types = list(snapshot.catalog.types())
        views = view_names(types)
        for type_ in types:
            snapshot.source_rows(type_).createOrReplaceTempView(views[type_.table_key])
        return views

    def sql(
        self,
        query: str,
        args: Mapping[str, object] | list[object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
    ) -> DataFrame:
        """Run a query of SQL whose tables are the types of the graph, all of one moment, and return its rows.

        ``VERSION AS OF`` and ``TIMESTAMP AS OF`` after a type show it at another moment. Only columns that the query
        uses are read. ``args`` are the parameters of the text, as in ``session.sql``. No view is left behind.
        """
        from omnigraph.spark.source import run_sql

        return run_sql(self.snapshot(branch, at), lambda moment: self.snapshot(branch, moment), query, args)

    def query(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        engine: Engine = "auto",
    ) -> DataFrame:
        """Run a query on one snapshot, with the same plan as ``graph.query``, and return its rows as a DataFrame.

        A query that reads little is answered in this process, when this is called; ``engine="spark"`` runs it on the
        executors all the same. The rows do not depend on it.
        """
        from omnigraph.spark.query import SparkQueryOptions, run_query

        request, options = QueryRequest(source, name, params), SparkQueryOptions(self.embedding, engine)
        return run_query(self.manifest, self.snapshot(branch, at), request, options, self._keep_open)

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
        engine: Engine = "auto",
    ) -> MutationResult:
        """Run a mutation like ``graph.mutate``; executors evaluate its match, unless that reads little.

        What the match found comes to this process, which writes it. ``engine="spark"`` evaluates any match on the
        executors.
        """
        from omnigraph.spark.query import read_match

        self._check_writable()
        options = CommitOptions(branch, actor=actor or self.actor, message=message, if_commit=if_commit)
        commit_options = begin_mutation(self.manifest, options)
        read = partial(read_match, manifest=self.manifest, session=self.session, engine=engine)
        return retry_on_conflict(
            lambda: mutate(self.manifest, source, name, params, commit_options, read_match=read), retries
        )

    def explain(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        engine: Engine = "auto",
    ) -> str:
        """Return where :meth:`query` would run a query and why, and the plan with its estimates. No row is read."""
        from omnigraph.spark.query import SparkQueryOptions, explain_query

        request, options = QueryRequest(source, name, params), SparkQueryOptions(self.embedding, engine)
        return explain_query(self.manifest, self.snapshot(branch, at), request, options)

    def load(
        self,
        source: RecordSource | None = None,
        *,
        nodes: Mapping[str, TableInput] | None = None,
        edges: Mapping[str, TableInput] | None = None,
        columns: Mapping[str, ColumnNames] | None = None,
        ignore: Mapping[str, Collection[str]] | None = None,
        options: Mapping[str, object] | None = None,
        mode: LoadMode = "append",
        branch: str = MAIN,
        from_branch: Reference | None = None,
        on_error: OnError = "fail",
        rejects: str | Path | None = None,
        txn: tuple[str, int] | None = None,
        message: str | None = None,
        actor: str | None = None,
        check: bool = False,
        indexes: IndexPolicy = "auto",
        identity: Identity | None = None,
        allow_empty: bool = False,
        allow_missing_blobs: bool = False,
        strict: bool = False,
    ) -> LoadResult:
        """Load records, DataFrames or files of each type as one commit; executors read, check and write the rows.

        In a DataFrame a time without a zone is in the time zone of the session; in a file it is in UTC.
        """
        from omnigraph.spark.load import load

        if not check:
            self._check_writable()
        given = LoadInput(
            source, nodes or {}, edges or {}, columns or {}, ignore or {}, options or {}, allow_empty=allow_empty
        )
        load_options = LoadOptions(
            mode,
            on_error,
            rejects,
            "spark",
            check,
            indexes,
            from_branch,
            identity=identity,
            allow_missing_blobs=allow_missing_blobs,
            strict=strict,
        )
        commit_options = CommitOptions(branch, actor=actor or self.actor, message=message, txn=txn)
        return load(
            self.session,
            self.manifest,
            contract.load_current_schema(self.manifest),
            given,
            load_options,
            commit_options,
        )

    def embed(
        self,
        type_name: str,
        *,
        branch: str = MAIN,
        batch: int = TEXTS_PER_EMBEDDING_CALL,
        texts_per_commit: int = 10_000,
        max_texts: int | None = None,
        calls_per_second: float | None = None,
        changed_since: str | None = None,
        message: str | None = None,
        actor: str | None = None,
    ) -> EmbedResult:
        """Fill the missing ``@embed`` vectors of a type; tasks call the provider, and every so many texts are a commit.

        ``max_texts`` is a budget, ``calls_per_second`` a limit for each worker process. What is committed is not sent
        again: a run that failed, or was killed, goes on where it stopped. ``changed_since`` also replaces vectors whose
        texts changed after a commit, a tag or a time.
        """
        from omnigraph.spark.executor import SparkExecutor

        self._check_writable()
        return embed_in_tasks(
            self.manifest,
            contract.load_current_schema(self.manifest),
            type_name,
            CommitOptions(branch, actor=actor or self.actor, message=message),
            SparkExecutor(self.session, "embedding texts"),
            EmbedPace(texts_per_commit, max_texts, calls_per_second),
            settings=self.embedding,
            batch=batch,
            changed_since=changed_since,
        )

    @property
    def analytics(self) -> GraphProjection:
        """Algorithms as in ``graph.analytics``, with the edges on executors; ``result.df`` is a DataFrame."""
        from omnigraph.analytics import WriteTarget, project_all
        from omnigraph.spark.analytics import SparkProjector

        projector = SparkProjector(self.session, self.manifest, self._hold)
        target = WriteTarget(self.manifest, self.actor, self.writable, projector.make_frame)
        return project_all(target, None, projector)

    def _hold(self, used: object) -> None:
        """Refer to something until this is closed."""
        files, held = ExitStack(), [used]
        files.callback(held.clear)
        self._keep_open(files)

    def diff(
        self,
        a: Reference,
        b: Reference | None = None,
        *,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        tips: bool = False,
    ) -> DataFrame:
        """Return what changed from A to B, like ``graph.diff``: one row per entity; executors compare the rows.

        The columns are the fields of a diff record; ``before`` and ``after`` are JSON texts.
        """
        from omnigraph.spark.merge import diff_to_dataframe

        return diff_to_dataframe(self.session, compute_diff(self.manifest, a, b, types, branch, tips=tips))

    def merge(
        self,
        source: Reference,
        into: str = MAIN,
        *,
        by: MergeBy = "row",
        dry_run: bool = False,
        prefer: PreferredSide | None = None,
        resolve: str | Path | Mapping[str, object] | None = None,
        message: str | None = None,
        actor: str | None = None,
        delete_branch: bool = False,
        if_commit: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> MergeResult:
        """Merge like ``graph.merge``; executors compare and merge the rows."""
        from omnigraph.spark.merge import open_merge_engine

        if not dry_run:
            self._check_writable()
        commit_options = CommitOptions(into, actor=actor or self.actor, message=message, if_commit=if_commit, txn=txn)
        options = merges.MergeOptions(by, prefer, resolve, dry_run, delete_branch)
        with open_merge_engine(self.session, self.manifest) as engine:
            return merges.merge(
                self.manifest, contract.load_current_schema(self.manifest), source, options, commit_options, engine
            )

    def revert(
        self,
        ref: Reference,
        *,
        branch: str = MAIN,
        side: int | None = None,
        by: MergeBy = "row",
        prefer: PreferredSide | None = None,
        resolve: str | Path | Mapping[str, object] | None = None,
        dry_run: bool = False,
        message: str | None = None,
        actor: str | None = None,
    ) -> MergeResult:
        """Undo a commit like ``graph.revert``; executors compare and merge the rows."""
        from omnigraph.spark.merge import open_merge_engine

        if not dry_run:
            self._check_writable()
        commit_options = CommitOptions(branch, actor=actor or self.actor, message=message)
        options = merges.MergeOptions(by, prefer, resolve, dry_run)
        with open_merge_engine(self.session, self.manifest) as engine:
            return merges.revert(
                self.manifest, contract.load_current_schema(self.manifest), ref, side, options, commit_options, engine
            )

    def ensure_indexes(
        self, branch: str = MAIN, types: Collection[str] | None = None, actor: str | None = None
    ) -> IndexReport:
        """Build the indexes of the schema on executors, where they are missing or do not cover all rows."""
        from omnigraph.spark.executor import SparkExecutor

        self._check_writable()
        executor = SparkExecutor(self.session, "building indexes")
        return ensure_indexes(self.manifest, branch, types, actor or self.actor, executor)

    def optimize(self, branch: str = MAIN, types: Collection[str] | None = None, actor: str | None = None) -> Optimized:
        """Compact the tables of a branch and build the indexes of the schema, on executors."""
        from omnigraph.spark.executor import SparkExecutor

        self._check_writable()
        return optimize(self.manifest, branch, types, actor or self.actor, SparkExecutor(self.session, "optimizing"))

    def apply_schema(
        self,
        source: str | Path | Source,
        *,
        allow_data_loss: bool = False,
        rewrite_ids: bool = False,
        actor: str | None = None,
        message: str | None = None,
    ) -> SchemaApplied:
        """Change the schema like ``graph.apply_schema``; executors check the rows and rewrite those that change."""
        from omnigraph.spark.executor import SparkExecutor
        from omnigraph.spark.rules import check_stored_rows

        self._check_writable()
        executor = SparkExecutor(self.session, "changing the schema")
        check = partial(check_stored_rows, executor)
        options = evolve.SchemaChangeOptions(allow_data_loss, rewrite_ids, executor, check)
        return evolve.apply_schema(
            self.manifest, source, options, CommitOptions(MAIN, actor=actor or self.actor, message=message)
        )

    def stream(
        self,
        frame: DataFrame,
        *,
        node: str | None = None,
        edge: str | None = None,
        route: Route | None = None,
        mode: StreamMode = "merge",
        checkpoint: str | Path | None = None,
        branch: str = MAIN,
        trigger: str | None = None,
        output_mode: OutputMode = "append",
        on_error: OnError = "fail",
        rejects: str | Path | None = None,
        actor: str | None = None,
        message: str | None = None,
        app: str = "stream",
        identity: Identity | None = None,
        allow_missing_blobs: bool = False,
        on_batch: BatchObserver | None = None,
    ) -> StreamingQuery:
        """Load each micro-batch of a streaming DataFrame as one commit, exactly once, also after crashes.

        The rows go to one node or edge type, or to the types that ``route`` returns for a batch:
        ``{"nodes": {...}, "edges": {...}}``. The checkpoint is a folder that only this stream uses and that outlives
        the query. ``trigger`` is an interval such as "10 seconds", or "availableNow".
        ``on_batch`` is called with the number and the result of each batch that was loaded, in the process that loads.
        """
        from omnigraph.spark.stream import StreamDestination, StreamOptions, choose_stream_target, start_stream

        self._check_writable()
        folder = None if rejects is None else parse_local_path(rejects, "rejects", "give a folder of this machine")
        commit_options = StreamOptions(
            mode, branch, on_error, folder, actor or self.actor, message, app, identity, allow_missing_blobs
        )
        destination = StreamDestination(self.manifest, choose_stream_target(node, edge, route), commit_options)
        return start_stream(destination, frame, checkpoint, trigger, output_mode, on_batch)

    def _check_writable(self) -> None:
        if not self.writable:
            raise ReadOnly(f"{self.manifest.location} was opened read-only", hint='open it with mode="rw"')

    def __repr__(self) -> str:
        return f"SparkGraph({self.manifest.location.uri!r})"
