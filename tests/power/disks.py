"""Disks as they may be after a power cut, built from the record of what a process did.

The model has the guarantees of POSIX and no more. Bytes of a file are on the disk after fsync or fdatasync of the file.
A name (created, renamed, linked, deleted) is on the disk after fsync of its folder; fsync of the file itself does
nothing for its name. What was not synced may be there, in any combination: the file system writes back when it likes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias

from tests.power.recorder import Event, Kind


@dataclass(slots=True, eq=False)
class File:
    """The bytes of an inode: as a process sees them, and as they were when they were last synced."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes | None = None
    """None: never synced; after a cut the file is empty."""

    @property
    def is_dirty(self) -> bool:
        return self.synced is None or self.synced != bytes(self.content)

    @property
    def on_disk(self) -> bytes:
        return self.synced or b""

    def sync(self) -> None:
        if self.is_dirty:
            self.synced = bytes(self.content)


@dataclass(slots=True, eq=False)
class Folder:
    """The names in a folder: as a process sees them, and as they were when the folder was last synced."""

    entries: dict[str, Node] = field(default_factory=dict[str, "Node"])
    synced: dict[str, Node] = field(default_factory=dict[str, "Node"])

    def sync(self) -> None:
        self.synced = dict(self.entries)

    def is_changed(self, name: str) -> bool:
        return self.entries.get(name) is not self.synced.get(name)


Node: TypeAlias = "File | Folder"
ALL_THERE: Final = "all there"
ALL_LOST: Final = "all lost"
Name: TypeAlias = tuple[Folder, str]


@dataclass(frozen=True, slots=True)
class Disk:
    """What lies on a disk: the bytes of each file by its path, None for a folder."""

    label: str
    tree: dict[str, bytes | None]

    @property
    def digest(self) -> bytes:
        """Equal for disks with the same files."""
        found = blake2b(digest_size=16)
        for path, content in sorted(self.tree.items()):
            found.update(f"{path}\0{'/' if content is None else len(content)}\0".encode())
            found.update(content or b"")
        return found.digest()


@dataclass(frozen=True, slots=True)
class Change:
    """One name that is not synced, or whose bytes are not: what may be lost alone."""

    path: str
    names: tuple[Name, ...]
    """The name itself, and the names of the folders above it."""
    node: Node | None
    """None: the name was deleted."""


class Replay:
    """The files of a folder while a record is replayed, with everything that may be lost."""

    def __init__(self, root: Path) -> None:
        self._prefix = f"{root}/"
        self._root = Folder()
        self._inodes: dict[int, Node] = {root.stat().st_ino: self._root}

    def apply(self, event: Event) -> None:
        """Make the change of one event."""
        match event.kind:
            case Kind.CREATE:
                self._create(event)
            case Kind.MKDIR:
                folder, name = self._find(event.path)
                folder.entries[name] = self._inodes[event.inode] = Folder()
            case Kind.WRITE:
                content = self._file(event.inode).content
                content.extend(bytes(max(0, event.offset - len(content))))
                content[event.offset : event.offset + len(event.second)] = event.second
            case Kind.TRUNCATE:
                content = self._file(event.inode).content
                del content[event.offset :]
                content.extend(bytes(event.offset - len(content)))
            case Kind.RENAME | Kind.LINK:
                self._move(event)
            case Kind.UNLINK | Kind.RMDIR:
                folder, name = self._find(event.path)
                assert folder.entries.pop(name) is self._inodes[event.inode], str(event)
            case Kind.SYNC:
                self._inodes[event.inode].sync()
            case Kind.SYNC_ALL:
                self.settle()
            case Kind.MARK:
                pass

    def settle(self) -> None:
        """Sync everything, as a machine does that is shut down."""
        for node in self._inodes.values():
            node.sync()

    def changes(self) -> list[Change]:
        """List what is not synced."""
        return list(self._changes(self._root, "", ()))

    # ----------------------------------------------------------------------------------------- disks

    def all_there(self) -> Disk:
        """Everything reached the disk: what a killed process leaves."""
        return Disk(ALL_THERE, self._build(lambda _name: True, lambda file: bytes(file.content)))

    def all_lost(self) -> Disk:
        """Nothing reached the disk that was not synced."""
        return Disk(ALL_LOST, self._build(lambda _name: False, lambda file: file.on_disk))

    def names_only(self) -> Disk:
        """The journal reached the disk and the bytes did not: files that were not synced are empty or old."""
        return Disk("names only", self._build(lambda _name: True, lambda file: file.on_disk))

    def without(self, change: Change) -> Disk | None:
        """Everything there but one name: it is missing, or the older file is there under it, or it is not deleted."""
        folder, name = change.names[0]
        if not folder.is_changed(name):
            return None
        tree = self._build(lambda found: found != (folder, name), lambda file: bytes(file.content))
        return Disk(f"{change.path} lost", tree)

    def emptied(self, change: Change) -> Disk | None:
        """Everything there but the bytes of one file."""
        return self._spoiled(change, "empty", lambda file: file.on_disk)

    def torn(self, change: Change) -> Disk | None:
        """Everything there but the second half of one file."""
        return self._spoiled(change, "torn", lambda file: bytes(file.content[: len(file.content) // 2]))

    def only(self, change: Change) -> Disk:
        """Nothing there but one file, and the folders that it lies in."""
        tree = self._build(
            change.names.__contains__, lambda file: bytes(file.content) if file is change.node else file.on_disk
        )
        return Disk(f"only {change.path}", tree)

    def only_below(self, folder: str) -> Disk:
        """Nothing there but what is in folders of this name."""
        kept = [change for change in self.changes() if folder in change.path.split("/")]
        names, nodes = {name for change in kept for name in change.names}, {change.node for change in kept}
        tree = self._build(names.__contains__, lambda file: bytes(file.content) if file in nodes else file.on_disk)
        return Disk(f"only {folder}", tree)

    def disks_of(self, change: Change) -> Generator[Disk]:
        """Give all disks on which one change met another fate than the others."""
        for disk in (self.without(change), self.emptied(change), self.torn(change), self.only(change)):
            if disk is not None:
                yield disk

    def _spoiled(self, change: Change, word: str, spoil: Callable[[File], bytes]) -> Disk | None:
        node = change.node
        if not isinstance(node, File) or not node.is_dirty:
            return None
        tree = self._build(lambda _name: True, lambda file: spoil(file) if file is node else bytes(file.content))
        return Disk(f"{change.path} {word}", tree)

    def _build(self, has: Callable[[Name], bool], content_of: Callable[[File], bytes]) -> dict[str, bytes | None]:
        tree: dict[str, bytes | None] = {}

        def walk(folder: Folder, prefix: str) -> None:
            for name in folder.entries.keys() | folder.synced.keys():
                node = (folder.entries if has((folder, name)) else folder.synced).get(name)
                if isinstance(node, File):
                    tree[prefix + name] = content_of(node)
                elif node is not None:
                    tree[prefix + name] = None
                    walk(node, f"{prefix}{name}/")

        walk(self._root, "")
        return tree

    # ----------------------------------------------------------------------------------------- names and inodes

    def _changes(self, folder: Folder, prefix: str, above: tuple[Name, ...]) -> Generator[Change]:
        for name in sorted(folder.entries.keys() | folder.synced.keys()):
            node = folder.entries.get(name)
            names = ((folder, name), *above)
            if folder.is_changed(name) or (isinstance(node, File) and node.is_dirty):
                yield Change(prefix + name, names, node)
            if isinstance(node, Folder):
                yield from self._changes(node, f"{prefix}{name}/", names)

    def _create(self, event: Event) -> None:
        folder, name = self._find(event.path)
        if name in folder.entries:
            assert folder.entries[name] is self._inodes[event.inode], str(event)
        else:
            folder.entries[name] = self._inodes[event.inode] = File()

    def _move(self, event: Event) -> None:
        """Rename or link. Two names of one file stay as they are, as POSIX has it."""
        folder, name = self._find(event.path)
        target, new_name = self._find(event.target)
        node = folder.entries[name]
        assert node is self._inodes[event.inode], str(event)
        if event.kind is Kind.LINK:
            target.entries[new_name] = node
        elif target.entries.get(new_name) is not node:
            del folder.entries[name]
            target.entries[new_name] = node

    def _find(self, path: str) -> Name:
        """Find the folder of a path."""
        absolute = os.path.normpath(path)
        assert absolute.startswith(self._prefix), f"{path} is outside"
        *above, name = absolute.removeprefix(self._prefix).split("/")
        folder = self._root
        for part in above:
            found = folder.entries[part]
            assert isinstance(found, Folder), path
            folder = found
        return folder, name

    def _file(self, inode: int) -> File:
        found = self._inodes[inode]
        assert isinstance(found, File)
        return found


def replay(root: Path, events: Iterable[Event]) -> Replay:
    """Replay all events."""
    made = Replay(root)
    for event in events:
        made.apply(event)
    return made


def read_disk(root: Path) -> Disk:
    """Read a folder as it is."""
    tree = {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }
    return Disk(str(root), tree)


class DiskFolder:
    """A folder that becomes one disk after the other. Only what differs is written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._placed: dict[str, tuple[tuple[int, int, int], bytes]] = {}

    def place(self, disk: Disk) -> None:
        """Make the folder equal to the disk, whatever was done to it since."""
        kept: dict[str, tuple[tuple[int, int, int], bytes]] = {}
        for path in sorted(self.root.rglob("*"), reverse=True):
            name = str(path.relative_to(self.root))
            if path.is_dir():
                if name not in disk.tree or disk.tree[name] is not None:
                    shutil.rmtree(path)
            elif (found := self._placed.get(name)) and found == (_stamp(path), disk.tree.get(name)):
                kept[name] = found
            else:
                path.unlink()
        self._placed = kept
        for name, content in sorted(disk.tree.items()):
            path = self.root / name
            if content is None:
                path.mkdir(exist_ok=True)
            elif name not in kept:
                path.write_bytes(content)
                kept[name] = _stamp(path), content


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return what any change of a file changes."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_ctime_ns
