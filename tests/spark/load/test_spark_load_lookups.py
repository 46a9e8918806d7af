"""A load of a few rows into many looks stored ids up instead of reading them; a node of very many edges is one text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn
from uuid import uuid4

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.spark import id_lookup, key_filter
from omnigraph.spark.load import identity_matching
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.rules import proofs, set_rules
from omnigraph.write.load import LoadMode
from tests.graphs import rows_of
from tests.selection import daily, sized
from tests.spark.spark_metrics import received_bytes, shuffled_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHIPS: Final = sized(20_000, 400_000)
CHANGED: Final = SHIPS // 100
TOWS: Final = sized(40_000, 1_000_000)
SCHEMA: Final = "node Ship { code: String @key  name: String }  edge Tows: Ship -> Ship"


@pytest.fixture
def graph(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Ships with an index on their ids. Executors do all work, however little it is."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)
    graph = omnigraph.init(tmp_path / "ships.og", SCHEMA)
    graph.spark(spark).load(nodes={"Ship": ships(spark, 0, SHIPS, "old")}, indexes="always")
    return graph


def ships(spark: SparkSession, start: int, end: int, name: str) -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr("format_string('s%08d', id) as code", f"'{name}' as name")


@pytest.mark.parametrize("first", daily([0, SHIPS - CHANGED // 2], [SHIPS - CHANGED // 2]))
def test_a_merge_of_one_percent_shuffles_little(
    spark: SparkSession, graph: Graph, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ships(spark, first, first + CHANGED, "new")
    before = shuffled_bytes(spark)
    graph.spark(spark).load(nodes={"Ship": changed}, mode="merge", indexes="never")
    looked_up = shuffled_bytes(spark) - before
    names = {str(row["code"]): row["name"] for row in rows_of(graph, "Ship")}
    assert len(names) == max(SHIPS, first + CHANGED)
    assert {code for code, name in names.items() if name == "new"} == {
        f"s{number:08}" for number in range(first, first + CHANGED)
    }
    # The same rows once more change nothing, also if all ids are read, and whether or not they are filtered.
    monkeypatch.setattr(id_lookup, "ROWS_PER_LOOKUP", SHIPS)
    filtered = _count_shuffled_again(spark, graph, changed)
    monkeypatch.setattr(key_filter, "MIN_ROWS_PER_KEY", SHIPS)
    unfiltered = _count_shuffled_again(spark, graph, changed)
    assert filtered * 10 < unfiltered
    assert looked_up * 10 < unfiltered


def _count_shuffled_again(spark: SparkSession, graph: Graph, rows: DataFrame) -> int:
    """Merge rows that the graph has already."""
    before = shuffled_bytes(spark)
    assert graph.spark(spark).load(nodes={"Ship": rows}, mode="merge").commit is None
    return shuffled_bytes(spark) - before


def test_a_lookup_of_neighbours_reads_a_part_of_the_index(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "ships.og", SCHEMA)
    codes = pa.array([f"s{number:08}" for number in range(200_000)])
    graph.load(nodes={"Ship": pa.table({"code": codes, "name": codes})}, indexes="always")
    table = omnigraph.open(tmp_path / "ships.og").snapshot().table("node:Ship")

    def count_bytes(read: Callable[[], int], rows: int) -> int:
        table.storage_calls()
        assert read() == rows
        return table.storage_calls().read_bytes

    everything = count_bytes(lambda: sum(batch.num_rows for batch in table.scan(["id"])), 200_000)
    asked = codes.slice(100_000, 2_000)
    assert count_bytes(lambda: len(id_lookup.find_present_ids(table, asked)), 2_000) * 5 < everything
    # Keys beyond all that are stored are looked for in no page.
    new = pa.array([f"t{number:08}" for number in range(2_000)])
    assert count_bytes(lambda: len(id_lookup.find_present_ids(table, new)), 0) * 50 < everything


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_what_is_wrong_is_found_where_ids_are_looked_up(
    spark: SparkSession, graph: Graph, mode: LoadMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_lookup, "ROWS_PER_LOOKUP", 0)
    tows = spark.sql("select 's00000001' as `from`, 's00000002' as `to` union all select 's00000001', 'nobody'")
    with pytest.raises(ValidationError, match="nobody"):
        graph.spark(spark).load(edges={"Tows": tows}, mode=mode)
    graph.spark(spark).load(edges={"Tows": tows.limit(1)}, mode=mode)
    again = ships(spark, 5, 7, "again")
    if mode == "append":
        with pytest.raises(ValidationError, match="s00000005"):
            graph.spark(spark).load(nodes={"Ship": again}, mode=mode)
    else:
        graph.spark(spark).load(nodes={"Ship": again}, mode=mode)
        assert graph.spark(spark).nodes("Ship", filter={"name": "again"}).count() == 2


@pytest.mark.slow
def test_a_merge_looks_up_the_unique_values_and_sources_that_it_touches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)
    schema = "node Ship { code: String @key  name: String @unique  crew: I64 }  edge Tows: Ship -> Ship @card(0..2)"
    sg = omnigraph.init(tmp_path / "ships.og", schema).spark(spark)
    fleet = spark.range(0, SHIPS, 1, 2).selectExpr(
        "format_string('s%08d', id) as code", "format_string('name %08d', id * 7919) as name", "id as crew"
    )
    tows = fleet.selectExpr("concat('t', code) as id", "code as `from`", "'s00000001' as `to`")
    sg.load(nodes={"Ship": fleet}, edges={"Tows": tows}, indexes="always")
    monkeypatch.setattr(set_rules, "_query_partitions", _refuse)

    def merge(crew: int) -> int:
        before = shuffled_bytes(spark)
        changed = fleet.where(f"crew < {CHANGED}").selectExpr("code", "name", f"crew + {crew} as crew")
        moved = tows.where(f"`from` < 's{CHANGED:08}'").selectExpr("id", "`from`", f"'s{crew:08}' as `to`")
        sg.load(nodes={"Ship": changed}, edges={"Tows": moved}, mode="merge", indexes="never")
        return shuffled_bytes(spark) - before

    looked_up = merge(2)
    # A value that stays with another row is found where values are looked up.
    taken = fleet.where("crew = 5").selectExpr("'s00000006' as code", "name", "crew")
    with pytest.raises(AssertionError, match="SQL"):
        sg.load(nodes={"Ship": taken}, mode="merge")
    monkeypatch.setattr(id_lookup, "ROWS_PER_LOOKUP", SHIPS)
    filtered = merge(3)
    monkeypatch.setattr(key_filter, "MIN_ROWS_PER_KEY", SHIPS)
    unfiltered = merge(4)
    assert looked_up * 10 < unfiltered
    assert filtered * 5 < unfiltered
    assert sg.edges("Tows").where("`to` = 's00000004'").count() == CHANGED


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("rules run as SQL")


# --------------------------------------------------------------------------------------------- hubs


def test_a_node_with_a_third_of_the_edges_is_no_burden_to_one_task(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "MAX_HELD_BYTES", -1)
    monkeypatch.setattr(proofs, "_TEXTS_PER_PARTITION", TOWS // 4)
    tows = spark.range(0, TOWS, 1, 4).selectExpr(
        f"format_string('s%08d', id % {SHIPS}) as `from`",
        f"if(id % 10 < 3, 's00000007', format_string('s%08d', (id * 7919) % {SHIPS})) as `to`",
    )
    group = uuid4().hex
    spark.sparkContext.setJobGroup(group, "a load with a hub")
    graph.spark(spark).load(edges={"Tows": tows}, indexes="never")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # pyright: ignore[reportArgumentType]  None clears it
    shared = [sizes for sizes in received_bytes(spark, group) if len(sizes) > 1]
    assert shared
    # Sent one by one, the ends of the hub alone would be twice the share of a task.
    assert all(max(sizes) < 1.5 * sum(sizes) / len(sizes) for sizes in shared), shared
    assert graph.spark(spark).edges("Tows").where("`to` = 's00000007'").count() >= TOWS * 3 // 10
