"""Align the three sides of a table by id, from the rows that changed between them.

Only rows that differ between the base and theirs are read, and the rows of ours with the same ids. Both inputs are
sorted by id, so one range of ids is in memory at a time. If two histories have several common ancestors, no single
commit holds what both sides share: then the base is one ancestor with the changes of the others on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import ChangedRows, find_changed_tables, read_changes
from omnigraph.read.frames import Mask
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_bool_array, to_list
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
    """Changed rows: their ids, their before images and their after images."""

    ids: Values
    before: pa.Table
    after: pa.Table

    def mark_changed(self, ids: Values) -> Mask:
        """Return for each id whether its row changed."""
        return to_bool_array(is_among(ids, self.ids))


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The common base of both sides: a snapshot, and on top of it rows of further common ancestors, by table key."""

    snapshot: Snapshot
    overlays: Mapping[str, RowImages] = field(default_factory=dict[str, RowImages])


@dataclass(frozen=True, slots=True)
class AlignedRange:
    """The rows of one range of ids on the three sides."""

    ids: Values
    base: SideRows
    ours: SideRows
    theirs: SideRows
    sources: Mapping[str, str]
    """See :func:`decide_rows`."""

    def decide(self, by: MergeBy) -> Decision:
        """Decide what happens to each row."""
        return decide_rows(self.base, self.ours, self.theirs, by, self.sources)


def find_tables_to_merge(catalog: Catalog, base: MergeBase, theirs: Snapshot) -> list[str]:
    """Return the keys of the tables that theirs may have changed. Types no longer in the schema are not merged."""
    known = {type_.table_key for type_ in catalog.types()}
    return sorted(known & {*find_changed_tables(base.snapshot, theirs), *base.overlays})


def align_table(
    base: MergeBase, ours: Snapshot, theirs: Snapshot, type_: NodeType | EdgeType
) -> Iterator[AlignedRange]:
    """Yield the rows of a table that theirs changed, aligned on the three sides."""
    key = type_.table_key
    changed_in_theirs, changed_in_ours = (read_changes(base.snapshot, side, key) for side in (theirs, ours))
    return align_ranges(changed_in_theirs, changed_in_ours, base.overlays.get(key), type_)


def align_ranges(
    changed_in_theirs: Iterator[tuple[ChangedRows, ...]],
    changed_in_ours: Iterator[tuple[ChangedRows, ...]],
    overlay: RowImages | None,
    type_: NodeType | EdgeType,
) -> Iterator[AlignedRange]:
    """Align the changes of theirs and ours. Both may be a part of the table, if it holds all rows of its ids."""
    schema, sources = arrow_schema(type_), _list_sources(type_)
    ours = _ChangeCursor(changed_in_ours, schema)
    if overlay is None:
        for parts in changed_in_theirs:
            theirs = _collect_changes(parts, schema)
            yield _align_range(theirs, ours.read_up_to(_find_last_id(theirs.ids)), None, sources)
        return
    # Common ancestors are few and close together, so their differences fit in memory.
    theirs = _collect_changes((part for parts in changed_in_theirs for part in parts), schema)
    yield _align_range(theirs, ours.read_up_to(None), overlay, sources)


def overlay_base(first: Snapshot, other: Snapshot, shared: Snapshot, overlays: Mapping[str, RowImages]) -> MergeBase:
    """Return the first common ancestor with the changes of another one on top; ``shared`` is their own ancestor.

    A row on which the two conflict counts as it was in ``shared``.
    """
    found = dict(overlays)
    catalog = first.catalog()
    for key in find_changed_tables(shared, other):
        type_ = type_of_table(catalog, key)
        parts = [_build_overlay(each) for each in align_table(MergeBase(shared), first, other, type_)]
        known = overlays.get(key)
        found[key] = _concat_changes([*([] if known is None else [known]), *parts], arrow_schema(type_))
    return MergeBase(first, {key: changed for key, changed in found.items() if len(changed.ids)})


def _build_overlay(aligned: AlignedRange) -> RowImages:
    decision = aligned.decide("property")
    changed = np.flatnonzero(decision.taken | decision.conflicts)
    disputed = np.flatnonzero(decision.conflicts & aligned.base.exists)
    merged = decision.merge_rows(decision.find_upserts())
    return RowImages(
        aligned.ids.take(changed),
        _take_existing(aligned.ours, changed),
        pa.concat_tables([merged, aligned.base.rows.take(disputed)]),
    )


def _take_existing(side: SideRows, indexes: RowIndexes) -> pa.Table:
    return side.rows.take(indexes[side.exists[indexes]])


def _concat_changes(changes: Iterable[RowImages], schema: pa.Schema) -> RowImages:
    """Combine several changes. If two contain the same row, the first one wins."""
    known = RowImages(pa.array([], pa.string()), schema.empty_table(), schema.empty_table())
    for each in changes:
        new_ids = each.ids.filter(pa.array(~known.mark_changed(each.ids)))
        rows = (
            pa.concat_tables([one, other.filter(is_among(column_of(other, "id"), new_ids))])
            for one, other in ((known.before, each.before), (known.after, each.after))
        )
        known = RowImages(pa.concat_arrays([known.ids, new_ids]), *rows)
    return known


class _ChangeCursor:
    """Reads the changes of ours in step with the ranges of theirs."""

    def __init__(self, source: Iterator[tuple[ChangedRows, ...]], schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema
        self._buffer: list[RowImages] = []
        self._is_exhausted = False

    def read_up_to(self, last: str | None) -> RowImages:
        """Return all changes with ids up to ``last``, or all if it is None. The next call drops them from memory."""
        while not self._is_exhausted and (
            last is None or not self._buffer or _find_last_id(self._buffer[-1].ids) <= last
        ):
            parts = next(self._source, None)
            self._is_exhausted = parts is None
            if parts is not None:
                self._buffer.append(_collect_changes(parts, self._schema))
        found = RowImages(
            pa.concat_arrays([pa.array([], pa.string()), *(each.ids for each in self._buffer)]),
            pa.concat_tables([self._schema.empty_table(), *(each.before for each in self._buffer)]),
            pa.concat_tables([self._schema.empty_table(), *(each.after for each in self._buffer)]),
        )
        self._buffer = [each for each in self._buffer if last is not None and _find_last_id(each.ids) > last]
        return found


def _collect_changes(parts: Iterable[ChangedRows], schema: pa.Schema) -> RowImages:
    """Combine parts of the changes."""
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


def _find_last_id(ids: Values) -> str:
    return max(cast("list[str]", to_list(ids)))


def _list_sources(type_: NodeType | EdgeType) -> Mapping[str, str]:
    """Return the column that each embedding of a type is computed from."""
    embeddings = {name: property_.embedding for name, property_ in type_.properties.items()}
    return {name: embedding.source for name, embedding in embeddings.items() if embedding is not None}


def _align_range(
    theirs: RowImages, ours: RowImages, overlay: RowImages | None, sources: Mapping[str, str]
) -> AlignedRange:
    ids = theirs.ids
    if overlay is not None:
        new_ids = overlay.ids.filter(pa.array(~theirs.mark_changed(overlay.ids)))
        ids = pa.concat_arrays([ids, new_ids])
    before = align_rows(ids, theirs.before)
    if overlay is not None:
        before = overlay_rows(before, align_rows(ids, overlay.before), ~theirs.mark_changed(ids))
    base = before if overlay is None else _apply_changes(before, ids, overlay)
    return AlignedRange(ids, base, _apply_changes(before, ids, ours), _apply_changes(before, ids, theirs), sources)


def _apply_changes(before: SideRows, ids: Values, changed: RowImages) -> SideRows:
    return overlay_rows(before, align_rows(ids, changed.after), changed.mark_changed(ids))
