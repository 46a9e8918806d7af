"""The harness itself: the recorder misses nothing, and the disks are those that POSIX allows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import run
from tests.power.disks import Change, Disk, DiskFolder, Replay, read_disk, replay
from tests.power.recorder import Kind, Recorder, read_record

OLD, NEW = b"old content", b"new"


def make_every_change(library: Path, root: Path, record: Path) -> None:
    """Change files by every call that the recorder knows."""
    Recorder(library, root, record)
    os.chdir(root)
    Path("folder/below").mkdir(parents=True)
    file = os.open("folder/file", os.O_RDWR | os.O_CREAT)
    os.write(file, b"0123456789")
    os.pwrite(file, b"ab", 3)
    os.writev(file, [b"x" * 3, b"", b"y" * 4])
    os.pwritev(file, [b"p", b"q"], 30)
    os.lseek(file, 5, os.SEEK_SET)
    copy = os.open("copy", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(file, copy, 4) == 4
    assert os.sendfile(copy, file, 0, 100_000) == 32
    os.fsync(file)
    os.ftruncate(file, 12)
    os.posix_fallocate(file, 0, 20)
    with Path("log").open("ab") as log:
        log.write(b"one")
    with Path("log").open("ab") as log:
        log.write(b"two" * 30_000)
    os.truncate("log", 70_000)
    Path("copy").write_bytes(b"from the start")
    folder = os.open("folder", os.O_RDONLY)
    os.link("file", "twin", src_dir_fd=folder, dst_dir_fd=folder)
    os.rename("file", "below/moved", src_dir_fd=folder, dst_dir_fd=folder)
    os.unlink("twin", dir_fd=folder)
    os.fdatasync(file)
    os.fsync(folder)
    Path("folder").rename("renamed")
    Path("renamed/below/empty").mkdir()
    Path("renamed/below/empty").rmdir()
    with pytest.raises(PermissionError):
        Path("link").symlink_to("log")
    (root.parent / "outside").write_bytes(b"not recorded")


def test_the_replayed_disk_is_the_real_one(library: Path, tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    run(make_every_change, library, root, tmp_path / "record")
    events = read_record(tmp_path / "record")
    assert replay(root, events).all_there().tree == read_disk(root).tree
    assert {event.kind for event in events} == set(Kind) - {Kind.MARK, Kind.SYNC_ALL}


# --------------------------------------------------------------------------------------------- replacing a file


def replace_file(library: Path, root: Path, record: Path, skipped: str) -> None:
    """Replace a file as careful programs do, or forget one of the syncs."""
    recorder = Recorder(library, root, record)
    os.chdir(root)
    Path("file").write_bytes(OLD)
    recorder.mark("settled")
    with Path("temporary").open("wb") as file:
        file.write(NEW)
        file.flush()
        if skipped != "file":
            os.fsync(file.fileno())
    Path("temporary").rename("file")
    if skipped != "folder":
        folder = os.open(".", os.O_RDONLY)
        os.fsync(folder)
    recorder.mark("acknowledged")


def disks_after(library: Path, folder: Path, skipped: str) -> tuple[list[Disk], list[Disk]]:
    """All disks after a cut at any time, and those after the writer was told that its file is replaced."""
    root = folder / "disk"
    root.mkdir()
    run(replace_file, library, root, folder / "record", skipped)
    state, found, acknowledged = Replay(root), list[Disk](), list[Disk]()
    is_settled = False
    for event in read_record(folder / "record"):
        state.apply(event)
        if event.path == "settled":
            state.settle()
            is_settled = True
        if is_settled:
            disks = [state.all_there(), state.all_lost(), state.names_only()]
            disks += [disk for change in state.changes() for disk in state.disks_of(change)]
            found += disks
            if event.path == "acknowledged":
                acknowledged += disks
    return found, acknowledged


def contents(disks: list[Disk]) -> set[bytes | None]:
    return {disk.tree.get("file") for disk in disks}


def test_a_file_replaced_with_care_is_old_or_new_and_new_in_the_end(library: Path, tmp_path: Path) -> None:
    found, acknowledged = disks_after(library, tmp_path, "nothing")
    assert contents(found) == {OLD, NEW}
    assert contents(acknowledged) == {NEW}


def test_without_a_sync_of_the_file_it_may_be_empty_or_torn(library: Path, tmp_path: Path) -> None:
    found, acknowledged = disks_after(library, tmp_path, "file")
    assert contents(found) == {OLD, NEW, b"", NEW[:1]}
    assert contents(acknowledged) == {NEW, b"", NEW[:1]}


def test_without_a_sync_of_the_folder_it_may_be_the_old_one(library: Path, tmp_path: Path) -> None:
    _, acknowledged = disks_after(library, tmp_path, "folder")
    assert contents(acknowledged) == {OLD, NEW}


# --------------------------------------------------------------------------------------------- lost alone, kept alone


def make_two_folders(library: Path, root: Path, record: Path) -> None:
    Recorder(library, root, record)
    for name in ("a", "b"):
        (root / name).mkdir()
        (root / name / "file").write_bytes(name.encode())
    for name in ("a", "a/file"):
        os.fsync(os.open(root / name, os.O_RDONLY))


@pytest.fixture
def two_folders(library: Path, tmp_path: Path) -> Replay:
    """Two folders with a file each; one file and its folder are synced, and no name in the root is."""
    root = tmp_path / "disk"
    root.mkdir()
    run(make_two_folders, library, root, tmp_path / "record")
    return replay(root, read_record(tmp_path / "record"))


def test_a_folder_needs_a_sync_of_its_parent(two_folders: Replay) -> None:
    assert two_folders.all_lost().tree == {}
    assert two_folders.all_there().tree == {"a": None, "a/file": b"a", "b": None, "b/file": b"b"}
    assert two_folders.names_only().tree == {"a": None, "a/file": b"a", "b": None, "b/file": b""}


def test_each_change_is_lost_alone_and_kept_alone(two_folders: Replay) -> None:
    found = {change.path: change for change in two_folders.changes()}
    assert list(found) == ["a", "b", "b/file"]

    def trees(make: Callable[[Change], Disk | None]) -> dict[str, dict[str, bytes | None] | None]:
        made = {path: make(change) for path, change in found.items()}
        return {path: None if disk is None else disk.tree for path, disk in made.items()}

    a: dict[str, bytes | None] = {"a": None, "a/file": b"a"}
    assert trees(two_folders.without) == {
        "a": {"b": None, "b/file": b"b"},
        "b": a,
        "b/file": {**a, "b": None},
    }
    assert trees(two_folders.only) == {"a": a, "b": {"b": None}, "b/file": {"b": None, "b/file": b"b"}}
    assert trees(two_folders.emptied) == {"a": None, "b": None, "b/file": {**a, "b": None, "b/file": b""}}


def test_a_folder_becomes_one_disk_after_the_other(two_folders: Replay, tmp_path: Path) -> None:
    folder = DiskFolder(tmp_path / "placed")
    folder.root.mkdir()
    for disk in (two_folders.all_there(), two_folders.names_only(), two_folders.all_lost(), two_folders.all_there()):
        folder.place(disk)
        assert read_disk(folder.root).tree == disk.tree
    kept = (folder.root / "a" / "file").stat().st_ino
    (folder.root / "b" / "file").write_bytes(b"B")
    (folder.root / "b" / "new").mkdir()
    (folder.root / "b" / "new" / "file").write_bytes(b"")
    folder.place(two_folders.all_there())
    assert read_disk(folder.root).tree == two_folders.all_there().tree
    assert (folder.root / "a" / "file").stat().st_ino == kept
