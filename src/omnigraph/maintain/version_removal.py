"""Remove versions of a dataset, and the files that only they needed.

The files of versions go first, under the refs lock and a few at a time: a version without its file cannot be opened, so
no branch, tag or merge can begin to need it. What only those versions needed goes afterwards, without a lock. A cleanup
that dies in between leaves files that no version needs: orphans, which the next one removes when they are old.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from omnigraph.errors import NotFound
from omnigraph.lazy_dataclass import dataclass
from omnigraph.maintain.orphans import locate_file
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.lance_internals import NeededFiles
from omnigraph.storage.objects import ObjectInfo
from omnigraph.storage.tables import (
    Table,
    list_tagged_versions,
    list_versions,
    open_newest_whole,
    open_table,
    split_tracked_files,
)


@dataclass(frozen=True, slots=True)
class BranchVersions:
    """The versions of one branch of a dataset that existed when cleanup began, oldest first."""

    branch: str
    versions: tuple[int, ...]


def list_dataset_versions(manifest: Manifest, location: str, without: Collection[str] = ()) -> list[BranchVersions]:
    """List the versions of all branches of a dataset but some. Only names of files are read."""
    root = open_table(manifest.location.join(location), None, None, manifest.access)
    found: list[BranchVersions] = []
    for branch in (MAIN, *(name for name in root.list_forks() if name not in without)):
        # The ref of a fork that was never finished has no versions: the next write to it re-creates the fork.
        with suppress(NotFound):
            found.append(BranchVersions(branch, tuple(list_versions(_open_branch(manifest, root, branch)))))
    return found


def list_protected(manifest: Manifest, location: str, without: Collection[str] = ()) -> frozenset[tuple[str, int]]:
    """Return the versions of a dataset that stay in any case, each with its branch.

    Forks but some begin there, or a Lance tag of another program names them. A fork needs the version that it starts
    from with its transaction file.
    """
    root = open_table(manifest.location.join(location), None, None, manifest.access)
    forks = [ref for ref in root.list_forks().values() if ref.name not in without]
    starts = {(ref.parent or MAIN, ref.parent_version) for ref in forks}
    branches = [MAIN, *(ref.name for ref in forks)]
    return frozenset(starts.union((name, version) for version in list_tagged_versions(root) for name in branches))


def _open_branch(manifest: Manifest, root: Table, branch: str) -> Table:
    return root if branch == MAIN else open_table(root.uri, branch, None, manifest.access)


@dataclass(frozen=True, slots=True)
class VersionFile:
    """The file of one version of a branch."""

    branch: str
    version: int
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class DoomedFiles:
    """What goes with some versions of a dataset: their own files, oldest first, and all that only they may need."""

    versions: tuple[VersionFile, ...]
    candidates: tuple[ObjectInfo, ...]

    @property
    def bytes(self) -> int:
        """The size of all these files."""
        return sum(each.info.size for each in self.versions) + sum(info.size for info in self.candidates)


def find_doomed_files(manifest: Manifest, location: str, doomed: Mapping[str, Collection[int]]) -> DoomedFiles:
    """Find the files that go with some versions of a dataset, given by branch."""
    files = manifest.objects.list(location)
    chosen, others = set[str](), set[str]()
    version_files: dict[tuple[str, str], int] = {}
    branches = list(_list_branches(manifest, location))
    for branch, table in branches:
        tracked = split_tracked_files(table, doomed.get(branch, ()))
        chosen |= tracked.chosen
        others |= tracked.others
        version_files |= {(branch, path): version for version, path in tracked.version_files.items()}
    chosen_files, needed = NeededFiles(chosen), NeededFiles(others)
    names = [branch for branch, _ in branches if branch != MAIN]
    versions: list[VersionFile] = []
    candidates: list[ObjectInfo] = []
    for info in files:
        branch, path = locate_file(location, names, info)
        if branch is None:
            continue
        version = version_files.get((branch, path))
        if version is not None:
            versions.append(VersionFile(branch, version, info))
        elif needed.is_orphan(path) and not chosen_files.is_orphan(path):
            candidates.append(info)
    versions.sort(key=lambda each: (each.version, each.branch))
    return DoomedFiles(tuple(versions), tuple(candidates))


def find_unneeded(manifest: Manifest, location: str, candidates: Collection[ObjectInfo]) -> list[ObjectInfo]:
    """Return the candidates that no version of any branch needs by now."""
    if not candidates:
        return []
    branches = list(_list_branches(manifest, location))
    paths = set[str]().union(*(split_tracked_files(table, ()).others for _, table in branches))
    needed = NeededFiles(paths)
    names = [branch for branch, _ in branches if branch != MAIN]
    return [info for info in candidates if needed.is_orphan(locate_file(location, names, info)[1])]


def _list_branches(manifest: Manifest, location: str) -> Iterator[tuple[str, Table]]:
    root = open_table(manifest.location.join(location), None, None, manifest.access)
    yield MAIN, root
    # A branch without storage needs nothing: a power cut took it, or somebody deleted it meanwhile.
    for branch in sorted(filter(root.has_branch_storage, root.list_forks()), key=len, reverse=True):
        # A power cut may have torn its only version, so nobody has used it.
        with suppress(NotFound):
            yield branch, open_newest_whole(root.uri, branch, manifest.access)
