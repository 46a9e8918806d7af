"""All versions of a table's branch: list them, and the files that they need."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, is_among, to_list
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.storage.tables.table import Table


def list_versions(table: Table) -> list[int]:
    """Return the existing versions of the table's branch, oldest first. Only file names are read."""
    with translate_errors(table.subject):
        return sorted(ref["version"] for ref in table.dataset.version_refs())


def list_tagged_versions(table: Table) -> frozenset[int]:
    """Return the versions of the dataset that a Lance tag names. Only other programs make such tags."""
    with translate_errors(table.subject):
        return frozenset(tag["version"] for tag in table.dataset.tags.list().values())


@dataclass(frozen=True, slots=True)
class TrackedFiles:
    """The files that some versions of a branch need and those that the others need, and the file of each of the first.

    Paths are relative to the folder of a branch, as in :func:`list_tracked_files`.
    """

    chosen: frozenset[str]
    others: frozenset[str]
    version_files: Mapping[int, str]


def split_tracked_files(table: Table, versions: Collection[int]) -> TrackedFiles:
    """Read what the versions of the table's branch need, apart for the given ones and for all others."""
    chosen, others, version_files = set[str](), set[str](), dict[int, str]()
    wanted = cast("Values", pa.array(sorted(versions), pa.int64()))
    with translate_errors(table.subject):
        for batch in table.dataset.tracked_files():
            # Whole columns: the batches of a long history have hundreds of thousands of paths.
            is_chosen = cast("Values", is_among(column_of(batch, "version"), wanted))
            is_version = compute("equal", column_of(batch, "type"), pa.scalar("manifest"))
            chosen.update(_list_paths(batch, is_chosen))
            others.update(_list_paths(batch, compute("invert", is_chosen)))
            found = batch.filter(cast("pa.BooleanArray", compute("and", is_chosen, is_version)))
            numbers = cast("list[int]", to_list(column_of(found, "version")))
            version_files.update(zip(numbers, cast("list[str]", to_list(column_of(found, "path"))), strict=True))
    return TrackedFiles(frozenset(chosen), frozenset(others), version_files)


def _list_paths(batch: pa.RecordBatch, mask: Values) -> list[str]:
    kept = batch.filter(cast("pa.BooleanArray", mask))
    return cast("list[str]", to_list(compute("unique", column_of(kept, "path"))))


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
