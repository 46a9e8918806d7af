"""The owner-branch handoff: a branch takes over tables that it inherited, at the very versions that it shows.

Most forks are made inside the commit that first writes to them. Work that writes to a table's folder for long cannot
wait for that: a fork that nobody published may be made anew by the next writer, and rows in its folder with it. So
such forks are published first. No row changes and no table moves, so a crash leaves nothing to recover.
"""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.snapshot import Pin, entry_of, pins_of
from omnigraph.storage.locks import branch_lock
from omnigraph.write.commit.recovery import heal


def publish_handoff(
    manifest: Manifest, branch: str, inherited: Iterable[Pin], intent: CommitIntent, incarnation: str | None
) -> frozenset[str]:
    """Publish forks of inherited tables; the keys of those that the branch owns now.

    A table that moved meanwhile is left out: whoever asked for it meets that when it commits.
    """
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        heal(manifest, held, branch)
        now = pins_of(manifest.writable_view(branch))
        forked = [pin for pin in inherited if now.get(pin.table_key) == pin]
        if forked:
            forks = [entry_of(manifest, pin, fork_table(manifest, held, branch, pin)) for pin in forked]
            expected: dict[str, int] = {pin.table_key: pin.version for pin in forked}
            request = PublishRequest(intent, updates=tuple(forks), expected=expected, incarnation=incarnation)
            publish(manifest, held, branch, request)
    return frozenset(pin.table_key for pin in forked)
