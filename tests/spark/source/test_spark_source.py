"""``format("omnigraph")``: which rows, which columns, at which moment, in how many parts, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import StructType

import omnigraph
from omnigraph.errors import NotFound, OmniGraphError, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.read.rows.conditions import Filter as Given
from omnigraph.read.rows.conditions import parse_filter
from omnigraph.read.rows.type_rows import TypeRows
from omnigraph.spark.data_source import OmniGraphSource
from omnigraph.spark.source import type_reader
from omnigraph.spark.source.spark_types import to_spark_schema
from omnigraph.spark.source.type_reader import TypeReader, decode_pin, parse_read_options, pin_type
from omnigraph.storage.location import Location
from omnigraph.write.executor import group_evenly
from tests.s3 import S3Server
from tests.selection import daily
from tests.test_imports import imported_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Ship {
  name: String @key
  hull: I32?  size: U64?  draft: F64?  load: F32?  built: Date?  seen: DateTime?  kind: enum(cargo, tug)?
  afloat: Bool?  crew: U32?  tags: [String]?  log: Blob?
}
node Port { code: String @key }
edge CallsAt: Ship -> Port { since: Date? }
"""
SHIPS: list[dict[str, object]] = [
    {"name": "Aurora", "hull": 1, "size": 2**64 - 1, "draft": 0.0, "built": "1994-02-28", "kind": "tug", "tags": ["a"]},
    {"name": "Boreas", "hull": -7, "size": 2**63, "draft": -0.0, "seen": "2024-05-01T10:00:00.123Z", "afloat": True},
    {"name": "it's", "hull": 41, "size": 0, "draft": 9.5, "load": 1.1, "seen": "2024-05-01T10:00:00.124Z", "crew": 5},
    {"name": "dull", "afloat": False, "built": "0001-01-01", "kind": "cargo", "crew": 2**32 - 1, "tags": []},
    {"name": "é", "hull": 2**31 - 1, "load": -2.5, "log": "base64:eA=="},
]


@pytest.fixture(scope="module")
def ships(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = omnigraph.init(tmp_path_factory.mktemp("source") / "ships.og", SCHEMA)
    graph.load([{"type": "Ship", "data": data} for data in SHIPS])
    return graph


def read(spark: SparkSession, graph: Graph, type_: str = "Ship", **options: str) -> DataFrame:
    return spark.read.format("omnigraph").options(type=type_, **options).load(graph.uri)


def names(frame: DataFrame) -> list[str]:
    return sorted(row["name"] for row in frame.select("name").collect())


def small_graph(folder: Path, count: int = 3) -> Graph:
    graph = omnigraph.init(folder / "small.og", "node Ship { name: String @key  hull: I32? }\nnode Port { }")
    graph.load([{"type": "Ship", "data": {"name": f"s{n}", "hull": n}} for n in range(count)])
    return graph


# --------------------------------------------------------------------------------------------- columns


def test_without_a_word_all_columns_are_there(spark: SparkSession, ships: Graph) -> None:
    assert read(spark, ships).columns == ["id", *sorted(SHIPS[0] | SHIPS[1] | SHIPS[2] | SHIPS[4])]
    assert read(spark, ships, "CallsAt").columns == ["id", "from", "to", "since"]


def test_columns_by_option(spark: SparkSession, ships: Graph) -> None:
    found = read(spark, ships, columns="hull, name").where("hull > 40")
    assert found.columns == ["hull", "name"]
    assert sorted(found.collect()) == [(41, "it's"), (2**31 - 1, "é")]


def test_columns_by_schema(spark: SparkSession, ships: Graph) -> None:
    reader = spark.read.format("omnigraph").schema("name string, size decimal(20,0)").option("type", "Ship")
    found = reader.load(ships.uri).where("size > 9223372036854775807")
    assert sorted((row["name"], int(row["size"])) for row in found.collect()) == [
        ("Aurora", 2**64 - 1),
        ("Boreas", 2**63),
    ]


def test_a_view_of_sql(spark: SparkSession, ships: Graph) -> None:
    options = f"type 'Ship', columns 'name,kind', path '{ships.uri}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW tugs USING omnigraph OPTIONS ({options})")
    assert spark.sql("SELECT * FROM tugs WHERE kind = 'tug'").collect() == [("Aurora", "tug")]


def test_a_node_and_an_edge_type_of_one_name_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Tows { name: String @key }\nedge Tows: Tows -> Tows")
    assert read(spark, graph, "node:Tows").columns == ["id", "name"]
    assert read(spark, graph, "edge:Tows").columns == ["id", "from", "to"]


# --------------------------------------------------------------------------------------------- filters

MOMENT = datetime(2024, 5, 1, 10, 0, 0, 123_000, UTC)
FILTERS: list[tuple[Given, str]] = [
    ({"name": "it's"}, 'name = "it\'s"'),
    ([("name", "!=", "dull"), ("name", ">=", "b")], "name <> 'dull' AND name >= 'b'"),
    ([("name", "in", ["Aurora", "é"])], "name IN ('Aurora', 'é')"),
    ([("hull", ">", 1), ("hull", "<=", 41)], "hull > 1 AND hull <= 41"),
    ([("hull", "in", (1, 41))], "hull IN (1, 41)"),
    ({"hull": None}, "hull IS NULL"),
    ([("hull", "!=", None)], "hull IS NOT NULL"),
    ([("size", ">", 2**63 - 1)], "size > 9223372036854775807"),
    ({"size": 2**64 - 1}, "size = 18446744073709551615"),
    ({"crew": np.uint32(2**32 - 1)}, "crew = 4294967295"),
    ([("size", "<", 2**70)], "size IS NOT NULL"),
    ([("load", ">", np.float32(0.5))], "load > 0.5"),
    ({"draft": 0}, "draft = 0"),
    ([("draft", "<", 9.5)], "draft < 9.5"),
    ({"built": date(1994, 2, 28)}, "built = '1994-02-28'"),
    ([("built", "<", "1900-01-01")], "built < '1900-01-01'"),
    ({"seen": MOMENT}, "seen = '2024-05-01 10:00:00.123'"),
    ([("seen", ">", MOMENT)], "seen > '2024-05-01 10:00:00.123'"),
    ({"kind": "tug"}, "kind = 'tug'"),
    ({"afloat": False}, "NOT afloat"),
    ({"id": "Aurora"}, "id = 'Aurora'"),
]


def read_names(ships: Graph, given: Given) -> list[str]:
    """Read as a task does, without Spark: only the rows that are asked for leave Lance."""
    type_ = ships.schema.catalog.nodes["Ship"]
    rows = TypeRows(type_, ships.snapshot().table("Ship"))
    reader = TypeReader(rows, to_spark_schema(type_, ["name"]), parse_filter(type_, given), 1_000)
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(cast("list[str]", pa.Table.from_batches(found)["name"].to_pylist()))


def test_lance_leaves_what_spark_would_leave(spark: SparkSession, ships: Graph) -> None:
    conditions = [fn.expr(condition).alias(f"c{n}") for n, (_, condition) in enumerate(FILTERS)]
    rows = ships.spark(spark).nodes("Ship").select("name", *conditions).collect()
    by_spark = [sorted(row["name"] for row in rows if row[f"c{n}"]) for n in range(len(FILTERS))]
    assert [read_names(ships, given) for given, _ in FILTERS] == by_spark
    assert all(0 < len(found) < len(SHIPS) for found in by_spark)


def test_a_filter_by_option(spark: SparkSession, ships: Graph) -> None:
    frame = read(spark, ships, columns="name", filter='[["hull", ">", 40]]')
    assert names(frame) == ["it's", "é"]
    options = f"type 'Ship', path '{ships.uri}', filter '{{\"kind\": \"tug\"}}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW tugs USING omnigraph OPTIONS ({options})")
    assert names(spark.table("tugs")) == ["Aurora"]


@pytest.mark.parametrize("pushdown", daily(["true", "false"], ["true"]))
def test_one_frame_is_filtered_in_many_ways(spark: SparkSession, ships: Graph, pushdown: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    frame = ships.spark(session).nodes("Ship", ["name", "hull"])
    one, other = frame.where("name = 'Aurora'"), frame.where("name = 'Boreas'")
    assert names(one) == ["Aurora"]
    assert frame.select("name").count() == len(SHIPS)
    assert names(one.union(other)) == ["Aurora", "Boreas"]
    frame.createOrReplaceTempView("ships")
    pairs = "SELECT a.name, b.name FROM ships a CROSS JOIN ships b WHERE a.hull = 1 AND b.hull = 41"
    assert session.sql(pairs).collect() == [("Aurora", "it's")]


@pytest.mark.slow
def test_spark_still_mixes_up_the_filters_that_it_pushes(spark: SparkSession) -> None:
    """Why no filter is taken from Spark. When this fails, it has been put right there, and they can be."""

    class Reader(DataSourceReader):
        wanted: int | None = None

        def pushFilters(self, filters: list[SparkFilter]) -> Iterator[SparkFilter]:  # noqa: N802  Spark's name
            for each in filters:
                if isinstance(each, EqualTo):
                    self.wanted = cast("int", each.value)
                else:
                    yield each

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002  Spark's signature
            return iter([(n,) for n in range(3) if self.wanted in (None, n)])

    class Numbers(DataSource):
        def schema(self) -> str:
            return "n int"

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  Spark's signature
            return Reader()

    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(Numbers)
    frame = session.read.format("Numbers").load()
    assert frame.where("n = 1").union(frame.where("n = 2")).collect() == [(2,), (2,)]


# --------------------------------------------------------------------------------------------- moments


def test_a_branch_and_a_moment(spark: SparkSession, tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    first = graph.commits()[0]
    graph.create_branch("side")
    graph.mutate('query q() { insert Ship { name: "on the side" } }', branch="side")
    graph.mutate('query q() { delete Ship where name = "s0" }')
    assert names(read(spark, graph)) == ["s1", "s2"]
    assert names(read(spark, graph, branch="side")) == ["on the side", "s0", "s1", "s2"]
    assert names(read(spark, graph, at=first.id)) == ["s0", "s1", "s2"]
    assert names(read(spark, graph, at=f"v{first.manifest_version}")) == ["s0", "s1", "s2"]
    assert names(read(spark, graph, version=str(first.manifest_version))) == ["s0", "s1", "s2"]
    assert names(read(spark, graph, timestamp=first.created_at.isoformat())) == ["s0", "s1", "s2"]


@pytest.mark.parametrize("schema", [None, "name string"])
def test_a_frame_keeps_to_its_moment_while_others_write(
    spark: SparkSession, tmp_path: Path, schema: str | None
) -> None:
    graph = small_graph(tmp_path)
    reader = spark.read.format("omnigraph").option("type", "Ship")
    frame = (reader if schema is None else reader.schema(schema)).load(graph.uri)
    assert frame.count() == 3
    graph.mutate('query q() { delete Ship where name = "s0" }')
    graph.load([{"type": "Ship", "data": {"name": "late"}}])
    assert names(frame) == ["s0", "s1", "s2"]
    assert frame.where("name = 'late'").count() == 0
    assert frame.groupBy("name").count().count() == 3


def test_a_frame_of_now_is_settled_before_it_is_run(spark: SparkSession, tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    frame, view = read(spark, graph), graph.spark(spark).nodes("Ship")
    graph.load([{"type": "Ship", "data": {"name": "late"}}])
    assert names(frame) == names(view) == ["s0", "s1", "s2"]
    assert read(spark, graph).count() == 4


# --------------------------------------------------------------------------------------------- parts


@given(st.dictionaries(st.integers(0, 99), st.integers(1, 1_000), max_size=30), st.integers(1, 2_000))
def test_groups_hold_every_fragment_once_and_about_as_many_rows(rows: dict[int, int], most: int) -> None:
    groups = group_evenly(rows, most)
    assert sorted(fragment for group in groups for fragment in group) == sorted(rows)
    held = [sum(rows[fragment] for fragment in group) for group in groups]
    assert len(groups) == max(1, min(len(rows), -(-sum(rows.values()) // most)))
    assert max(held) - min(held) <= max(rows.values(), default=0)


def test_large_and_small_fragments_are_put_together() -> None:
    rows = {0: 100, 1: 10, 2: 10, 3: 60, 4: 30, 5: 10, 6: 10, 7: 10}
    assert [sum(rows[each] for each in group) for group in group_evenly(rows, 120)] == [120, 120]
    assert group_evenly({}, 10) == [()]


def test_partitions_are_even(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Ship { name: String @key }")
    for n, count in enumerate([600, 50, 50, 500, 100, 300]):
        graph.load(nodes={"Ship": pa.table({"name": [f"{n}-{row}" for row in range(count)]})})
    frame = read(spark, graph, rows_per_partition="600")
    held = frame.groupBy(fn.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in held) == [500, 500, 600]
    assert read(spark, graph).rdd.getNumPartitions() == 1


def test_partitions_are_sized_by_the_bytes_of_their_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = omnigraph.init(tmp_path / "vectors.og", "node Ship { code: String @key  at: Vector(256)  crew: I64? }")
    for part in range(4):
        graph.load([{"type": "Ship", "data": {"code": f"{part}-{at}", "at": [0.5] * 256}} for at in range(100)])
    type_ = graph.schema.catalog.nodes["Ship"]
    rows = TypeRows(type_, graph.snapshot().table("Ship"))
    # A vector has 1,024 bytes, a number 8: so many rows of the first, or all of the second.
    monkeypatch.setattr(type_reader, "PARTITION_BYTES", 100 * 1_024)

    def count(columns: list[str], rows_per_partition: int | None = None) -> int:
        return len(TypeReader(rows, to_spark_schema(type_, columns), (), rows_per_partition).partitions())

    assert (count(["crew"]), count(["at"]), count(["at"], 200)) == (1, 4, 2)


def test_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    assert read(spark, graph, "Port").collect() == []
    graph.mutate('query q() { delete Ship where name >= "" }')
    assert read(spark, graph).where("hull > 1").collect() == []


def test_a_type_that_has_no_table_yet(tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    type_ = graph.schema.catalog.nodes["Ship"]
    reader = TypeReader(TypeRows(type_, None), to_spark_schema(type_, ["name"]), (), 10)
    (only,) = reader.partitions()
    assert list(reader.read(only)) == []


# --------------------------------------------------------------------------------------------- object stores


def test_options_of_the_store_go_to_the_executors(
    spark: SparkSession, s3_location: Location, s3_server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = omnigraph.init(s3_location.uri, "node Ship { name: String @key }", storage_options=s3_server.options)
    graph.load([{"type": "Ship", "data": {"name": "Aurora"}}])
    options = {f"storage.{name}": value for name, value in s3_server.options.items()}
    assert names(read(spark, graph, **options)) == ["Aurora"]
    frame = graph.spark(spark).nodes("Ship")
    assert names(frame) == ["Aurora"]
    secret = next(value for name, value in s3_server.options.items() if "secret" in name)
    frame.explain(extended=True)
    assert secret not in capsys.readouterr().out


# --------------------------------------------------------------------------------------------- what is refused

WRONG: list[tuple[Mapping[str, str], str]] = [
    ({"type": "Shp"}, "NotFound: no type 'Shp' in this snapshot (did you mean 'Ship'?)"),
    ({"type": "Ship", "branch": "sde"}, "NotFound: no branch 'sde'"),
    ({"type": "Ship", "at": "yesterday"}, "NotFound: no commit, version, date or tag 'yesterday'"),
    ({"type": "Ship", "at": "v999"}, "has no manifest version 999"),
    ({"type": "Ship", "columns": "nmae,hull"}, "ParameterError: Ship has no column 'nmae', did you mean 'name'?"),
    ({"typ": "Ship"}, "ParameterError: no option 'typ', did you mean 'type'?"),
    ({"type": "Ship", "filter": "hull > 1"}, "ParameterError: option 'filter' is not JSON"),
    ({"type": "Ship", "filter": '{"hul": 1}'}, "ParameterError: Ship has no column 'hul' (did you mean 'hull'?)"),
    ({"type": "Ship", "conditions": "code = 1"}, "option 'conditions' is not valid"),
    ({"type": "Ship", "rows_per_partition": "0"}, "rows_per_partition is '0', which is not a positive number"),
    ({"type": "Ship", "version": "x"}, "version is 'x', which is not a number"),
    ({"type": "Ship", "timestamp": "june"}, "timestamp: 'june' is no date or time"),
    ({"type": "Ship", "at": "v1", "version": "1"}, "options at and version cannot be combined: each names a moment"),
    ({}, 'the type is missing: give it as in option("type", "Person")'),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_options_that_are_wrong(ships: Graph, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(OmniGraphError) as caught:
        OmniGraphSource({"path": ships.uri, **options}).schema()
    assert message in f"{type(caught.value).__name__}: {caught.value}"


def test_spark_tells_what_is_wrong(spark: SparkSession, ships: Graph) -> None:
    options, message = WRONG[0]
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("omnigraph").options(**options).load(ships.uri)
    assert message in str(caught.value)


def test_there_is_no_graph(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.og"):
        OmniGraphSource({"path": str(tmp_path / "nowhere.og"), "type": "Ship"}).schema()
    with pytest.raises(AnalysisException, match="the path of the graph is missing: give it"):
        spark.read.format("omnigraph").option("type", "Ship").load()


@pytest.mark.parametrize(
    ("schema", "message"),
    daily(
        [
            ("name string, size bigint", "column 'size' is decimal(20,0), not bigint (cast after reading)"),
            ("nmae string", "Ship has no column 'nmae', did you mean 'name'?"),
        ],
        [("nmae string", "Ship has no column 'nmae', did you mean 'name'?")],
    ),
)
def test_a_schema_that_does_not_fit(spark: SparkSession, ships: Graph, schema: str, message: str) -> None:
    frame = spark.read.format("omnigraph").schema(schema).option("type", "Ship").load(ships.uri)
    with pytest.raises(AnalysisException) as caught:
        frame.collect()
    assert message in str(caught.value)


def test_a_wrong_type_is_told_where_a_schema_is_given_too(spark: SparkSession, ships: Graph) -> None:
    frame = spark.read.format("omnigraph").schema("name string").option("type", "Shp").load(ships.uri)
    with pytest.raises(AnalysisException, match="NotFound: no type 'Shp' in this snapshot"):
        frame.collect()


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_other_modes_are_refused_by_spark_before_it_asks(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    graph = small_graph(tmp_path)
    with pytest.raises(AnalysisException) as caught:
        spark.range(1).write.format("omnigraph").mode(mode).option("type", "Ship").save(graph.uri)
    assert caught.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
    assert len(graph.commits()) == 2


def test_a_stream_is_refused_too() -> None:
    with pytest.raises(Unsupported, match=r"graph\.spark\(\)\.stream"):
        OmniGraphSource({"path": "g.og", "type": "Ship"}).streamWriter(StructType(), overwrite=False)


# --------------------------------------------------------------------------------------------- pins as texts


def test_a_pin_is_a_text(ships: Graph) -> None:
    pin = pin_type(ships.snapshot(), ships.schema.catalog.nodes["Ship"])
    assert decode_pin(pin.encode()) == pin
    rows = parse_read_options({"path": ships.uri, "pin": pin.encode()}).pin_rows()
    assert rows.table == ships.snapshot().table("Ship")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pin": 3}', '{"pin": null, "other": 1}'])
def test_a_text_that_is_no_pin(ships: Graph, text: str) -> None:
    with pytest.raises(ParameterError, match="option 'pin' is not a valid pin"):
        parse_read_options({"path": ships.uri, "pin": text})


def test_a_pin_settles_everything_else(ships: Graph) -> None:
    pin = pin_type(ships.snapshot(), ships.schema.catalog.nodes["Ship"]).encode()
    with pytest.raises(ParameterError, match="option 'type' cannot be combined with a pin; option 'at' cannot"):
        parse_read_options({"path": ships.uri, "pin": pin, "type": "Ship", "at": "v1"})


def test_spark_finds_the_source_without_lance() -> None:
    found = imported_by("import pyspark_omnigraph\nassert pyspark_omnigraph.DefaultSource.name() == 'omnigraph'")
    assert "pyspark" in found
    assert found & {"lance", "datafusion", "obstore", "scipy"} == set()


def test_a_branch_that_is_gone_cannot_be_pinned(tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    with pytest.raises(NotFound, match="no branch 'gone'"):
        parse_read_options({"path": graph.uri, "type": "Ship", "branch": "gone"}).pin_rows()


# --------------------------------------------------------------------------------------------- rows of a snapshot


def test_rows_of_unknown_number_are_not_broadcast_and_no_source_is_planned(spark: SparkSession, ships: Graph) -> None:
    threshold = "spark.sql.execution.arrow.localRelationThreshold"
    before = spark.conf.get(threshold)
    sg = ships.spark(spark)
    frame = sg.nodes("Ship", ["name", "hull"])
    assert spark.conf.get(threshold) == before
    joined = frame.join(sg.nodes("Ship", ["name", "crew"]), "name")
    plan = _explain(spark, joined)
    assert "SortMergeJoin" in plan or "ShuffledHashJoin" in plan, plan
    assert "BatchScan" not in plan, plan
    assert joined.count() == len(SHIPS)


def test_rows_of_a_snapshot_are_those_of_the_source(spark: SparkSession, ships: Graph) -> None:
    moment = ships.spark(spark).snapshot()
    for type_ in moment.catalog.types():
        ours, others = moment.rows(type_), moment.source_rows(type_)
        assert ours.schema == others.schema
        assert sorted(map(str, ours.collect())) == sorted(map(str, others.collect()))
    ship, afloat = moment.catalog.nodes["Ship"], [("hull", ">", 0)]
    ours, others = (read(ship, ["name"], afloat) for read in (moment.rows, moment.source_rows))
    assert names(ours) == names(others) == ["Aurora", "it's", "é"]


def _explain(spark: SparkSession, frame: DataFrame) -> str:
    frame.createOrReplaceTempView("explained")
    return cast(str, spark.sql("explain select * from explained").collect()[0][0])
