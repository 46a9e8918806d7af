"""Random queries over random graphs answer on Spark what the meaning of the language says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from omnigraph.language.query import compile_query
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.read.query import QueryRequest
from tests.executors import on_spark
from tests.model.match_model import Asked
from tests.model.query_model import expected
from tests.read.query_worlds import CATALOG, World, new_world
from tests.read.read_strategies import (
    Read,
    computations,
    counts,
    filters,
    interface_reads,
    joins,
    reads,
    searches,
    unions,
)
from tests.selection import sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def budget(examples: int) -> settings:
    # A query takes Spark a second: a shorter one that fails too is not worth the hour that it takes to be found.
    return settings(
        max_examples=sized(examples, 75 * examples),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    """Graphs that no test changes."""
    folder = tmp_path_factory.mktemp("spark_worlds")
    return [new_world(folder, seed) for seed in (0, 5)]


def check(session: SparkSession, worlds: list[World], data: st.DataObject, reading: st.SearchStrategy[Read]) -> None:
    world = worlds[data.draw(st.integers(0, len(worlds) - 1), "world")]
    moment = world.moments[data.draw(st.integers(0, len(world.moments) - 1), "moment")]
    read = data.draw(reading)
    note(f"{read.text}\n{read.params}")
    compiled = compile_query(read.text, CATALOG)
    typed = compiled.typed
    assert not isinstance(typed, TypedMutation)
    asked = Asked(moment.model, compiled.bind_parameters(read.params), time.time_ns() // 1_000_000)
    allowed = expected(typed, asked)
    for way in on_spark(session).ways.values():
        found = way(world.graph, QueryRequest(read.text, params=read.params), moment.branch, moment.at)
        assert allowed.allows(found), f"{found}\nis not among the allowed {allowed}"


@budget(1)
@given(data=st.data())
def test_patterns_on_spark(spark: SparkSession, worlds: list[World], data: st.DataObject) -> None:
    check(spark, worlds, data, reads())


@budget(2)
@given(data=st.data())
def test_computed_values_on_spark(spark: SparkSession, worlds: list[World], data: st.DataObject) -> None:
    check(spark, worlds, data, computations() | filters())


@budget(1)
@given(data=st.data())
def test_counts_of_walks_on_spark(spark: SparkSession, worlds: list[World], data: st.DataObject) -> None:
    check(spark, worlds, data, counts() | joins())


@budget(1)
@given(data=st.data())
def test_unions_on_spark(spark: SparkSession, worlds: list[World], data: st.DataObject) -> None:
    check(spark, worlds, data, interface_reads() | unions())


@budget(1)
@given(data=st.data())
def test_searches_on_spark(spark: SparkSession, worlds: list[World], data: st.DataObject) -> None:
    check(spark, worlds, data, searches())
