"""Merges on Spark find the same stored rows as in one process: with several shuffle partitions, and with few rows."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark import key_filter
from omnigraph.spark.load import identity_matching
from omnigraph.spark.load import incoming_rows as load_incoming
from tests.graphs import written
from tests.selection import daily
from tests.spark.load.spark_loads import content, file_of, problems
from tests.write.mutation.interleaving import meanwhile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { code: String @key  name: String?  photo: Blob?  shape: Vector(2)? }
node Note { text: String  weight: F64?  tags: [String]?  photo: Blob? }
node Badge { number: I64?  owner: String?  @unique(number) }
edge Meets: Ship -> Ship { at: DateTime?  place: String?  score: F64? }
"""
Record = Mapping[str, object]
DAY = "2024-01-01T00:00:00Z"
FEW, MANY, FILTERED = "looked up", "shuffled", "filtered"


def ship(code: str, name: str | None = None, **data: object) -> Record:
    return {"type": "Ship", "data": {"code": code, "name": name, **data}}


def meet(source: str, target: str, **data: object) -> Record:
    return {"edge": "Meets", "from": source, "to": target, "data": data}


def note(text: str, **data: object) -> Record:
    return {"type": "Note", "data": {"text": text, **data}}


def badge(number: int | None, owner: str) -> Record:
    return {"type": "Badge", "data": {"number": number, "owner": owner}}


FIRST: Sequence[Record] = (
    ship("a", "Anna", shape=[0.0, -0.0], photo="base64:aGVsbG8="),
    *(ship(code) for code in "bcdefgh"),
    meet("a", "b", at=DAY, place="Oslo"),
    meet("a", "b", at=DAY, place="Kiel"),
    meet("b", "c"),
    meet("b", "c"),
    meet("c", "d", id="given", score=-0.0),
    note("one", weight=0.0, tags=["x", "y"], photo="base64:aGVsbG8="),
    note("one", weight=0.0, tags=["x", "y"], photo="base64:aGVsbGE="),
    note("two"),
    badge(1, "Ann"),
    badge(None, "Bob"),
)
SECOND: Sequence[Record] = (
    ship("a", "Anna", shape=[-0.0, 0.0], photo="base64:aGVsbG8="),
    ship("b", "Berta"),
    ship("z"),
    meet("a", "d", at=DAY, place="Oslo"),
    meet("a", "b", at=DAY, place="Riga"),
    *(meet("b", "c") for _ in range(3)),
    meet("c", "d", id="given", score=0.0),
    meet("c", "e", id="new"),
    meet("z", "a"),
    note("one", weight=-0.0, tags=["x", "y"], photo="base64:aGVsbGE="),
    note("one", weight=0.0, tags=["x,y"]),
    badge(1, "Eve"),
    badge(None, "Bob"),
    badge(2, "Lee"),
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


@pytest.fixture(params=daily([FEW, MANY, FILTERED], [FILTERED]))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows that this process looks up, and rows that executors shuffle, many partitions and fragments of them.

    Stored rows are shuffled all, or only those whose keys the incoming ones may have.
    """
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(key_filter, "MIN_ROWS_PER_KEY", 0 if request.param == FILTERED else sys.maxsize)
    if request.param != FEW:
        monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)
        monkeypatch.setattr(identity_matching, "_ROWS_PER_PARTITION", 3)
    return request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("identity", daily([None, {"Meets": ["from", "at"]}], [{"Meets": ["from", "at"]}], str))
def test_a_merge_gives_the_same_rows_and_a_second_one_changes_nothing(
    template: Path, tmp_path: Path, identity: Mapping[str, Sequence[str]] | None
) -> None:
    here = omnigraph.open(shutil.copytree(template, tmp_path / "here.og"))
    there = omnigraph.open(shutil.copytree(template, tmp_path / "there.og"))
    files = [file_of(tmp_path / f"{number}.jsonl", SECOND[number::2]) for number in range(2)]
    local = here.load(files, mode="merge", identity=identity)
    result = there.load(files, mode="merge", identity=identity, engine="spark")
    assert content(there) == content(here) != content(omnigraph.open(template))
    assert (result.nodes, result.edges) == (local.nodes, local.edges)
    before = written(there)
    again = there.load(files, mode="merge", identity=identity, engine="spark")
    assert (again.commit, again.nodes, again.edges) == (None, result.nodes, result.edges)
    assert written(there) == before


@pytest.mark.slow
@pytest.mark.usefixtures("way", "spark")
def test_what_is_wrong_is_told_with_its_line(template: Path, tmp_path: Path) -> None:
    graph = omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))
    wrong = [ship("a"), badge(1, "Eve"), meet("a", "nobody"), badge(7, "x"), ship("c"), badge(7, "y"), note("two")]
    file = file_of(tmp_path / "wrong.jsonl", wrong)
    before = written(graph)
    with pytest.raises(ValidationError) as here:
        graph.load(file, mode="merge")
    with pytest.raises(ValidationError) as there:
        graph.load(file, mode="merge", engine="spark")
    assert [each[:3] for each in problems(there.value)] == [each[:3] for each in problems(here.value)]
    assert sorted(each.line or 0 for each in there.value.violations) == [3, 6]
    assert written(graph) == before


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_dataframes_run_twice_change_nothing(spark: SparkSession, graph: Graph) -> None:
    calls = spark.range(0, 60, 1, 4).selectExpr(
        "substr('abcdefgh', 1 + id % 8, 1) AS `from`", "'a' AS `to`", "concat('p', id % 5) AS place"
    )
    there = graph.spark(spark)
    assert there.load(edges={"Meets": calls}, mode="merge").commit is not None
    assert there.load(edges={"Meets": calls}, mode="merge").commit is None
    assert graph.load(edges={"Meets": calls.toArrow()}, mode="merge").commit is None


@pytest.mark.usefixtures("way")
def test_rows_that_others_insert_meanwhile_are_found(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    records = [meet("d", "e"), meet("e", "f")]
    file = file_of(tmp_path / "merged.jsonl", records)
    with meanwhile(lambda: graph.load([meet("d", "e")]), "table.audit"):
        graph.spark(spark).load(file, mode="merge")
    assert graph.load(records, mode="merge").commit is None
    assert len([row for row in content(graph)["Meets"] if row["src"] in ("d", "e")]) == 2


def test_several_unique_sets_must_be_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "seals.og", "node Seal { a: I64  b: I64  @unique(a)  @unique(b) }")
    frame = spark.createDataFrame([(1, 2)], "a long, b long")
    with pytest.raises(ParameterError, match=r"@unique\(a\), @unique\(b\)"):
        graph.spark(spark).load(nodes={"Seal": frame}, mode="merge")
    graph.spark(spark).load(nodes={"Seal": frame}, mode="merge", identity={"Seal": ["a"]})
