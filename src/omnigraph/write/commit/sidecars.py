"""Sidecars: what a writer is about to do, written down before it does it, so that anybody can finish it.

A sidecar is one JSON object in ``__recovery/``. The fields of release 0.8 are kept; ours stand beside them and are
passed over by that reader. A sidecar that cannot be read is refused and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final, cast

import orjson

from omnigraph.errors import RecoveryError
from omnigraph.language.schema import TableKey
from omnigraph.storage.objects import Objects

FOLDER: Final = "__recovery"
SCHEMA_VERSION: Final = 2
ROLLBACK: Final = "rollback"


class WriterKind(StrEnum):
    """Who writes."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


@dataclass(frozen=True, slots=True)
class SidecarPin:
    """One table of an operation: where it stands and which version the operation's commit makes."""

    table_key: TableKey
    table_path: str
    expected_version: int
    post_commit_pin: int
    table_branch: str | None = None
    confirmed_version: int | None = None
    transaction_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Adoption:
    """One table whose version on main the operation shows on its branch, without a commit of its own."""

    table_key: TableKey
    version: int
    row_count: int


@dataclass(frozen=True, slots=True)
class SidecarRegistration:
    """One table that the operation adds to the branch: where it lies, and the version that its commit makes.

    Release 0.8 does not say the version, and shows what it finds.
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
class Sidecar:
    """One operation. Without a ``commit_id`` it was written by release 0.8.

    With ``replaces_schema`` the graph gets the schema ``schema_ir_hash`` in its place, or a branch catches up with it.
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
    branch_incarnation: str | None = None
    message: str | None = None
    decision: str | None = None
    adopted: tuple[Adoption, ...] = ()
    additional_registrations: tuple[SidecarRegistration, ...] = ()
    tombstones: tuple[SidecarTombstone, ...] = ()
    replaces_schema: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{FOLDER}/{self.operation_id}.json"


def put_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Write a sidecar, or write it anew with a decision in it."""
    objects.put(sidecar.path, _encoded(sidecar))


def read_sidecar(objects: Objects, operation_id: str) -> Sidecar | None:
    """The sidecar of an operation; None when it is gone."""
    path = f"{FOLDER}/{operation_id}.json"
    data = objects.get(path)
    return None if data is None else _decoded(path, data)


def list_sidecars(objects: Objects) -> list[Sidecar]:
    """All sidecars, oldest first. One that vanishes meanwhile is finished; one that cannot be read is loud."""
    found = [(path, objects.get(path)) for path in _paths(objects)]
    return [_decoded(path, data) for path, data in found if data is not None]


def has_sidecars(objects: Objects) -> bool:
    """Whether there is anything to finish: one listing, empty in the steady state."""
    return bool(_paths(objects))


def _paths(objects: Objects) -> list[str]:
    return [info.path for info in objects.list(FOLDER) if info.path.endswith(".json")]


def delete_sidecar(objects: Objects, sidecar: Sidecar) -> None:
    """Remove a sidecar; one that is gone already is fine."""
    objects.delete(sidecar.path)


# --------------------------------------------------------------------------------------------- JSON


def _encoded(sidecar: Sidecar) -> bytes:
    found: dict[str, object] = {
        "schema_version": sidecar.schema_version,
        "operation_id": sidecar.operation_id,
        "started_at": str(sidecar.started_at),
        "branch": sidecar.branch,
        "actor_id": sidecar.actor_id,
        "writer_kind": sidecar.writer_kind,
        "tables": [_encoded_pin(pin) for pin in sidecar.tables],
    }
    ours: dict[str, object] = {
        "merge_source_commit_id": sidecar.merge_source_commit_id,
        "commit_id": sidecar.commit_id,
        "parent_commit_id": sidecar.parent_commit_id,
        "if_commit": sidecar.if_commit,
        "txn": None if sidecar.txn is None else list(sidecar.txn),
        "read_set": {str(key): version for key, version in sidecar.read_set.items()} or None,
        "schema_ir_hash": sidecar.schema_ir_hash,
        "branch_incarnation": sidecar.branch_incarnation,
        "message": sidecar.message,
        "decision": sidecar.decision,
        "adopted": [asdict(adoption) for adoption in sidecar.adopted] or None,
        "additional_registrations": [_present(asdict(each)) for each in sidecar.additional_registrations] or None,
        "tombstones": [asdict(each) for each in sidecar.tombstones] or None,
        "replaces_schema": sidecar.replaces_schema,
    }
    return orjson.dumps(found | _present(ours), option=orjson.OPT_INDENT_2)


def _encoded_pin(pin: SidecarPin) -> dict[str, object]:
    found: dict[str, object] = {
        "table_key": pin.table_key,
        "table_path": pin.table_path,
        "expected_version": pin.expected_version,
        "post_commit_pin": pin.post_commit_pin,
    }
    optional: dict[str, object] = {
        "confirmed_version": pin.confirmed_version,
        "table_branch": pin.table_branch,
        "transaction_uuid": pin.transaction_uuid,
    }
    return found | _present(optional)


def _present(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _decoded(path: str, data: bytes) -> Sidecar:
    try:
        found = cast("dict[str, object]", orjson.loads(data))
        version = cast(int, found["schema_version"])
        if version > SCHEMA_VERSION:
            raise _unreadable(path, f"it has version {version}; this release knows up to {SCHEMA_VERSION}")
        txn = cast("Sequence[object] | None", found.get("txn"))
        if path != f"{FOLDER}/{found['operation_id']}.json":
            raise _unreadable(path, f"it says that it is of operation {found['operation_id']}")
        return Sidecar(
            str(found["operation_id"]),
            int(cast(str, found["started_at"])),
            _text(found, "branch"),
            _text(found, "actor_id"),
            WriterKind(str(found["writer_kind"])),
            tuple(_decoded_pin(pin) for pin in cast("list[dict[str, object]]", found["tables"])),
            _text(found, "merge_source_commit_id"),
            _text(found, "commit_id"),
            _text(found, "parent_commit_id"),
            _text(found, "if_commit"),
            None if txn is None else (str(txn[0]), int(cast(int, txn[1]))),
            dict(cast("dict[str, int]", found.get("read_set") or {})),
            _text(found, "schema_ir_hash"),
            _text(found, "branch_incarnation"),
            _text(found, "message"),
            _text(found, "decision"),
            tuple(_decoded_adoption(each) for each in _several(found, "adopted")),
            tuple(_decoded_registration(each) for each in _several(found, "additional_registrations")),
            tuple(_decoded_tombstone(each) for each in _several(found, "tombstones")),
            _text(found, "replaces_schema"),
            version,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from error


def _decoded_pin(found: Mapping[str, object]) -> SidecarPin:
    return SidecarPin(
        TableKey.parse(str(found["table_key"])),
        str(found["table_path"]),
        int(cast(int, found["expected_version"])),
        int(cast(int, found["post_commit_pin"])),
        _text(found, "table_branch"),
        cast("int | None", found.get("confirmed_version")),
        _text(found, "transaction_uuid"),
    )


def _decoded_adoption(found: Mapping[str, object]) -> Adoption:
    version, row_count = (int(cast(int, found[name])) for name in ("version", "row_count"))
    return Adoption(TableKey.parse(str(found["table_key"])), version, row_count)


def _decoded_registration(found: Mapping[str, object]) -> SidecarRegistration:
    version = cast("int | None", found.get("version"))
    return SidecarRegistration(
        TableKey.parse(str(found["table_key"])), str(found["table_path"]), _text(found, "table_branch"), version
    )


def _decoded_tombstone(found: Mapping[str, object]) -> SidecarTombstone:
    return SidecarTombstone(TableKey.parse(str(found["table_key"])), int(cast(int, found["tombstone_version"])))


def _several(found: Mapping[str, object], name: str) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", found.get(name) or [])


def _text(found: Mapping[str, object], name: str) -> str | None:
    value = found.get(name)
    return None if value is None else str(value)


def _unreadable(path: str, why: str) -> RecoveryError:
    return RecoveryError(
        f"the sidecar {path} cannot be read: {why}",
        hint="it was kept; look at it, or open the graph with the release that wrote it",
        details={"sidecar": path},
    )
