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
from omnigraph.read.changes import ChangedRows, Mask, changed_stretches, changed_tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_list, truths
from omnigraph.write.merge.three_way import By, Decision, Places, Side, aligned, decide, overlaid
from omnigraph.write.rules import type_of


@dataclass(frozen=True, slots=True)
class Changed:
    """Rows that changed: their ids, the rows that were there before, and those that are there after."""

    ids: Values
    before: pa.Table
    after: pa.Table

    def touches(self, ids: Values) -> Mask:
        """For each id whether its row changed."""
        return truths(is_among(ids, self.ids))

    def of(self, ids: Values) -> Changed:
        """Those of some of the ids."""
        rows = (each.filter(is_among(column_of(each, "id"), ids)) for each in (self.before, self.after))
        return Changed(ids, *rows)


@dataclass(frozen=True, slots=True)
class Base:
    """What both sides have seen: a snapshot, and over it the rows of further meeting points, by table key."""

    snapshot: Snapshot
    overlays: Mapping[str, Changed] = field(default_factory=dict[str, Changed])


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of some ids on the three sides."""

    ids: Values
    base: Side
    ours: Side
    theirs: Side

    def decide(self, by: By) -> Decision:
        """What comes of them."""
        return decide(self.base, self.ours, self.theirs, by)


def tables_to_merge(catalog: Catalog, base: Base, theirs: Snapshot) -> list[str]:
    """The keys of the tables in which theirs may have changed something.

    A type that the schema does not have any more is nobody's to merge.
    """
    known = {type_.table_key for type_ in catalog.types()}
    return sorted(known & {*changed_tables(base.snapshot, theirs), *base.overlays})


def stretches(base: Base, ours: Snapshot, theirs: Snapshot, type_: NodeType | EdgeType) -> Iterator[Stretch]:
    """The rows of a table that theirs changed, as the three sides have them."""
    key = type_.table_key
    came, mine = (changed_stretches(base.snapshot, side, key) for side in (theirs, ours))
    return stretches_of(came, mine, base.overlays.get(key), type_)


def stretches_of(
    came: Iterator[tuple[ChangedRows, ...]],
    changed_in_ours: Iterator[tuple[ChangedRows, ...]],
    overlay: Changed | None,
    type_: NodeType | EdgeType,
) -> Iterator[Stretch]:
    """The same, given what theirs and ours changed, or such a part of it that holds all of its ids."""
    schema = arrow_schema(type_)
    mine = _Cursor(changed_in_ours, schema)
    if overlay is None:
        for parts in came:
            changed = _gathered(parts, schema)
            yield _aligned(changed, mine.up_to(_last(changed.ids)), None)
        return
    # Meeting points are few and near one another: what differs between them is held as a whole.
    changed = _gathered((part for parts in came for part in parts), schema)
    yield _aligned(changed, mine.up_to(None), overlay)


def overlaid_base(first: Snapshot, other: Snapshot, shared: Snapshot, overlays: Mapping[str, Changed]) -> Base:
    """The first meeting point of two histories, and over it what another one has; ``shared`` is what both follow.

    Where the two are at odds, a row counts as it was before both.
    """
    found = dict(overlays)
    catalog = first.catalog()
    for key in changed_tables(shared, other):
        type_ = type_of(catalog, key)
        parts = [_over(each) for each in stretches(Base(shared), first, other, type_)]
        known = overlays.get(key)
        found[key] = _joined([*([] if known is None else [known]), *parts], arrow_schema(type_))
    return Base(first, {key: changed for key, changed in found.items() if len(changed.ids)})


def _over(stretch: Stretch) -> Changed:
    decision = stretch.decide("property")
    touched = np.flatnonzero(decision.taken | decision.conflicts)
    disputed = np.flatnonzero(decision.conflicts & stretch.base.there)
    merged = decision.rows_at(decision.upserts())
    return Changed(
        stretch.ids.take(touched),
        _there(stretch.ours, touched),
        pa.concat_tables([merged, stretch.base.rows.take(disputed)]),
    )


def _there(side: Side, places: Places) -> pa.Table:
    return side.rows.take(places[side.there[places]])


def _joined(changes: Iterable[Changed], schema: pa.Schema) -> Changed:
    """Several changes as one. Of two that tell of the same row the earlier one counts."""
    known = Changed(pa.array([], pa.string()), schema.empty_table(), schema.empty_table())
    for each in changes:
        fresh = each.ids.filter(pa.array(~known.touches(each.ids)))
        rows = (
            pa.concat_tables([one, other.filter(is_among(column_of(other, "id"), fresh))])
            for one, other in ((known.before, each.before), (known.after, each.after))
        )
        known = Changed(pa.concat_arrays([known.ids, fresh]), *rows)
    return known


class _Cursor:
    """What changed in ours, followed along with the stretches of theirs."""

    def __init__(self, coming: Iterator[tuple[ChangedRows, ...]], schema: pa.Schema) -> None:
        self._coming = coming
        self._schema = schema
        self._held: list[Changed] = []
        self._ended = False

    def up_to(self, last: str | None) -> Changed:
        """All that may have ids up to this one, or simply all; what lies behind it is forgotten by the next call."""
        while not self._ended and (last is None or not self._held or _last(self._held[-1].ids) <= last):
            parts = next(self._coming, None)
            self._ended = parts is None
            if parts is not None:
                self._held.append(_gathered(parts, self._schema))
        found = Changed(
            pa.concat_arrays([pa.array([], pa.string()), *(each.ids for each in self._held)]),
            pa.concat_tables([self._schema.empty_table(), *(each.before for each in self._held)]),
            pa.concat_tables([self._schema.empty_table(), *(each.after for each in self._held)]),
        )
        self._held = [each for each in self._held if last is not None and _last(each.ids) > last]
        return found


def _gathered(parts: Iterable[ChangedRows], schema: pa.Schema) -> Changed:
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
    return Changed(pa.concat_arrays(ids), *(pa.concat_tables(rows) for rows in images))


def _last(ids: Values) -> str:
    return max(cast("list[str]", to_list(ids)))


def _aligned(theirs: Changed, ours: Changed, overlay: Changed | None) -> Stretch:
    ids = theirs.ids
    if overlay is not None:
        fresh = overlay.ids.filter(pa.array(~theirs.touches(overlay.ids)))
        ids = pa.concat_arrays([ids, fresh])
    before = aligned(ids, theirs.before)
    if overlay is not None:
        before = overlaid(before, aligned(ids, overlay.before), ~theirs.touches(ids))
    base = before if overlay is None else _with(before, ids, overlay)
    return Stretch(ids, base, _with(before, ids, ours), _with(before, ids, theirs))


def _with(before: Side, ids: Values, changed: Changed) -> Side:
    return overlaid(before, aligned(ids, changed.after), changed.touches(ids))
