"""The diff of two snapshots as users see it: counts per type, changed entities, or Arrow batches of one type.

Rows are read lazily and streamed. Node types come before edge types, sorted by name; within a type, entities are
sorted by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from typing import TypeVar, cast

import pyarrow as pa

from omnigraph.deadlines import CarriedDeadlines
from omnigraph.draw import DRAWN_ENTITIES
from omnigraph.errors import Json, NotFound, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.language.source import suggest_name
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.common_ancestors import find_common_ancestors, take_snapshot_at
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.references import Reference, mean_branches_too, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.compare_rows import ChangedRows, DiffSide, Op, compare_sides
from omnigraph.read.changes.compare_snapshots import find_changed_types, read_type_changes
from omnigraph.read.changes.diff_picture import draw_changes, to_counts_table
from omnigraph.read.changes.entity_images import (
    JSON,
    PYTHON,
    EntityImages,
    ImageFormat,
    build_diff_batch,
    diff_schema_of,
    read_entities,
)
from omnigraph.read.changes.type_pairs import TypePair, pair_types

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """The number of entities of one type that were inserted, updated and deleted."""

    kind: str
    type: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One changed entity: its properties before and after, and the names of those that differ."""

    kind: str
    type: str
    id: str
    op: Op
    before: Mapping[str, object] | None
    """The properties by name, with ``from`` and ``to`` of an edge; None for an inserted entity.

    A blob is given as its bytes, or as a URI if it is external.
    """
    after: Mapping[str, object] | None
    """None for a deleted entity."""
    changed: tuple[str, ...]
    """The properties of an update that differ, possibly ``from`` and ``to`` of an edge."""

    @property
    def from_(self) -> str | None:
        """The source node of an edge, as it is or last was."""
        return self._end_of_edge("from")

    @property
    def to(self) -> str | None:
        """The target node of an edge, as it is or last was."""
        return self._end_of_edge("to")

    def _end_of_edge(self, name: str) -> str | None:
        image = self.after or self.before or {}
        return cast("str | None", image[name]) if self.kind == "edge" else None


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes from one snapshot to another. Snapshots do not change, so a diff can be read any number of times."""

    before: Snapshot
    after: Snapshot
    types: tuple[TypePair, ...] = field(repr=False)
    """The compared types, in the order of the output."""
    _deadlines: CarriedDeadlines = field(default_factory=CarriedDeadlines, repr=False, compare=False)

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The table keys of the compared types, in the order of the output."""
        return tuple(dict.fromkeys(pair.key for pair in self.types))

    def summary(self) -> tuple[TypeChanges, ...]:
        """Count the changes of every type that changed. Builds no images."""
        counts = (self._count_changes(pair) for pair in self.types)
        return tuple(each for each in counts if each.inserted or each.updated or each.deleted)

    def entities(self) -> Iterator[EntityChange]:
        """Yield every changed entity, with Python values."""
        return (
            EntityChange(key.kind, key.type_name, each.id, each.op, each.before, each.after, each.changed)
            for key, each in self._read_entities(PYTHON)
        )

    def records(self) -> Iterator[dict[str, Json]]:
        """Yield every changed entity as a JSON object."""
        return (_to_record(key, each) for key, each in self._read_entities(JSON))

    def reader(self, name: str) -> pa.RecordBatchReader:
        """Stream the changes of one type as Arrow: ``op``, ``id``, ``changed``, and both images as structs."""
        pairs = select_types(pair_types(self.before, self.after), self.before, self.after, [name])
        keys = dict.fromkeys(pair.key for pair in pairs)
        if len(keys) > 1:
            raise ParameterError(f"'{name}' is a node type and an edge type", hint=f"say {' or '.join(keys)}")
        if len(pairs) > 1:
            raise ParameterError(
                f"'{name}' was dropped, and another type was renamed to '{name}': these are two types",
                hint="read the changes of both with entities() or records()",
            )
        pair = pairs[0]
        # A type that the diff leaves out has no changes to show, even if it changed.
        groups = self._read_changes(pair) if pair in self.types else ()
        batches = (build_diff_batch(parts, pair.types) for parts in groups)
        return pa.RecordBatchReader.from_batches(diff_schema_of(pair.types), batches)

    def to_arrow(self, name: str) -> pa.Table:
        """Return all changes of one type as a table."""
        return self.reader(name).read_all()

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object that the command line prints, as a whole: it must fit into memory."""
        return {**self.heading(), "entities": list(self.records())}

    def heading(self) -> dict[str, Json]:
        """Return the compared snapshots and the counts as JSON."""
        counts: list[Json] = [asdict(each) for each in self.summary()]
        return {"before": _snapshot_to_json(self.before), "after": _snapshot_to_json(self.after), "summary": counts}

    def to_svg(self) -> str:
        """Return the changed entities drawn on the graph; refuse a diff that is too large for a picture."""
        picture = draw_changes(self.entities(), self.before.catalog(), self.after.catalog())
        if picture is None:
            raise ParameterError(
                f"more than {DRAWN_ENTITIES} entities changed", hint="draw fewer types with types=, or read summary()"
            )
        return picture

    def _repr_html_(self) -> str:
        """Return the counts per type, and the picture if it is small enough, for notebooks."""
        counts = self.summary()
        changed = sum(each.inserted + each.updated + each.deleted for each in counts)
        if changed > DRAWN_ENTITIES:
            return f"{to_counts_table(counts)}<p>{changed} entities changed; at most {DRAWN_ENTITIES} are drawn.</p>"
        return to_counts_table(counts) + (self.to_svg() if changed else "")

    def _read_changes(self, pair: TypePair, columns: Sequence[str] | None = None) -> Iterator[tuple[ChangedRows, ...]]:
        return self._deadlines.iterate(lambda: read_type_changes(self.before, self.after, pair, columns))

    def _count_changes(self, pair: TypePair) -> TypeChanges:
        counts = dict.fromkeys(Op, 0)
        for parts in self._read_changes(pair, ["id"]):
            for part in parts:
                counts[part.op] += part.num_rows
        ops = counts[Op.INSERTED], counts[Op.UPDATED], counts[Op.DELETED]
        return TypeChanges(pair.key.kind, pair.key.type_name, *ops)

    def _read_entities(self, form: ImageFormat[Value]) -> Iterator[tuple[TableKey, EntityImages[Value]]]:
        for pair in self.types:
            for parts in self._read_changes(pair):
                yield from ((pair.key, each) for each in read_entities(parts, pair.types, form))


def read_diff_records(pair: TypePair, before: DiffSide, after: DiffSide) -> Iterator[dict[str, Json]]:
    """Yield the changes of one type as JSON objects, from candidate rows that were found already."""
    for parts in compare_sides(pair, before, after):
        yield from (_to_record(pair.key, each) for each in read_entities(parts, pair.types, JSON))


def _to_record(key: TableKey, entity: EntityImages[Json]) -> dict[str, Json]:
    return {
        "op": str(entity.op),
        "kind": key.kind,
        "type": key.type_name,
        "id": entity.id,
        "before": entity.before,
        "after": entity.after,
        "changed": list(entity.changed),
    }


def _snapshot_to_json(snapshot: Snapshot) -> dict[str, Json]:
    return {
        "branch": snapshot.branch,
        "commit": None if snapshot.commit is None else snapshot.commit.id,
        "manifest_version": snapshot.manifest_version,
    }


# --------------------------------------------------------------------------------------------- what is compared


def compute_diff(
    manifest: Manifest,
    a: Reference,
    b: Reference | None = None,
    types: Iterable[str] | None = None,
    branch: str = MAIN,
    *,
    tips: bool = False,
) -> Diff:
    """Compare A with B.

    A branch alone is compared with its merge base with main, or with the head of main if ``tips`` is set; any other
    reference alone with the head of ``branch``.
    """
    live = branch_names(manifest)
    if tips and (b is not None or a not in live):
        raise ParameterError(
            "tips compares one branch with main",
            hint="name one branch alone, or leave out tips: two references are compared as they are",
        )
    first = _resolve_snapshot(manifest, a, branch, live)
    if b is not None:
        before, after = first, _resolve_snapshot(manifest, b, branch, live)
    elif a in live:
        main = take_snapshot(manifest, MAIN)
        before, after = main if tips else _take_merge_base(manifest, first, main), first
    else:
        before, after = first, take_snapshot(manifest, branch)
    changed = find_changed_types(before, after)
    if types is not None:
        selected = select_types(pair_types(before, after), before, after, types)
        changed = tuple(pair for pair in changed if pair in selected)
    return Diff(before, after, changed)


def _take_merge_base(manifest: Manifest, branch: Snapshot, main: Snapshot) -> Snapshot:
    if branch.commit is None or main.commit is None:
        return main
    ancestors = find_common_ancestors(manifest, branch.commit.id, main.commit.id, (branch.branch, MAIN))
    return take_snapshot_at(manifest, ancestors.commits[0])


def _resolve_snapshot(manifest: Manifest, reference: Reference, branch: str, live: Iterable[str]) -> Snapshot:
    if isinstance(reference, str) and reference in live:
        return take_snapshot(manifest, reference)
    with mean_branches_too(manifest, reference):
        return take_snapshot(manifest, branch, reference)


def select_types(pairs: Sequence[TypePair], before: Snapshot, after: Snapshot, names: Iterable[str]) -> list[TypePair]:
    """Return the types of some names or table keys. A name that only the snapshot before has is good too."""
    selected: list[TypePair] = []
    for name in names:
        keys = TableKey.candidates(name)
        matches = [pair for pair in pairs if pair.key in keys] or [pair for pair in pairs if pair.keys & {*keys}]
        if not matches:
            known = sorted({type_.name for snapshot in (before, after) for type_ in snapshot.catalog().types()})
            hint = suggest_name(name, known, "types")
            raise NotFound(f"neither snapshot has a type '{name}'", hint=hint, details={"type": name})
        selected += matches
    return selected
