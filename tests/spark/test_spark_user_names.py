"""User names never collide with ours on Spark either, which ignores the case of names."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.spark.load import identity_matching
from omnigraph.write.merge import MergeBy
from tests.selection import daily
from tests.user_names import (
    KEYED,
    LINK,
    LOOSE,
    NamedGraph,
    Row,
    find_differences,
    list_records,
    list_schemas,
    make_first_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMAS: Final = list_schemas()


@pytest.fixture(params=daily(SCHEMAS, ["known"]))
def named(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NamedGraph:
    """A graph whose properties have these names, with four rows of each type. Executors match all rows."""
    monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", -1)
    world = SCHEMAS[cast(str, request.param)]
    graph = omnigraph.init(tmp_path / "graph.og", world.schema)
    graph.load(list_records(world, make_first_rows(world)))
    return NamedGraph(world, graph, make_first_rows(world))


def write_records(path: Path, records: list[Row]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_records(named: NamedGraph, spark: SparkSession, tmp_path: Path) -> None:
    world, model, sg = named.world, named.model, named.graph.spark(spark)
    half, _ = world.halves()
    key, unique, _ = world.identifying
    model[LINK]["e1"] |= world.make_row(1, 1)
    whole = write_records(tmp_path / "whole.jsonl", [world.make_records(LINK, model[LINK]["e1"])])
    sg.load(whole, mode="merge", identity=world.identity)
    named.check()
    partial: list[Row] = []
    changes = world.make_row(2, 2, half)
    for type_, row_id, name in ((KEYED, world.key_of(2), key), (LOOSE, "l2", unique)):
        model[type_][row_id] |= changes
        partial.append(world.make_records(type_, {**changes, name: model[type_][row_id][name]}))
    sg.load(write_records(tmp_path / "partial.jsonl", partial), mode="update", identity=world.identity)
    named.check()


def test_frames(named: NamedGraph, spark: SparkSession, tmp_path: Path) -> None:
    """A frame that was read from files: Spark numbers the file of each row."""
    world, model, sg = named.world, named.model, named.graph.spark(spark)
    texts = [name for name, kind in world.kinds.items() if kind != "Blob"]
    rows = [world.make_row(number, 1, texts) for number in (0, 3)]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows))
    # Columns that are not read may have any name.
    frame.withColumn("@file", frame[texts[0]]).write.parquet(str(tmp_path / "frame"))
    files = spark.read.parquet(str(tmp_path / "frame"))
    sg.load(nodes={KEYED: files}, mode="update", ignore={KEYED: ["@file"]})
    for number, row in zip((0, 3), rows, strict=True):
        model[KEYED][world.key_of(number)] |= row
    named.check()


def test_columns_of_a_frame_may_differ_in_case_only(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", "node Thing { code: String @key  size: I64? }")
    rows = pa.table({"a": ["a", "b"], "b": [1, 2], "c": [0, 0], "d": [0, 0], "e": [3, 4]})
    # Columns that are not read may even have the same name.
    frame = spark.createDataFrame(rows).toDF("code", "SIZE", "other", "other", "size")
    graph.spark(spark).load(nodes={"Thing": frame}, ignore={"Thing": ["SIZE", "other"]})
    assert [graph.get("Thing", code, ["size"]) for code in ("a", "b")] == [{"size": 3}, {"size": 4}]


def test_reads(named: NamedGraph, spark: SparkSession) -> None:
    world, sg = named.world, named.graph.spark(spark)
    names = [name for name, kind in world.kinds.items() if kind != "Blob"]
    stored = {row_id: {name: row[name] for name in names} for row_id, row in named.model[KEYED].items()}
    rows = {row["id"]: to_json(row.asDict(), names) for row in sg.nodes(KEYED, ["id", *names]).collect()}
    assert not list(find_differences({KEYED: rows}, {KEYED: stored}))
    # Each property under the name of the next one, and a variable and a parameter with such names.
    renamed = dict(zip(names, [*names[1:], names[0]], strict=True))
    shown = ", ".join(f"${names[0]}.{name} as {alias}" for name, alias in renamed.items())
    query = f"query q() {{ match {{ ${names[0]}: {KEYED} }} return {{ {shown} }} order {{ {renamed[names[0]]} }} }}"
    found = [to_json(row.asDict(), names) for row in sg.query(query, engine="spark").collect()]
    assert found == [{alias: stored[row_id][name] for name, alias in renamed.items()} for row_id in sorted(stored)]
    vertices, _ = sg.to_graphframes()
    assert vertices.count() == 8


def to_json(row: dict[str, object], names: list[str]) -> Row:
    values = {name: row[name] for name in names}
    return cast("Row", {name: str(value) if isinstance(value, date) else value for name, value in values.items()})


@pytest.mark.parametrize("by", daily(["row", "property"], ["property"]))
def test_merges_and_diffs(named: NamedGraph, spark: SparkSession, by: MergeBy) -> None:
    world, model, graph = named.world, named.model, named.graph
    sg, key = graph.spark(spark), world.identifying[0]
    graph.create_branch("theirs")
    ours = 0 if by == "property" else 1
    for branch, number, names in (("theirs", 0, world.halves()[0]), ("main", ours, world.halves()[1])):
        changes = world.make_row(number, 1, names)
        model[KEYED][world.key_of(number)] |= changes
        graph.load([world.make_records(KEYED, {key: world.key_of(number), **changes})], mode="update", branch=branch)
    before = graph.commits()[0].id
    sg.merge("theirs", by=by)
    named.check()
    (change,) = sg.diff(before, "main").collect()
    after = cast("Row", json.loads(change["after"]))
    assert {name: value for name, value in after.items() if name != "id"} == model[KEYED][world.key_of(0)]
    assert set(change["changed"]) <= set(world.halves()[0])
