"""Stage work that changes no rows: build indexes and compact fragments.

As in :mod:`omnigraph.storage.table_writes`, nobody sees the result before it is committed. Other processes may compute
the parts.
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
    """Stage an index ``<column>_idx`` over all rows, in place of an older one. None if there is nothing to index."""
    if not has_indexable_rows(table, column, kind):
        return None
    segment = build_segment(table, column, kind, tuple(table.fragment_rows()))
    # Queries cannot read an inverted index before its segments are merged.
    return replace_indexes(table, {column: merge_segments(table, [segment]) if kind is IndexKind.INVERTED else segment})


def build_segment(table: Table, column: str, kind: IndexKind, fragments: Sequence[int]) -> Segment:
    """Write an index over the rows of some fragments. No version shows it yet. It can be pickled."""
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
    """Merge indexes over parts of the rows into one."""
    with write_durably("table.stage", table.subject):
        return table.dataset.merge_existing_index_segments(list(segments))


def replace_indexes(table: Table, built: Mapping[str, Segment]) -> StagedChange | None:
    """Stage indexes over all rows, by column, in place of the existing ones. None if there are none."""
    if not built:
        return None
    replaced = [segment for column in built for segment in index_segments(table, index_name(column))]
    return stage_operation(table, LanceOperation.CreateIndex(list(built.values()), replaced))


def compact(table: Table, target_rows: int | None = None) -> StagedChange | None:
    """Stage a compaction, computed in this process. None if there is nothing to compact."""
    tasks = plan_compaction(table, target_rows)
    return stage_rewrites(table, [run_compaction(table, task) for task in tasks])


def plan_compaction(table: Table, target_rows: int | None = None) -> tuple[CompactionTask, ...]:
    """Return the independent tasks of a compaction. They can be pickled and run in other processes."""
    options = CompactionOptions() if target_rows is None else CompactionOptions(target_rows_per_fragment=target_rows)
    with translate_errors(table.subject):
        return tuple(Compaction.plan(table.dataset, options).tasks)


def run_compaction(table: Table, task: CompactionTask) -> RewriteResult:
    """Write the fragments of one task. The result can be pickled."""
    with write_durably("table.stage", table.subject):
        return task.execute(table.dataset)


def stage_rewrites(table: Table, rewrites: Iterable[RewriteResult]) -> StagedChange | None:
    """Stage the results of compaction tasks. None if there are none.

    Indexes do not cover the moved rows until they are extended; until then those rows are scanned. Lance's own commit
    of a compaction rebuilds every index inside of it, in two versions that cannot carry an operation id.
    """
    fragment_id = _highest_fragment_id(table)
    groups: list[LanceOperation.RewriteGroup] = []
    for rewrite in rewrites:
        new = [replace(each, id=fragment_id + at) for at, each in enumerate(rewrite.new_fragments, start=1)]
        fragment_id += len(new)
        groups.append(LanceOperation.RewriteGroup(cast("_RewriteWithSources", rewrite).original_fragments, new))
    return stage_operation(table, LanceOperation.Rewrite(groups, [])) if groups else None


class _RewriteWithSources(Protocol):
    """A rewrite with the field that Lance's type stubs lack."""

    original_fragments: list[FragmentMetadata]


def _highest_fragment_id(table: Table) -> int:
    """Return the greatest fragment id that was ever used; -1 if there was none."""
    # A reused id that an index still names would make the index claim rows that it never saw.
    found = print_highest_fragment_id(table.dataset)
    return max(table.fragment_rows(), default=-1) if found is None else found


def index_name(column: str) -> str:
    """Return the name of the index over a column."""
    return f"{column}_idx"


def has_indexable_rows(table: Table, column: str, kind: IndexKind) -> bool:
    """Return whether a column has values that an index of that kind could cover."""
    return table.count_rows(f"`{column}` IS NOT NULL" if kind is IndexKind.IVF_FLAT else None) > 0


def index_segments(table: Table, name: str) -> list[Segment]:
    """Return the segments of an index. A replacement must name each, or both stay and readers may panic."""
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
