"""Rankings fused: as the plan's own words say it, whatever the frames are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.language.query.plan.operators import Fuse, NodeScan, TopRanked
from omnigraph.language.query.typed_tree import Constant, FusedScore
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.frames.entity_sets import FullTable, PartialTable
from omnigraph.read.frames.frame import EntityColumn, Frame
from omnigraph.read.search.fusion import find_ranks, fuse_frames
from omnigraph.read.search.scores import execute_fuse, execute_top_ranked
from omnigraph.storage.columns import to_list
from tests.read.search.searched_graphs import (
    NUMBER,
    bm25,
    documents,
    frame_of,
    full_table,
    ids_of,
    make_search_context,
    nearest,
    partial_table,
    text,
    vector,
)
from tests.selection import sized

I64 = ValueType(Scalar.I64)
CODES = "abcdef"


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Documents that no test changes: by distance a to f, by words f, d and b."""
    words = {"b": "fox one two three", "d": "fox fox one", "f": "fox fox fox"}
    rows = [{"code": code, "vec": [float(at), 0.0], "body": words.get(code)} for at, code in enumerate(CODES)]
    return documents(tmp_path_factory.mktemp("docs"), rows)


def test_places_among_the_best() -> None:
    best, none = np.array([7, 2, 5]), np.zeros(0, np.int64)
    assert find_ranks(best, np.array([2, 5, 7, 3, 9, 0])).tolist() == [1, 2, 0, -1, -1, -1]
    assert find_ranks(none, np.array([2, 5])).tolist() == [-1, -1]
    assert find_ranks(best, none).tolist() == []


# --------------------------------------------------------------------------------------------- fused

Row = tuple[str, str, int]
"""The fused entity, another entity, and the rank."""


def oracle(arms: Sequence[Sequence[Row]], k: int, limit: int | None) -> list[tuple[int, str, str]]:
    """The definition of ``Fuse``, row by row: the fused rank and both entities of each row that is left."""
    numbers = [
        {code: n for n, code in enumerate(dict.fromkeys(code for _, code in sorted((r, c) for c, _, r in arm)))}
        for arm in arms
    ]
    best = sorted(
        set[str]().union(*numbers),
        key=lambda code: (
            -sum(1 / (k + arm[code] + 1) for arm in numbers if code in arm),
            *(arm.get(code, float("inf")) for arm in numbers),
        ),
    )[:limit]
    return sorted(
        (rank, code, other)
        for rank, code in enumerate(best)
        for found, other, _ in next(arm for arm, known in zip(arms, numbers, strict=True) if code in known)
        if found == code
    )


def framed(rows: Sequence[Row], one: PartialTable | FullTable, other: PartialTable | FullTable) -> Frame:
    def binding(population: PartialTable | FullTable, codes: list[str]) -> EntityColumn:
        known = ids_of(population, np.arange(len(population)))
        return EntityColumn(population, np.array([known.index(code) for code in codes], np.int64))

    bindings = {
        "d": binding(one, [row[0] for row in rows]),
        "e": binding(other, [row[1] for row in rows]),
    }
    return Frame(len(rows), bindings, ranks=np.array([row[2] for row in rows], np.int64))


ranked_rows = st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from(CODES), st.integers(0, 4)), max_size=10)


@settings(max_examples=sized(25, 600))
@given(
    st.lists(st.tuples(ranked_rows, st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=4),
    st.integers(1, 60),
    st.one_of(st.none(), st.integers(0, 7)),
)
def test_the_rows_and_ranks_of_the_definition(
    docs: Graph, arms: list[tuple[list[Row], int, int]], k: int, limit: int | None
) -> None:
    # The same entities, numbered in other ways: the fusion must not take positions of one for those of the other.
    sets = full_table(docs), partial_table(docs, CODES), partial_table(docs, CODES[::-1])
    frame, scores = fuse_frames([framed(rows, sets[one], sets[other]) for rows, one, other in arms], "d", k, limit)
    assert frame.ranks is not None
    bound = [frame.bindings[name] for name in ("d", "e")]
    ids = [ids_of(each.entities, each.positions) for each in bound]  # pyright: ignore[reportArgumentType]  either
    assert sorted(zip(frame.ranks.tolist(), *ids, strict=True)) == oracle([rows for rows, _, _ in arms], k, limit)
    assert len(scores.entities) == len({row[0] for rows, _, _ in arms for row in rows})


def test_rows_keep_their_weights(docs: Graph) -> None:
    rows = full_table(docs)
    weighted = Frame(1, {"d": EntityColumn(rows, np.array([0]))}, np.array([5]), np.array([0]))
    plain = Frame(1, {"d": EntityColumn(rows, np.array([1]))}, None, np.array([0]))
    frame, _ = fuse_frames([weighted, plain], "d", 60, None)
    assert (frame.total_rows, frame.num_rows) == (6, 2)


# --------------------------------------------------------------------------------------------- rrf

NEAR, WORDS = nearest(vector(0.0, 0.0)), bm25(text("fox"))
RRF = FusedScore((NEAR, WORDS), Constant(60, I64), NUMBER)


def rrf(docs: Graph, limit: int) -> tuple[Frame, list[float | None]]:
    """Both arms as the executor runs them, fused, and the score that the result would show."""
    asked, rows = make_search_context(docs), full_table(docs)
    scan = NodeScan("d", "Doc", ())
    plans = TopRanked(scan, NEAR, Constant(limit, I64)), TopRanked(scan, WORDS, None)
    arms = [execute_top_ranked(frame_of(rows), plan, asked) for plan in plans]
    frame = execute_fuse(arms, Fuse(plans, "d", RRF.k, Constant(limit, I64)), asked)
    assert frame.ranks is not None
    frame = frame.take(np.argsort(frame.ranks))
    return frame, [None if each is None else float(str(each)) for each in to_list(asked.search.score(RRF, frame))]


def test_both_rankings_count(docs: Graph) -> None:
    # By distance a b c; by words f d b: only b is in both.
    frame, scores = rrf(docs, 3)
    rows = full_table(docs)
    assert ids_of(rows, frame.bindings["d"].positions) == ["b", "a", "f"]
    assert scores == [1 / 62 + 1 / 63, 1 / 61, 1 / 61]


def test_a_score_that_nothing_was_ordered_by_is_that_among_all(docs: Graph) -> None:
    rows = partial_table(docs, ["c", "b"])
    found = to_list(make_search_context(docs).search.score(RRF, frame_of(rows, [0, 1, 0])))
    assert found == [1 / 63, 1 / 62 + 1 / 63, 1 / 63]


def test_another_rrf_than_the_one_that_ordered_has_its_own_score(docs: Graph) -> None:
    asked, rows = make_search_context(docs), full_table(docs)
    plan = TopRanked(NodeScan("d", "Doc", ()), NEAR, Constant(1, I64))
    best = execute_top_ranked(frame_of(rows), plan, asked)
    frame = execute_fuse([best, best], Fuse((plan, plan), "d", RRF.k, Constant(1, I64)), asked)
    assert to_list(asked.search.score(RRF, frame)) == [1 / 61]
    assert to_list(asked.search.score(FusedScore((NEAR, NEAR), RRF.k, NUMBER), frame)) == [2 / 61]


def test_what_neither_ranking_has_has_no_score(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": "a"}, {"code": "b", "vec": [1.0, 1.0]}])
    found = make_search_context(graph).search.score(RRF, frame_of(partial_table(graph, ["a", "b"])))
    assert to_list(found) == [None, 1 / 61]
