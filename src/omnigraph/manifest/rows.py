"""The rows of ``__manifest``. Only this module knows their shape.

Each kind of row is one frozen dataclass. ``encode_rows`` turns them into the Arrow table that a publish merges,
``decode_rows`` reads them again. A malformed row that a reader needs is an error; a row of an unknown kind belongs to a
newer release and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import StorageError
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals import version_path
from omnigraph.storage.location import Location
from omnigraph.storage.records import (
    FLAG,
    NUMBER,
    TABLE_KEY,
    TEXT,
    MalformedRecord,
    RecordCodec,
    Spelling,
    list_of,
    nullable,
    optional,
    parse_object,
    required,
)
from omnigraph.storage.records import TXN as TXN_PAIR

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN = "main"
SCHEMA_HEAD_ID = "schema_head"

TABLE = "table"
TABLE_VERSION = "table_version"
TABLE_TOMBSTONE = "table_tombstone"
GRAPH_COMMIT = "graph_commit"
GRAPH_HEAD = "graph_head"
SCHEMA_HEAD = "schema_head"
TXN = "txn"
_HEAD_PREFIX = "graph_head:"
_TXN_PREFIX = "txn:"

SCHEMA = pa.schema(
    [
        # Without this mark two publishers could both insert the same new row.
        pa.field("object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


def make_ulid() -> str:
    """Make an id that sorts by the time of its making: of a commit, or of an operation."""
    # Reading needs no new id, and this import takes as long as that of all of Lance's Python.
    from ulid import ULID

    return str(ULID())


@dataclass(frozen=True, slots=True)
class Registration:
    """A table of the graph and its folder, relative to the root."""

    table_key: TableKey
    location: str


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The Lance manifest file of a table version; release 0.8 uses it as a cache key."""

    path: str
    size: int | None = None
    e_tag: str | None = None
    naming_scheme: str = "V2"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table version that belongs to the graph. ``branch`` is None on main."""

    table_key: TableKey
    version: int
    branch: str | None
    row_count: int
    file: ManifestFile


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The table is dropped from this version on."""

    table_key: TableKey
    version: int


@dataclass(frozen=True, slots=True)
class Txn:
    """The highest number that an application committed on the branch, and that commit."""

    app: str
    number: int
    commit_id: str


@dataclass(frozen=True, slots=True)
class WriteKey:
    """Identifies a write, so that repeating it finds its commit: digests of its key and of what it asks for.

    A commit also keeps how many nodes and edges it affected.
    """

    digest: str
    fingerprint: str
    nodes: int = 0
    edges: int = 0


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit of the graph. ``created_at`` is in microseconds since 1970 UTC."""

    id: str
    branch: str | None
    manifest_version: int
    created_at: int
    parent: str | None = None
    merged_parent: str | None = None
    actor: str | None = None
    message: str | None = None
    txn: tuple[str, int] | None = None
    schema_ir_hash: str | None = None
    backfilled: bool = False
    upkeep: bool = False
    """Whether it changes no row: an index build or a compaction. The next commit has the same parent as this one."""
    key: WriteKey | None = None

    @property
    def order(self) -> tuple[int, int, str]:
        """The sort key from old to new."""
        return self.manifest_version, self.created_at, self.id


@dataclass(frozen=True, slots=True)
class HeadPointer:
    """The row that every publish on a branch rewrites, so that two publishers conflict."""

    branch: str
    commit_id: str
    parent: str | None


@dataclass(frozen=True, slots=True)
class SchemaHead:
    """A schema hash and the hashes before it, oldest first.

    The row of main is the current schema of the graph. The row of another branch is the schema of its tables.
    """

    schema_ir_hash: str
    earlier: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All schemas up to this one, oldest first."""
        return (*self.earlier, self.schema_ir_hash)

    @property
    def number(self) -> int:
        """How many schemas were before it. A schema can come back, so a hash alone does not say when it was."""
        return len(self.earlier)


def locate_manifest_file(location: Location, directory: str, branch: str | None, version: int) -> ManifestFile:
    """Return the manifest file of a table version as an object-store path, without bucket or leading slash."""
    tree = f"/tree/{branch}" if branch else ""
    root = location.base if location.is_local else location.prefix
    return ManifestFile(f"{root}/{directory}{tree}/{version_path(version)}".lstrip("/"))


Row: TypeAlias = Registration | TableVersion | Tombstone | Txn | CommitRecord | HeadPointer | SchemaHead

# ------------------------------------------------------------------------------------------------ codecs


def _decode_branch(value: object) -> object:
    return None if value == MAIN else TEXT.decode(value)


_BRANCH: Final = Spelling(TEXT.encode, _decode_branch)
"""The cell of a branch. Main is null or "main"."""

_REGISTRATION: Final = RecordCodec(Registration, (required("table_key", TABLE_KEY), required("location")))

_FILE: Final = RecordCodec(
    ManifestFile,
    (
        required("path", name="manifest_path"),
        nullable("size", NUMBER, "manifest_size"),
        nullable("e_tag"),
        nullable("naming_scheme", default="V2"),
    ),
)

_TABLE_VERSION: Final = RecordCodec(
    TableVersion,
    (
        required("table_key", TABLE_KEY),
        required("version", NUMBER, "table_version"),
        optional("branch", _BRANCH, "table_branch"),
        required("row_count", NUMBER),
    ),
)

_TOMBSTONE: Final = RecordCodec(
    Tombstone, (required("table_key", TABLE_KEY), required("version", NUMBER, "table_version"))
)

WRITE_KEY: Final = RecordCodec(
    WriteKey,
    (
        required("digest", name="k"),
        required("fingerprint", name="f"),
        required("nodes", NUMBER, "n"),
        required("edges", NUMBER, "e"),
    ),
).spelling

_COMMIT: Final = RecordCodec(
    CommitRecord,
    (
        optional("parent", name="parent_commit_id"),
        optional("merged_parent", name="merged_parent_commit_id"),
        optional("actor", name="actor_id"),
        required("created_at", NUMBER),
        # The following fields are ours; release 0.8 ignores them.
        optional("message"),
        optional("txn", TXN_PAIR),
        optional("schema_ir_hash"),
        optional("backfilled", FLAG, default=False),
        optional("upkeep", FLAG, default=False),
        optional("key", WRITE_KEY),
    ),
)

_HEAD: Final = RecordCodec(
    HeadPointer, (required("commit_id", name="head_commit_id"), optional("parent", name="parent_commit_id"))
)

_SCHEMA_HEAD: Final = RecordCodec(
    SchemaHead, (required("schema_ir_hash"), optional("earlier", list_of(TEXT), default=()))
)

_TXN: Final = RecordCodec(Txn, (required("number", NUMBER), required("commit_id")))

# ------------------------------------------------------------------------------------------------ encoding


def encode_rows(rows: Iterable[Row]) -> pa.Table:
    """Return the rows as the one batch that a publish merges."""
    return pa.Table.from_pylist([_encode_cells(row) for row in rows], schema=SCHEMA)


def _encode_cells(row: Row) -> dict[str, object]:
    match row:
        case Registration():
            return _make_cells(row.table_key, TABLE, **_REGISTRATION.encode(row))
        case TableVersion():
            object_id = f"{row.table_key}${row.version:020}"
            return _make_cells(
                object_id, TABLE_VERSION, **_TABLE_VERSION.encode(row), metadata=_FILE.dumps(row.file).decode()
            )
        case Tombstone():
            return _make_cells(
                f"{row.table_key}$tombstone${row.version:020}", TABLE_TOMBSTONE, **_TOMBSTONE.encode(row)
            )
        case Txn():
            return _make_cells(f"{_TXN_PREFIX}{row.app}", TXN, metadata=_TXN.dumps(row).decode())
        case CommitRecord():
            return _make_cells(
                row.id,
                GRAPH_COMMIT,
                table_version=row.manifest_version,
                table_branch=row.branch,
                metadata=_COMMIT.dumps(row).decode(),
            )
        case HeadPointer():
            return _make_cells(name_head(row.branch), GRAPH_HEAD, metadata=_HEAD.dumps(row).decode())
        case SchemaHead():
            return _make_cells(SCHEMA_HEAD_ID, SCHEMA_HEAD, metadata=_SCHEMA_HEAD.dumps(row).decode())


def name_head(branch: str) -> str:
    """Return the key of the row that every publish on a branch rewrites."""
    return f"{_HEAD_PREFIX}{branch}"


def _make_cells(object_id: str, object_type: str, **cells: object) -> dict[str, object]:
    return {"object_id": object_id, "object_type": object_type, "table_key": "", **cells}


# ------------------------------------------------------------------------------------------------ decoding


def decode_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table that was read; rows of unknown kinds are skipped."""
    names = table.column_names
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = _decode_row(dict(zip(names, values, strict=True)))
        if row is not None:
            yield row


def _decode_row(cells: Mapping[str, object]) -> Row | None:
    object_id = str(cells.get("object_id") or cells.get("table_key") or "?")
    try:
        return _decode_cells(object_id, cells)
    except MalformedRecord as error:
        raise malformed_row(object_id, str(error)) from error


def _decode_cells(object_id: str, cells: Mapping[str, object]) -> Row | None:
    match cells["object_type"]:
        case "table":
            return _REGISTRATION.decode(cells)
        case "table_version":
            return _TABLE_VERSION.decode(cells, file=_FILE.decode(_metadata(cells)))
        case "table_tombstone":
            return _TOMBSTONE.decode(cells)
        case "graph_commit":
            recorded_version, metadata = cells.get("table_version"), cells.get("metadata")
            if not isinstance(recorded_version, int) or not isinstance(metadata, str):
                raise MalformedRecord("its table_version or its metadata is missing")
            created_version = cast("int | None", cells.get("_row_created_at_version"))
            branch = cast("str | None", cells["table_branch"])
            return decode_commit(object_id, metadata, branch, recorded_version, created_version)
        case "graph_head":
            return _HEAD.decode(_metadata(cells), branch=object_id.removeprefix(_HEAD_PREFIX))
        case "schema_head":
            return _SCHEMA_HEAD.decode(_metadata(cells))
        case "txn":
            return _TXN.decode(_metadata(cells), app=object_id.removeprefix(_TXN_PREFIX))
        case _:
            return None


def decode_commit(
    commit_id: str, metadata: str, branch: str | None, recorded_version: int, created_version: int | None
) -> CommitRecord:
    """Return the commit of a ``graph_commit`` row.

    Its manifest version is the one that created the row, unless history was backfilled.
    """
    try:
        commit = _COMMIT.decode(
            _parse_metadata(metadata),
            id=commit_id,
            branch=None if branch == MAIN else branch,
            manifest_version=recorded_version if created_version is None else created_version,
        )
    except MalformedRecord as error:
        raise malformed_row(commit_id, str(error)) from error
    return replace(commit, manifest_version=recorded_version) if commit.backfilled else commit


def _metadata(cells: Mapping[str, object]) -> Mapping[str, object]:
    metadata = cells.get("metadata")
    if not isinstance(metadata, str):
        raise MalformedRecord(f"metadata is {metadata!r}, not a text")
    return _parse_metadata(metadata)


def _parse_metadata(metadata: str) -> Mapping[str, object]:
    try:
        return parse_object(metadata)
    except MalformedRecord as error:
        raise MalformedRecord(f"its metadata is {error}") from error


def refuse_missing(rows: pa.Table, *names: str) -> None:
    """Raise if a row lacks a value that its kind needs."""
    for name in names:
        if rows.column(name).null_count:
            damaged = rows.filter(pc.field(name).is_null()).column("object_id")[0].as_py()
            raise malformed_row(str(damaged), f"{name} is missing")


def malformed_row(row: str, why: str) -> StorageError:
    """Return the error for a malformed row."""
    return StorageError(
        f"malformed row '{row}' in __manifest: {why}",
        hint="the manifest was damaged or edited by hand; restore it from a copy",
        details={"row": row},
    )
