"""Staging what changes no row: indexes over a table, and larger fragments in place of small ones.

Like :mod:`omnigraph.storage.table_writes` it writes bytes that nobody sees; :func:`table_writes.commit_operation` shows them. The
pieces of both may be made by other processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, cast

from lance.dataset import Index as Segment
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult

from omnigraph.storage.lance_internals import print_highest_fragment_id, translate_errors
from omnigraph.storage.staging import IndexKind, StagedChange
from omnigraph.storage.table import Table
from omnigraph.storage.table_writes import stage_operation, write_durably

# --------------------------------------------------------------------------------------------- indexes


def build_index(table: Table, column: str, kind: IndexKind) -> StagedChange | None:
    """Stage an index over all rows, named ``<column>_idx``; it replaces one of that name. None on nothing to index."""
    if not has_indexable_rows(table, column, kind):
        return None
    segment = build_segment(table, column, kind, tuple(table.fragment_rows()))
    # As built, an inverted index is a part that no query can read.
    return replace_indexes(table, {column: merge_segments(table, [segment]) if kind is IndexKind.INVERTED else segment})


def build_segment(table: Table, column: str, kind: IndexKind, fragments: Sequence[int]) -> Segment:
    """Write an index over the rows of some fragments, which no version shows yet. It pickles."""
    with write_durably("table.stage", table.subject):
        return table.dataset.create_index_uncommitted(
            column,
            kind.value,
            name=index_name(column),
            replace=True,
            num_partitions=1 if kind is IndexKind.IVF_FLAT else None,
            fragment_ids=list(fragments),
        )


def merge_segments(table: Table, segments: Sequence[Segment]) -> Segment:
    """Make one index of those over parts of the rows."""
    with write_durably("table.stage", table.subject):
        return table.dataset.merge_existing_index_segments(list(segments))


def replace_indexes(table: Table, built: Mapping[str, Segment]) -> StagedChange | None:
    """Stage indexes over all rows, by column, in place of those of these columns. None when there are none."""
    if not built:
        return None
    replaced = [segment for column in built for segment in index_segments(table, index_name(column))]
    return stage_operation(table, LanceOperation.CreateIndex(list(built.values()), replaced))


def compact(table: Table, target_rows: int | None = None) -> StagedChange | None:
    """Stage larger fragments in place of small ones, here and now. None when there is nothing to gain."""
    tasks = plan_compaction(table, target_rows)
    return stage_rewrites(table, [run_compaction(table, task) for task in tasks])


def plan_compaction(table: Table, target_rows: int | None = None) -> tuple[CompactionTask, ...]:
    """The independent pieces of a compaction. They pickle: each may run in another process."""
    options = CompactionOptions() if target_rows is None else CompactionOptions(target_rows_per_fragment=target_rows)
    with translate_errors(table.subject):
        return tuple(Compaction.plan(table.dataset, options).tasks)


def run_compaction(table: Table, task: CompactionTask) -> RewriteResult:
    """Write the fragments of one piece. The result pickles."""
    with write_durably("table.stage", table.subject):
        return task.execute(table.dataset)


def stage_rewrites(table: Table, rewrites: Iterable[RewriteResult]) -> StagedChange | None:
    """Stage what the pieces made. None when there were none.

    Indexes no longer cover the rows that were moved: they are scanned until the indexes are extended. Lance's own way
    to commit a compaction writes every index anew while it does, in two versions that cannot carry an operation's id.
    """
    fragment_id = _highest_fragment_id(table)
    groups: list[LanceOperation.RewriteGroup] = []
    for rewrite in rewrites:
        new = [replace(each, id=fragment_id + at) for at, each in enumerate(rewrite.new_fragments, start=1)]
        fragment_id += len(new)
        groups.append(LanceOperation.RewriteGroup(cast("_RewriteWithSources", rewrite).original_fragments, new))
    return stage_operation(table, LanceOperation.Rewrite(groups, [])) if groups else None


class _RewriteWithSources(Protocol):
    """What Lance's type stubs leave out of a rewrite."""

    original_fragments: list[FragmentMetadata]


def _highest_fragment_id(table: Table) -> int:
    """The greatest fragment id that the table ever had, in use or not; -1 if it never had one."""
    # An id that an index still names must not come again: the index would claim rows that it never saw.
    found = print_highest_fragment_id(table.dataset)
    return max(table.fragment_rows(), default=-1) if found is None else found


def index_name(column: str) -> str:
    """The name of the index over a column."""
    return f"{column}_idx"


def has_indexable_rows(table: Table, column: str, kind: IndexKind) -> bool:
    """Whether a column holds anything that an index of that kind could cover."""
    return table.count_rows(f"`{column}` IS NOT NULL" if kind is IndexKind.IVF_FLAT else None) > 0


def index_segments(table: Table, name: str) -> list[Segment]:
    """The pieces of an existing index: a replacement must name each, or both stay and readers may panic."""
    return [
        Segment(
            uuid=segment.uuid,
            name=index.name,
            fields=index.fields,
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
            base_id=segment.base_id,
        )
        for index in table.dataset.describe_indices()
        if index.name == name
        for segment in index.segments
    ]
