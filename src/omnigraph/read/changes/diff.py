"""What changed between two moments of the graph, as people and programs look at it.

Nothing is read before it is asked for, and everything streams: counts per type, entities one by one with what they
were and what they are, or Arrow batches of one type. Node types come before edge types, each kind by name, and within
a type the ids are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeVar, cast

import pyarrow as pa

from omnigraph.errors import Json, NotFound, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.tags import tag_names
from omnigraph.read.changes.compare_rows import DiffSide, Op, compare_sides
from omnigraph.read.changes.compare_snapshots import find_changed_tables, read_changes, resolve_types
from omnigraph.read.changes.entity_images import (
    JSON,
    PYTHON,
    EntityImages,
    ImageFormat,
    build_diff_batch,
    diff_schema_of,
    read_entities,
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """How many entities of one type came, changed and went."""

    kind: str
    type: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One entity that changed: what it was, what it is, and which properties make the difference."""

    kind: str
    type: str
    id: str
    op: Op
    before: Mapping[str, object] | None
    """The properties by name, of an edge ``from`` and ``to`` too; None for what was inserted.

    A blob is its bytes, or the URI of what lies elsewhere.
    """
    after: Mapping[str, object] | None
    """None for what was deleted."""
    changed: tuple[str, ...]
    """The properties of an update that differ; of an edge perhaps ``from`` and ``to``."""

    @property
    def from_(self) -> str | None:
        """Where an edge begins, or began."""
        return self._end("from")

    @property
    def to(self) -> str | None:
        """Where an edge ends, or ended."""
        return self._end("to")

    def _end(self, word: str) -> str | None:
        image = self.after or self.before or {}
        return cast("str | None", image[word]) if self.kind == "edge" else None


@dataclass(frozen=True, slots=True)
class Diff:
    """From one moment of the graph to another. Both stay as they are, so it can be asked again and again."""

    before: Snapshot
    after: Snapshot
    tables: tuple[str, ...] = field(repr=False)
    """The keys of the tables that are compared, in the order in which they are shown."""

    def summary(self) -> tuple[TypeChanges, ...]:
        """The counts of every type in which something changed. No images are made for it."""
        counted = (self._counted(table_key) for table_key in self.tables)
        return tuple(each for each in counted if each.inserted or each.updated or each.deleted)

    def entities(self) -> Iterator[EntityChange]:
        """Every entity that changed, with Python values."""
        return (
            EntityChange(*_kind_and_name(table_key), each.id, each.op, each.before, each.after, each.changed)
            for table_key, each in self._entities(PYTHON)
        )

    def records(self) -> Iterator[dict[str, Json]]:
        """Every entity that changed, as an object of JSON."""
        return (_record(table_key, each) for table_key, each in self._entities(JSON))

    def reader(self, name: str) -> pa.RecordBatchReader:
        """The changes of one type as Arrow streams them: ``op``, ``id``, ``changed``, and both images as structs."""
        keys = _table_keys(self.before, self.after, name)
        if len(keys) > 1:
            raise ParameterError(f"'{name}' is a node type and an edge type", hint=f"say {' or '.join(keys)}")
        types = resolve_types(self.before, self.after, keys[0])
        # Tables that the diff leaves out have nothing to show, whether they changed or not.
        stretches = (read_changes(self.before, self.after, key) for key in keys if key in self.tables)
        batches = (build_diff_batch(parts, types) for parts_of_table in stretches for parts in parts_of_table)
        return pa.RecordBatchReader.from_batches(diff_schema_of(types), batches)

    def to_arrow(self, name: str) -> pa.Table:
        """All changes of one type."""
        return self.reader(name).read_all()

    def to_json(self) -> dict[str, Json]:
        """The object that the command line gives, all of it at once: it has to fit into memory."""
        return {**self.heading(), "entities": list(self.records())}

    def heading(self) -> dict[str, Json]:
        """Which moments are compared, and the counts."""
        counts: list[Json] = [asdict(each) for each in self.summary()]
        return {"before": _moment_json(self.before), "after": _moment_json(self.after), "summary": counts}

    def _counted(self, table_key: str) -> TypeChanges:
        counts = dict.fromkeys(Op, 0)
        for parts in read_changes(self.before, self.after, table_key, ["id"]):
            for part in parts:
                counts[part.op] += part.num_rows
        return TypeChanges(*_kind_and_name(table_key), counts[Op.INSERTED], counts[Op.UPDATED], counts[Op.DELETED])

    def _entities(self, form: ImageFormat[Value]) -> Iterator[tuple[str, EntityImages[Value]]]:
        for table_key in self.tables:
            types = resolve_types(self.before, self.after, table_key)
            for parts in read_changes(self.before, self.after, table_key):
                yield from ((table_key, each) for each in read_entities(parts, types, form))


def read_diff_records(table_key: str, before: DiffSide, after: DiffSide) -> Iterator[dict[str, Json]]:
    """The records of one table, for rows that may differ wherever they lie."""
    for parts in compare_sides(table_key, before, after):
        yield from (_record(table_key, each) for each in read_entities(parts, (before.type, after.type), JSON))


def _record(table_key: str, entity: EntityImages[Json]) -> dict[str, Json]:
    kind, name = _kind_and_name(table_key)
    return {
        "op": str(entity.op),
        "kind": kind,
        "type": name,
        "id": entity.id,
        "before": entity.before,
        "after": entity.after,
        "changed": list(entity.changed),
    }


def _kind_and_name(table_key: str) -> tuple[str, str]:
    key = TableKey(table_key)
    return key.kind, key.type_name


def _moment_json(snapshot: Snapshot) -> dict[str, Json]:
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
) -> Diff:
    """From A to B. A branch alone is what it has beyond main; any other moment alone, what came after it."""
    live = branch_names(manifest)
    given = _moment(manifest, a, branch, live)
    if b is not None:
        before, after = given, _moment(manifest, b, branch, live)
    elif a in live:
        before, after = take_snapshot(manifest, MAIN), given
    else:
        before, after = given, take_snapshot(manifest, branch)
    wanted = _wanted(before, after, types)
    changed = [key for key in find_changed_tables(before, after) if wanted is None or key in wanted]
    return Diff(before, after, tuple(sorted(changed, key=lambda key: TableKey(key).nodes_first)))


def _moment(manifest: Manifest, reference: Reference, branch: str, live: Iterable[str]) -> Snapshot:
    if isinstance(reference, str) and reference in live:
        return take_snapshot(manifest, reference)
    try:
        return take_snapshot(manifest, branch, reference)
    except NotFound as missing:
        if missing.details.get("reference") != reference:
            raise
        known = [*live, *tag_names(manifest)]
        raise NotFound(
            f"no branch, commit, version, date or tag '{reference}'",
            hint=suggest_similar(str(reference), known) or f"the branches are {', '.join(live)}",
            details=missing.details,
        ) from missing


def _wanted(before: Snapshot, after: Snapshot, types: Iterable[str] | None) -> set[str] | None:
    if isinstance(types, str):
        raise ParameterError(f"types is {types!r}", hint=f"give a list, such as [{types!r}]")
    return None if types is None else {key for name in types for key in _table_keys(before, after, name)}


def _table_keys(before: Snapshot, after: Snapshot, name: str) -> list[TableKey]:
    """The tables that a name means, by a type or a table key; a type that only one of the two moments has counts."""
    keys = {type_.table_key for snapshot in (before, after) for type_ in snapshot.catalog().types()}
    found = [key for key in TableKey.candidates(name) if key in keys]
    if not found:
        known = [key.type_name for key in sorted(keys)]
        raise NotFound(f"neither moment has a type '{name}'", hint=suggest_similar(name, known), details={"type": name})
    return found
