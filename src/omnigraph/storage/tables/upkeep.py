"""Stage work that changes no rows: build indexes and compact fragments.

As in :mod:`omnigraph.storage.tables.writes`, nobody sees the result before it is committed. Other processes may compute
the parts. What was computed on one version can be carried over to a newer one, so that it is never computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import Index as Segment
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata, LanceFragment
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult

from omnigraph.errors import HistoryGone
from omnigraph.storage.columns import column_of
from omnigraph.storage.lance_internals import print_highest_fragment_id, translate_errors
from omnigraph.storage.tables.staging import IndexKind, StagedChange
from omnigraph.storage.tables.table import ROW_CREATED_AT, Table
from omnigraph.storage.tables.writes import open_own_handle, stage_operation, write_durably

_KEEPS_FRAGMENTS: Final = frozenset({"Append", "Delete", "Update", "CreateIndex", "Rewrite", "ReserveFragments"})
"""The Lance operations that add or remove fragments, or delete rows in them. An update may also replace columns."""
_MAX_SEGMENT_RATIO: Final = 4
"""A segment of an index is built again if it has at most this many times the rows that are added to it."""
FULL_SEGMENT_ROWS: Final = 5_000_000
"""A segment of so many rows is not built again: a task has to hold it in memory."""
MANY_SMALL_FRAGMENTS: Final = 64
"""So many small fragments in a row are merged."""
TAIL_SIZES: Final = (1_024, 16_384)
"""Sizes of small fragments, in rows. Those below the first are merged into one of that size, and many of these again:
so a row is rewritten a few times, however small the commits are."""
_MAX_TAIL_BYTES: Final = 256 * 1024 * 1024
"""At most so much is rewritten at a time."""

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
    dataset = open_own_handle(table)
    with write_durably("table.stage", table.subject):
        return dataset.create_index_uncommitted(
            column,
            kind.value,
            name=index_name(column),
            replace=True,
            num_partitions=1 if kind is IndexKind.IVF_FLAT else None,
            ivf_centroids=_make_center(table, column) if kind is IndexKind.IVF_FLAT else None,
            fragment_ids=list(fragments),
        )


def _make_center(table: Table, column: str) -> npt.NDArray[np.float32]:
    """Return the center of the only partition of a vector index, which is searched whole: so any center will do.

    A given one needs no training, and segments with the same one can be built apart from each other.
    """
    dimension = cast("pa.FixedSizeListType[pa.DataType, int]", table.schema.field(column).type).list_size
    return np.zeros((1, dimension), np.float32)


def merge_segments(table: Table, segments: Sequence[Segment]) -> Segment:
    """Merge indexes over parts of the rows into one."""
    dataset = open_own_handle(table)
    with write_durably("table.stage", table.subject):
        return dataset.merge_existing_index_segments(list(segments))


def replace_indexes(table: Table, built: Mapping[str, Segment]) -> StagedChange | None:
    """Stage indexes over all rows, by column, in place of the existing ones. None if there are none."""
    return _stage_segments(table, list(built.values()))


def can_grow(table: Table, column: str, kind: IndexKind, fragments: Sequence[int]) -> bool:
    """Return whether a further segment over some fragments, beside those that exist, makes an index complete.

    Lance finds what a row said before it was changed in the older segment of a text or vector index, if the row has
    kept its row id. Such rows were created before that segment was built.
    """
    if kind is IndexKind.BTREE:
        return True
    kept = [
        each for each in index_segments(table, index_name(column)) if not set(fragments).intersection(each.fragment_ids)
    ]
    built = max((each.dataset_version for each in kept), default=-1)
    return all(
        pc.min(cast("pa.UInt64Array", column_of(batch, ROW_CREATED_AT))).as_py() > built
        for batch in table.scan([ROW_CREATED_AT], in_fragments=fragments)
        if batch.num_rows
    )


def choose_segment(table: Table, column: str) -> tuple[int, ...]:
    """Return the fragments of a segment that would complete an index; empty if it covers all, or if there is none.

    It covers the rows that no segment covers, and takes in the segments that are not much larger. So there are few of
    them, and a row is indexed again only a few times, however many small commits follow each other.
    """
    rows, segments = table.fragment_rows(), index_segments(table, index_name(column))
    covered = {fragment for segment in segments for fragment in segment.fragment_ids}
    chosen = {fragment for fragment in rows if fragment not in covered}
    if not segments or not chosen:
        return ()
    for segment in sorted(segments, key=lambda each: _count_covered(rows, each)):
        count = _count_covered(rows, segment)
        if count >= FULL_SEGMENT_ROWS or count > _MAX_SEGMENT_RATIO * sum(rows[fragment] for fragment in chosen):
            break
        chosen |= rows.keys() & segment.fragment_ids
    return tuple(sorted(chosen))


def extend_indexes(table: Table, built: Sequence[Segment]) -> StagedChange | None:
    """Stage segments of indexes beside those that cover other rows, in place of those that cover the same."""
    live, covered = set(table.fragment_rows()), dict[str, set[int]]()
    for each in built:
        covered.setdefault(each.name, set()).update(each.fragment_ids)
    kept = {
        segment.uuid
        for name, fragments in covered.items()
        for segment in index_segments(table, name)
        if live.intersection(segment.fragment_ids) and not fragments.intersection(segment.fragment_ids)
    }
    return _stage_segments(table, built, kept)


def carry_over_indexes(staged: StagedChange, before: Table, now: Table) -> StagedChange | None:
    """Stage indexes that were built on the version ``before`` for the newer version ``now``. None if none is of use.

    An index stays right while its fragments only lose rows. Rows that were added later are scanned, as are those of a
    fragment that was compacted since. An index is of no use if all its fragments are gone, or if another one that
    covers as many rows was built meanwhile.
    """
    if not _has_kept_fragments(before, now):
        return None
    operation = cast(LanceOperation.CreateIndex, staged.transaction.operation)
    replaced, rows = {segment.uuid for segment in operation.removed_indices}, now.fragment_rows()
    kept = {
        segment.uuid
        for each in operation.new_indices
        for segment in index_segments(before, each.name)
        if segment.uuid not in replaced
    }

    def is_of_use(segment: Segment) -> bool:
        own = [each for each in operation.new_indices if each.name == segment.name]
        built_since = [each for each in index_segments(now, segment.name) if each.uuid not in replaced | kept]
        covered, by_others = (sum(_count_covered(rows, each) for each in some) for some in (own, built_since))
        return _count_covered(rows, segment) > 0 and covered > by_others

    return _stage_segments(now, [segment for segment in operation.new_indices if is_of_use(segment)], kept)


def _count_covered(rows: Mapping[int, int], segment: Segment) -> int:
    return sum(rows.get(fragment, 0) for fragment in segment.fragment_ids)


def _stage_segments(
    table: Table, built: Sequence[Segment], kept: AbstractSet[str] = frozenset()
) -> StagedChange | None:
    """Stage segments in place of all others of the same indexes, except for those that are kept beside them."""
    if not built:
        return None
    names = dict.fromkeys(each.name for each in built)
    present = [segment for name in names for segment in index_segments(table, name)]
    replaced = [segment for segment in present if segment.uuid not in kept]
    return stage_operation(table, LanceOperation.CreateIndex(list(built), replaced))


# --------------------------------------------------------------------------------------------- compaction


def compact(table: Table, target_rows: int | None = None) -> StagedChange | None:
    """Stage a compaction, computed in this process. None if there is nothing to compact."""
    tasks = plan_compaction(table, target_rows)
    return stage_rewrites(table, [run_compaction(table, task) for task in tasks])


def plan_compaction(table: Table, target_rows: int | None = None) -> tuple[CompactionTask, ...]:
    """Return the independent tasks of a compaction. They can be pickled and run in other processes."""
    options = CompactionOptions() if target_rows is None else CompactionOptions(target_rows_per_fragment=target_rows)
    return _plan(table, options)


def plan_tail_compaction(table: Table) -> tuple[CompactionTask, ...]:
    """Return the tasks that merge the many small fragments of a table, if it has many. Large fragments stay.

    A fragment that lost many of its rows is rewritten too, unless it is very large.
    """
    fragments = table.dataset.get_fragments()
    for size in reversed(list_crowded_sizes(table)):
        large = [each for each in fragments if each.physical_rows >= size]
        options = CompactionOptions(
            target_rows_per_fragment=size,
            max_source_bytes=_MAX_TAIL_BYTES,
            excluded_fragment_ids=[each.fragment_id for each in large if _count_bytes(each) > _MAX_TAIL_BYTES // 2],
        )
        tasks = _plan(table, options)
        if tasks:
            return tasks
    return ()


def list_crowded_sizes(table: Table) -> list[int]:
    """Return the sizes below which a table has so many small fragments that it is time to merge them."""
    rows = tuple(table.fragment_rows().values())
    return [
        size
        for smaller, size in pairwise((0, *TAIL_SIZES))
        if _count_mergeable(rows, smaller, size) >= MANY_SMALL_FRAGMENTS
    ]


def _count_bytes(fragment: LanceFragment) -> int:
    return sum(file.file_size_bytes or _MAX_TAIL_BYTES for file in fragment.metadata.files)


def _count_mergeable(rows: Iterable[int], smaller: int, size: int) -> int:
    """Return how many fragments would be saved by merging those of a size: only neighbours can be merged.

    Smaller ones do not count: for their sake the larger ones beside them are not written again.
    """
    runs = (run for is_small, run in groupby(rows, lambda each: each < size) if is_small)
    return sum(max(0, sum(each >= smaller for each in run) - 1) for run in runs)


def _plan(table: Table, options: CompactionOptions) -> tuple[CompactionTask, ...]:
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
    return _stage_groups(
        table,
        [
            LanceOperation.RewriteGroup(cast("_RewriteWithSources", rewrite).original_fragments, rewrite.new_fragments)
            for rewrite in rewrites
        ],
    )


def carry_over_rewrites(staged: StagedChange, before: Table, now: Table) -> StagedChange | None:
    """Stage a compaction of the version ``before`` for the newer version ``now``, without fragments that changed since.

    None if nothing of it is left.
    """
    if not _has_kept_fragments(before, now):
        return None
    operation = cast(LanceOperation.Rewrite, staged.transaction.operation)
    old, new = _list_fragments(before), _list_fragments(now)
    unchanged = {key for key, fragment in old.items() if new.get(key) == fragment}
    groups = [group for group in operation.groups if unchanged.issuperset(each.id for each in group.old_fragments)]
    return _stage_groups(now, groups)


def _stage_groups(table: Table, groups: Iterable[LanceOperation.RewriteGroup]) -> StagedChange | None:
    """Stage rewritten fragments under new ids."""
    fragment_id = _highest_fragment_id(table)
    numbered: list[LanceOperation.RewriteGroup] = []
    for group in groups:
        new = [replace(each, id=fragment_id + at) for at, each in enumerate(group.new_fragments, start=1)]
        fragment_id += len(new)
        numbered.append(LanceOperation.RewriteGroup(group.old_fragments, new))
    return stage_operation(table, LanceOperation.Rewrite(numbered, [])) if numbered else None


class _RewriteWithSources(Protocol):
    """A rewrite with the field that Lance's type stubs lack."""

    original_fragments: list[FragmentMetadata]


def _highest_fragment_id(table: Table) -> int:
    """Return the greatest fragment id that was ever used; -1 if there was none."""
    # A reused id that an index still names would make the index claim rows that it never saw.
    found = print_highest_fragment_id(table.dataset)
    return max(table.fragment_rows(), default=-1) if found is None else found


# --------------------------------------------------------------------------------------------- what a table has


def _has_kept_fragments(before: Table, now: Table) -> bool:
    """Return whether a fragment of an older version, if it is still there, can only have lost rows since."""
    if before.branch != now.branch or before.version > now.version:
        return False
    try:
        commits = now.read_commits(before.version, now.version)
    except HistoryGone:
        # Cleanup removed the versions in between.
        return False
    return all(
        (one.operation in _KEEPS_FRAGMENTS and not one.replaces_columns)
        or (one.restored is not None and one.restored >= before.version)
        for one in commits
    )


def _list_fragments(table: Table) -> dict[int, FragmentMetadata]:
    return {fragment.fragment_id: fragment.metadata for fragment in table.dataset.get_fragments()}


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
