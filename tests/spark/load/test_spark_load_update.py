"""Updates on Spark complete the same rows as in one process: with several shuffle partitions, and with few rows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.spark.load import identity_matching, row_updates
from omnigraph.spark.load import incoming_rows as load_incoming
from tests.graphs import written
from tests.selection import daily
from tests.spark.load.spark_loads import content, file_of, problems
from tests.write.mutation.interleaving import meanwhile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship {
  code: String @key  name: String?  crew: I32  tags: [String]?  shape: Vector(2)?  photo: Blob?
  kind: enum(ferry, tug) @default("tug")
  @unique(name)
}
node Badge { number: I64?  owner: String?  @unique(number) }
edge Meets: Ship -> Ship { at: I32?  place: String?  score: F64? }
"""
Record = Mapping[str, object]
PAIR = {"Meets": ["from", "at"]}
FEW, MANY = "looked up", "shuffled"


def ship(code: str, **data: object) -> Record:
    return {"type": "Ship", "data": {"code": code, **data}}


def meet(source: str | None = None, target: str | None = None, **data: object) -> Record:
    ends = {"from": source, "to": target}
    return {"edge": "Meets", **{name: end for name, end in ends.items() if end is not None}, "data": data}


FIRST: Sequence[Record] = (
    ship("a", name="Anna", crew=1, kind="ferry", shape=[1, 2], photo="base64:aGVsbG8="),
    *(ship(code, crew=2, photo="base64:aGVsbGE=") for code in "bcdefgh"),
    meet("a", "b", at=1, place="Oslo"),
    meet("a", "b", at=2, place="Kiel"),
    meet("b", "c", place="Riga"),
    meet("c", "d", id="given", score=1.5),
    meet("d", "e", at=1),
    meet("d", "f", at=1),
    {"type": "Badge", "data": {"number": 1, "owner": "Ann"}},
    {"type": "Badge", "data": {"owner": "Bob"}},
)
UPDATES: Sequence[Record] = (
    ship("a", crew=7),
    ship("b", name="Bea", photo=None),
    ship("c", photo="base64:aGVsbG8=", tags=["x"]),
    ship("d", photo="base64:aGVsbGE=", crew=2),
    {"type": "Ship", "data": {"id": "e", "shape": [3, 4]}},
    ship("f"),
    meet("a", at=1, score=2),
    meet("b", "a", at=None),
    meet(id="given", place="Turku"),
    {"type": "Badge", "data": {"number": 1, "owner": "Eve"}},
)
WRONG: Sequence[Record] = (
    ship("c", crew=7),
    ship("z", crew=1),
    meet("a", at=9),
    meet("d", at=1),
    meet("d", score=1),
    {"type": "Badge", "data": {"owner": "Lee"}},
    meet("c", "nobody", id="given"),
    ship("b", crew=None),
    ship("h", name="Anna"),
)


pytestmark = pytest.mark.usefixtures("eight_partitions")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    omnigraph.init(folder, SCHEMA).load(list(FIRST))
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))


@pytest.fixture(params=daily([FEW, MANY], [MANY]))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows that this process completes, and rows that executors shuffle, many partitions and fragments of them."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    if request.param == MANY:
        monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)
        monkeypatch.setattr(row_updates, "_ROWS_PER_PARTITION", 3)
    return request.param


@pytest.mark.usefixtures("way")
def test_an_update_gives_the_same_rows_and_a_second_one_changes_nothing(template: Path, tmp_path: Path) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    files = [file_of(tmp_path / f"{number}.jsonl", UPDATES[number::2]) for number in range(2)]
    local = here.load(files, mode="update", identity=PAIR)
    result = there.load(files, mode="update", identity=PAIR, engine="spark")
    assert content(there) == content(here) != content(omnigraph.open(template))
    for code in "abcd":
        assert there.blob("Ship", code, "photo") == here.blob("Ship", code, "photo")
    assert (result.nodes, result.edges) == (local.nodes, local.edges)
    before = written(there)
    again = there.load(files, mode="update", identity=PAIR, engine="spark")
    assert (again.commit, again.nodes, again.edges) == (None, result.nodes, result.edges)
    assert written(there) == before


@pytest.mark.slow
@pytest.mark.usefixtures("way", "spark")
def test_what_is_wrong_is_told_with_its_line(graph: Graph, tmp_path: Path) -> None:
    file = file_of(tmp_path / "wrong.jsonl", WRONG)
    before = written(graph)
    with pytest.raises(ValidationError) as here:
        graph.load(file, mode="update", identity=PAIR)
    with pytest.raises(ValidationError) as there:
        graph.load(file, mode="update", identity=PAIR, engine="spark")
    assert problems(there.value) == problems(here.value)
    assert sorted(each.line or 0 for each in there.value.violations) == list(range(2, 10))
    assert written(graph) == before


@pytest.mark.slow
@pytest.mark.usefixtures("way", "spark")
def test_the_quarantine_takes_the_same_records(template: Path, tmp_path: Path) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    file = file_of(tmp_path / "wrong.jsonl", WRONG)
    local = here.load(file, mode="update", identity=PAIR, on_error="quarantine", rejects=tmp_path / "here.jsonl")
    result = there.load(
        file, mode="update", identity=PAIR, on_error="quarantine", rejects=tmp_path / "there.parquet", engine="spark"
    )
    assert (result.rejected, result.nodes, result.edges) == (local.rejected, local.nodes, local.edges)
    assert result.rejected == 8
    found = pq.read_table(tmp_path / "there.parquet").to_pylist()
    rows = [orjson.loads(line) for line in (tmp_path / "here.jsonl").read_text().splitlines()]
    assert _in_order(found) == _in_order(rows)
    assert content(there) == content(here)


def _in_order(rows: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    return sorted(((row["line"], row["record"], row["rule"], row["message"]) for row in rows), key=str)


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_dataframes_have_the_key_and_one_column(spark: SparkSession, graph: Graph) -> None:
    ranks = spark.range(0, 6, 1, 4).selectExpr("substr('abcdef', 1 + id, 1) AS code", "CAST(id + 40 AS int) AS crew")
    assert graph.spark(spark).load(nodes={"Ship": ranks}, mode="update").nodes == {"Ship": 6}
    assert graph.load(nodes={"Ship": ranks.toArrow()}, mode="update").commit is None
    found = {row["code"]: (row["crew"], row["name"], row["kind"]) for row in content(graph)["Ship"]}
    assert found["a"] == (40, "Anna", "ferry")
    assert found["h"] == (2, None, "tug")


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_what_others_change_meanwhile_stays(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    file = file_of(tmp_path / "updates.jsonl", [ship("a", crew=9), ship("b", crew=8)])
    with meanwhile(lambda: graph.load([ship("a", name="Alma")], mode="update"), "table.audit"):
        graph.spark(spark).load(file, mode="update")
    found = {row["code"]: (row["crew"], row["name"]) for row in content(graph)["Ship"]}
    assert (found["a"], found["b"]) == ((9, "Alma"), (8, None))
