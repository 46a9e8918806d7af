"""Pipelines from Python on Spark: from tables to a graph, with progress, and what is said when something is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import PipelineError, ValidationError
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = ["people.csv", "knows.csv", "orders.csv"]


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """People, whom they know, and their orders."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text('name,age,tags\nann,4,"[""x""]"\nbob,,\n')
    Path("knows.csv").write_text("a,b,since\nann,bob,2020-01-01\nbob,ann,\n")
    Path("orders.csv").write_text("id,customer,no\n7,ann,1.5\n8,,2.5\n")
    return tmp_path


def test_tables_become_a_graph(spark: SparkSession) -> None:
    graph = og.init("people.og", og.pipeline.infer_schema(FILES))
    Path("people.pipeline.yaml").write_text(og.pipeline.propose_pipeline(FILES, graph="people.og"))
    assert [each.type.name for each in og.pipeline.plan("people.pipeline.yaml").mappings] == [
        "Person", "Order", "Knows", "OrderCustomer",
    ]  # fmt: skip
    steps: list[str] = []
    checked = og.pipeline.check("people.pipeline.yaml", session=spark)
    assert (checked.load.commit, rows_of(graph, "Person")) == (None, [])
    done = og.pipeline.run("people.pipeline.yaml", session=spark, progress=lambda step: steps.append(step.kind))
    assert done.passed
    assert steps[0] == "spark"
    assert steps[-1] == "load"
    assert (done.load.nodes, done.load.edges) == ({"Order": 2, "Person": 2}, {"Knows": 2, "OrderCustomer": 1})
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "OrderCustomer")] == [("7", "ann")]
    # Without a pipeline the same files give the same graph.
    other = og.init("other.og", og.pipeline.infer_schema(FILES))
    columns = {"Order": {"order_id": "id"}, "Knows": {"from": "a", "to": "b"}}
    nodes = {"Person": "people.csv", "Order": "orders.csv"}
    other.load(nodes=nodes, edges={"Knows": "knows.csv"}, columns=columns, ignore={"Order": ["customer"]})
    for name in ("Person", "Order"):
        assert sorted(map(str, rows_of(other, name))) == sorted(map(str, rows_of(graph, name)))


def test_what_is_wrong_with_a_pipeline_is_raised(spark: SparkSession) -> None:
    Path("p.pipeline.yaml").write_text(og.pipeline.propose_pipeline(["people.csv"], graph="none.og"))
    with pytest.raises(PipelineError, match="no graph"):
        og.pipeline.plan("p.pipeline.yaml")
    og.init("people.og", "node Person { name: String @key  age: I64?  tags: [String]?  @range(age, 5..9) }")
    with pytest.raises(ValidationError):
        og.pipeline.check("p.pipeline.yaml", graph="people.og", session=spark)
