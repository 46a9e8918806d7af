"""Stage work that changes no rows: build indexes and compact fragments.

As in :mod:`omnigraph.storage.table_writes`, nobody sees the result before it is committed. Other processes may compute
the parts. What was computed on one version can be carried over to a newer one, so that it is never computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, cast

from lance.dataset import Index as Segment
from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction, CompactionOptions, CompactionTask, RewriteResult

from omnigraph.errors import HistoryGone
from omnigraph.storage.lance_internals import print_highest_fragment_id, translate_errors
from omnigraph.storage.staging import IndexKind, StagedChange
from omnigraph.storage.table import Table
from omnigraph.storage.table_writes import stage_operation, write_durably

_KEEPS_FRAGMENTS: Final = frozenset({"Append", "Delete", "Update", "CreateIndex", "Rewrite", "ReserveFragments"})
"""The Lance operations that add or remove fragments, or delete rows in them, but change no value in a fragment."""

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
    return _stage_segments(table, list(built.values()))


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

    def count_covered(segments: Iterable[Segment]) -> int:
        return sum(rows.get(fragment, 0) for segment in segments for fragment in segment.fragment_ids)

    def is_of_use(segment: Segment) -> bool:
        built_since = [each for each in index_segments(now, segment.name) if each.uuid not in replaced]
        return count_covered([segment]) > count_covered(built_since)

    return _stage_segments(now, [segment for segment in operation.new_indices if is_of_use(segment)])


def _stage_segments(table: Table, built: Sequence[Segment]) -> StagedChange | None:
    if not built:
        return None
    replaced = [segment for each in built for segment in index_segments(table, each.name)]
    return stage_operation(table, LanceOperation.CreateIndex(list(built), replaced))


# --------------------------------------------------------------------------------------------- compaction


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
        one.operation in _KEEPS_FRAGMENTS or (one.restored is not None and one.restored >= before.version)
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
