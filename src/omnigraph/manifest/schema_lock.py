"""The branch that tells release 0.8 that a schema is being applied: it writes nothing while the branch is there.

Our own writers need no such sign. It is made and removed under the refs lock, so one that the holder of that lock finds
was left by somebody who died.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from omnigraph.errors import LockTimeout
from omnigraph.manifest.handle import DIRECTORY, Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.storage import table_writes as tables
from omnigraph.storage.lance_internals import branch_ref_path
from omnigraph.storage.locks import Held, refs_lock

SCHEMA_APPLY_LOCK: Final = "__schema_apply_lock__"
_REF: Final = f"{DIRECTORY}/{branch_ref_path(SCHEMA_APPLY_LOCK)}"


@contextmanager
def lock_for_0_8(manifest: Manifest, refs: Held) -> Generator[None]:
    """Keep writers of release 0.8 out, under the refs lock."""
    _remove(manifest, refs)
    refs.check()
    tables.create_branch(manifest.open(MAIN), SCHEMA_APPLY_LOCK)
    try:
        yield
    finally:
        _remove(manifest, refs)


def remove_stale_lock(manifest: Manifest) -> None:
    """Remove the branch if somebody died who had made it; one that is in use is left alone."""
    if manifest.objects.head(_REF) is None:
        return
    with suppress(LockTimeout), refs_lock(manifest.location, replace(manifest.locks, timeout=0.0)) as refs:
        _remove(manifest, refs)


def _remove(manifest: Manifest, refs: Held) -> None:
    main = manifest.open(MAIN)
    refs.check()
    tables.delete_branch(main, SCHEMA_APPLY_LOCK)
    if main.has_branch_storage(SCHEMA_APPLY_LOCK):
        refs.check()
        manifest.objects.delete_prefix(f"{DIRECTORY}/tree/{SCHEMA_APPLY_LOCK}")
