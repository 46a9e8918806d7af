"""What people put where a result is about to be written: values of a property, or edges of a type.

The history of a branch says which commit wrote a property last. What differs from that commit now was changed since, by
hand or by a load; only rows that can differ are read. A commit of another branch counts as well once it was merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.deadlines import check_deadline
from omnigraph.errors import HistoryGone, Json, NotFound, ParameterError
from omnigraph.language.schema import EdgeType, NodeType, parse_default
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.analysis_trailers import list_writers
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import find_commit, take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import ChangedRows, DiffSide, Op, compare_sides, compare_values, find_table_candidates
from omnigraph.read.rows import open_type_rows
from omnigraph.storage.columns import Values, column_of, compute, to_bool_array
from omnigraph.storage.filters import ValueCondition

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a result replaces: a property of a node type, or all edges of a type."""

    type: NodeType | EdgeType
    property_name: str | None = None

    @property
    def name(self) -> str:
        """The name in the message of a commit that wrote it."""
        return self.type.name if self.property_name is None else f"{self.type.name}.{self.property_name}"

    @property
    def noun(self) -> str:
        """What there are several of."""
        return "edge" if self.property_name is None else "value"


@dataclass(frozen=True, slots=True)
class _Edits:
    """What no analysis wrote, or its newest one did not. Without ids it is everything that is there."""

    of: Replaced
    count: int | None
    ids: tuple[str, ...] = ()
    unreadable: str | None = None
    """The commit that wrote it, if it cannot be read any more: then nobody knows."""

    def to_text(self) -> str:
        name, noun = self.of.name, self.of.noun
        if self.unreadable is not None:
            return f"{name} may have {noun}s that no analysis wrote: commit {self.unreadable} cannot be read any more"
        counted = f"{noun}s" if self.count is None else f"{self.count:,} {noun}{'' if self.count == 1 else 's'}"
        if self.count is None or not self.ids:
            return f"{name} has {counted} that no analysis wrote"
        more = f" and {self.count - len(self.ids):,} more" if self.count > len(self.ids) else ""
        return f"{name} has {counted} that its newest analysis did not write: {', '.join(self.ids)}{more}"


def refuse_edited(manifest: Manifest, now: Snapshot, replaced: Sequence[Replaced]) -> None:
    """Refuse to replace what no analysis in the history of a snapshot wrote, or what was changed since one did."""
    found = [edits for each in replaced if (edits := _find_edits(manifest, now, each)) is not None]
    if not found:
        return
    other = f"another {'edge type' if found[0].of.property_name is None else 'property'}"
    lost = [each.unreadable for each in found if each.unreadable is not None]
    hint = f"give overwrite=True to replace them, or {other}"
    if lost:
        hint = f"give overwrite=True if nobody changed them, or {other}; a tag keeps a commit from cleanup"
    raise ParameterError(
        "; ".join(each.to_text() for each in found),
        hint=hint,
        details={
            "types": [each.of.type.name for each in found],
            "property": found[0].of.property_name,
            "counts": {each.of.type.name: each.count for each in found},
            "ids": {each.of.type.name: list[Json](each.ids) for each in found},
            "commits": list[Json](lost),
        },
    )


def _find_edits(manifest: Manifest, now: Snapshot, replaced: Replaced) -> _Edits | None:
    """Return what none of its newest analyses wrote: the last one, or those of several branches that were merged."""
    history = manifest.view(now.branch, with_lineage=True).history
    head = None if now.commit is None else now.commit.id
    ids: pa.StringArray | None = None
    older: set[str] = set()
    for commit, told in list_writers(history, replaced.name, None if head is None else history.find(head)):
        if told.commit_id in older:
            continue
        if head == commit.id == told.commit_id:
            return None
        try:
            writer, found = _compare(manifest, now, replaced, commit, told.commit_id)
        except (NotFound, HistoryGone):
            return _Edits(replaced, None, unreadable=commit.id) if _has_any(now, replaced) else None
        if found is None:
            break
        ids = found if ids is None else ids.filter(_is_in(ids, found))
        if not len(ids):
            return None
        if writer.id == commit.id:
            # All others are older, and it was compared with them when it was written.
            break
        older |= _list_older(manifest, replaced, writer)
    if ids is not None:
        return _Edits(replaced, len(ids), tuple(cast("list[str]", ids.slice(0, _SHOWN).to_pylist())))
    if not _has_any(now, replaced):
        return None
    return _Edits(replaced, now.pins[replaced.type.table_key].row_count if replaced.property_name is None else None)


def _compare(
    manifest: Manifest, now: Snapshot, replaced: Replaced, commit: CommitRecord, commit_id: str
) -> tuple[CommitRecord, pa.StringArray | None]:
    """Return what differs from the commit that wrote a result; the merge that brought it stands for one that is gone.

    None if the property was dropped since, and another one has its name.
    """
    if commit_id != commit.id:
        with suppress(NotFound, HistoryGone):
            writer = find_commit(manifest, now.branch, commit_id)
            return writer, _list_edited(take_snapshot(manifest, now.branch, commit_id), now, replaced)
    return commit, _list_edited(take_snapshot(manifest, now.branch, commit.id), now, replaced)


def _list_older(manifest: Manifest, replaced: Replaced, writer: CommitRecord) -> set[str]:
    """Return the analyses before a commit of another branch: it was compared with them when it was written."""
    with suppress(NotFound):
        history = manifest.view(writer.branch or MAIN, with_lineage=True).history
        return {told.commit_id for _, told in list_writers(history, replaced.name, writer)}
    return set()


def _has_any(now: Snapshot, replaced: Replaced) -> bool:
    """Whether there is an edge, or a node with a value."""
    type_, name = replaced.type, replaced.property_name
    if name is None:
        pin = now.pins.get(type_.table_key)
        return pin is not None and pin.row_count > 0
    is_set = ValueCondition(name, type_.properties[name].type, None)
    return any(batch.num_rows for batch in open_type_rows(now, type_).read(["id"], [is_set]))


def _is_in(ids: pa.StringArray, others: pa.StringArray) -> pa.BooleanArray:
    return cast("pa.BooleanArray", compute("is_in", ids, options=pc.SetLookupOptions(cast("Values", others))))


# --------------------------------------------------------------------------------------------- compare two snapshots


def _list_edited(then: Snapshot, now: Snapshot, replaced: Replaced) -> pa.StringArray | None:
    """Return the ids of rows that have another value now, or that came with one, in ascending order."""
    key, name = replaced.type.table_key, replaced.property_name
    found = find_table_candidates(then, now, key)
    pair = found.pair
    before, after = found.sides()
    if name is not None:
        (column,) = (each for each in pair.columns if each.after == name)
        if column.before is None and name in before.type.properties:
            return None
        pair = replace(pair, columns=(column,))
        before, after = _narrow(before, column.before), _narrow(after, name)
    columns = ["id"] if name is None else ["id", name]
    parts = (part for parts in compare_sides(pair, before, after, columns) for part in parts)
    return pa.concat_arrays([pa.array([], pa.string()), *_read_edited(parts, after, name)])


def _narrow(side: DiffSide, name: str | None) -> DiffSide:
    """Compare one property alone, so that no other column is read."""
    own = {each: declared for each, declared in side.type.properties.items() if each == name}
    return DiffSide(side.candidates, replace(side.type, properties=own))


def _read_edited(parts: Iterator[ChangedRows], after: DiffSide, name: str | None) -> Iterator[pa.StringArray]:
    """Yield the ids of changed rows, without those that are deleted or null now, or that came with the default."""
    for part in parts:
        check_deadline()
        if part.after is None:
            continue
        ids = cast("pa.StringArray", column_of(part.after, "id"))
        if name is None:
            yield ids
            continue
        values = column_of(part.after, name)
        edited = to_bool_array(compute("is_valid", values))
        default = after.type.properties[name].default
        if default is not None and part.op is Op.INSERTED:
            edited &= ~compare_values(values, _repeat_default(after, name, default, values))
        yield ids.filter(pa.array(edited))


def _repeat_default(side: DiffSide, name: str, text: str, values: Values) -> Values:
    one = pa.array([parse_default(text, side.type.properties[name].type)], values.type)
    return one.take(np.zeros(len(values), np.int64))
