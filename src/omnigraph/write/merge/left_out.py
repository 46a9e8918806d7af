"""The changes of the source that a merge leaves out, by table and reason: a merge accounts for every change.

Every other change is applied, is in the target already, or is an open conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

import pyarrow as pa

from omnigraph.errors import HistoryGone, Json
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.common_ancestors import take_snapshot_at
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lagging import SchemaLag, follow_schemas
from omnigraph.manifest.lineage import CommitLookup, find_merge_bases
from omnigraph.manifest.rows import MAIN, CommitRecord, SchemaHead
from omnigraph.manifest.snapshot import Snapshot, list_pins
from omnigraph.read.changes import ChangedRows, find_changed_tables, read_changes
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_bool_array, to_list
from omnigraph.write.merge.alignment import MergeBase, align_ranges
from omnigraph.write.merge.conflict_images import read_stored_rows
from omnigraph.write.merge.three_way import align_rows, compare_rows, find_equal_values
from omnigraph.write.rules import type_of_table

LeftOutReason: TypeAlias = Literal["dropped-type", "dropped-property", "resolved", "undone"]
_REASONS: Final[Mapping[LeftOutReason, str]] = {
    "dropped-type": "the type is no longer in the schema",
    "dropped-property": "the property is no longer in the schema",
    "resolved": "a conflict was resolved in favor of the target",
    "undone": "merged earlier, and undone in the target since",
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many entities of one type have changes in the source that the merge left out for one reason.

    ``property_name`` is the dropped property. ``undone`` counts what the target undid after an earlier merge.
    """

    table_key: str
    reason: LeftOutReason
    count: int
    property_name: str | None = None

    @property
    def type(self) -> str:
        """The name of the type."""
        return TableKey(self.table_key).type_name

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        named = "" if self.property_name is None else f" '{self.property_name}'"
        return _REASONS[self.reason].replace("the property", f"the property{named}")

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``left_out``."""
        named: dict[str, Json] = {} if self.property_name is None else {"property": self.property_name}
        return {"table_key": self.table_key, "type": self.type, "reason": self.reason, "count": self.count, **named}


def list_resolved(kept: Mapping[str, int]) -> Iterator[LeftOut]:
    """Return the changes that lost a conflict; ``kept`` has their number by table key."""
    return (LeftOut(str(key), "resolved", count) for key, count in sorted(kept.items()) if count)


# --------------------------------------------------------------------------------------------- dropped


def list_dropped(manifest: Manifest, base: Snapshot, theirs: Snapshot, current: SchemaHead | None) -> Iterator[LeftOut]:
    """Yield the changes of types and properties that the current schema does not have.

    Base and theirs are compared in the newer schema of their tables, so that a schema change is no change of rows.
    """
    schema = max((base.written_under, theirs.written_under), key=lambda head: 0 if head is None else len(head.all))
    lag = follow_schemas(manifest, schema, current)
    if lag is None:
        return
    before, after = (_read_as_written(manifest, side, schema) for side in (base, theirs))
    for key in find_changed_tables(before, after):
        dropped = _find_dropped_properties(lag, type_of_table(after.catalog(), key))
        if dropped is None or dropped:
            yield from _count_dropped(before, after, key, dropped)


def _count_dropped(before: Snapshot, after: Snapshot, key: str, dropped: list[str] | None) -> Iterator[LeftOut]:
    """Count the changed rows of a dropped type, or the changed values of each dropped property."""
    rows = 0
    values = dict.fromkeys(dropped or (), 0)
    for part in (part for parts in read_changes(before, after, key) for part in parts):
        rows += part.num_rows
        for name in values:
            values[name] += _count_changed_values(part, name)
    if dropped is None and rows:
        yield LeftOut(str(key), "dropped-type", rows)
    yield from (LeftOut(str(key), "dropped-property", count, name) for name, count in values.items() if count)


def _read_as_written(manifest: Manifest, side: Snapshot, schema: SchemaHead | None) -> Snapshot:
    """Return a snapshot with the tables of dropped types, read in an earlier schema."""
    pins = list_pins(manifest.view_at(side.branch, side.manifest_version))
    return replace(side, pins=pins).read_with(schema)


def _find_dropped_properties(lag: SchemaLag, type_: NodeType | EdgeType) -> list[str] | None:
    """Return the properties of a type that a later schema dropped; None if it dropped the type."""
    kept = [origin for origin in lag.origins.values() if origin.table_key == type_.table_key]
    if not kept:
        return None
    return sorted(set(type_.properties).difference(*(origin.columns.values() for origin in kept)))


def _count_changed_values(part: ChangedRows, name: str) -> int:
    """Return how many rows have another value of a property now. A deleted row has none."""
    if part.after is None:
        return 0
    after = column_of(part.after, name)
    if part.before is None:
        return len(after) - after.null_count
    return int((~find_equal_values(column_of(part.before, name), after)).sum())


# --------------------------------------------------------------------------------------------- undone


@dataclass(frozen=True, slots=True)
class _OwnLine:
    """A lookup that hides the merges of one branch."""

    commits: CommitLookup
    branch: str

    def get(self, commit_id: str, /) -> CommitRecord | None:
        """Return the commit, on that branch without its merged parent."""
        commit = self.commits.get(commit_id)
        is_own = commit is not None and (commit.branch or MAIN) == self.branch
        return replace(commit, merged_parent=None) if commit is not None and is_own else commit


def list_undone(
    manifest: Manifest, base: MergeBase, base_id: str, sides: tuple[Snapshot, Snapshot], commits: CommitLookup
) -> Iterator[LeftOut]:
    """Yield the changes that ours merged from theirs before, and undid since.

    Such a row has the values that it had where the two histories first met, before any merge. If cleanup has deleted
    that commit, nothing is reported.
    """
    ours, theirs = sides
    if ours.commit is None or theirs.commit is None or base_id == ours.commit.id:
        return
    first_met = find_merge_bases(theirs.commit.id, ours.commit.id, _OwnLine(commits, ours.branch))
    if not first_met or first_met[0].id == base_id:
        return
    with suppress(HistoryGone):
        yield from _compare_with_origin(
            base, sides, take_snapshot_at(manifest, first_met[0]).read_with(ours.read_under)
        )


def _compare_with_origin(base: MergeBase, sides: tuple[Snapshot, Snapshot], origin: Snapshot) -> Iterator[LeftOut]:
    ours, theirs = sides
    catalog = ours.catalog()
    renamed = {key for key, _, _ in origin.lag.list_renames()} if origin.lag is not None else set[str]()
    merged = set(find_changed_tables(origin, base.snapshot)) - renamed
    for key in find_changed_tables(base.snapshot, ours):
        if key not in merged or catalog.find_type(key) is None:
            continue
        undone = _find_undone_ids(base, ours, origin, type_of_table(catalog, key))
        if len(undone) and key in find_changed_tables(base.snapshot, theirs):
            for part in (part for parts in read_changes(base.snapshot, theirs, key, ["id"]) for part in parts):
                undone = undone.filter(pa.array(~to_bool_array(is_among(undone, column_of(part.rows, "id")))))
        if len(undone):
            yield LeftOut(str(key), "undone", len(undone))


def _find_undone_ids(base: MergeBase, ours: Snapshot, origin: Snapshot, type_: NodeType | EdgeType) -> Values:
    """Return the ids of the rows that ours changed since the base, back to what they were in the origin."""
    key = type_.table_key
    undone: list[Values] = [pa.array([], pa.string())]
    for aligned in align_ranges(read_changes(base.snapshot, ours, key), iter(()), None, type_):
        ids = cast("list[str]", to_list(aligned.ids)) if key in origin.pins else []
        rows = read_stored_rows(origin, type_, ids) if ids else arrow_schema(type_).empty_table()
        is_undone = compare_rows(align_rows(aligned.ids, rows), aligned.theirs)
        undone.append(aligned.ids.filter(pa.array(is_undone)))
    found = pa.concat_arrays(undone)
    overlay = base.overlays.get(key)
    return found if overlay is None else found.filter(pa.array(~overlay.mark_changed(found)))
