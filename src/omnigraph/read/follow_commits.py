"""Follow the commits of this process: extend what is in memory to the version that a commit made.

The next query would do it, and wait for it. A thread of the process does it right after the commit instead, outside of
all locks. It makes nothing that a query would not make, under the same keys of the cache, so nothing is made twice. It
stops when a query comes: that makes what it needs, and nothing else takes its time.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from itertools import product
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmniGraphError
from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.schema import EdgeType
from omnigraph.late_imports import LateModule
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import assume_snapshot, take_snapshot
from omnigraph.read.frames import Cache, ExtendedTable, QueryTables, shared_cache

if TYPE_CHECKING:
    from omnigraph.read import topology
else:
    # A process that only reads has nothing to follow.
    topology = LateModule("omnigraph.read.topology")

_PATIENCE: Final = 4
"""After so many commits in a row that no query followed, memory stays as it is until the next query."""
_SECONDS_AT_EXIT: Final = 10.0

_log = logging.getLogger("omnigraph")


class CommitFollower:
    """Extends what queries of one graph have in memory after each commit, as long as somebody asks."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._unread = 0
        self._queries = 0

    def note_query(self) -> None:
        """Note that somebody reads what the last commits made, and stop following them."""
        self._unread = 0
        self._queries += 1

    def follow(self, branch: str, table_keys: Collection[str]) -> None:
        """Extend what is in memory of these tables, which a commit to a branch changed, in the background."""
        if self._unread < _PATIENCE:
            self._unread += 1
            before = self._queries
            _thread.request(self._manifest, branch, table_keys, lambda: self._queries == before)


def wait_for_followers() -> None:
    """Wait until what is in memory shows all commits that are followed."""
    _thread.join(None)


@dataclass(frozen=True, slots=True)
class _Request:
    """The tables that commits changed, and whether they are still to be followed."""

    table_keys: frozenset[str]
    is_wanted: Callable[[], bool]


class _FollowingThread:
    """The thread of this process that follows commits. It starts with the first of them and then waits for others.

    A new thread for each commit would keep the writer waiting until the interpreter comes back to it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: dict[tuple[Manifest, str], _Request] = {}
        self._is_running = False
        self._is_started = False

    def request(
        self, manifest: Manifest, branch: str, table_keys: Collection[str], is_wanted: Callable[[], bool]
    ) -> None:
        """Follow a commit while that is wanted, together with those that were requested and not begun."""
        with self._changed:
            earlier = self._requests.get((manifest, branch))
            every = frozenset(table_keys) if earlier is None else earlier.table_keys.union(table_keys)
            self._requests[manifest, branch] = _Request(every, is_wanted)
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, name="omnigraph-follow", daemon=True).start()
            self._changed.notify_all()

    def join(self, seconds: float | None) -> None:
        """Wait until nothing is left to do, but not longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: not self._requests and not self._is_running, seconds)

    def stop(self) -> None:
        """Begin nothing new, and wait for what was begun.

        A thread that returns from Lance while the interpreter ends makes the process abort.
        """
        with self._changed:
            self._requests.clear()
        self.join(_SECONDS_AT_EXIT)

    def reset(self) -> None:
        """Begin anew in a child process, which does not have the thread."""
        self.__init__()

    def _run(self) -> None:
        try:
            while True:
                self._follow_next()
        finally:
            # An error that nobody expected ends the thread; the next commit starts another one.
            with self._changed:
                self._is_started = False

    def _follow_next(self) -> None:
        """Wait for a commit and follow it. Nothing of its graph is kept alive while the next one is waited for."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests)
            manifest, branch = next(iter(self._requests))
            request = self._requests.pop((manifest, branch))
            self._is_running = True
        try:
            extend_memory(manifest, branch, request.table_keys, shared_cache(), request.is_wanted)
        except OmniGraphError as error:
            # Nobody waits for it: the branch may have been deleted, for one. Queries go on without it.
            _log.info("what is in memory of branch '%s' is not extended: %s", branch, error)
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()


_thread: Final = _FollowingThread()
atexit.register(_thread.stop)
os.register_at_fork(after_in_child=_thread.reset)


def extend_memory(
    manifest: Manifest,
    branch: str,
    table_keys: Collection[str],
    cache: Cache,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Extend what the cache has of some tables to the newest version of a branch, as long as that is wanted."""
    steps = _extend_stepwise(manifest, branch, table_keys, cache)
    while is_wanted() and next(steps, None) is not None:
        pass


def _extend_stepwise(manifest: Manifest, branch: str, table_keys: Collection[str], cache: Cache) -> Iterator[str]:
    """Extend one thing after the other; yield the key of its table after each."""
    snapshot = assume_snapshot(manifest, branch) or take_snapshot(manifest, branch)
    tables = QueryTables(snapshot, load_schema_of(manifest, snapshot.schema_ir_hash).catalog, cache)
    changed = [each for each in tables.catalog.nodes.values() if each.table_key in table_keys]
    for node in changed:
        table = tables.full_table_of(node)
        yield node.table_key
        if isinstance(table, ExtendedTable):
            table.load_all_added()
            yield node.table_key
    moved = {each.name for each in changed}
    for edge in tables.catalog.edges.values():
        if edge.table_key in table_keys or not moved.isdisjoint((edge.from_type, edge.to_type)):
            for _ in _extend_arrays(edge, tables):
                yield edge.table_key


def _extend_arrays(edge: EdgeType, tables: QueryTables) -> Iterator[None]:
    current = topology.open_topology(edge, tables)
    yield
    if not current.is_extended:
        return
    if isinstance(current.edges, ExtendedTable):
        current.edges.load_all_added()
        yield
    for direction, distinct in product(TraversalDirection, (True, False)):
        if tables.cache.peek(topology.AdjacencyKey(current.bases.key, direction, distinct)) is not None:
            topology.load_steps((EdgeStep(edge.name, direction),), tables, distinct=distinct)
            yield
