"""Results that are read from a server, piece by piece: rows, diffs, changes and snapshots."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date, datetime
from functools import partial
from typing import TypeAlias, cast

import orjson
import pyarrow as pa

from omnigraph.deadlines import CarriedDeadlines, check_deadline
from omnigraph.errors import Json, Unsupported
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, Schema, TableKey
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.read.changes import ChangeBlock, Changes, Diff, EntityChange, EntityRevision, Op, TypeChanges
from omnigraph.read.result import Result
from omnigraph.read.rows import INLINE_PREFIX, Scan, TypeRows, blob_properties_of, to_python_rows
from omnigraph.remote.connection import ARROW, NDJSON, ByteStream, Connection, Fields, Request
from omnigraph.remote.wire_values import to_commit_of_wire
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import Table

FindCommit: TypeAlias = Callable[[str], Commit]
FindSchema: TypeAlias = Callable[["Snapshot"], Schema]


class RemoteRows:
    """Rows of one snapshot as Arrow. They are requested at once, and again for each further reading."""

    def __init__(self, connection: Connection, request: Request, find_commit: FindCommit) -> None:
        self._connection = connection
        self._deadlines = CarriedDeadlines()
        first = connection.open_stream(request)
        commit = first.headers.get("omnigraph-commit")
        self.commit = None if commit is None else find_commit(commit)
        self.branch = first.headers.get("omnigraph-branch", "")
        self.name = first.headers.get("omnigraph-query", "")
        self._again = _pin_request(request, commit)
        self._reader: pa.RecordBatchReader | None = first.open_arrow()
        self.schema = self._reader.schema

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return self._deadlines.iterate(self._read)

    def _read(self) -> Iterator[pa.RecordBatch]:
        reader, self._reader = self._reader, None
        if reader is None:
            reader = self._connection.open_stream(self._again).open_arrow()
        for batch in reader:
            check_deadline()
            yield batch


def _pin_request(request: Request, commit: str | None) -> Request:
    """Return the request for the same state, whatever is committed later."""
    if commit is None:
        return request
    if request.body is None:
        return Request(request.method, request.path, {**request.query, "at": commit}, accept=request.accept)
    return Request(request.method, request.path, body={**request.body, "at": commit}, accept=request.accept)


def to_result(rows: RemoteRows) -> Result:
    """Return rows as the result of a query."""
    return Result(rows.name, rows.schema, rows.read, branch=rows.branch, commit=rows.commit)


class RemoteScan(Scan):
    """Rows of one type on a server, read lazily."""

    __slots__ = ("_remote",)
    _remote: RemoteRows

    def __init__(self, rows: RemoteRows) -> None:
        super().__init__(rows.schema, rows.branch, rows.commit, cast("TypeRows", None), (), ())
        object.__setattr__(self, "_remote", rows)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._remote.read()


@dataclass(frozen=True, slots=True)
class RemoteSnapshot(Snapshot):
    """A snapshot of a graph on a server: what it shows, without its tables."""

    _find_schema: FindSchema | None = field(default=None, repr=False, compare=False)

    def catalog(self) -> Catalog:
        """Return the types of the schema that it is read with."""
        assert self._find_schema is not None, "it is given where a snapshot is made"
        return self._find_schema(self).catalog

    def table(self, name: str) -> Table:  # noqa: ARG002  as in the base
        """Refuse: the tables are on the server."""
        raise Unsupported(
            "the tables of a graph on a server cannot be opened", hint="read them with nodes() and edges()"
        )


def to_snapshot_of_wire(found: Fields, branch: str, commit: Commit | None, find_schema: FindSchema) -> RemoteSnapshot:
    """Return a snapshot."""
    pins: dict[str, Pin] = {}
    for each in cast("Sequence[Mapping[str, Json]]", found["tables"]):
        key = TableKey(str(each["table_key"]))
        pins[key] = Pin(
            key,
            str(each["table_path"]),
            cast(int, each["table_version"]),
            cast("str | None", each["table_branch"]),
            cast(int, each["row_count"]),
        )
    return RemoteSnapshot(
        branch,
        cast(int, found["manifest_version"]),
        commit,
        cast("str | None", found.get("schema_ir_hash")),
        pins,
        cast("Manifest", None),
        _find_schema=find_schema,
    )


# --------------------------------------------------------------------------------------------- diffs and changes


class RemoteDiff(Diff):
    """The changes from one snapshot to another, counted and read on the server: at ``diff``, or of a baseline."""

    __slots__ = ("_connection", "_path", "_query")
    _connection: Connection
    _path: str
    _query: Mapping[str, Json]

    def __init__(
        self,
        connection: Connection,
        query: Mapping[str, Json],
        before: Snapshot,
        after: Snapshot,
        path: str = "diff",
    ) -> None:
        super().__init__(before, after, ())
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_query", dict(query))

    def summary(self) -> tuple[TypeChanges, ...]:
        """Count the changes of every type that changed."""
        found = self._connection.read(self._path, self._query)
        return tuple(
            TypeChanges(**cast("dict[str, int]", dict(each)))  # pyright: ignore[reportArgumentType]  as it was sent
            for each in cast("Sequence[Mapping[str, Json]]", found["summary"])
        )

    def entities(self) -> Iterator[EntityChange]:
        """Yield every changed entity, with Python values."""
        return (entity for each in self.summary() for entity in self._entities_of(each))

    def _entities_of(self, counted: TypeChanges) -> Iterator[EntityChange]:
        key = TableKey.of_node(counted.type) if counted.kind == "node" else TableKey.of_edge(counted.type)
        entities = (entity for batch in self.reader(key) for entity in _to_entities(counted, batch))
        blobs = {name for side in (self.before, self.after) for name in _list_blobs(side, key)}
        if not blobs:
            return entities
        # Arrow has no blobs; the lines of JSON have them, in the same order.
        records = self._records({**self._query, "type": key})
        return (_with_blobs(entity, record, blobs) for entity, record in zip(entities, records, strict=True))

    def records(self) -> Iterator[dict[str, Json]]:
        """Yield every changed entity as a JSON object."""
        return self._deadlines.iterate(lambda: self._records(self._query))

    def _records(self, query: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        stream = self._connection.open_stream(Request("GET", self._path, query, accept=NDJSON))
        records = (cast("dict[str, Json]", orjson.loads(line)) for line in stream.lines() if line)
        # A baseline ends with its commit and its cursor, which are known already.
        return (record for record in records if "end" not in record)

    def reader(self, name: str) -> pa.RecordBatchReader:
        """Stream the changes of one type as Arrow: ``op``, ``id``, ``changed``, and both images as structs."""
        request = Request("GET", self._path, {**self._query, "type": name}, accept=ARROW)
        return self._connection.open_stream(request).open_arrow()


def _to_entities(counted: TypeChanges, batch: pa.RecordBatch) -> Iterator[EntityChange]:
    before, after = (_to_images(batch, side) for side in ("before", "after"))
    head = to_python_rows(batch.select(["op", "id", "changed"]))
    for row, old, new in zip(head, before, after, strict=True):
        changed = tuple(cast("Sequence[str]", row["changed"] or ()))
        yield EntityChange(counted.kind, counted.type, str(row["id"]), Op(str(row["op"])), old, new, changed)


def to_revision(type_: NodeType | EdgeType, id_: str, found: Mapping[str, Json]) -> EntityRevision:
    """Return what a commit changed of an entity. Values are those of the schema, as far as it still has them."""
    before, after = (
        None if found[side] is None else _to_values(type_, cast("Mapping[str, Json]", found[side]))
        for side in ("before", "after")
    )
    commit = to_commit_of_wire(cast("Mapping[str, Json]", found["commit"]))
    changed = tuple(cast("Sequence[str]", found["changed"]))
    kind = type_.table_key.kind
    # The type may have had another name at that commit.
    name = str(found["type"])
    return EntityRevision(commit, EntityChange(kind, name, id_, Op(str(found["op"])), before, after, changed))


def _to_values(type_: NodeType | EdgeType, image: Mapping[str, Json]) -> Mapping[str, object]:
    return {name: _to_value(type_.properties.get(name), value) for name, value in image.items()}


def _to_value(declared: Property | None, value: Json) -> object:
    if declared is None or value is None:
        return value
    match declared.type.scalar:
        case Scalar.BLOB:
            return _to_blob(value)
        case Scalar.DATETIME | Scalar.DATE as scalar:
            parse = datetime.fromisoformat if scalar is Scalar.DATETIME else date.fromisoformat
            texts = cast("list[str]", value) if isinstance(value, list) else [str(value)]
            parsed = [parse(text) for text in texts]
            return parsed if isinstance(value, list) else parsed[0]
        case Scalar.F32 | Scalar.F64:
            return (
                [float(cast(float, each)) for each in value] if isinstance(value, list) else float(cast(float, value))
            )
        case _:
            return value


def _list_blobs(snapshot: Snapshot, key: TableKey) -> Collection[str]:
    found = next((type_ for type_ in snapshot.catalog().types() if type_.table_key == key), None)
    return () if found is None else blob_properties_of(found)


def _with_blobs(entity: EntityChange, record: Mapping[str, Json], blobs: Collection[str]) -> EntityChange:
    before, after = (
        None if image is None else _add_blobs(image, cast("Mapping[str, Json]", record[side]), blobs)
        for side, image in (("before", entity.before), ("after", entity.after))
    )
    return replace(entity, before=before, after=after)


def _add_blobs(image: Mapping[str, object], record: Mapping[str, Json], blobs: Collection[str]) -> Mapping[str, object]:
    return {name: _to_blob(record[name]) if name in blobs else image[name] for name in record}


def _to_blob(value: Json) -> object:
    """Return the bytes of a blob, or its URI if it lies elsewhere."""
    is_inline = isinstance(value, str) and value.startswith(INLINE_PREFIX)
    return b64decode(value.removeprefix(INLINE_PREFIX)) if isinstance(value, str) and is_inline else value


def _to_images(batch: pa.RecordBatch, side: str) -> Sequence[Mapping[str, object] | None]:
    column = cast("pa.StructArray", column_of(batch, side))
    fields = [field_.name for field_ in cast("Sequence[pa.Field[pa.DataType]]", column.type)]
    rows = to_python_rows(pa.RecordBatch.from_arrays(column.flatten(), fields))
    is_there = cast("list[bool]", column.is_valid().to_pylist())
    return [row if there else None for row, there in zip(rows, is_there, strict=True)]


class RemoteChanges(Changes):
    """The blocks of a branch, asked for commit by commit."""

    def __init__(self, connection: Connection, query: Mapping[str, Json], make_diff: Callable[[Commit], Diff]) -> None:
        self._connection = connection
        self._query = dict(query)
        self._make_diff = make_diff
        self._deadlines = CarriedDeadlines()
        # Where it begins is settled now, not when the first block is read.
        self._cursor = str(connection.read("changes", {**query, "limit": 0})["cursor"])

    @property
    def cursor(self) -> str:
        """The cursor to continue from next time."""
        return self._cursor

    @property
    def newest(self) -> str:
        """The cursor after the last block."""
        return next(reversed([self._cursor, *self.cursors()]))

    def cursors(self) -> Iterator[str]:
        """Yield the cursor after each block that follows."""
        return (str(block["cursor"]) for block in self._blocks(self._cursor))

    def __iter__(self) -> Iterator[ChangeBlock]:
        return self._deadlines.iterate(self._read_blocks)

    def _read_blocks(self) -> Iterator[ChangeBlock]:
        for block in self._blocks(self._cursor):
            commit = to_commit_of_wire(cast("Mapping[str, Json]", block["commit"]))
            cursor = str(block["cursor"])
            yield ChangeBlock(commit, cursor, self._make_diff(commit))
            self._cursor = cursor

    def _blocks(self, cursor: str) -> Iterator[Mapping[str, Json]]:
        query = {name: value for name, value in self._query.items() if name != "start"}
        while True:
            found = self._connection.read("changes", {**query, "cursor": cursor})
            yield from cast("Sequence[Mapping[str, Json]]", found["blocks"])
            cursor = str(found["cursor"])
            if found["at_end"]:
                return


def read_bytes(stream: ByteStream) -> bytes:
    """Read an answer whole."""
    with stream:
        return b"".join(iter(partial(stream.read, 1 << 20), b""))
