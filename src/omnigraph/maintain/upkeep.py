"""Automatic upkeep: merge the small fragments that many small commits leave, extend the indexes, remove old history.

The writer whose commit leaves a table crowded starts it after the commit. It goes through the commit section like
``optimize``: everything slow happens before the branch's lock is taken, and of what was computed only that is published
whose rows are still those of the pin. What cannot be done now is left for the next time, so no writer fails or waits.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Final
from weakref import WeakSet

from omnigraph.deadlines import Deadline
from omnigraph.errors import OmniGraphError
from omnigraph.maintain.automatic_cleanup import clean_up_if_due
from omnigraph.maintain.optimize import CompactionOperation
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables import MANY_SMALL_FRAGMENTS, TAIL_SIZES, list_crowded_sizes, plan_tail_compaction
from omnigraph.write.commit import CommitOptions, commit_operation
from omnigraph.write.indexes import ExtendIndexesOperation, list_required_indexes

_log = logging.getLogger("omnigraph")

SECONDS_AT_CLOSE: Final = 2.0
"""How long closing a graph waits for upkeep. What is not done by then is done after a later commit."""


_SECONDS_TO_STOP: Final = 10.0
"""How long the end of the process waits for the piece of work that was begun last."""


def do_upkeep(manifest: Manifest, branch: str) -> frozenset[str]:
    """Merge small fragments and extend indexes, where a branch has crowded tables. Return those that stay crowded."""
    snapshot = take_snapshot(manifest, branch)
    crowded = _list_crowded(snapshot, snapshot.pins)
    if not crowded or snapshot.lag is not None:
        # The first write to a lagging branch brings its tables to the current schema: that is no upkeep.
        return frozenset(crowded)
    schema = load_current_schema(manifest)
    options = CommitOptions(branch, schema.hash)
    remaining = _merge_fragments(manifest, crowded, _with_message(options, "merge small fragments"))
    required = list_required_indexes(schema.catalog, crowded)
    commit_operation(manifest, ExtendIndexesOperation(required), _with_message(options, "extend indexes"))
    return frozenset(remaining)


def _merge_fragments(manifest: Manifest, table_keys: tuple[str, ...], options: CommitOptions) -> tuple[str, ...]:
    """Merge small fragments, and what is merged once more if there is much of it. Return what stays crowded."""
    for _ in TAIL_SIZES:
        result = commit_operation(manifest, CompactionOperation(table_keys, plan=plan_tail_compaction), options)
        table_keys = _list_crowded(take_snapshot(manifest, options.branch), table_keys)
        if result.commit is None or not table_keys:
            break
    return table_keys


def _with_message(options: CommitOptions, message: str) -> CommitOptions:
    return CommitOptions(options.branch, options.schema_ir_hash, message=message)


def _list_crowded(snapshot: Snapshot, table_keys: Iterable[str]) -> tuple[str, ...]:
    """Return the tables of a branch that have many small fragments. Those of other branches are left to them."""
    return tuple(
        key
        for key in table_keys
        if key in snapshot.pins
        and (snapshot.pins[key].branch or MAIN) == snapshot.branch
        and list_crowded_sizes(snapshot.table(key))
    )


class BackgroundUpkeep:
    """Does upkeep in a daemon thread, one branch after the other. The thread ends when nothing is left to do.

    ``keep`` is used in place of how long the graph keeps history.
    """

    def __init__(self, manifest: Manifest, keep: str | None = None) -> None:
        self._keep = keep
        self._wants_cleanup = False
        # Lance does not allow two threads to use one dataset while one of them builds an index.
        self._manifest = Manifest(manifest.location, manifest.access, manifest.locks)
        self._waiting: dict[str, None] = {}
        self._patience: dict[tuple[str, str], int] = {}
        """How many further commits are waited for, by branch and table, after nothing could be done."""
        self._thread: threading.Thread | None = None
        self._deadline = Deadline()
        """Cancelled when the process ends."""
        self._guard = threading.Lock()
        _running.add(self)

    def request(self, branch: str, table_keys: Iterable[str]) -> None:
        """Start upkeep of a branch, on which a commit left these tables crowded."""
        with self._guard:
            due = [key for key in table_keys if not self._must_wait(branch, key)]
            if not due:
                return
            self._waiting[branch] = None
            self._start()

    def request_cleanup(self) -> None:
        """Start a cleanup of old history, if it is due."""
        with self._guard:
            self._wants_cleanup = True
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="omnigraph-upkeep", daemon=True)
            self._thread.start()

    def join(self, seconds: float = SECONDS_AT_CLOSE) -> None:
        """Wait until nothing is left to do, but not longer than this."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, seconds))

    def stop(self, seconds: float) -> None:
        """Stop at the next piece of work, and wait for that, but not longer than this."""
        with self._guard:
            self._waiting.clear()
            self._wants_cleanup = False
        self._deadline.cancel()
        self.join(seconds)

    def _must_wait(self, branch: str, table_key: str) -> bool:
        left = self._patience.pop((branch, table_key), 0)
        if left > 1:
            self._patience[branch, table_key] = left - 1
        return left > 0

    def _run(self) -> None:
        while True:
            with self._guard:
                if not (self._waiting or self._wants_cleanup):
                    self._thread = None
                    return
                branch = next(iter(self._waiting), None)
                if branch is None:
                    self._wants_cleanup = False
                else:
                    del self._waiting[branch]
            if branch is None:
                self._clean_up()
                continue
            remaining = self._do(branch)
            with self._guard:
                self._patience |= {(branch, key): MANY_SMALL_FRAGMENTS for key in remaining}

    def _do(self, branch: str) -> frozenset[str]:
        try:
            with self._deadline:
                return do_upkeep(self._manifest, branch)
        except OmniGraphError as error:
            # Nobody waits for it: a later commit starts it again.
            _log.info("upkeep of branch '%s' is put off: %s", branch, error)
            return frozenset()

    def _clean_up(self) -> None:
        try:
            with self._deadline:
                clean_up_if_due(self._manifest, self._keep)
        except OmniGraphError as error:
            _log.info("automatic cleanup is put off: %s", error)


_running: WeakSet[BackgroundUpkeep] = WeakSet()


@atexit.register
def _join_all() -> None:
    """Wait for upkeep when the process ends without closing its graphs, and then stop it.

    A thread that returns from Lance while the interpreter ends makes the process abort.
    """
    until = monotonic() + SECONDS_AT_CLOSE
    for each in tuple(_running):
        each.join(until - monotonic())
    for each in tuple(_running):
        each.stop(_SECONDS_TO_STOP)
