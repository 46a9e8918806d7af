"""Sidecars as files: what is written is read again, release 0.8 can read it, and what cannot be read is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import orjson
import pytest

from omnigraph.errors import RecoveryError
from omnigraph.language.schema import TableKey
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.write.commit.sidecars import (
    ROLLBACK,
    Adoption,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    SidecarRemoval,
    SidecarTombstone,
    WriterKind,
    delete_sidecar,
    find_torn_sidecars,
    list_sidecars,
    put_sidecar,
    read_sidecar,
)

FULL = Sidecar(
    "01B",
    1_794_726_305_123_456,
    "dev",
    "act-ann",
    WriterKind.BRANCH_MERGE,
    (
        SidecarPin(TableKey("node:Person"), "/data/g/nodes/1", 4, 5, "dev", 5, "uuid"),
        SidecarPin(TableKey("edge:Knows"), "/e", 1, 2),
    ),
    "01SOURCE",
    "01COMMIT",
    "01PARENT",
    "01PARENT",
    ("app", 7),
    {TableKey("node:Person"): 4, "edge:Knows": 1},
    "hash",
    2,
    "incarnation",
    "why ü",
    ROLLBACK,
    (Adoption(TableKey("node:City"), 7, 12),),
    (
        SidecarRegistration(TableKey("node:New"), "nodes/1"),
        SidecarRegistration(TableKey("node:Newer"), "nodes/2", "dev", 3),
    ),
    (SidecarTombstone(TableKey("node:Old"), 9),),
    "old",
    (SidecarRemoval(TableKey("node:Old"), "nodes/3", 10),),
)
FULL_TEXT = """\
{
  "schema_version": 2,
  "operation_id": "01B",
  "started_at": "1794726305123456",
  "branch": "dev",
  "actor_id": "act-ann",
  "writer_kind": "BranchMerge",
  "tables": [
    {
      "table_key": "node:Person",
      "table_path": "/data/g/nodes/1",
      "expected_version": 4,
      "post_commit_pin": 5,
      "confirmed_version": 5,
      "table_branch": "dev",
      "transaction_uuid": "uuid"
    },
    {
      "table_key": "edge:Knows",
      "table_path": "/e",
      "expected_version": 1,
      "post_commit_pin": 2
    }
  ],
  "merge_source_commit_id": "01SOURCE",
  "commit_id": "01COMMIT",
  "parent_commit_id": "01PARENT",
  "if_commit": "01PARENT",
  "txn": [
    "app",
    7
  ],
  "read_set": {
    "node:Person": 4,
    "edge:Knows": 1
  },
  "schema_ir_hash": "hash",
  "schema_number": 2,
  "branch_incarnation": "incarnation",
  "message": "why ü",
  "decision": "rollback",
  "adopted": [
    {
      "table_key": "node:City",
      "version": 7,
      "row_count": 12
    }
  ],
  "additional_registrations": [
    {
      "table_key": "node:New",
      "table_path": "nodes/1"
    },
    {
      "table_key": "node:Newer",
      "table_path": "nodes/2",
      "table_branch": "dev",
      "version": 3
    }
  ],
  "tombstones": [
    {
      "table_key": "node:Old",
      "tombstone_version": 9
    }
  ],
  "replaces_schema": "old",
  "removals": [
    {
      "table_key": "node:Old",
      "table_path": "nodes/3",
      "version": 10
    }
  ]
}"""

BARE = Sidecar("01A", 1, None, None, WriterKind.LOAD, ())
BARE_TEXT = """\
{
  "schema_version": 2,
  "operation_id": "01A",
  "started_at": "1",
  "branch": null,
  "actor_id": null,
  "writer_kind": "Load",
  "tables": []
}"""


@pytest.fixture
def objects(local_location: Location) -> Objects:
    return Objects(local_location)


def test_every_field_comes_back(objects: Objects) -> None:
    for sidecar in (FULL, BARE):
        put_sidecar(objects, sidecar)
    assert list_sidecars(objects) == [BARE, FULL]
    assert read_sidecar(objects, "01B") == FULL
    delete_sidecar(objects, FULL)
    delete_sidecar(objects, FULL)
    assert read_sidecar(objects, "01B") is None
    delete_sidecar(objects, BARE)
    assert list_sidecars(objects) == []


@pytest.mark.parametrize(("sidecar", "text"), [(FULL, FULL_TEXT), (BARE, BARE_TEXT)], ids=["full", "bare"])
def test_the_bytes_on_disk_are_these(objects: Objects, sidecar: Sidecar, text: str) -> None:
    put_sidecar(objects, sidecar)
    assert (objects.get(sidecar.path) or b"").decode() == text


def test_the_fields_of_release_0_8_are_as_it_writes_them(objects: Objects) -> None:
    put_sidecar(objects, replace(FULL, branch=None, actor_id=None, merge_source_commit_id=None))
    written = cast("dict[str, object]", orjson.loads(objects.get(FULL.path) or b""))
    expected: dict[str, object] = {
        "schema_version": 2,
        "operation_id": "01B",
        "started_at": "1794726305123456",
        "branch": None,
        "actor_id": None,
        "writer_kind": "BranchMerge",
    }
    assert {name: written[name] for name in expected} == expected
    assert "merge_source_commit_id" not in written
    first, second = cast("list[dict[str, object]]", written["tables"])
    assert first["table_branch"] == "dev"
    assert second == {"table_key": "edge:Knows", "table_path": "/e", "expected_version": 1, "post_commit_pin": 2}


TABLE: dict[str, object] = {"table_key": "node:P", "table_path": "/p", "expected_version": 1, "post_commit_pin": 2}
GOOD: dict[str, object] = {
    "schema_version": 2,
    "operation_id": "01X",
    "started_at": "1",
    "branch": None,
    "actor_id": None,
    "writer_kind": "Load",
    "tables": [TABLE],
}


def test_fields_of_the_future_are_passed_over(objects: Objects) -> None:
    objects.put("__recovery/01X.json", orjson.dumps({**GOOD, "colour": "blue"}))
    assert [sidecar.operation_id for sidecar in list_sidecars(objects)] == ["01X"]


@pytest.mark.parametrize(
    "data",
    [
        b"{{",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        *(
            orjson.dumps({**GOOD, **wrong})
            for wrong in cast(
                "list[dict[str, object]]",
                [
                    {"schema_version": 3},
                    {"schema_version": "2"},
                    {"operation_id": "01Y"},
                    {"started_at": "yesterday"},
                    {"writer_kind": "Somebody"},
                    {"tables": None},
                    {"tables": ["node:P"]},
                    {"tables": [{"table_key": "node:P"}]},
                    {"tables": [{**TABLE, "table_key": "P"}]},
                    {"tables": [{**TABLE, "expected_version": "1"}]},
                    {"txn": ["app"]},
                    {"read_set": ["node:P"]},
                ],
            )
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name_and_kept(objects: Objects, data: bytes) -> None:
    objects.put("__recovery/01X.json", data)
    with pytest.raises(RecoveryError, match=r"__recovery/01X\.json") as refused:
        list_sidecars(objects)
    assert refused.value.details == {"sidecar": "__recovery/01X.json"}
    assert objects.get("__recovery/01X.json") == data


@pytest.mark.parametrize("data", [b"", bytes(80), b"{", b'{\n  "schema_version": 2,\n  "operation_id": "01X"'])
def test_a_sidecar_that_a_power_cut_tore_is_left_out(objects: Objects, data: bytes) -> None:
    objects.put("__recovery/01X.json", data)
    assert list_sidecars(objects) == []
    assert find_torn_sidecars(objects) == ["__recovery/01X.json"]
