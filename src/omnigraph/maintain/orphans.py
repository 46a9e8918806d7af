"""Files that no version needs: what writers staged and never committed, what audits left, what deleted branches left.

A file that is still young may belong to somebody who is about to commit it, so that only age tells. Names of files are
random: one that no version of any branch names is nobody's, in whichever folder of the dataset it lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from omnigraph.manifest.handle import Manifest
from omnigraph.storage.lance_internals import NeededFiles, is_detached_version
from omnigraph.storage.objects import ObjectInfo, Objects
from omnigraph.storage.table import open_table, tracked_files

STALE_AFTER: Final = timedelta(days=7)
LOADING: Final = "loading"
"""The folder beside the graph where loads on Spark keep what no graph shows."""
_OF_A_LOAD: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}/")


class ReclaimKind(StrEnum):
    """What can be reclaimed."""

    TABLE_VERSIONS = "table versions"
    MANIFEST_VERSIONS = "manifest versions"
    FORKS = "orphaned forks"
    DROPPED = "dropped tables"
    STAGED = "staged files"
    DETACHED = "detached versions"
    LOADS = "unfinished loads"


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """One file that nobody needs."""

    kind: ReclaimKind
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of one dataset, and those that its versions need, each with a version that does."""

    location: str
    files: tuple[ObjectInfo, ...]
    needed: dict[str, tuple[str, int]]
    branches: tuple[str, ...]

    def find_missing(self) -> Iterator[tuple[str, str, int]]:
        """The files that a version needs and that are not there: the path, the branch and the version."""
        there = {self.locate(info)[1] for info in self.files}
        for path, (branch, version) in sorted(self.needed.items()):
            if path not in there:
                yield path, branch, version

    def locate(self, info: ObjectInfo) -> tuple[str | None, str]:
        """The branch in whose folder a file lies, and its path there; no branch for the folder of one that is gone."""
        path = info.path.removeprefix(f"{self.location}/")
        if not path.startswith("tree/"):
            return "main", path
        for name in self.branches:
            if path.startswith(f"tree/{name}/"):
                return name, path.removeprefix(f"tree/{name}/")
        return None, path


def list_dataset_files(manifest: Manifest, location: str) -> DatasetFiles:
    """Look at one dataset. The files are listed first: what comes after that is young, and stays for it."""
    files = tuple(manifest.objects.list(location))
    root = open_table(manifest.location.join(location), None, None, manifest.access)
    needed: dict[str, tuple[str, int]] = {}
    branches = sorted(root.branches(), key=len, reverse=True)
    for branch in (None, *branches):
        table = root if branch is None else open_table(root.uri, branch, None, manifest.access)
        needed |= {path: (branch or "main", version) for path, version in tracked_files(table).items()}
    return DatasetFiles(location, files, needed, tuple(branches))


def find_orphans(found: DatasetFiles, now: datetime, age: timedelta) -> Iterator[OrphanFile]:
    """What no version needs and is old enough."""
    needed = NeededFiles(found.needed)
    for info in found.files:
        if now - info.modified < age:
            continue
        branch, path = found.locate(info)
        kind = ReclaimKind.FORKS if branch is None else _kind_of(path, needed)
        if kind is not None:
            yield OrphanFile(kind, info)


def _kind_of(path: str, needed: NeededFiles) -> ReclaimKind | None:
    if is_detached_version(path):
        return ReclaimKind.DETACHED
    return ReclaimKind.STAGED if needed.is_orphan(path) else None


def find_dead_loads(manifest: Manifest, now: datetime, age: timedelta) -> tuple[Objects, list[OrphanFile]]:
    """What loads on Spark that died left beside the graph; one that lives writes there every hour."""
    objects = Objects(manifest.location.beside(LOADING))
    by_load: dict[str, list[ObjectInfo]] = {}
    for info in objects.list():
        if _OF_A_LOAD.match(info.path):
            by_load.setdefault(info.path.partition("/")[0], []).append(info)
    dead = [files for files in by_load.values() if all(now - info.modified >= age for info in files)]
    return objects, [OrphanFile(ReclaimKind.LOADS, info) for files in dead for info in files]


def sum_file_sizes(files: Iterable[ObjectInfo]) -> int:
    """How many bytes they take."""
    return sum(info.size for info in files)
