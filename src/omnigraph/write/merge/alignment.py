"""Bringing three sides of a table together, by id, out of what changed between them.

Only rows that changed between the base and theirs are looked at; of ours, those of the same ids. Both come sorted by
id, so a stretch of ids is held at a time. Where two histories met more than once, no single commit has been seen by
both: then the base is a commit and, over it, what the other meeting points have and it has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import ChangedRows, Mask, find_changed_tables, read_changes
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_list, truths
from omnigraph.write.merge.three_way import (
    Decision,
    MergeBy,
    RowIndexes,
    SideRows,
    align_rows,
    decide_rows,
    overlay_rows,
)
from omnigraph.write.rules import type_of_table


@dataclass(frozen=True, slots=True)
class RowImages:
    """Rows that changed: their ids, the rows that were there before, and those that are there after."""

    ids: Values
    before: pa.Table
    after: pa.Table

    def changed_mask(self, ids: Values) -> Mask:
        """For each id whether its row changed."""
        return truths(is_among(ids, self.ids))

    def restrict_to(self, ids: Values) -> RowImages:
        """Those of some of the ids."""
        rows = (each.filter(is_among(column_of(each, "id"), ids)) for each in (self.before, self.after))
        return RowImages(ids, *rows)


@dataclass(frozen=True, slots=True)
class MergeBase:
    """What both sides have seen: a snapshot, and over it the rows of further meeting points, by table key."""

    snapshot: Snapshot
    overlays: Mapping[str, RowImages] = field(default_factory=dict[str, RowImages])


@dataclass(frozen=True, slots=True)
class AlignedRange:
    """Rows of some ids on the three sides."""

    ids: Values
    base: SideRows
    ours: SideRows
    theirs: SideRows

    def decide(self, by: MergeBy) -> Decision:
        """What comes of them."""
        return decide_rows(self.base, self.ours, self.theirs, by)


def find_tables_to_merge(catalog: Catalog, base: MergeBase, theirs: Snapshot) -> list[str]:
    """The keys of the tables in which theirs may have changed something.

    A type that the schema does not have any more is nobody's to merge.
    """
    known = {type_.table_key for type_ in catalog.types()}
    return sorted(known & {*find_changed_tables(base.snapshot, theirs), *base.overlays})


def align_table(
    base: MergeBase, ours: Snapshot, theirs: Snapshot, type_: NodeType | EdgeType
) -> Iterator[AlignedRange]:
    """The rows of a table that theirs changed, as the three sides have them."""
    key = type_.table_key
    came, mine = (read_changes(base.snapshot, side, key) for side in (theirs, ours))
    return align_ranges(came, mine, base.overlays.get(key), type_)


def align_ranges(
    came: Iterator[tuple[ChangedRows, ...]],
    changed_in_ours: Iterator[tuple[ChangedRows, ...]],
    overlay: RowImages | None,
    type_: NodeType | EdgeType,
) -> Iterator[AlignedRange]:
    """The same, given what theirs and ours changed, or such a part of it that holds all of its ids."""
    schema = arrow_schema(type_)
    mine = _ChangeCursor(changed_in_ours, schema)
    if overlay is None:
        for parts in came:
            changed = _collect_changes(parts, schema)
            yield _align_range(changed, mine.read_up_to(_last_id(changed.ids)), None)
        return
    # Meeting points are few and near one another: what differs between them is held as a whole.
    changed = _collect_changes((part for parts in came for part in parts), schema)
    yield _align_range(changed, mine.read_up_to(None), overlay)


def overlay_base(first: Snapshot, other: Snapshot, shared: Snapshot, overlays: Mapping[str, RowImages]) -> MergeBase:
    """The first meeting point of two histories, and over it what another one has; ``shared`` is what both follow.

    Where the two are at odds, a row counts as it was before both.
    """
    found = dict(overlays)
    catalog = first.catalog()
    for key in find_changed_tables(shared, other):
        type_ = type_of_table(catalog, key)
        parts = [_build_overlay(each) for each in align_table(MergeBase(shared), first, other, type_)]
        known = overlays.get(key)
        found[key] = _concat_changes([*([] if known is None else [known]), *parts], arrow_schema(type_))
    return MergeBase(first, {key: changed for key, changed in found.items() if len(changed.ids)})


def _build_overlay(stretch: AlignedRange) -> RowImages:
    decision = stretch.decide("property")
    touched = np.flatnonzero(decision.taken | decision.conflicts)
    disputed = np.flatnonzero(decision.conflicts & stretch.base.exists)
    merged = decision.merge_rows(decision.upserted())
    return RowImages(
        stretch.ids.take(touched),
        _existing_rows(stretch.ours, touched),
        pa.concat_tables([merged, stretch.base.rows.take(disputed)]),
    )


def _existing_rows(side: SideRows, places: RowIndexes) -> pa.Table:
    return side.rows.take(places[side.exists[places]])


def _concat_changes(changes: Iterable[RowImages], schema: pa.Schema) -> RowImages:
    """Several changes as one. Of two that tell of the same row the earlier one counts."""
    known = RowImages(pa.array([], pa.string()), schema.empty_table(), schema.empty_table())
    for each in changes:
        fresh = each.ids.filter(pa.array(~known.changed_mask(each.ids)))
        rows = (
            pa.concat_tables([one, other.filter(is_among(column_of(other, "id"), fresh))])
            for one, other in ((known.before, each.before), (known.after, each.after))
        )
        known = RowImages(pa.concat_arrays([known.ids, fresh]), *rows)
    return known


class _ChangeCursor:
    """What changed in ours, followed along with the stretches of theirs."""

    def __init__(self, coming: Iterator[tuple[ChangedRows, ...]], schema: pa.Schema) -> None:
        self._coming = coming
        self._schema = schema
        self._held: list[RowImages] = []
        self._ended = False

    def read_up_to(self, last: str | None) -> RowImages:
        """All that may have ids up to this one, or simply all; what lies behind it is forgotten by the next call."""
        while not self._ended and (last is None or not self._held or _last_id(self._held[-1].ids) <= last):
            parts = next(self._coming, None)
            self._ended = parts is None
            if parts is not None:
                self._held.append(_collect_changes(parts, self._schema))
        found = RowImages(
            pa.concat_arrays([pa.array([], pa.string()), *(each.ids for each in self._held)]),
            pa.concat_tables([self._schema.empty_table(), *(each.before for each in self._held)]),
            pa.concat_tables([self._schema.empty_table(), *(each.after for each in self._held)]),
        )
        self._held = [each for each in self._held if last is not None and _last_id(each.ids) > last]
        return found


def _collect_changes(parts: Iterable[ChangedRows], schema: pa.Schema) -> RowImages:
    """Parts of what changed, together."""
    ids: list[Values] = [pa.array([], pa.string())]
    images = ([schema.empty_table()], [schema.empty_table()])
    for part in parts:
        for image, rows in zip((part.before, part.after), images, strict=True):
            if image is not None:
                rows.append(pa.Table.from_batches([image]))
        newest = part.before if part.after is None else part.after
        if newest is not None:
            ids.append(column_of(newest, "id"))
    return RowImages(pa.concat_arrays(ids), *(pa.concat_tables(rows) for rows in images))


def _last_id(ids: Values) -> str:
    return max(cast("list[str]", to_list(ids)))


def _align_range(theirs: RowImages, ours: RowImages, overlay: RowImages | None) -> AlignedRange:
    ids = theirs.ids
    if overlay is not None:
        fresh = overlay.ids.filter(pa.array(~theirs.changed_mask(overlay.ids)))
        ids = pa.concat_arrays([ids, fresh])
    before = align_rows(ids, theirs.before)
    if overlay is not None:
        before = overlay_rows(before, align_rows(ids, overlay.before), ~theirs.changed_mask(ids))
    base = before if overlay is None else _apply_changes(before, ids, overlay)
    return AlignedRange(ids, base, _apply_changes(before, ids, ours), _apply_changes(before, ids, theirs))


def _apply_changes(before: SideRows, ids: Values, changed: RowImages) -> SideRows:
    return overlay_rows(before, align_rows(ids, changed.after), changed.changed_mask(ids))
