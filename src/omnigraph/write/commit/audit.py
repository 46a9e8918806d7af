"""The audit table of recovery: one row for each operation that was finished by another process than its writer."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import AlreadyExists, NotFound, PublishContention, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.records import (
    NUMBER,
    MalformedRecord,
    RecordCodec,
    Spelling,
    json_text_of,
    known_word_of,
    list_of,
    nullable,
    required,
)
from omnigraph.storage.tables import Table, discard_torn_versions, open_newest_whole

DIRECTORY: Final = "_graph_commit_recoveries.lance"
_ATTEMPTS: Final = 6

SCHEMA: Final = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        # Marked as primary key, so that two recoverers of one operation cannot both insert its row.
        pa.field("operation_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("sidecar_writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes_json", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)


class RecoveryKind(StrEnum):
    """How an operation was finished."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED_BRANCH_DISCARDED = "OrphanedBranchDiscarded"
    DRIFT_DISCARDED = "DriftDiscarded"
    TORN_DISCARDED = "TornDiscarded"
    """A power cut left it incomplete, so it was never committed."""


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """One table: the version that was found, and the version whose rows it shows now."""

    table_key: str
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """One recovered operation, the commit that published the result, and the actor of the operation."""

    graph_commit_id: str
    kind: RecoveryKind | str
    """A kind that a later release added is a text."""
    for_actor: str | None
    operation_id: str
    writer_kind: str
    outcomes: tuple[TableOutcome, ...]
    created_at: datetime


def _decode_timestamp(value: object) -> object:
    if not isinstance(value, datetime):
        raise ValueError("not a time")
    return value.replace(tzinfo=UTC)


_TIMESTAMP: Final = Spelling(
    lambda value: cast(datetime, value).astimezone(UTC).replace(tzinfo=None), _decode_timestamp
)
"""A column of Arrow timestamps without a time zone, in UTC."""

_OUTCOME: Final = RecordCodec(
    TableOutcome, (required("table_key"), required("from_version", NUMBER), required("to_version", NUMBER))
)
_RECOVERY: Final = RecordCodec(
    Recovery,
    (
        required("graph_commit_id"),
        required("kind", known_word_of(RecoveryKind), "recovery_kind"),
        nullable("for_actor", name="recovery_for_actor"),
        required("operation_id"),
        required("writer_kind", name="sidecar_writer_kind"),
        required("outcomes", json_text_of(list_of(_OUTCOME.spelling)), "per_table_outcomes_json"),
        required("created_at", _TIMESTAMP),
    ),
)


def is_audited(manifest: Manifest, operation_id: str) -> bool:
    """Return whether the operation has a row."""
    table = _open(manifest)
    return table is not None and table.count_rows(f"operation_id = '{operation_id}'") > 0


def list_audited_commits(manifest: Manifest) -> set[str]:
    """Return the commits that have a row. Nothing else of the rows is decoded: writers ask this."""
    table = _open(manifest)
    column = "graph_commit_id"
    return set() if table is None else {*cast("list[str]", to_list(column_of(table.scan([column]).read_all(), column)))}


def record_recovery(manifest: Manifest, recovery: Recovery) -> None:
    """Insert the row of an operation unless it exists: exactly once, however many processes try."""
    discard_torn_versions(_uri(manifest), None, manifest.access)
    row = pa.Table.from_pylist([_RECOVERY.encode(recovery)], schema=SCHEMA)
    for _ in range(_ATTEMPTS):
        table = _open(manifest)
        try:
            if table is None:
                table = tables.create_empty_table(_uri(manifest), SCHEMA, "recovery.audit", manifest.access)
            tables.insert_absent_rows(table, row, on="operation_id")
        except (AlreadyExists, PublishContention):
            # Another recovery wrote at the same time: try again.
            continue
        manifest.sync()
        return
    raise PublishContention("too many processes write the audit table of recoveries", hint="retry")


def list_recoveries(manifest: Manifest) -> list[Recovery]:
    """Return all recoveries, newest first."""
    table = _open(manifest)
    if table is None:
        return []
    rows = table.scan().read_all().to_pylist()
    try:
        found = [_RECOVERY.decode(row) for row in rows]
    except MalformedRecord as error:
        raise StorageError(f"a row of the audit of recovery is damaged: {error}") from error
    return sorted(found, key=lambda recovery: recovery.created_at, reverse=True)


def _uri(manifest: Manifest) -> str:
    return manifest.location.join(DIRECTORY)


def _open(manifest: Manifest) -> Table | None:
    try:
        return open_newest_whole(_uri(manifest), None, manifest.access)
    except NotFound:
        return None
