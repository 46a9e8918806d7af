"""The rows of ``__manifest``: the only place that knows their shape.

Each kind of row is one frozen fact. ``encode`` turns facts into the Arrow table that a publish merges, ``decode``
turns what was read back into facts. A row that a reader needs and that is malformed is a hard error; a row of an
unknown kind belongs to somebody newer and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location

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

SCHEMA = pa.schema(
    [
        # Without this mark two publishers that insert the same new row would both succeed.
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


@dataclass(frozen=True, slots=True)
class Registration:
    """A table of the graph and where it lies, relative to the root."""

    table_key: str
    location: str


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What is known of the Lance manifest behind a table version; other readers use it as a cache key."""

    path: str
    size: int | None = None
    e_tag: str | None = None
    naming_scheme: str = "V2"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table that belongs to the graph. ``branch`` is None on main."""

    table_key: str
    version: int
    branch: str | None
    row_count: int
    file: ManifestFile


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The table is gone from this version on."""

    table_key: str
    version: int


@dataclass(frozen=True, slots=True)
class Txn:
    """The highest number that an application has committed on the branch, and the commit that did it."""

    app: str
    number: int
    commit_id: str


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

    @property
    def order(self) -> tuple[int, int, str]:
        """What decides which of two commits is newer."""
        return self.manifest_version, self.created_at, self.id


@dataclass(frozen=True, slots=True)
class HeadPointer:
    """The row that every publish on a branch rewrites: the point where two publishers collide."""

    branch: str
    commit_id: str
    parent: str | None


@dataclass(frozen=True, slots=True)
class SchemaHead:
    """The current schema of the graph, and those that it had before, the oldest first.

    Main's is the one that counts. That of another branch says how far its tables have come.
    """

    schema_ir_hash: str
    earlier: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every schema that the graph had, and the one that it has."""
        return (*self.earlier, self.schema_ir_hash)


def manifest_file(location: Location, directory: str, branch: str | None, version: int) -> ManifestFile:
    """Where the Lance manifest of a table version lies: an object-store path, without bucket or leading slash."""
    tree = f"/tree/{branch}" if branch else ""
    root = location.base if location.is_local else location.prefix
    return ManifestFile(f"{root}/{directory}{tree}/_versions/{2**64 - 1 - version:020}.manifest".lstrip("/"))


Row: TypeAlias = Registration | TableVersion | Tombstone | Txn | CommitRecord | HeadPointer | SchemaHead

# ------------------------------------------------------------------------------------------------ encoding


def encode(rows: Iterable[Row]) -> pa.Table:
    """The rows as the one batch that a publish merges."""
    return pa.Table.from_pylist([_cells(row) for row in rows], schema=SCHEMA)


def _cells(row: Row) -> dict[str, object]:
    match row:
        case Registration():
            return _row(row.table_key, TABLE, table_key=row.table_key, location=row.location)
        case TableVersion():
            return _row(
                f"{row.table_key}${row.version:020}",
                TABLE_VERSION,
                table_key=row.table_key,
                table_version=row.version,
                table_branch=row.branch,
                row_count=row.row_count,
                metadata=_json(
                    manifest_path=row.file.path,
                    manifest_size=row.file.size,
                    e_tag=row.file.e_tag,
                    naming_scheme=row.file.naming_scheme,
                ),
            )
        case Tombstone():
            object_id = f"{row.table_key}$tombstone${row.version:020}"
            return _row(object_id, TABLE_TOMBSTONE, table_key=row.table_key, table_version=row.version)
        case Txn():
            return _row(f"txn:{row.app}", TXN, metadata=_json(number=row.number, commit_id=row.commit_id))
        case CommitRecord():
            return _row(
                row.id,
                GRAPH_COMMIT,
                table_version=row.manifest_version,
                table_branch=row.branch,
                metadata=_commit_json(row),
            )
        case HeadPointer():
            metadata = _present(head_commit_id=row.commit_id, parent_commit_id=row.parent)
            return _row(f"graph_head:{row.branch}", GRAPH_HEAD, metadata=_json(**metadata))
        case SchemaHead():
            known = {"schema_ir_hash": row.schema_ir_hash, **({"earlier": row.earlier} if row.earlier else {})}
            return _row(SCHEMA_HEAD_ID, SCHEMA_HEAD, metadata=_json(**known))


def _row(object_id: str, object_type: str, **cells: object) -> dict[str, object]:
    return {"object_id": object_id, "object_type": object_type, "table_key": "", **cells}


def _commit_json(commit: CommitRecord) -> str:
    known = _present(
        parent_commit_id=commit.parent,
        merged_parent_commit_id=commit.merged_parent,
        actor_id=commit.actor,
    )
    ours = _present(
        message=commit.message,
        txn=None if commit.txn is None else list(commit.txn),
        schema_ir_hash=commit.schema_ir_hash,
        backfilled=commit.backfilled or None,
    )
    return _json(**known, created_at=commit.created_at, **ours)


def _present(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _json(**values: object) -> str:
    return orjson.dumps(values).decode()


# ------------------------------------------------------------------------------------------------ decoding


def decode(table: pa.Table) -> Iterator[Row]:
    """The facts in rows that were read; rows of unknown kinds are passed over."""
    names = table.column_names
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = _decoded(dict(zip(names, values, strict=True)))
        if row is not None:
            yield row


def _decoded(cells: Mapping[str, object]) -> Row | None:
    match cells["object_type"]:
        case "table":
            return Registration(_text(cells, "table_key"), _text(cells, "location"))
        case "table_version":
            return table_version(cells)
        case "table_tombstone":
            return Tombstone(_text(cells, "table_key"), _number(cells, "table_version"))
        case "graph_commit":
            return commit_record(
                _text(cells, "object_id"),
                _text(cells, "metadata"),
                cast("str | None", cells["table_branch"]),
                _number(cells, "table_version"),
                cast("int | None", cells.get("_row_created_at_version")),
            )
        case "graph_head":
            metadata = _metadata(cells)
            branch = _text(cells, "object_id").removeprefix("graph_head:")
            return HeadPointer(branch, _text(metadata, "head_commit_id"), _optional(metadata, "parent_commit_id"))
        case "schema_head":
            metadata = _metadata(cells)
            earlier = cast("list[str]", metadata.get("earlier") or [])
            return SchemaHead(_text(metadata, "schema_ir_hash"), tuple(earlier))
        case "txn":
            metadata = _metadata(cells)
            app = _text(cells, "object_id").removeprefix("txn:")
            return Txn(app, _number(metadata, "number"), _text(metadata, "commit_id"))
        case _:
            return None


def table_version(cells: Mapping[str, object]) -> TableVersion:
    """A ``table_version`` row, checked."""
    file = _metadata(cells)
    return TableVersion(
        _text(cells, "table_key"),
        _number(cells, "table_version"),
        _main_as_none(cast("str | None", cells["table_branch"])),
        _number(cells, "row_count"),
        ManifestFile(
            _text(file, "manifest_path"),
            cast("int | None", file.get("manifest_size")),
            _optional(file, "e_tag"),
            _optional(file, "naming_scheme") or "V2",
        ),
    )


def commit_record(
    commit_id: str, metadata: str, branch: str | None, recorded_version: int, created_version: int | None
) -> CommitRecord:
    """A ``graph_commit`` row. The version that created the row is its own, unless history was backfilled."""
    found = _parsed(metadata, commit_id)
    backfilled = found.get("backfilled") is True
    return CommitRecord(
        commit_id,
        _main_as_none(branch),
        recorded_version if backfilled or created_version is None else created_version,
        _number(found, "created_at"),
        _optional(found, "parent_commit_id"),
        _optional(found, "merged_parent_commit_id"),
        _optional(found, "actor_id"),
        _optional(found, "message"),
        _txn(found),
        _optional(found, "schema_ir_hash"),
        backfilled,
    )


def _main_as_none(branch: str | None) -> str | None:
    return None if branch == MAIN else branch


def _txn(commit: Mapping[str, object]) -> tuple[str, int] | None:
    match commit.get("txn"):
        case None:
            return None
        case [str(app), int(number)]:
            return app, number
        case other:
            raise malformed(_name(commit), f"txn is {other!r}, not an application and a number")


def _metadata(cells: Mapping[str, object]) -> Mapping[str, object]:
    return _parsed(_text(cells, "metadata"), _name(cells))


def _parsed(text: str, row: str) -> Mapping[str, object]:
    try:
        found: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise malformed(row, f"its metadata is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise malformed(row, "its metadata is no JSON object")
    # Under the row's name, so that a complaint about one of the values can say whose it is.
    return {**cast("Mapping[str, object]", found), "object_id": row}


def _text(cells: Mapping[str, object], name: str) -> str:
    value = cells.get(name)
    if not isinstance(value, str):
        raise malformed(_name(cells), f"{name} is {value!r}, not a text")
    return value


def _number(cells: Mapping[str, object], name: str) -> int:
    value = cells.get(name)
    if not isinstance(value, int):
        raise malformed(_name(cells), f"{name} is {value!r}, not a number")
    return value


def _optional(cells: Mapping[str, object], name: str) -> str | None:
    return None if cells.get(name) is None else _text(cells, name)


def _name(cells: Mapping[str, object]) -> str:
    return str(cells.get("object_id") or cells.get("table_key") or "?")


def refuse_missing(rows: pa.Table, *names: str) -> None:
    """Rows without a value that their kind needs are a hard error."""
    for name in names:
        if rows.column(name).null_count:
            damaged = rows.filter(pc.field(name).is_null()).column("object_id")[0].as_py()
            raise malformed(str(damaged), f"{name} is missing")


def malformed(row: str, why: str) -> StorageError:
    """The error for a row that cannot be what it says it is."""
    return StorageError(
        f"malformed row '{row}' in __manifest: {why}",
        hint="the manifest was damaged or edited by hand; restore it from a copy",
        details={"row": row},
    )
