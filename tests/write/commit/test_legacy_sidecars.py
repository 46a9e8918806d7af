"""Sidecars of release 0.8, which carry no ids: version numbers say whose a change is, and all tables go one way.

The tables moved for real, by commits without an operation's id, as that release makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import orjson
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins
from omnigraph.write.commit.audit import RecoveryKind, TableOutcome, list_recoveries
from tests.write.writers import (
    CITY,
    PERSON,
    assert_settled,
    copy_template,
    fail_first_write,
    make_template,
    open_manifest,
    read_state,
)

FORWARD, BACK = RecoveryKind.ROLLED_FORWARD, RecoveryKind.ROLLED_BACK
OPERATION = "01JZZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_template(make_template(tmp_path))


@dataclass(frozen=True, slots=True)
class Pinned:
    """One table of a sidecar: how often it moved, and what the sidecar says, counted from its pin."""

    moved: int
    expected: int = 0
    post_commit: int = 1
    confirmed: int | None = None
    key: str = CITY


def leave_sidecar(root: Path, kind: str, tables: Sequence[Pinned], version: int = 2, *, indexes: bool = False) -> None:
    """Move the tables and write the sidecar, as a writer of 0.8 that died before its publish."""
    manifest = open_manifest(root)
    pins = list_pins(manifest.view(MAIN))
    listed: list[dict[str, object]] = []
    for each in tables:
        pin = pins[each.key]
        uri = str(root / pin.location)
        for number in range(each.moved):
            _move(uri, f"new{number}", indexes=indexes)
        entry: dict[str, object] = {
            "table_key": each.key,
            "table_path": uri,
            "expected_version": pin.version + each.expected,
            "post_commit_pin": pin.version + each.post_commit,
        }
        confirmed = {} if each.confirmed is None else {"confirmed_version": pin.version + each.confirmed}
        listed.append({**entry, **confirmed})
    _put(root, {"schema_version": version, "writer_kind": kind, "tables": listed})


def _move(uri: str, name: str, *, indexes: bool) -> None:
    dataset = lance.dataset(uri)
    if indexes:
        dataset.create_scalar_index("id", "BTREE", replace=True)
    else:
        lance.write_dataset(pa.table({"id": [name], "name": [name]}, schema=dataset.schema), uri, mode="append")


def _put(root: Path, fields: Mapping[str, object]) -> None:
    file = root / "__recovery" / f"{OPERATION}.json"
    file.parent.mkdir(exist_ok=True)
    common = {"operation_id": OPERATION, "started_at": "1794726305123456", "branch": None, "actor_id": "act-ann"}
    file.write_bytes(orjson.dumps({**common, **fields}))


def open_healed(root: Path) -> Manifest:
    """What a read-write open makes of it."""
    omnigraph.open(root)
    return open_manifest(root)


CASES: dict[str, tuple[str, int, Pinned, RecoveryKind]] = {
    "strict: the one commit that was meant": ("Load", 2, Pinned(1), FORWARD),
    "strict: no movement": ("Load", 2, Pinned(0), BACK),
    "strict: one commit, of another pin": ("Mutation", 2, Pinned(1, expected=-1, post_commit=0), BACK),
    "strict: one commit, another was meant": ("Mutation", 2, Pinned(1, post_commit=2), BACK),
    "strict: more than one commit": ("Mutation", 2, Pinned(2), BACK),
    "loose: several commits": ("BranchMerge", 1, Pinned(2), FORWARD),
    "loose: another pin": ("BranchMerge", 1, Pinned(2, expected=-1), BACK),
    "confirmed": ("BranchMerge", 2, Pinned(2, confirmed=2), FORWARD),
    "confirmed: moved since": ("BranchMerge", 2, Pinned(2, confirmed=1), BACK),
    "confirmed: not yet": ("BranchMerge", 2, Pinned(2), BACK),
    "maintenance: rows moved": ("Optimize", 2, Pinned(1), BACK),
    "schema apply": ("SchemaApply", 2, Pinned(1), BACK),
}


@pytest.mark.parametrize(("kind", "version", "pinned", "outcome"), CASES.values(), ids=CASES)
def test_version_numbers_decide(root: Path, kind: str, version: int, pinned: Pinned, outcome: RecoveryKind) -> None:
    pin = list_pins(open_manifest(root).view(MAIN))[CITY].version
    leave_sidecar(root, kind, [pinned], version)
    manifest = open_healed(root)
    new = tuple(f"new{number}" for number in range(pinned.moved)) if outcome is FORWARD else ()
    assert read_state(manifest).cities == (*new, "rome")
    (recovery,) = list_recoveries(manifest)
    assert (recovery.kind, recovery.for_actor, recovery.writer_kind) == (outcome, "act-ann", kind)
    moved = (pin, pin + pinned.moved) if outcome is FORWARD else (pin + pinned.moved, pin)
    assert recovery.outcomes == ((TableOutcome(CITY, *moved),) if pinned.moved else ())
    assert_settled(manifest)


def test_maintenance_is_published(root: Path) -> None:
    leave_sidecar(root, "EnsureIndices", [Pinned(1)], indexes=True)
    before = list_pins(open_manifest(root).view(MAIN))[CITY].version
    manifest = open_healed(root)
    assert list_pins(manifest.view(MAIN))[CITY].version == before + 1
    assert [found.kind for found in list_recoveries(manifest)] == [FORWARD]
    assert_settled(manifest)


def test_all_tables_go_one_way(root: Path) -> None:
    leave_sidecar(root, "Load", [Pinned(1), Pinned(0, key=PERSON)])
    manifest = open_healed(root)
    assert read_state(manifest).cities == ("rome",)
    assert [found.kind for found in list_recoveries(manifest)] == [BACK]
    assert_settled(manifest)


def test_a_stale_sidecar_is_only_audited(root: Path) -> None:
    leave_sidecar(root, "Load", [Pinned(0, expected=-1, post_commit=0)])
    before = list_pins(open_manifest(root).view(MAIN))
    manifest = open_healed(root)
    assert list_pins(manifest.view(MAIN)) == before
    (recovery,) = list_recoveries(manifest)
    pin = before[CITY].version
    assert (recovery.kind, recovery.outcomes) == (FORWARD, (TableOutcome(CITY, pin - 1, pin),))
    assert_settled(manifest)


@pytest.mark.parametrize(("pinned", "outcome"), [(Pinned(1), FORWARD), (Pinned(2), BACK)])
def test_the_audit_is_the_same_after_an_interruption(root: Path, pinned: Pinned, outcome: RecoveryKind) -> None:
    leave_sidecar(root, "Load", [pinned])
    with fail_first_write("table.create", "before", "_recoveries"), pytest.raises(StorageError):
        omnigraph.open(root)
    manifest = open_healed(root)
    assert [found.kind for found in list_recoveries(manifest)] == [outcome]
    assert_settled(manifest)
