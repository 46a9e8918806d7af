"""Sidecars: a writer records what it is about to do, so that any other process can finish it.

A sidecar is one JSON object in ``__recovery/``. It has the fields of release 0.8 and further ones, which that release
ignores. A sidecar that cannot be read is refused and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from omnigraph.errors import RecoveryError
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.rows import WRITE_KEY, WriteKey
from omnigraph.storage.durability import SyncFailed
from omnigraph.storage.objects import Objects
from omnigraph.storage.records import (
    NUMBER,
    NUMBER_AS_TEXT,
    TABLE_KEY,
    TXN,
    VERSIONS,
    MalformedRecord,
    RecordCodec,
    list_of,
    nullable,
    optional,
    parse_object,
    required,
    word_of,
)

FOLDER: Final = "__recovery"
SCHEMA_VERSION: Final = 2
ROLLBACK: Final = "rollback"
_BEGINNING: Final = b'{\n  "schema_version": '


class WriterKind(StrEnum):
    """The kind of operation."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"

    @property
    def is_upkeep(self) -> bool:
        """Whether it changes no row."""
        return self in (WriterKind.OPTIMIZE, WriterKind.ENSURE_INDICES)


@dataclass(frozen=True, slots=True)
class SidecarPin:
    """One table of an operation: its version before, and the version that the operation's commit makes."""

    table_key: TableKey
    table_path: str
    expected_version: int
    post_commit_pin: int
    table_branch: str | None = None
    confirmed_version: int | None = None
    transaction_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """One table whose version on main the operation publishes on its branch, without a commit of its own."""

    table_key: TableKey
    version: int
    row_count: int


@dataclass(frozen=True, slots=True)
class SidecarRegistration:
    """One table that the operation adds: its folder, and the version that its commit makes.

    Release 0.8 records no version.
    """

    table_key: TableKey
    table_path: str
    """Relative to the root."""
    table_branch: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class SidecarTombstone:
    """One table that the operation drops."""

    table_key: TableKey
    tombstone_version: int


@dataclass(frozen=True, slots=True)
class SidecarRemoval:
    """One table that loses its past after the commit: every version with rows below ``version``."""

    table_key: TableKey
    table_path: str
    """Relative to the root."""
    version: int


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One operation. Release 0.8 writes no ``commit_id``.

    With ``replaces_schema`` the operation changes the schema of the graph, or of a lagging branch, to
    ``schema_ir_hash``. A sidecar with ``removals`` stays until they are done.
    """

    operation_id: str
    started_at: int
    """In microseconds since 1970 UTC."""
    branch: str | None
    actor_id: str | None
    writer_kind: WriterKind
    tables: tuple[SidecarPin, ...]
    merge_source_commit_id: str | None = None
    commit_id: str | None = None
    parent_commit_id: str | None = None
    if_commit: str | None = None
    txn: tuple[str, int] | None = None
    read_set: Mapping[str, int] = field(default_factory=dict[str, int])
    schema_ir_hash: str | None = None
    schema_number: int | None = None
    """How many schemas the graph had before the one that the operation was validated with."""
    branch_incarnation: str | None = None
    message: str | None = None
    decision: str | None = None
    adopted: tuple[Adoption, ...] = ()
    additional_registrations: tuple[SidecarRegistration, ...] = ()
    tombstones: tuple[SidecarTombstone, ...] = ()
    replaces_schema: str | None = None
    removals: tuple[SidecarRemoval, ...] = ()
    key: WriteKey | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def path(self) -> str:
        """The path of its object."""
        return f"{FOLDER}/{self.operation_id}.json"


def put_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Write a sidecar, or replace it by one with a decision."""
    objects.put(sidecar.path, _SIDECAR.dumps(sidecar, indent=True))


def decide_rollback(objects: Objects, sidecar: Sidecar) -> Sidecar:
    """Mark the operation of a sidecar as rolled back, for any process that finishes it, and return the sidecar.

    The mark is written even if the disk cannot sync: after a power cut, a torn sidecar is discarded anyway.
    """
    decided = replace(sidecar, decision=ROLLBACK)
    try:
        put_sidecar(objects, decided)
    except SyncFailed:
        put_sidecar(Objects(objects.location), decided)
    return decided


def read_sidecar(objects: Objects, operation_id: str) -> Sidecar | None:
    """Return the sidecar of an operation; None if it was deleted."""
    path = f"{FOLDER}/{operation_id}.json"
    data = objects.get(path)
    return None if data is None else _decode(path, data)


def list_sidecars(objects: Objects) -> list[Sidecar]:
    """Return all sidecars, oldest first. An unreadable one is an error, but a torn one is left out.

    So is one that is deleted meanwhile. Usually there is none: then it costs one listing.
    """
    return [_decode(path, data) for path, data in _read_all(objects) if not _is_torn(data)]


def find_torn_sidecars(objects: Objects) -> list[str]:
    """Return the paths of incomplete sidecars: a power cut came before their writers did anything else."""
    return [path for path, data in _read_all(objects) if _is_torn(data)]


def _read_all(objects: Objects) -> list[tuple[str, bytes]]:
    paths = [info.path for info in objects.list(FOLDER) if info.path.endswith(".json")]
    found = ((path, objects.get(path)) for path in paths)
    return [(path, data) for path, data in found if data is not None]


def _is_torn(data: bytes) -> bool:
    """Whether a sidecar is empty, or ends before its end."""
    begins = data[: len(_BEGINNING)] == _BEGINNING[: len(data)]
    return not data.strip(b"\0") or (begins and not data.rstrip().endswith(b"}"))


def delete_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Delete a sidecar, if it exists. If a power cut brings it back, its operation is finished, and it goes again."""
    objects.discard(sidecar.path)


# --------------------------------------------------------------------------------------------- JSON

_PIN: Final = RecordCodec(
    SidecarPin,
    (
        required("table_key", TABLE_KEY),
        required("table_path"),
        required("expected_version", NUMBER),
        required("post_commit_pin", NUMBER),
        optional("confirmed_version", NUMBER),
        optional("table_branch"),
        optional("transaction_uuid"),
    ),
)
_ADOPTION: Final = RecordCodec(
    Adoption, (required("table_key", TABLE_KEY), required("version", NUMBER), required("row_count", NUMBER))
)
_REGISTRATION: Final = RecordCodec(
    SidecarRegistration,
    (
        required("table_key", TABLE_KEY),
        required("table_path"),
        optional("table_branch"),
        optional("version", NUMBER),
    ),
)
_TOMBSTONE: Final = RecordCodec(
    SidecarTombstone, (required("table_key", TABLE_KEY), required("tombstone_version", NUMBER))
)
_REMOVAL: Final = RecordCodec(
    SidecarRemoval, (required("table_key", TABLE_KEY), required("table_path"), required("version", NUMBER))
)
_SIDECAR: Final = RecordCodec(
    Sidecar,
    (
        required("schema_version", NUMBER),
        required("operation_id"),
        required("started_at", NUMBER_AS_TEXT),
        nullable("branch"),
        nullable("actor_id"),
        required("writer_kind", word_of(WriterKind)),
        required("tables", list_of(_PIN.spelling)),
        optional("merge_source_commit_id"),
        optional("commit_id"),
        optional("parent_commit_id"),
        optional("if_commit"),
        optional("txn", TXN),
        optional("read_set", VERSIONS, default={}),
        optional("schema_ir_hash"),
        optional("schema_number", NUMBER),
        optional("branch_incarnation"),
        optional("message"),
        optional("decision"),
        optional("adopted", list_of(_ADOPTION.spelling), default=()),
        optional("additional_registrations", list_of(_REGISTRATION.spelling), default=()),
        optional("tombstones", list_of(_TOMBSTONE.spelling), default=()),
        optional("replaces_schema"),
        optional("removals", list_of(_REMOVAL.spelling), default=()),
        optional("key", WRITE_KEY),
    ),
)


def _decode(path: str, data: bytes) -> Sidecar:
    try:
        found = parse_object(data)
        version = found.get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise _unreadable(path, f"it has version {version}; this release knows up to {SCHEMA_VERSION}")
        sidecar = _SIDECAR.decode(found)
    except MalformedRecord as error:
        raise _unreadable(path, str(error)) from error
    if path != sidecar.path:
        raise _unreadable(path, f"it belongs to operation {sidecar.operation_id}")
    return sidecar


def _unreadable(path: str, why: str) -> RecoveryError:
    return RecoveryError(
        f"the sidecar {path} cannot be read: {why}",
        hint="it was kept; look at it, or open the graph with the release that wrote it",
        details={"sidecar": path},
    )
