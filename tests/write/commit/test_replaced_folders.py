"""A copy is restored while a handle is open, and others write to it: what the handle remembers destroys nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

import pytest

from omnigraph.errors import ConflictError
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import Access
from omnigraph.write.commit.audit import list_recoveries
from omnigraph.write.commit.operation import WriteOperation
from tests.manifest.publishing import make_graph
from tests.selection import daily
from tests.write.writers import (
    InsertPeople,
    OvertakenOperation,
    OverwriteCities,
    assert_settled,
    copy_template,
    make_template,
    open_manifest,
    read_state,
    write_commit,
)

PERSON, CITY = "P", "C"
LIVES = [("C", "PC"), ("P", "CP"), ("PP", "CC"), ("C", "PP"), ("PC", "CPP"), ("PPP", "")]
"""What the handle writes before the copy is restored, and what others write to the copy."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("replaced"))


def make_write(kind: str, name: str) -> WriteOperation[None]:
    return InsertPeople((name,)) if kind == PERSON else OverwriteCities((name,))


def write_each(manifest: Manifest, kinds: str, word: str) -> None:
    for number, kind in enumerate(kinds):
        assert write_commit(manifest, make_write(kind, f"{word}{number}")) is not None


def replace_folder(root: Path, copy: Path) -> None:
    shutil.rmtree(root)
    copy.rename(root)


@pytest.mark.parametrize("kind", [PERSON, CITY])
@pytest.mark.parametrize(("before", "after"), daily(LIVES, LIVES[:3]))
def test_a_handle_writes_on_top_of_the_copy_that_was_restored(
    template: Path, before: str, after: str, kind: str
) -> None:
    root = copy_template(template)
    copy = Path(f"{root}.copy")
    shutil.copytree(root, copy)
    handle = open_manifest(root)
    write_each(handle, before, "lost")
    replace_folder(root, copy)
    write_each(open_manifest(root), after, "kept")
    acknowledged = read_state(open_manifest(root))
    assert write_commit(handle, make_write(kind, "mine")) is not None
    state = read_state(open_manifest(root))
    if kind == PERSON:
        assert state.people == tuple(sorted((*acknowledged.people, "mine")))
        assert state.cities == acknowledged.cities
    else:
        assert state.people == acknowledged.people
        assert state.cities == ("mine",)
    assert list_recoveries(open_manifest(root)) == []
    assert_settled(open_manifest(root))


def test_a_copy_that_is_restored_in_the_middle_of_a_write_is_kept(template: Path) -> None:
    root = copy_template(template)
    copy = Path(f"{root}.copy")
    shutil.copytree(root, copy)
    handle = open_manifest(root)
    write_each(handle, "C", "lost")

    def restore_and_write() -> None:
        replace_folder(root, copy)
        write_each(open_manifest(root), "PC", "kept")

    write = OvertakenOperation(InsertPeople(("mine",)), [restore_and_write])
    with pytest.raises(ConflictError, match="re-created"):
        write_commit(handle, write)
    state = read_state(open_manifest(root))
    assert ("kept0" in state.people, state.cities) == (True, ("kept1",))
    assert list_recoveries(open_manifest(root)) == []


def test_a_version_is_kept_if_its_files_arrive_after_a_handle_missed_them(template: Path) -> None:
    root = copy_template(template)
    write_each(open_manifest(root), "PC", "kept")
    newest = max((root / "__manifest" / "data").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    aside = newest.rename(root.with_name("aside"))
    handle = open_manifest(root)
    assert read_state(handle).cities == ("rome",)
    aside.rename(newest)
    assert write_commit(handle, InsertPeople(("mine",))) is not None
    state = read_state(open_manifest(root))
    assert (state.people, state.cities) == (("ann", "bob", "kept0", "mine"), ("kept1",))
    assert list_recoveries(open_manifest(root)) == []


def copy_objects(source: Location, target: Location) -> None:
    Objects(target).delete_all([info.path for info in Objects(target).list()])
    for info in Objects(source).list():
        data = Objects(source).get(info.path)
        assert data is not None
        Objects(target).put(info.path, data)


def test_on_an_object_store_rows_of_the_copy_are_not_discarded_as_drift(s3_location: Location) -> None:
    def opened() -> Manifest:
        return Manifest(s3_location, Access(s3_location.options()), LockSettings(ttl=600.0))

    make_graph(s3_location)
    copy = locate(f"s3://{s3_location.bucket}/{uuid4().hex}", dict(s3_location.storage_options))
    copy_objects(s3_location, copy)
    handle = opened()
    write_each(handle, "C", "lost")
    copy_objects(copy, s3_location)
    write_each(opened(), "PC", "kept")
    try:
        write_commit(handle, InsertPeople(("mine",)))
    finally:
        state = read_state(opened())
    assert state.people == ("kept0", "mine")
    assert state.cities == ("kept1",)
    assert list_recoveries(opened()) == []
