"""Graphs as tests write and read them: one record in, all rows out, and what of a graph is written at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import cast

import pyarrow as pa

from omnigraph.errors import Json
from omnigraph.graph import Graph
from omnigraph.language.schema import Schema
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.rows.type_rows import open_type_rows as typed_rows
from omnigraph.read.rows.type_rows import require_type, value_columns_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.tables import open_table
from omnigraph.write.mutation.transaction import Transaction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def insert(into: Graph | Transaction, schema: Schema, record: Mapping[str, object]) -> None:
    """Insert one record of graph JSONL by a mutation of its own."""
    data = cast("dict[str, object]", record.get("data", {}))
    ends = {word: record[word] for word in ("from", "to") if word in record}
    name = cast(str, record.get("type") or record["edge"])
    properties = (schema.catalog.edges if ends else schema.catalog.nodes)[name].properties
    declared = [f"${word}: String" for word in ends]
    declared += [f"${word}: {replace(properties[word].type, enum_values=None)}" for word in data]
    values = ", ".join(f"{word}: ${word}" for word in (*ends, *data))
    into.mutate(f"query add({', '.join(declared)}) {{ insert {name} {{ {values} }} }}", params={**ends, **data})


def rows_of(graph: Graph, name: str, branch: str = MAIN, at: Reference | None = None) -> list[dict[str, Json]]:
    """All rows of a type's table, dates as texts. A table that lags is read as the schema has it, without blobs."""
    now = graph.snapshot(branch, at)
    if now.lag is None:
        rows = now.table(name).scan().read_all()
    else:
        type_ = require_type(now.catalog(), name)
        batches = list(typed_rows(now, type_).read(value_columns_of(type_)))
        rows = pa.Table.from_batches(batches) if batches else arrow_schema(type_).empty_table()
    columns = {column: _readable(rows, column) for column in rows.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _readable(rows: pa.Table, column: str) -> list[Json]:
    if rows.schema.types[rows.column_names.index(column)] == pa.date64():
        # As Python objects they would lose the time of day.
        times = rows[column].cast(pa.int64()).to_pylist()
        return [None if at is None else (_EPOCH + timedelta(milliseconds=at)).isoformat() for at in times]
    values = cast("list[Json | date]", rows[column].to_pylist())
    return [value.isoformat() if isinstance(value, date) else value for value in values]


def written(graph: Graph, branch: str = MAIN) -> dict[str, object]:
    """What a write that fails must leave as it is: the head, the pins, and the newest version of every table."""
    now = graph.snapshot(branch)
    heads = {
        key: open_table(graph._manifest.location.join(pin.location), pin.branch, None, graph._manifest.access).version
        for key, pin in now.pins.items()
    }
    sidecars = [found.path for found in graph._manifest.objects.list("__recovery")]
    return {"commit": now.commit, "pins": dict(now.pins), "heads": heads, "sidecars": sidecars}
