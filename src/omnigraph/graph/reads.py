"""Verbs that read one snapshot: queries, rows, blobs, exports, algorithms, Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.graph.base import GraphBase
from omnigraph.language.source import Source
from omnigraph.late_imports import LateModule
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.memory import MemoryLimit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from omnigraph import analytics
    from omnigraph.analytics import Analysis, GraphProjection
    from omnigraph.read import query, rows
    from omnigraph.read.profile import Profile
    from omnigraph.read.result import Result
    from omnigraph.spark import inputs
    from omnigraph.spark.graph import SparkGraph
else:
    # Most processes use a few verbs: the rooms of the others need not be imported.
    analytics = LateModule("omnigraph.analytics")
    query = LateModule("omnigraph.read.query")
    rows = LateModule("omnigraph.read.rows")
    inputs = LateModule("omnigraph.spark.inputs")


@observe_timeouts
@check_calls
class ReadVerbs(GraphBase):
    """Read one snapshot: the newest of a branch, or the one at a reference."""

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

        Examples:
            >>> friends = "query q($of: String) { match { $p: Person { name: $of }  $p knows $f } return { $f.name } }"
            >>> graph.query(friends, params={"of": "ann"}).rows
            [{'f.name': 'bob'}]
        """
        self._note_query()
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

        Examples:
            >>> print(graph.explain("query q() { match { $p: Person } return { count($p) as n } }"))
            Group count($p) as n  ~1 rows
            └─ Scan $p: Person    ~3 rows, read whole
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
        """Run a query and measure the rows and the time of each step. Of a mutation only the match runs.

        Examples:
            >>> measured = graph.profile("query q() { match { $p: Person } return { $p.name } }")
            >>> "Person" in str(measured)
            True
        """
        return query.profile_query(
            self._manifest, query.QueryRequest(source, name, params), branch, at, self._query_options(memory)
        )

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
        """Scan the nodes of a type as Arrow, lazily. Filters: ``[("age", ">", 30)]`` or ``{"name": "Ann"}``.

        Examples:
            >>> graph.nodes("Person", [("age", ">", 30)], ["name"]).to_arrow().to_pylist()
            [{'name': 'ann'}]
        """
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
        """Scan the edges of a type as Arrow, lazily. Their ends are the columns ``from`` and ``to``.

        Examples:
            >>> graph.edges("Knows", columns=["from", "to"]).to_arrow().num_rows
            2
        """
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
        """Return one node or edge by its id, or a node by the values of its key; None if there is none.

        Examples:
            >>> graph.get("Person", "ann")
            {'id': 'ann', 'age': 31, 'name': 'ann'}
        """
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

        Examples:
            >>> graph.neighbors("Person", "bob", direction="both").num_rows
            2
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
        """Count the edges of a node by edge type and direction. A loop counts in both directions.

        Examples:
            >>> graph.degrees("Person", "bob")
            {('Knows', 'out'): 1, ('Knows', 'in'): 1}
        """
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
        """Read a blob, whole or in part; None if there is no blob.

        Examples:
            >>> files = og.init(folder / "files.og", "node File { name: String @key  data: Blob? }")
            >>> added = files.load([{"type": "File", "data": {"name": "a", "data": "base64:aGVsbG8="}}])
            >>> files.blob("File", "a", "data")
            b'hello'
        """
        return rows.read_blob(*self._read(branch, at), name, id, property, offset, length)

    @overload
    def export(
        self,
        target: None = None,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        format: Literal["jsonl"] | None = None,
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
        format: rows.Format | None = None,
        *,
        timeout: Timeout = None,
    ) -> rows.ExportResult: ...

    def export(
        self,
        target: rows.Target | None = None,
        types: Collection[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        format: rows.Format | None = None,  # noqa: A002  what it is called everywhere
        *,
        timeout: Timeout = None,
    ) -> Iterator[str] | rows.ExportResult:
        """Export the graph, or some types, to a path or an open stream. Without a target, yield lines of JSONL.

        Without ``format`` the ending of the path gives it: ``.jsonl``, ``.parquet`` or ``.csv``. Tables are a folder.

        Examples:
            >>> graph.export(folder / "people.jsonl").nodes
            {'Person': 3}
        """
        chosen = rows.choose_export_format(target, format)
        plan = rows.plan_export(*self._read(branch, at), types)
        return rows.export_lines(plan) if target is None else rows.export_to(plan, target, chosen)

    @property
    def analytics(self) -> GraphProjection:
        """Algorithms over the graph: all types on main, or what ``project`` chooses.

        Examples:
            >>> graph.analytics.pagerank().to_arrow().num_rows
            3
        """
        target = analytics.WriteTarget(self._manifest, self.actor, is_writable=self.mode == "rw")
        return analytics.project_all(target, self.timeout)

    def to_networkx(
        self,
        nodes: Sequence[str] | None = None,
        edges: Sequence[str] | Mapping[str, str] | None = None,
        *,
        weight: str | None = None,
        direction: str = "out",
        filters: Mapping[str, rows.Filter] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        timeout: Timeout = None,
    ) -> Any:
        """Return a ``MultiDiGraph`` of NetworkX: ``analytics.project(...).to_networkx()``, with the same arguments.

        Examples:
            >>> sorted(graph.to_networkx(["Person"], ["Knows"]).edges())
            [('ann', 'bob'), ('bob', 'eve')]
        """
        chosen = self.analytics.project(
            nodes, edges, weight=weight, direction=direction, filters=filters, branch=branch, at=at
        )
        return chosen.to_networkx()

    def analyses(self, branch: str = MAIN, *, timeout: Timeout = None) -> list[Analysis]:
        """List the results of algorithms that were written on a branch, newest first, and whether they are stale.

        Examples:
            >>> graph.analyses()
            []
        """
        return analytics.list_analyses(self._manifest, branch)

    def spark(self, session: SparkSession | None = None) -> SparkGraph:
        """Return the graph as Spark works on it: in the given session, the running one, or a new one."""
        # A late import: only this needs PySpark, and only this may start Java.
        inputs.require_pyspark()
        from omnigraph.spark.graph import SparkGraph

        writable = self.mode == "rw"
        return SparkGraph(self._manifest, session, actor=self.actor, writable=writable, embedding=self._embedding)
