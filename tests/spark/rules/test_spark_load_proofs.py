"""Proofs before SQL: a right load is shown to be right, a wrong one never is, and then the SQL says what is wrong."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.spark import key_filter
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.rules import proofs, set_rules
from omnigraph.spark.rules.changed_table import ChangedSparkTable
from omnigraph.spark.rules.merge_proofs import find_unproven_merges
from omnigraph.spark.shuffle import assign_partitions
from omnigraph.storage.columns import as_text, join_texts
from omnigraph.write.load import LoadMode
from omnigraph.write.rules.set_rules import SetRule
from tests.selection import daily
from tests.spark.load.spark_loads import FIRST, codes, content, file_of, new_graph, ship, tow


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of a few records that nobody writes to."""
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    new_graph(folder, FIRST)
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))


@pytest.fixture(params=["held", "shuffled"])
def left(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules that were left to SQL, of rows that are handled like many, in several parts or held by tasks.

    Stored rows of a merge are all compared, or those that a filter lets pass.
    """
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(key_filter, "MIN_ROWS_PER_KEY", 0 if request.param == "held" else sys.maxsize)
    if request.param == "shuffled":
        monkeypatch.setattr(proofs, "MAX_HELD_BYTES", -1)
    monkeypatch.setattr(proofs, "_TEXTS_PER_PARTITION", 2)
    found: list[str] = []

    def watched(
        executor: SparkExecutor, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable]
    ) -> tuple[SetRule, ...]:
        rest = find_unproven_merges(executor, rules, changed)
        found.extend(f"{rule.type}: {rule.rule}" for rule in rest)
        return rest

    monkeypatch.setattr(set_rules, "find_unproven_merges", watched)
    return found


RIGHT = (ship("d"), ship("e"), tow("d", "a"), tow("d", "e"), {"type": "Note", "data": {"text": "three"}})


@pytest.mark.usefixtures("spark")
def test_a_right_load_needs_no_sql(graph: Graph, tmp_path: Path, left: list[str]) -> None:
    graph.load(file_of(tmp_path / "more.jsonl", RIGHT), engine="spark")
    assert left == []
    assert len(content(graph)["Ship"]) == 5


WRONG: Mapping[LoadMode, tuple[Iterable[Mapping[str, object]], set[str]]] = {
    # There is a ship a, and a tow from b.
    "append": (
        (ship("a", "one"), ship("d", "one"), tow("a", "nobody"), tow("b", "b"), tow("b", "c")),
        {"Ship: @key(code)", "Ship: @unique(name)", "Tows: edge Tows: Ship -> Ship", "Tows: @card(0..2)"},
    ),
    "merge": (
        (ship("d"), ship("d", "twice"), ship("e", "name of c"), tow("b", "b"), tow("b", "c")),
        {"Ship: @key(code)", "Ship: @unique(name)", "Tows: @card(0..2)"},
    ),
    "overwrite": ((ship("b"),), {"Tows: edge Tows: Ship -> Ship", "About: edge About: Note -> Ship"}),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("mode", daily(WRONG, ["merge"]))
def test_what_is_wrong_is_never_shown_to_be_right(
    graph: Graph, tmp_path: Path, left: list[str], mode: LoadMode
) -> None:
    (records, rules), before = WRONG[mode], content(graph)
    with pytest.raises(ValidationError) as here:
        graph.load(list(records), mode=mode)
    with pytest.raises(ValidationError) as there:
        graph.load(file_of(tmp_path / "wrong.jsonl", records), mode=mode, engine="spark")
    assert rules <= set(left)
    assert _said(there.value) == _said(here.value) != Counter()
    assert content(graph) == before


def _said(error: ValidationError) -> Counter[tuple[str, str]]:
    return Counter((each.type, each.rule) for each in error.violations)


@pytest.mark.usefixtures("spark")
def test_what_a_merge_replaces_is_left_to_sql_only_if_values_move(
    graph: Graph, tmp_path: Path, left: list[str]
) -> None:
    # A ship keeps its name, one gets a name that nobody has, a ship gets a second tow.
    right = (ship("a", "Anna"), ship("b", crew=7), tow("b", "c"))
    graph.load(file_of(tmp_path / "more.jsonl", right), mode="merge", engine="spark")
    assert left == []
    # The ships exchange their names: only a join with the incoming ids tells that nobody keeps them.
    moved = (ship("a", "name of b"), ship("b", "Anna"))
    graph.load(file_of(tmp_path / "moved.jsonl", moved), mode="merge", engine="spark")
    assert left == ["Ship: @unique(name)"]
    assert codes(graph) == {"a": "name of b", "b": "Anna", "c": "name of c"}


# --------------------------------------------------------------------------------------------- one part


Texts: TypeAlias = "tuple[str, ...]"


@pytest.mark.parametrize(
    ("most", "counted", "there", "needed", "holds"),
    [
        (1, ("a", "b"), (), ("a", "a", "b"), True),
        (1, ("a", "b", "a"), (), (), False),
        # One that is only there may also be among those that are counted: a merge replaces it.
        (1, ("a",), ("a", "b"), ("b",), True),
        (1, ("a",), ("b",), ("a", "c"), False),
        (2, ("a", "a", "b"), (), (), True),
        (2, ("a", "a", "a"), (), (), False),
        (None, (), (), ("a",), False),
        (None, (), (), (), True),
    ],
)
def test_a_part_shows_no_more_than_is_so(
    most: int | None, counted: Texts, there: Texts, needed: Texts, holds: bool
) -> None:
    texts = dict(zip(proofs._Role, (counted, there, needed), strict=True))
    held = {proofs._ColumnRead(0, role, ("id",)): [pa.array(each, pa.string())] for role, each in texts.items()}
    (doubted,) = proofs._run_checks({0: most, 1: 1}, {}, proofs._pack_values(held, 1))
    assert doubted.to_pydict() == {"check": [] if holds else [0]}


# --------------------------------------------------------------------------------------------- parts of texts


@given(st.lists(st.text(max_size=40)), st.integers(1, 50), st.integers(0, 3))
def test_equal_texts_belong_to_the_same_part_wherever_they_lie(texts: list[str], parts: int, skipped: int) -> None:
    values = pa.array(["before"] * skipped + texts, pa.string()).slice(skipped)
    found = cast("list[int]", assign_partitions(values, parts).tolist())
    assert len(found) == len(texts)
    assert all(0 <= part < parts for part in found)
    alone = {text: int(assign_partitions(pa.array([text], pa.string()), parts)[0]) for text in texts}
    assert found == [alone[text] for text in texts]


@pytest.mark.parametrize("before", ["", "p", "https://example.org/things/"])
@pytest.mark.parametrize("after", ["", "/index.html"])
def test_parts_are_about_even(before: str, after: str) -> None:
    texts = join_texts(before, as_text(pa.array(np.arange(20_000))), after)
    counts = np.bincount(assign_partitions(texts, 20), minlength=20)
    assert 800 < counts.min() <= counts.max() < 1_200
