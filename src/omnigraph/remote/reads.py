"""Verbs that read, of a graph on a server."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import orjson
import pyarrow as pa

from omnigraph.arguments import check_calls
from omnigraph.deadlines import CarriedDeadlines, Timeout, observe_timeouts
from omnigraph.errors import Json, NotFound, OmniGraphError, ParameterError, Unsupported
from omnigraph.language.schema import TableKey, split_by_kind
from omnigraph.language.source import Source
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read import rows
from omnigraph.read.memory import MemoryLimit
from omnigraph.read.profile import Profile
from omnigraph.read.result import Result
from omnigraph.remote.base import MEMORY_REASON, RemoteBase, list_objects, place_of
from omnigraph.remote.connection import ARROW, NDJSON, OCTETS, ByteStream, Fields, Request, encode_json
from omnigraph.remote.results import (
    RemoteRows,
    RemoteScan,
    read_bytes,
    to_result,
)
from omnigraph.remote.wire_values import (
    read_query_text,
    refuse_given,
    to_json_value,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.analytics import GraphProjection
    from omnigraph.spark.graph import SparkGraph


@observe_timeouts
@check_calls
class RemoteReads(RemoteBase):
    """Read a graph on a server."""

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
        """Run a query on one snapshot: the newest, or the one at a commit, a manifest version or a time."""
        refuse_given(MEMORY_REASON, memory=memory)
        body = _query_body(source, name, params, branch, at)
        return to_result(self._open_rows(Request("POST", "query", body=body, accept=ARROW)))

    def _open_rows(self, request: Request) -> RemoteRows:
        return RemoteRows(self._connection, request, self._find_commit_by_id)

    def explain(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        at: Reference | None = None,
    ) -> str:
        """Return the plan of a query, or of a mutation with a match, with the estimated rows of each step."""
        return str(self._connection.ask("explain", _query_body(source, name, params, branch, at))["plan"])

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
        refuse_given(MEMORY_REASON, memory=memory)
        return RemoteProfile(self._connection.ask("profile", _query_body(source, name, params, branch, at)))

    def nodes(
        self,
        name: str,
        filter: rows.Filter | None = None,  # noqa: A002  as in the base
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> rows.Scan:
        """Scan the nodes of a type as Arrow, lazily."""
        return self._scan("node", name, filter, columns, branch, at)

    def edges(
        self,
        name: str,
        filter: rows.Filter | None = None,  # noqa: A002  as in the base
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> rows.Scan:
        """Scan the edges of a type as Arrow, lazily."""
        return self._scan("edge", name, filter, columns, branch, at)

    def _scan(
        self,
        kind: str,
        name: str,
        given: rows.Filter | None,
        columns: Sequence[str] | None,
        branch: str,
        at: Reference | None,
    ) -> RemoteScan:
        query: dict[str, Json] = {"entity": kind, "type": name, **place_of(branch, at)}
        if given is not None:
            query["filter"] = encode_json(to_json_value(given)).decode()
        if columns is not None:
            if not columns or any("," in column for column in columns):
                raise ParameterError(f"columns is {list(columns)!r}", hint="name the columns, or leave it out")
            query["columns"] = ",".join(columns)
        return RemoteScan(self._open_rows(Request("GET", "rows", query, accept=ARROW)))

    def get(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in the base
        columns: Sequence[str] | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> dict[str, object] | None:
        """Return one node or edge by its id, or a node by the values of its key; None if there is none."""
        type_ = rows.require_type(self._schema_for(branch, at).catalog, name)
        found = self._scan(
            type_.table_key.kind, type_.name, {"id": rows.resolve_id(type_, id)}, columns, branch, at
        ).to_arrow()
        return rows.to_python_rows(found.to_batches()[0])[0] if found.num_rows else None

    def _resolve(self, name: str, key: rows.Key, branch: str, at: Reference | None) -> str:
        """Return the id of a node. Only a key that is not a text needs the schema."""
        if isinstance(key, str):
            return key
        return rows.resolve_id(rows.require_node_type(self._schema_for(branch, at).catalog, name), key)

    def _resolve_any(self, name: str, key: rows.Key, branch: str, at: Reference | None) -> str:
        return rows.resolve_id(rows.require_type(self._schema_for(branch, at).catalog, name), key)

    def neighbors(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in the base
        edge: str | None = None,
        direction: rows.Direction = "out",
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        timeout: Timeout = None,
    ) -> pa.Table:
        """Return the outgoing or incoming edges of a node, or both, with the node at the other end of each."""
        query: dict[str, Json] = {
            "type": name,
            "id": self._resolve(name, id, branch, at),
            "edge": edge,
            "direction": direction,
            **place_of(branch, at),
        }
        found = self._open_rows(Request("GET", "entity/neighbors", query, accept=ARROW))
        return rows.slice_rows(pa.Table.from_batches(found.read(), found.schema), offset, limit)

    def degrees(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in the base
        *,
        branch: str = MAIN,
        at: Reference | None = None,
        timeout: Timeout = None,
    ) -> dict[tuple[str, rows.OneDirection], int]:
        """Count the edges of a node by edge type and direction. A loop counts in both directions."""
        query: dict[str, Json] = {"type": name, "id": self._resolve(name, id, branch, at), **place_of(branch, at)}
        found = self._connection.read("entity/degrees", query)
        return {
            (str(each["edge"]), cast("rows.OneDirection", each["direction"])): cast(int, each["count"])
            for each in list_objects(found, "degrees")
        }

    def blob(
        self,
        name: str,
        id: rows.Key,  # noqa: A002  as in the base
        property: str,  # noqa: A002  as in the base
        offset: int = 0,
        length: int | None = None,
        branch: str = MAIN,
        at: Reference | None = None,
        *,
        timeout: Timeout = None,
    ) -> bytes | None:
        """Read a blob, whole or in part; None if there is no blob."""
        query: dict[str, Json] = {
            "type": name,
            "id": id if isinstance(id, str) else self._resolve_any(name, id, branch, at),
            "property": property,
            **place_of(branch, at),
        }
        if offset < 0 or (length is not None and length < 0):
            raise ParameterError(f"offset is {offset} and length is {length}", hint="give numbers of bytes, 0 or more")
        try:
            return self._read_blob(query, offset, length)
        except NotFound as missing:
            if missing.details.get("absent"):
                return None
            raise

    def _read_blob(self, query: Mapping[str, Json], offset: int, length: int | None) -> bytes:
        whole = Request("GET", "blob", query, accept=OCTETS)
        if offset == 0 and length is None:
            return read_bytes(self._connection.open_stream(whole))
        # A blob that is not there is an error, whatever part of it is asked for.
        parts: list[bytes] = []
        first, end = offset, None if length is None else offset + length
        while end is None or first < end or not parts:
            last = "" if end is None else str(max(first, end - 1))
            try:
                stream = self._connection.open_stream(replace(whole, byte_range=f"bytes={first}-{last}"))
            except OmniGraphError as error:
                if "range begins after the end" not in error.message:
                    raise
                break
            parts.append(read_bytes(stream))
            first += len(parts[-1])
        return b"".join(parts)[:length]

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
        format: rows.Format | None = None,  # noqa: A002  as in the base
        *,
        timeout: Timeout = None,
    ) -> Iterator[str] | rows.ExportResult:
        """Export the graph, or some types, to a path or an open stream; or yield lines of JSON."""
        chosen = rows.choose_export_format(target, format)
        if types is not None and not types and target is None:
            return iter(())
        if target is None:
            stream = self._open_lines(types, branch, at)
            return CarriedDeadlines().iterate(lambda: (f"{line.decode()}\n" for line in stream.lines()))
        shown = self._take_snapshot(branch, at)
        plan = rows.plan_export(shown, shown.catalog(), types)
        counts: dict[str, int] = {type_.table_key: 0 for type_ in plan.types}
        path = rows.parse_target(target) if isinstance(target, str | os.PathLike) else None
        pinned = None if shown.commit is None else shown.commit.id
        if chosen in rows.TABLE_WRITERS and path is not None:
            with rows.create_folder(path) as folder:
                for type_ in plan.types:
                    reader = self._open_type(type_.table_key, branch, pinned)
                    counts[type_.table_key] = rows.TABLE_WRITERS[chosen](type_.table_key, reader, folder)
        else:
            with nullcontext(target) if path is None else rows.create_file(path) as file:
                for line in self._open_lines(types, branch, pinned).lines() if plan.types else ():
                    rows.write_text(file, memoryview(line + b"\n"))
                    counts[_key_of(line)] += 1
        nodes, edges = split_by_kind(counts)
        return rows.ExportResult(shown.commit, shown.branch, chosen, None if path is None else str(path), nodes, edges)

    def _open_lines(self, types: Collection[str] | None, branch: str, at: Reference | None) -> ByteStream:
        chosen: dict[str, Json] = {} if types is None else {"type_names": list(types)}
        body = {**place_of(branch, at), **chosen}
        return self._connection.open_stream(Request("POST", "export", body=body, accept=NDJSON))

    def _open_type(self, key: TableKey, branch: str, at: Reference | None) -> pa.RecordBatchReader:
        body: dict[str, Json] = {**place_of(branch, at), "table_keys": [str(key)]}
        return self._connection.open_stream(Request("POST", "export", body=body, accept=ARROW)).open_arrow()

    @property
    def analytics(self) -> GraphProjection:
        """Refuse: algorithms run where the graph is."""
        raise Unsupported("algorithms do not run over a server", hint="open the graph where it is stored")

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
        """Refuse, as ``analytics`` does."""
        return self.analytics.to_networkx()

    def spark(self, session: SparkSession | None = None) -> SparkGraph:
        """Refuse: Spark reads the tables themselves."""
        raise Unsupported("Spark reads the tables of a graph", hint="open the graph where it is stored")


class RemoteProfile(Profile):
    """A query that ran on a server."""

    __slots__ = ("_found",)
    _found: Fields

    def __init__(self, found: Fields) -> None:  # pyright: ignore[reportMissingSuperCall]  the plan is on the server
        object.__setattr__(self, "_found", found)
        object.__setattr__(self, "row_count", found["row_count"])
        object.__setattr__(self, "seconds", cast(float, found["milliseconds"]) / 1000)

    def __str__(self) -> str:
        return str(self._found["text"])

    def to_json(self) -> Json:
        """Return the profile as JSON, with the operators nested as in the plan."""
        return {name: self._found[name] for name in ("row_count", "milliseconds", "plan")}


def _query_body(
    source: str | Path | Source,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str,
    at: Reference | None,
) -> dict[str, Json]:
    body: dict[str, Json] = {"query": read_query_text(source), **place_of(branch, at)}
    if name is not None:
        body["name"] = name
    if params is not None:
        body["params"] = to_json_value(params)
    return body


def _key_of(line: bytes) -> TableKey:
    """Return the type of an exported record."""
    record = cast("Mapping[str, str]", orjson.loads(line))
    return TableKey.of_edge(record["edge"]) if "edge" in record else TableKey.of_node(record["type"])
