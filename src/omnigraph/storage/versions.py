"""Which versions a dataset has, which files they need, and what dropping some would free. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.lance_errors import translated
from omnigraph.storage.pinned import Table


def version_numbers(table: Table) -> list[int]:
    """The versions of the table's branch that are there, oldest first; only their names are read."""
    with translated(table.subject):
        return sorted(ref["version"] for ref in table.dataset.version_refs())


def freed_by_dropping(table: Table, versions: Sequence[int]) -> int:
    """How many bytes go with these versions: theirs, and those of the files that only they need."""
    if not versions:
        return 0
    with translated(table.subject):
        return table.dataset.explain_cleanup_old_versions(versions=list(versions)).stats.bytes_removed


def tracked_files(table: Table) -> dict[str, int]:
    """Every file that a version of the table's branch needs, and one version that does.

    Paths are those below the folder of a branch: ``data/x.lance`` may lie in that of this branch or in that of one that
    it was made from. Their names are random, so that a path tells which file it is all the same.
    """
    found: dict[str, int] = {}
    with translated(table.subject):
        for batch in table.dataset.tracked_files():
            paths = cast("list[str]", to_list(column_of(batch, "path")))
            found.update(zip(paths, cast("list[int]", to_list(column_of(batch, "version"))), strict=True))
    return found
