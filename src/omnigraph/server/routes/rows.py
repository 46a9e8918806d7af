"""Routes that read rows without a query: a type, one entity, its neighbors, and exports."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Final, Literal, cast

import orjson
import pyarrow as pa
from pydantic import BeforeValidator, Field

from omnigraph.errors import Json, NotFound, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.read.result import Result
from omnigraph.read.rows import Direction, Filter, Scan, export_lines, open_export_reader, plan_export
from omnigraph.server.access import Action, ask_place
from omnigraph.server.calls import ARROW, JSON, NDJSON, Answer, Route, ServerCall
from omnigraph.server.messages import (
    Count,
    Numbers,
    ReadPlace,
    commit_to_wire,
    id_of,
    join_chunks,
    list_types,
    rows_to_wire,
    to_safe_numbers,
    values_to_json,
    write_arrow,
)
from omnigraph.server.routes.query import ROW_FORMATS, page_of_rows, stream_rows

EntityKind = Literal["node", "edge"]
_NEIGHBORS: Final = 100
_REVISIONS: Final = 50
_MOST_REVISIONS: Final = 1_000
_FIXED_COLUMNS: Final = ("edge", "id", "from", "to", "direction", "neighbor", "neighbor_type")


def _split_names(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


Names = Annotated[list[str] | None, BeforeValidator(_split_names)]


class RowsFields(ReadPlace):
    """The rows of one type. ``filter`` is JSON: ``{"name": "Ann"}`` or ``[["age", ">", 30]]``."""

    entity: EntityKind = "node"
    type: str
    filter: str | None = None
    columns: Names = None
    limit: Count | None = None
    offset: Count = 0
    numbers: Numbers = "native"


class EntityFields(ReadPlace):
    """One node or edge."""

    entity: EntityKind = "node"
    type: str
    id: str
    columns: Names = None
    numbers: Numbers = "native"


class NeighborFields(ReadPlace):
    """The edges of one node."""

    type: str
    id: str
    edge: str | None = None
    direction: Direction = "both"
    limit: Count = _NEIGHBORS
    offset: Count = 0


class DegreeFields(ReadPlace):
    """The edges of one node, counted."""

    type: str
    id: str


class HistoryFields(ReadPlace):
    """The commits that changed one node or edge."""

    entity: EntityKind = "node"
    type: str
    id: str
    limit: Annotated[int, Field(ge=0, le=_MOST_REVISIONS)] = _REVISIONS
    before: str | None = None
    numbers: Numbers = "native"


class ExportFields(ReadPlace):
    """The types to export; all of them without names."""

    type_names: Annotated[list[str] | None, Field(min_length=1)] = None
    table_keys: Annotated[list[str] | None, Field(min_length=1)] = None


def list_rows(call: ServerCall) -> Answer:
    """Read the rows of a type."""
    asked = call.fields(RowsFields)
    branch, at = asked.place
    call.gate.check_types([TableKey.of(asked.entity, asked.type)], call.gate.branch)
    graph = call.graph.graph
    read = graph.nodes if asked.entity == "node" else graph.edges
    scan = read(asked.type, _parse_filter(asked.filter), asked.columns, branch, at)
    if call.accept == ARROW:
        return _stream_arrow(asked.type, scan.schema, iter(scan), scan.branch, id_of(scan.commit))
    result = _to_result(asked.type, scan)
    if call.accept != JSON:
        return stream_rows(call, result, is_safe=asked.numbers == "safe")
    fields = page_of_rows(call, result, asked.offset, asked.limit, is_safe=asked.numbers == "safe")
    return Answer({"query_name": asked.type, **fields}, id_of(scan.commit))


def _parse_filter(text: str | None) -> Filter | None:
    if text is None:
        return None
    try:
        found = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise ParameterError(
            f"filter is not JSON: {error}", hint='give {"name": "Ann"} or [["age", ">", 30]]'
        ) from None
    if isinstance(found, list):
        parts = cast("list[object]", found)
        return cast("Filter", [tuple(cast("list[object]", each)) if isinstance(each, list) else each for each in parts])
    return cast("Filter", found)


def _stream_arrow(
    name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], branch: str, commit: str | None
) -> Answer:
    """Stream rows as Arrow, with the schema as it is: which columns are never null is part of it."""
    headers = {"Omnigraph-Branch": branch, "Omnigraph-Query": name}
    return Answer(commit=commit, stream=join_chunks(write_arrow(schema, batches)), media_type=ARROW, headers=headers)


def _to_result(name: str, scan: Scan) -> Result:
    return Result(name, scan.schema, lambda: iter(scan), branch=scan.branch, commit=scan.commit)


def get_one_entity(call: ServerCall) -> Answer:
    """Read one node or edge, and count the edges of a node."""
    asked = call.fields(EntityFields)
    branch, at = asked.place
    call.gate.check_types([TableKey.of(asked.entity, asked.type)], call.gate.branch)
    graph = call.graph.graph
    read = graph.nodes if asked.entity == "node" else graph.edges
    scan = read(asked.type, {"id": asked.id}, asked.columns, branch, at)
    rows = rows_to_wire(scan.to_arrow(), is_safe=asked.numbers == "safe")
    if not rows:
        raise NotFound(f"no {asked.type} '{asked.id}'", hint="check its id")
    hidden = call.gate.hidden_types(graph.snapshot(branch, at).catalog(), call.gate.branch)
    degrees = _list_degrees(call, asked.type, asked.id, branch, at, hidden) if asked.entity == "node" else []
    return Answer(
        {
            "entity": asked.entity,
            "type": asked.type,
            "id": asked.id,
            "properties": rows[0],
            "types": list_types(scan.schema),
            "degrees": degrees,
            "types_hidden": bool(hidden),
            "branch": scan.branch,
            "commit": id_of(scan.commit),
        },
        id_of(scan.commit),
    )


def _list_degrees(
    call: ServerCall, type_: str, id_: str, branch: str, at: str | None, hidden: Collection[TableKey]
) -> list[Json]:
    counts = call.graph.graph.degrees(type_, id_, branch=branch, at=at)
    return [
        {"edge": edge, "direction": way, "count": count}
        for (edge, way), count in counts.items()
        if TableKey.of_edge(edge) not in hidden
    ]


def count_degrees(call: ServerCall) -> Answer:
    """Count the edges of a node by type and direction."""
    asked = call.fields(DegreeFields)
    branch, at = asked.place
    snapshot = call.graph.graph.snapshot(branch, at)
    commit = id_of(snapshot.commit)
    call.gate.check_types([TableKey.of_node(asked.type)], call.gate.branch)
    hidden = call.gate.hidden_types(snapshot.catalog(), call.gate.branch)
    degrees = _list_degrees(call, asked.type, asked.id, branch, at, hidden)
    return Answer(
        {"degrees": degrees, "types_hidden": bool(hidden), "branch": snapshot.branch, "commit": commit}, commit
    )


def list_history(call: ServerCall) -> Answer:
    """List the commits that changed a node or an edge, newest first."""
    asked = call.fields(HistoryFields)
    branch, at = asked.place
    graph = call.graph.graph
    table_key = TableKey.of(asked.entity, asked.type)
    call.gate.check_types([table_key], call.gate.branch)
    snapshot = graph.snapshot(branch, at)
    commit = id_of(snapshot.commit)
    found = graph.history(
        table_key, asked.id, branch=branch, at=commit or at, limit=asked.limit + 1, before=asked.before
    )
    shown = found[: asked.limit]
    entries: list[Json] = [
        {
            "commit": commit_to_wire(each.commit),
            "op": str(each.change.op),
            "type": each.change.type,
            "before": values_to_json(each.change.before),
            "after": values_to_json(each.change.after),
            "changed": list(each.change.changed),
        }
        for each in shown
    ]
    following = shown[-1].commit.id if shown and len(found) > asked.limit else None
    if asked.numbers == "safe":
        entries = [to_safe_numbers(entry) for entry in entries]
    return Answer({"entries": entries, "next": following, "branch": snapshot.branch, "commit": commit}, commit)


def list_neighbors(call: ServerCall) -> Answer:
    """List edges of a node, and the nodes at their other ends."""
    asked = call.fields(NeighborFields)
    branch, at = asked.place
    graph = call.graph.graph
    snapshot = graph.snapshot(branch, at)
    commit = id_of(snapshot.commit)
    named = [TableKey.of_node(asked.type), *([] if asked.edge is None else [TableKey.of_edge(asked.edge)])]
    call.gate.check_types(named, call.gate.branch)
    hidden = call.gate.hidden_types(snapshot.catalog(), call.gate.branch)
    if call.accept == ARROW:
        whole = _find_visible_neighbors(call, asked, hidden, is_whole=True)
        return _stream_arrow(asked.type, whole.schema, iter(whole.to_batches()), snapshot.branch, commit)
    found = _find_visible_neighbors(call, asked, hidden)
    shown = found.slice(0, min(asked.limit, found.num_rows))
    following = {"at": commit, "offset": asked.offset + shown.num_rows} if found.num_rows > asked.limit else None
    rows = rows_to_wire(shown, is_safe=False)
    return Answer(
        {
            "edges": [_edge_to_json(row) for row in rows],
            "nodes": _list_ends(rows),
            "next": following,
            "types_hidden": bool(hidden),
            "branch": snapshot.branch,
            "commit": commit,
        },
        commit,
    )


def _find_visible_neighbors(
    call: ServerCall, asked: NeighborFields, hidden: Collection[TableKey], *, is_whole: bool = False
) -> pa.Table:
    """Find one edge more than are shown, or all, without those of hidden types and those that lead to hidden types."""
    branch, at = asked.place
    graph, last = call.graph.graph, None if is_whole else asked.limit + 1
    if not hidden:
        return graph.neighbors(
            asked.type,
            asked.id,
            asked.edge,
            asked.direction,
            branch,
            at,
            limit=last,
            offset=0 if is_whole else asked.offset,
        )
    found = graph.neighbors(asked.type, asked.id, asked.edge, asked.direction, branch, at)
    types = zip(found.column("edge").to_pylist(), found.column("neighbor_type").to_pylist(), strict=True)
    visible = [
        TableKey.of_edge(str(edge)) not in hidden and TableKey.of_node(str(node)) not in hidden for edge, node in types
    ]
    shown = found.filter(pa.array(visible, pa.bool_()))
    return shown if is_whole else shown.slice(asked.offset, last)


def _edge_to_json(row: dict[str, Json]) -> Json:
    properties = {name: value for name, value in row.items() if name not in _FIXED_COLUMNS}
    return {
        "type": row["edge"],
        "id": row["id"],
        "from": row["from"],
        "to": row["to"],
        "direction": row["direction"],
        "properties": properties,
    }


def _list_ends(rows: Sequence[dict[str, Json]]) -> list[Json]:
    ends = dict.fromkeys((str(row["neighbor_type"]), str(row["neighbor"])) for row in rows)
    return [{"type": type_, "id": id_, "label": id_} for type_, id_ in ends]


def export_graph(call: ServerCall) -> Answer:
    """Stream the graph, or some types, as lines of JSON; one type also as Arrow, with its blobs as strings."""
    asked = call.fields(ExportFields)
    branch, at = asked.place
    snapshot = call.graph.graph.snapshot(branch, at)
    plan = plan_export(snapshot, snapshot.catalog(), [*(asked.type_names or ()), *(asked.table_keys or ())] or None)
    keys = [type_.table_key for type_ in plan.types]
    # An export of everything is refused if a part of it may not leave.
    call.gate.check_types(keys, call.gate.branch, Action.EXPORT)
    commit = id_of(snapshot.commit)
    if call.accept == ARROW:
        if len(keys) != 1:
            raise ParameterError("Arrow is a stream of one type", hint="name one type, or accept lines of JSON")
        reader = open_export_reader(next(plan.open_types()))
        return Answer(commit=commit, stream=join_chunks(write_arrow(reader.schema, reader)), media_type=ARROW)
    pieces: Iterator[bytes] = (line.encode() for line in export_lines(plan))
    return Answer(commit=commit, stream=join_chunks(pieces), media_type=NDJSON)


_G: Final = "/graphs/{graph_id}"
ROUTES: Final = (
    Route("GET", f"{_G}/rows", list_rows, ask_place(types="ask"), query=RowsFields, formats=ROW_FORMATS),
    Route("GET", f"{_G}/entity", get_one_entity, ask_place(types="ask"), query=EntityFields),
    Route(
        "GET",
        f"{_G}/entity/neighbors",
        list_neighbors,
        ask_place(types="ask"),
        query=NeighborFields,
        formats=(JSON, ARROW),
    ),
    Route("GET", f"{_G}/entity/degrees", count_degrees, ask_place(types="hide"), query=DegreeFields),
    Route("GET", f"{_G}/entity/history", list_history, ask_place(types="ask"), query=HistoryFields),
    Route(
        "POST",
        f"{_G}/export",
        export_graph,
        ask_place(Action.EXPORT, "ask"),
        "stream",
        body=ExportFields,
        formats=(NDJSON, ARROW),
    ),
)
