"""Find orphans: files that no version needs, left by writers that never committed, by audits and by deleted branches.

A young file may belong to a writer that is about to commit it, so a file counts as an orphan only above a certain age.
File names are random: a file that no version of any branch names is an orphan in any folder of the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from omnigraph.errors import NotFound
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.lance_internals import END_FILES_FOLDER, NeededFiles, is_detached_version
from omnigraph.storage.objects import ObjectInfo, Objects
from omnigraph.storage.tables import list_tracked_files, open_newest_whole, open_table

STALE_AFTER: Final = timedelta(days=7)
LOADS_BEAT: Final = timedelta(hours=2)
"""A load on Spark that wrote no intermediate file for so long is dead: a running one writes every hour."""
LOADING: Final = "loading"
"""The folder beside the graph where loads on Spark keep their intermediate files."""
_LOAD_FILE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}/")


class ReclaimKind(StrEnum):
    """What a cleanup can reclaim."""

    TABLE_VERSIONS = "table versions"
    MANIFEST_VERSIONS = "manifest versions"
    FORKS = "orphaned forks"
    DROPPED = "dropped tables"
    STAGED = "staged files"
    DETACHED = "detached versions"
    DERIVED = "derived files"
    LOADS = "unfinished loads"


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that no version needs."""

    kind: ReclaimKind
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of one dataset, and the paths that its versions need, each with the branch and version of one."""

    location: str
    files: tuple[ObjectInfo, ...]
    needed: dict[str, tuple[str, int]]
    branches: tuple[str, ...]

    def find_missing(self) -> Iterator[tuple[str, str, int]]:
        """Yield the needed files that do not exist: path, branch and version."""
        existing = {locate_file(self.location, self.branches, info)[1] for info in self.files}
        for path, (branch, version) in sorted(self.needed.items()):
            # A version holds a copy of its transaction, so the file of it is not needed.
            if path not in existing and not path.startswith("_transactions/"):
                yield path, branch, version


def locate_file(location: str, branches: Iterable[str], info: ObjectInfo) -> tuple[str | None, str]:
    """Return the branch whose folder a file is in, and its path there; None for the folder of a deleted branch.

    Of two branches one of whose names begins with the other, the longer one comes first.
    """
    path = info.path.removeprefix(f"{location}/")
    if not path.startswith("tree/"):
        return "main", path
    for name in branches:
        if path.startswith(f"tree/{name}/"):
            return name, path.removeprefix(f"tree/{name}/")
    return None, path


def list_dataset_files(manifest: Manifest, location: str) -> DatasetFiles:
    """List the files of one dataset, then what its versions need. Files are listed first: later ones are young."""
    files = tuple(manifest.objects.list(location))
    root = open_table(manifest.location.join(location), None, None, manifest.access)
    needed: dict[str, tuple[str, int]] = {}
    # A branch without storage needs nothing: a power cut took it, or somebody deleted it meanwhile.
    branches = sorted(filter(root.has_branch_storage, root.list_forks()), key=len, reverse=True)
    for branch in (None, *branches):
        try:
            table = root if branch is None else open_newest_whole(root.uri, branch, manifest.access)
        except NotFound:
            # A power cut tore its only version, so nobody has used it.
            continue
        needed |= {path: (branch or "main", version) for path, version in list_tracked_files(table).items()}
    return DatasetFiles(location, files, needed, tuple(branches))


def find_orphans(found: DatasetFiles, now: datetime, age: timedelta) -> Iterator[OrphanFile]:
    """Yield the files of at least this age that no version needs."""
    needed = NeededFiles(found.needed)
    for info in found.files:
        if now - info.modified < age:
            continue
        branch, path = locate_file(found.location, found.branches, info)
        kind = ReclaimKind.FORKS if branch is None else _kind_of(path, needed)
        if kind is not None:
            yield OrphanFile(kind, info)


def _kind_of(path: str, needed: NeededFiles) -> ReclaimKind | None:
    if is_detached_version(path):
        return ReclaimKind.DETACHED
    if not needed.is_orphan(path):
        return None
    return ReclaimKind.DERIVED if path.startswith(f"{END_FILES_FOLDER}/") else ReclaimKind.STAGED


def find_dead_loads(manifest: Manifest, now: datetime, age: timedelta) -> tuple[Objects, list[OrphanFile]]:
    """Find the files of dead loads on Spark beside the graph. A running load writes there every hour."""
    objects = Objects(manifest.location.sibling(LOADING))
    by_load: dict[str, list[ObjectInfo]] = {}
    for info in objects.list():
        if _LOAD_FILE.match(info.path):
            by_load.setdefault(info.path.partition("/")[0], []).append(info)
    dead = [files for files in by_load.values() if all(now - info.modified >= age for info in files)]
    return objects, [OrphanFile(ReclaimKind.LOADS, info) for files in dead for info in files]


def sum_file_sizes(files: Iterable[ObjectInfo]) -> int:
    """Return the total size of files in bytes."""
    return sum(info.size for info in files)
