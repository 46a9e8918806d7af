"""The shapes of answers: what release 0.8 sends, with its names and types, and what is new beside it."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from importlib.metadata import version
from io import RawIOBase
from typing import Final, cast

import orjson
import pyarrow as pa
from typing_extensions import Buffer

from omnigraph.errors import Json
from omnigraph.graph import GraphInfo
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import to_microseconds
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.history import Commit
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.tags import Tag
from omnigraph.read.rows import INLINE_PREFIX, format_csv_lines, to_json_rows
from omnigraph.storage.arrow_schema import arrow_type

WIRE_VERSION: Final = "0.8.0"
"""The release whose clients understand our answers."""
RELEASE: Final = version("omnigraph")
"""The release of this server. Asking for it reads a file: once is enough."""
_LARGEST_SAFE: Final = 2**53 - 1
CHUNK_BYTES: Final = 1 << 20
"""About how many bytes of a stream are sent at once."""
_BATCH_ROWS: Final = 4_096
_SCALARS: Final[Mapping[str, str]] = {
    str(arrow_type(ValueType(scalar))): str(scalar) for scalar in Scalar if scalar not in (Scalar.BLOB, Scalar.VECTOR)
}


def id_of(commit: Commit | None) -> str | None:
    """Return the id of a commit, if there is one."""
    return None if commit is None else commit.id


def time_of(commit: Commit | Tag) -> str:
    """Return the time of a commit or a tag, to the microsecond."""
    return commit.created_at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def commit_to_wire(commit: Commit) -> dict[str, Json]:
    """Return a commit: the fields of release 0.8, then ours."""
    parents = (*commit.parents, None, None)
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": None if commit.branch == MAIN else commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_commit_id": parents[0],
        "merged_parent_commit_id": parents[1],
        "actor_id": commit.actor,
        "created_at": to_microseconds(commit.created_at),
        "id": commit.id,
        "parents": list(commit.parents),
        "branch": commit.branch,
        "actor": commit.actor,
        "message": commit.message,
        "time": time_of(commit),
        "txn": None if commit.txn is None else f"{commit.txn[0]}:{commit.txn[1]}",
        "upkeep": commit.upkeep,
        "analyses": [each.to_json() for each in commit.analyses],
    }


def made_commit_to_wire(commit: Commit | None, *, is_whole: bool) -> dict[str, Json]:
    """Return the id of the commit that a write made; with ``is_whole`` also the commit itself."""
    if commit is None or not is_whole:
        return {"commit": id_of(commit)}
    return {"commit": commit.id, "commit_details": commit_to_wire(commit)}


def branch_to_wire(branch: Branch, *, is_protected: bool) -> dict[str, Json]:
    """Return a branch with its head."""
    created = branch.created_at
    return {
        "name": branch.name,
        "head": branch.head,
        "parent": branch.parent,
        "created_at": None if created is None else created.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "protected": is_protected,
    }


def tag_to_wire(tag: Tag) -> dict[str, Json]:
    """Return a tag."""
    return {
        "name": tag.name,
        "commit": tag.commit,
        "branch": tag.branch,
        "created_at": time_of(tag),
        "actor": tag.actor,
    }


def info_to_wire(info: GraphInfo) -> dict[str, Json]:
    """Return what a graph is and has, without its location."""
    return {
        "format": info.format,
        "schema_ir_hash": info.schema_ir_hash,
        "branches": list(info.branches),
        "head": None if info.head is None else commit_to_wire(info.head),
        "nodes": dict(info.nodes),
        "edges": dict(info.edges),
    }


def snapshot_to_wire(snapshot: Snapshot, format_version: int, hidden: Collection[str] = ()) -> dict[str, Json]:
    """Return the version of every table but the hidden ones, nodes before edges."""
    shown = (pin for pin in snapshot.pins.values() if pin.table_key not in hidden)
    pins = sorted(shown, key=lambda pin: (pin.kind != "node", pin.type_name))
    return {
        "manifest_version": snapshot.manifest_version,
        "internal_schema_version": format_version,
        "tables": [
            {
                "table_key": str(pin.table_key),
                "table_path": pin.location,
                "table_version": pin.version,
                "table_branch": pin.branch,
                "row_count": pin.row_count,
                "kind": pin.kind,
                "type": pin.type_name,
            }
            for pin in pins
        ],
        "schema_ir_hash": snapshot.schema_ir_hash,
        "branch": snapshot.branch,
        "commit": id_of(snapshot.commit),
    }


# --------------------------------------------------------------------------------------------- rows


def type_name_of(type_: pa.DataType) -> str:
    """Return the name that the languages have for the type of a column."""
    if pa.types.is_timestamp(type_):
        return str(Scalar.DATETIME)
    if pa.types.is_fixed_size_list(type_):
        return f"Vector({cast('pa.FixedSizeListType[pa.DataType, object]', type_).list_size})"
    if pa.types.is_list(type_):
        return f"[{type_name_of(cast('pa.ListType[pa.DataType]', type_).value_type)}]"
    return _SCALARS.get(str(type_), str(type_))


def list_types(schema: pa.Schema) -> dict[str, Json]:
    """Return the type of each column by name."""
    return {name: type_name_of(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def rows_to_wire(table: pa.Table, *, is_safe: bool) -> list[dict[str, Json]]:
    """Return rows as JSON objects; with ``is_safe``, integers that JavaScript would round are texts."""
    rows = [row for batch in table.to_batches() for row in to_json_rows(batch)]
    return [cast("dict[str, Json]", to_safe_numbers(row)) for row in rows] if is_safe else rows


def to_safe_numbers(value: Json) -> Json:
    """Return a value with integers past 2^53-1 as texts."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) > _LARGEST_SAFE else value
    if isinstance(value, Mapping):
        return {name: to_safe_numbers(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_safe_numbers(each) for each in value]
    return value


def values_to_json(values: Mapping[str, object] | None) -> Json:
    """Return the properties of an entity, given as Python values, as JSON."""
    return None if values is None else {name: _value_to_json(value) for name, value in values.items()}


def _value_to_json(value: object) -> Json:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return f"{INLINE_PREFIX}{b64encode(value).decode()}"
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case list():
            return [_value_to_json(each) for each in cast("list[object]", value)]
        case _:
            return cast("Json", value)


def join_chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to chunks of about a mebibyte."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def write_ndjson(batches: Iterable[pa.RecordBatch], *, is_safe: bool) -> Iterator[bytes]:
    """Write rows as lines of JSON."""
    for part in _split_rows(batches):
        rows = cast("list[Json]", to_json_rows(part))
        yield b"".join(
            orjson.dumps(to_safe_numbers(row) if is_safe else row, option=orjson.OPT_APPEND_NEWLINE) for row in rows
        )


def write_csv_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Write rows as CSV with a header: texts as they are, nothing for null, everything else as JSON."""
    yield format_csv_lines([schema.names]).encode()
    for part in _split_rows(batches):
        yield format_csv_lines(row.values() for row in to_json_rows(part)).encode()


class _ByteList(RawIOBase):
    """Collects what a writer writes."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Write rows as an Arrow stream."""
    written = _ByteList()
    with pa.ipc.new_stream(pa.PythonFile(written, "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield written.take()
    yield written.take()


def _split_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for begin in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(begin, _BATCH_ROWS)


# --------------------------------------------------------------------------------------------- the schema


def catalog_to_wire(catalog: Catalog) -> dict[str, Json]:
    """Return the types of a schema with their properties and rules."""
    return {
        "nodes": [_node_to_wire(each) for each in catalog.nodes.values()],
        "edges": [_edge_to_wire(each) for each in catalog.edges.values()],
        "interfaces": [
            {"name": each.name, "properties": [_property_to_wire(one) for one in each.properties]}
            for each in catalog.interfaces.values()
        ],
    }


def _node_to_wire(node: NodeType) -> dict[str, Json]:
    return {
        "name": node.name,
        "implements": list(node.implements),
        "key": None if node.key is None else list(node.key),
        "unique": [list(each) for each in node.unique],
        "indexes": [list(each) for each in node.indexes],
        "description": _describe(node),
        "properties": [_property_to_wire(each) for each in node.properties.values()],
    }


def _edge_to_wire(edge: EdgeType) -> dict[str, Json]:
    return {
        "name": edge.name,
        "from": edge.from_type,
        "to": edge.to_type,
        "cardinality": {"minimum": edge.cardinality.minimum, "maximum": edge.cardinality.maximum},
        "unique": [list(each) for each in edge.unique],
        "indexes": [list(each) for each in edge.indexes],
        "description": _describe(edge),
        "properties": [_property_to_wire(each) for each in edge.properties.values()],
    }


def _property_to_wire(each: Property) -> dict[str, Json]:
    return {
        "name": each.name,
        "type": str(each.type),
        "nullable": each.type.nullable,
        "default": each.default,
        "description": _describe(each),
    }


def _describe(each: NodeType | EdgeType | Property) -> str | None:
    return next((found.value for found in each.annotations if found.name == "description"), None)
