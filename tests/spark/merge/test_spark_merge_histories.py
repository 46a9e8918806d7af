"""Histories of branches that executors merge and revert: they come to what this process and the model come to.

Steps, model and comparison are those of ``tests/write/merge/test_merge_histories.py``. However few rows there
are, executors bring them together; only what breaks a rule goes back to this process, as it always does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.merge import candidate_rows
from omnigraph.spark.merge import run as merge
from tests.write.merge.social_graph import person
from tests.write.merge.test_merge_histories import QUIET, Crosses, Edits, Merges, Reverts, Step, play, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.spark.graph import SparkGraph


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many, in several parts."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ROWS", 0)
    monkeypatch.setattr(candidate_rows, "MIN_ROWS_PER_PARTITION", 1)


def play_on(spark: SparkSession, happenings: list[Step]) -> None:
    """The same, on executors."""

    def there(graph: Graph) -> SparkGraph:
        return graph.spark(spark)

    play(happenings, there)


HISTORY: list[Step] = [
    Edits("left", {"p0": person(1), "p2": person(1)}, {"p1": 1}),
    Edits("main", {"p1": person(2)}, {"p0": 2}),
    # Into a branch that has forks of both tables.
    Merges("main", "left", "row", None, None),
    Edits("main", {"p0": person(2)}, {}),
    Merges("left", "main", "row", None, None),
    Merges("left", "main", "property", "theirs", None),
    Reverts("main", 0, 1),
    Edits("right", {"p1": person(1), "p3": person(2)}, {"p0": None}),
    Crosses("right", "left", "theirs"),
    Edits("left", {"p3": None}, {"p1": None}),
    Merges("left", "right", "row", "ours", None),
]


@pytest.mark.slow
@settings(phases=[Phase.explicit], suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(happenings=HISTORY)
@given(happenings=st.lists(steps))
def test_a_history_is_that_of_the_model(spark: SparkSession, happenings: list[Step]) -> None:
    play_on(spark, happenings)


@pytest.mark.slow
@settings(
    max_examples=40,
    suppress_health_check=[*QUIET, HealthCheck.function_scoped_fixture],
    print_blob=True,
)
@given(happenings=st.lists(steps, min_size=6, max_size=12))
def test_random_histories_are_those_of_the_model(spark: SparkSession, happenings: list[Step]) -> None:
    play_on(spark, happenings)
