"""The audit of recoveries: one row for each operation, however many write it and however often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph
from omnigraph.maintain.verify import FindingKind
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.tables import open_table
from omnigraph.write.commit.audit import (
    DIRECTORY,
    Recovery,
    RecoveryKind,
    TableOutcome,
    is_audited,
    list_recoveries,
    record_recovery,
)
from omnigraph.write.commit.section import CommitOptions, commit_operation
from omnigraph.write.commit.table_heads import RECOVERY_ACTOR
from tests.write.writers import LAST, NEXT, make_template, open_manifest, write_commit

AT = datetime(2026, 5, 1, 12, 30, 15, 123456, UTC)
FIRST = Recovery(
    "01COMMIT", RecoveryKind.ROLLED_BACK, "act-ann", "01A", "Load", (TableOutcome("node:Person", 5, 4),), AT
)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return open_manifest(make_template(tmp_path))


def test_nothing_was_recovered_yet(manifest: Manifest) -> None:
    assert list_recoveries(manifest) == []
    assert not is_audited(manifest, "01A")


def test_recoveries_are_listed_newest_first(manifest: Manifest) -> None:
    second = replace(FIRST, operation_id="01B", for_actor=None, outcomes=(), created_at=AT + timedelta(seconds=1))
    record_recovery(manifest, FIRST)
    record_recovery(manifest, second)
    assert list_recoveries(manifest) == [second, FIRST]
    assert is_audited(manifest, "01B")
    assert not is_audited(manifest, "01C")


def test_the_row_on_disk_is_this(manifest: Manifest) -> None:
    moved = (TableOutcome("node:Person", 5, 4), TableOutcome("edge:Knows", 2, 1))
    record_recovery(manifest, replace(FIRST, for_actor=None, outcomes=moved))
    table = open_table(manifest.location.join(DIRECTORY), None, None, manifest.access)
    assert table.scan().read_all().to_pylist() == [
        {
            "graph_commit_id": "01COMMIT",
            "recovery_kind": "RolledBack",
            "recovery_for_actor": None,
            "operation_id": "01A",
            "sidecar_writer_kind": "Load",
            "per_table_outcomes_json": '[{"table_key":"node:Person","from_version":5,"to_version":4},'
            '{"table_key":"edge:Knows","from_version":2,"to_version":1}]',
            "created_at": AT.replace(tzinfo=None),
        }
    ]


def test_an_operation_is_recorded_once_and_the_first_stays(manifest: Manifest) -> None:
    record_recovery(manifest, FIRST)
    record_recovery(manifest, replace(FIRST, kind=RecoveryKind.ROLLED_FORWARD))
    assert list_recoveries(manifest) == [FIRST]


@pytest.mark.parametrize("race", range(6))
def test_many_at_once_record_one_row_each(manifest: Manifest, race: int) -> None:
    del race
    # None of them finds a table: of two that make it, the later one must not put an empty one over the other's row.
    wanted = [replace(FIRST, operation_id=operation) for operation in ("01A", "01B") for _ in range(2)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        for done in [pool.submit(record_recovery, open_manifest(manifest.location.uri), each) for each in wanted]:
            done.result()
    assert sorted(found.operation_id for found in list_recoveries(manifest)) == ["01A", "01B"]


def test_a_row_of_a_later_release_is_shown_and_blocks_nobody(manifest: Manifest) -> None:
    record_recovery(manifest, replace(FIRST, kind="SteppedOver"))
    record_recovery(manifest, replace(FIRST, operation_id="01B", writer_kind="Vacuum"))
    assert {(found.kind, found.writer_kind) for found in list_recoveries(manifest)} == {
        ("SteppedOver", "Load"),
        (RecoveryKind.ROLLED_BACK, "Vacuum"),
    }
    # A writer that finds a commit of recovery at the head looks into the audit.
    options = CommitOptions(MAIN, manifest.schema_hash(), RECOVERY_ACTOR)
    assert commit_operation(manifest, NEXT, options).commit
    write_commit(manifest, LAST)
    graph = omnigraph.open(manifest.location.uri)
    assert {str(found.kind) for found in graph.recoveries()} == {"SteppedOver", "RolledBack"}
    assert not [found for found in graph.verify().findings if found.kind is FindingKind.AUDIT]
