"""Histories of one table beside a model of plain dictionaries: every kind of change that a table can go through.

The changes are made on the table itself, without commits of the graph: a snapshot shows each state of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.graph import Graph
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.compare_rows import ChangedRows, Op
from omnigraph.read.changes.compare_snapshots import read_changes
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.tables import ROW_ADDRESS, StagedChange, Table
from tests.deleting import delete_where

SCHEMA = """
node Thing {
  name: String @key
  count: I64?
  big: U64?
  share: F64?
  small: F32?
  day: Date?
  at: DateTime?
  tags: [String]?
  marks: [F64]?
  place: Vector(2)?
  picture: Blob?
}
"""
KEY = "node:Thing"
NAN = float("nan")

Row: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Mapping[str, Row]

POOLS: Mapping[str, tuple[object, ...]] = {
    "count": (0, 1, -(2**63), None),
    "big": (0, 2**64 - 1, None),
    "share": (0.0, 1.5, NAN, None),
    "small": (0.5, NAN, None),
    "day": (0, 19_000, None),
    "at": (0, 1, 86_400_001, None),
    "tags": ((), ("a",), ("a", "b"), None),
    "marks": ((), (NAN,), (NAN, 1.0), (1.0, NAN), None),
    "place": ((0.0, 1.0), (1.0, 0.0), None),
    "picture": (b"", b"small", b"SMALL", b"x" * 100_000, None),
}
PLAIN = {"day": pa.int32(), "at": pa.int64()}


def some_row(chance: Random) -> Row:
    """A row without its id; two of them are often equal in most columns."""
    return {name: chance.choice(pool[-2:] if chance.random() < 0.7 else pool) for name, pool in POOLS.items()}


def as_table(graph: Graph, rows: Rows) -> pa.Table:
    """Rows as they are written."""
    schema = arrow_schema(graph.schema.catalog.nodes["Thing"])
    columns: list[Values] = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if name in ("id", "name"):
            columns.append(pa.array(list(rows), pa.string()))
        elif name == "picture":
            blobs = [None if row[name] is None else _blob(row[name]) for row in rows.values()]
            columns.append(pa.array(blobs, type_))
        else:
            columns.append(pa.array([row[name] for row in rows.values()], PLAIN.get(name, type_)).cast(type_))
    return pa.Table.from_arrays(columns, schema=schema)


def _blob(value: object) -> dict[str, object]:
    """Bytes to be stored, or the URI of what lies elsewhere."""
    data, uri = (value, None) if isinstance(value, bytes) else (None, value)
    return {"data": data, "uri": uri, "position": None, "size": None}


def as_rows(batch: pa.RecordBatch | None) -> list[tuple[str, Row]]:
    """Images as the model has them."""
    if batch is None:
        return []
    found: dict[str, list[object]] = {}
    for name in (*POOLS, "id"):
        values = column_of(batch, name)
        found[name] = [_plain(each) for each in to_list(cast("Values", values.cast(PLAIN.get(name, values.type))))]
    ids = cast("list[str]", found.pop("id"))
    return [(id_, {name: found[name][at] for name in found}) for at, id_ in enumerate(ids)]


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return cast("dict[str, object]", value)["data"]
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def row_text(row: Row) -> str:
    """A row as a text that is the same for equal ones: NaN equals NaN here."""
    return repr(sorted(row.items()))


# --------------------------------------------------------------------------------------------- states


@dataclass(frozen=True, slots=True)
class State:
    """One version of the table, on one branch, and the rows that it holds."""

    table: Table
    rows: Rows


class History:
    """The states of one table, and the newest of each branch."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.start = graph.snapshot()
        first = State(self.start.table(KEY), {})
        self.states = [first]
        self.heads: dict[str | None, State] = {None: first}

    def snapshot(self, state: State) -> Snapshot:
        return self.start.with_tables({KEY: state.table})

    def put(self, branch: str | None, staged: StagedChange | None, rows: Rows) -> None:
        """Commit a change, if there is one; after it the table holds these rows."""
        if staged is not None:
            self._add(State(tables.commit(self.heads[branch].table, staged, "test"), rows))

    def fork(self, branch: str | None) -> None:
        name = f"b{len(self.heads)}"
        head = self.heads[branch]
        self._add(State(tables.create_table_branch(head.table, name), head.rows))

    def _add(self, state: State) -> None:
        self.states.append(state)
        self.heads[state.table.branch] = state


def write(
    history: History, branch: str | None, rows: Rows, arrive: Callable[[Table, pa.Table], StagedChange | None]
) -> None:
    head = history.heads[branch]
    history.put(branch, arrive(head.table, as_table(history.graph, rows)), {**head.rows, **rows})


def replace(table: Table, rows: pa.Table) -> StagedChange | None:
    """The rows instead of those of the same ids, as a merge writes them."""
    there = table.scan(["id"], with_row_address=True).read_all()
    gone = np.isin(there["id"].to_numpy(zero_copy_only=False), rows["id"].to_numpy(zero_copy_only=False))
    if not gone.any():
        return tables.append(table, rows)
    return tables.replace_rows(table, there[ROW_ADDRESS].to_numpy()[gone], rows)


def change(history: History, chance: Random) -> None:
    """One change of a random kind on a random branch."""
    branch = chance.choice(list(history.heads))
    head = history.heads[branch]
    ids = sorted(head.rows)
    match chance.choice(("append", "replace", "replace", "same", "delete", "overwrite", "compact", "restore", "fork")):
        case "append":
            new = [f"t{number:02}" for number in range(20) if f"t{number:02}" not in head.rows]
            chosen = chance.sample(new, min(len(new), chance.randint(1, 5)))
            if chosen:
                write(history, branch, {id_: some_row(chance) for id_ in chosen}, tables.append)
        case "replace":
            chosen = chance.sample(ids, min(len(ids), chance.randint(1, 3)))
            write(history, branch, {id_: some_row(chance) for id_ in (*chosen, "t05")}, replace)
        case "same":
            chosen = chance.sample(ids, min(len(ids), 3))
            write(history, branch, {id_: head.rows[id_] for id_ in chosen}, replace)
        case "delete" if ids:
            chosen = chance.sample(ids, min(len(ids), chance.randint(1, 3)))
            staged = delete_where(head.table, f"id IN ({', '.join(map(repr, chosen))})")
            history.put(branch, staged, {id_: row for id_, row in head.rows.items() if id_ not in chosen})
        case "overwrite":
            rows = {id_: row if chance.random() < 0.7 else some_row(chance) for id_, row in head.rows.items()}
            history.put(branch, tables.overwrite(head.table, as_table(history.graph, rows)), rows)
        case "compact":
            history.put(branch, tables.compact(head.table), head.rows)
        case "restore":
            older = [state for state in history.states if state.table.branch == branch]
            target = chance.choice(older)
            history.put(branch, tables.restore(head.table, target.table.version), target.rows)
        case "fork" if len(history.heads) < 5:
            history.fork(branch)
        case _:
            pass


# --------------------------------------------------------------------------------------------- comparing


def expected_changes(before: Rows, after: Rows) -> dict[str, tuple[Op, str, str]]:
    """What a diff must say: by id what became of the row, what it was and what it is."""
    found: dict[str, tuple[Op, str, str]] = {}
    for id_ in {*before, *after}:
        old, new = (row_text(rows[id_]) if id_ in rows else "" for rows in (before, after))
        if old != new:
            found[id_] = (Op.INSERTED if not old else Op.DELETED if not new else Op.UPDATED, old, new)
    return found


def summarize_changes(parts: list[ChangedRows]) -> dict[str, tuple[Op, str, str]]:
    """What a diff says."""
    found: dict[str, tuple[Op, str, str]] = {}
    for part in parts:
        before, after = as_rows(part.before), as_rows(part.after)
        for at, (id_, _) in enumerate(before or after):
            assert id_ not in found, f"{id_} is told twice"
            assert not (before and after) or before[at][0] == after[at][0], "the images are not aligned"
            old, new = (row_text(image[at][1]) if image else "" for image in (before, after))
            found[id_] = (part.op, old, new)
    return found


def read_parts(
    before: Snapshot, after: Snapshot, table_key: str = KEY, columns: Sequence[str] | None = None
) -> list[ChangedRows]:
    """All changes of one table."""
    return [part for parts in read_changes(before, after, table_key, columns) for part in parts]


def compare(history: History, before: State, after: State) -> None:
    parts = read_parts(history.snapshot(before), history.snapshot(after))
    assert summarize_changes(parts) == expected_changes(before.rows, after.rows)
