"""All versions of a table's branch: list them, the files that they need, and what dropping some would free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.storage.table import Table


def list_versions(table: Table) -> list[int]:
    """Return the existing versions of the table's branch, oldest first. Only file names are read."""
    with translate_errors(table.subject):
        return sorted(ref["version"] for ref in table.dataset.version_refs())


def estimate_freed_bytes(table: Table, versions: Sequence[int]) -> int:
    """Return how many bytes dropping these versions frees, with the files that only they need.

    Zero if a ref is half-written: Lance tells only after cleanup has removed it.
    """
    if not versions or table.list_damaged_refs():
        return 0
    with translate_errors(table.subject):
        return table.dataset.explain_cleanup_old_versions(versions=list(versions)).stats.bytes_removed


def list_tracked_files(table: Table) -> dict[str, int]:
    """Return every file that a version of the table's branch needs, with one version that needs it.

    Paths are relative to the folder of a branch: ``data/x.lance`` may lie in this branch or in one that it was forked
    from. File names are random, so a path still identifies one file.
    """
    found: dict[str, int] = {}
    with translate_errors(table.subject):
        for batch in table.dataset.tracked_files():
            paths = cast("list[str]", to_list(column_of(batch, "path")))
            found.update(zip(paths, cast("list[int]", to_list(column_of(batch, "version"))), strict=True))
    return found
