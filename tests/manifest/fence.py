"""Requests to the fence alone: manifest rows without the table commits that a write makes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ulid import ULID

from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.manifest.rows import MAIN, ManifestFile, TableVersion
from omnigraph.manifest.state import ManifestView, read_view
from omnigraph.storage.locks import HeldLock, branch_lock
from tests.manifest.publishing import manifest_of


def intent(graph: Graph) -> CommitIntent:
    """A new commit under the graph's schema."""
    return CommitIntent(str(ULID()), graph.schema.hash)


def version_row(table_key: str, version: int, branch: str | None = None, row_count: int = 0) -> TableVersion:
    """The row of a table version; no such version needs to exist, since the fence never looks at tables."""
    return TableVersion(TableKey(table_key), version, branch, row_count, ManifestFile("nowhere"))


def advance(graph: Graph, expected: Mapping[str, int], branch: str = MAIN) -> PublishRequest:
    """A commit that moves each table one version beyond the expected one."""
    owner = None if branch == MAIN else branch
    updates = tuple(version_row(table_key, version + 1, owner) for table_key, version in expected.items())
    return PublishRequest(intent(graph), updates=updates, expected=expected)


def send(graph: Graph, request: PublishRequest, branch: str = MAIN) -> PublishResult:
    """Publish under the branch's lock."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        published = publish(manifest, held, branch, request)
    assert published is not None
    return published


def send_unlocked(
    graph: Graph, request: PublishRequest, branch: str = MAIN, before_each_step: Callable[[], None] = lambda: None
) -> PublishResult:
    """Publish as one whose lease was stolen without notice: what is run before each step is done by the thief."""
    published = publish(manifest_of(graph), stolen_lock(branch, before_each_step), branch, request)
    assert published is not None
    return published


def stolen_lock(branch: str = MAIN, before_each_step: Callable[[], None] = lambda: None) -> HeldLock:
    """A lock that its holder believes in and that excludes nobody."""
    return HeldLock(f"branch:{branch}", "lease", taken_over=False, holder="one of us", _confirm=before_each_step)


def compact(graph: Graph, branch: str = MAIN) -> None:
    """Compact the manifest of a branch, under its lock."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, branch, manifest.locks):
        manifest.compact(manifest.writable_view(branch))


def read_from_nothing(manifest: Manifest, branch: str = MAIN) -> ManifestView:
    """The view of a branch, by a full read that shares nothing with a handle."""
    return read_view(manifest.open(branch), branch, manifest.read_incarnation(branch), with_lineage=True)


def facts(view: ManifestView) -> tuple[object, ...]:
    """Everything that a view says, in a form that can be compared."""
    lineage = list(view.history.list_newest_first())
    return view.branch, view.incarnation, view.version, view.newest_fragment, view.tables, lineage
