"""Distances and the nearest: exact, ties by id, the same with an index and without one."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import EmbeddingError
from omnigraph.graph import Graph
from omnigraph.language.query.ast import ComparisonOperator
from omnigraph.language.query.plan.operators import NodeScan, TopRanked
from omnigraph.language.query.typed_tree import Compare, Constant, ParameterValue, PropertyValue
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.search import scores as search_module
from omnigraph.read.search import top_k
from omnigraph.read.search.embedding import EmbeddingSettings, create_embedder
from omnigraph.read.search.scores import execute_top_ranked
from omnigraph.read.search.top_k import RankedRows, find_best_rows
from omnigraph.read.search.vectors import Vector, compute_distances, fetch_nearest
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.tables import Table
from omnigraph.write.indexes import ensure_indexes
from tests.read.search.embedding_server import Answer, serve_embeddings
from tests.read.search.searched_graphs import (
    DOC,
    TEXT,
    VECTOR,
    add,
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

I32 = ValueType(Scalar.I32, nullable=True)


def vectors_of(rows: list[list[float] | None], dimension: int) -> Values:
    return column_of(pa.table({"v": pa.array(rows, pa.list_(pa.float32(), dimension))}), "v")


# --------------------------------------------------------------------------------------------- distances


def test_distances_are_those_of_the_stored_floats_in_double_precision() -> None:
    generator = np.random.default_rng(7)
    matrix = generator.normal(size=(5_000, 40)).astype(np.float32)
    rows: list[list[float] | None] = [None if at % 7 == 3 else row for at, row in enumerate(matrix.tolist())]
    query = matrix[5]
    found = compute_distances(vectors_of(rows, 40), query)
    for at, row in enumerate(rows):
        if row is None:
            assert math.isnan(found[at])
        else:
            assert found[at] == pytest.approx(math.dist(row, query.tolist()), rel=1e-12)
    assert found[5] == 0


def test_a_slice_of_a_column_has_its_own_distances() -> None:
    column = vectors_of([[9.0, 9.0], None, [3.0, 4.0], [0.0, 1.0]], 2)
    assert compute_distances(column.slice(1, 2), np.zeros(2, np.float32))[1] == 5
    assert np.isnan(compute_distances(column.slice(1, 1), np.zeros(2, np.float32))).all()


def test_large_numbers_do_not_overflow() -> None:
    assert compute_distances(vectors_of([[3e38, 0.0]], 2), np.array([-3e38, 0.0], np.float32))[0] == pytest.approx(6e38)


# --------------------------------------------------------------------------------------------- scores and ranks

PLACES: dict[str, list[float] | None] = {"a": [3.0, 4.0], "b": [0.0, 1.0], "c": None, "d": [1.0, 0.0], "e": [0.0, 0.0]}


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Documents that no test changes."""
    rows = [{"code": code, "vec": place, "body": code, "shelf": 1} for code, place in PLACES.items()]
    return documents(tmp_path_factory.mktemp("docs"), rows)


def test_the_euclidean_distance_of_each_row(docs: Graph) -> None:
    rows = partial_table(docs, list(PLACES))
    found = make_search_context(docs).search.score(nearest(vector(0.0, 0.0)), frame_of(rows, [0, 1, 2, 3, 4, 0]))
    assert to_list(found) == [5.0, 1.0, None, 1.0, 0.0, 5.0]


def test_a_null_vector_is_near_to_nothing(docs: Graph) -> None:
    search = make_search_context(docs, {"q": None}).search
    query = ParameterValue("q", VECTOR)
    assert set(to_list(search.score(nearest(query), frame_of(full_table(docs))))) == {None}
    assert len(search.rank_top(nearest(query), full_table(docs), np.arange(5), 3)) == 0


@pytest.mark.parametrize(("limit", "expected"), [(None, "ebda"), (9, "ebda"), (2, "eb"), (3, "ebd"), (1, "e"), (0, "")])
def test_the_best_come_first_then_the_smallest_id(docs: Graph, limit: int | None, expected: str) -> None:
    rows = partial_table(docs, ["d", "c", "a", "b", "e"])
    best = make_search_context(docs).search.rank_top(nearest(vector(0.0, 0.0)), rows, np.arange(5), limit)
    assert "".join(ids_of(rows, best)) == expected


def test_only_candidates_are_ranked(docs: Graph) -> None:
    rows = partial_table(docs, ["d", "c", "a", "b", "e"])
    best = make_search_context(docs).search.rank_top(nearest(vector(0.0, 0.0)), rows, np.array([1, 2, 0]), 2)
    assert ids_of(rows, best) == ["d", "a"]


def test_all_rows_of_an_entity_share_its_rank(docs: Graph) -> None:
    rows = partial_table(docs, ["a", "b", "c", "d"])
    frame = frame_of(rows, [0, 1, 1, 2, 3, 0])
    plan = TopRanked(NodeScan("d", "Doc", ()), nearest(vector(0.0, 0.0)), Constant(2, I32))
    found = execute_top_ranked(frame, plan, make_search_context(docs))
    assert ids_of(rows, found.bindings["d"].positions) == ["b", "b", "d"]
    assert found.ranks is not None
    assert found.ranks.tolist() == [0, 0, 1]


# --------------------------------------------------------------------------------------------- by the index


def on_shelf(number: int) -> Compare:
    return Compare(PropertyValue("d", "shelf", I32), ComparisonOperator.EQUAL, Constant(number, I32))


def find_nearest_rows(table: Table, column: str, query: Vector, limit: int) -> RankedRows | None:
    return find_best_rows(fetch_nearest(table, column, query), limit)


grid = st.one_of(
    st.none(), st.tuples(st.integers(-2, 2), st.integers(-2, 2)).map(lambda place: [float(n) for n in place])
)


@settings(max_examples=sized(6, 60))
@given(
    st.lists(st.tuples(grid, st.integers(0, 1)), min_size=1, max_size=40),
    st.lists(st.tuples(grid, st.integers(0, 1)), max_size=10),
    st.sets(st.integers(0, 20), max_size=5),
    st.integers(1, 12),
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
)
def test_by_the_index_and_by_hand_the_same_are_nearest(
    before: list[tuple[list[float] | None, int]],
    after: list[tuple[list[float] | None, int]],
    deleted: set[int],
    limit: int,
    place: tuple[int, int],
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_FEW", 0)
        patch.setattr(top_k, "_SPARE", 1)
        rows = {f"{n:02}": {"code": f"{n:02}", "vec": at, "shelf": shelf} for n, (at, shelf) in enumerate(before)}
        graph = documents(Path(folder), list(rows.values()))
        ensure_indexes(graph._manifest, "main")
        later = {
            f"{n * 3:02}": {"code": f"{n * 3:02}", "vec": at, "shelf": shelf} for n, (at, shelf) in enumerate(after)
        }
        if later:
            add(graph, list(later.values()))
        rows |= later
        for code in sorted({f"{n:02}" for n in deleted} & rows.keys()):
            graph.mutate(f'query q() {{ delete Doc where code = "{code}" }}')
            del rows[code]
        candidates = sorted(code for code, row in rows.items() if row["shelf"] == 1)
        query = [float(n) for n in place]
        expected = sorted(
            (math.dist(query, at), code) for code in candidates if isinstance(at := rows[code]["vec"], list)
        )[:limit]
        if not candidates:
            return
        population = partial_table(graph, candidates)
        plan = TopRanked(NodeScan("d", "Doc", (on_shelf(1),)), nearest(vector(*query)), Constant(limit, I32))
        found = execute_top_ranked(frame_of(population), plan, make_search_context(graph))
        ranks = found.ranks
        assert ranks is not None
        order = np.argsort(ranks)
        assert ids_of(population, found.bindings["d"].positions[order]) == [code for _, code in expected]


def test_of_many_that_are_equally_near_the_smallest_ids_are_taken(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": f"{299 - n:03}", "vec": [1.0, 1.0]} for n in range(300)])
    ensure_indexes(graph._manifest, "main")
    rows = find_nearest_rows(graph.snapshot().table(DOC), "vec", np.zeros(2, np.float32), 3)
    assert rows is not None
    assert {"000", "001", "002"} <= set(to_list(column_of(rows.rows, "id")))


def test_what_single_precision_cannot_tell_apart_is_ranked_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_k, "_SPARE", 1)
    base = 4096.0
    near = [float(np.nextafter(np.float32(base), np.float32(0), dtype=np.float32))]
    places = [[base + n * 2**-11, 0.0] for n in range(60)]
    graph = documents(tmp_path, [{"code": f"{59 - n:02}", "vec": place} for n, place in enumerate(places)])
    ensure_indexes(graph._manifest, "main")
    table = graph.snapshot().table(DOC)
    query = np.array([-near[0], 0.0], np.float32)
    rows = find_nearest_rows(table, "vec", query, 5)
    assert rows is not None
    exact = {f"{59 - n:02}": math.dist(place, query.tolist()) for n, place in enumerate(places)}
    by_distance = sorted(exact, key=lambda code: (exact[code], code))[:5]
    assert to_list(column_of(rows.rows, "id").take(rows.order_best(5))) == by_distance


def test_distances_beyond_single_precision_are_left_to_the_exact_way(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": f"a{n:02}", "vec": [float(n), 0.0]} for n in range(30)])
    ensure_indexes(graph._manifest, "main")
    add(graph, [{"code": f"b{n:02}", "vec": [3e38 - n * 1e36, 0.0]} for n in range(30)])
    assert find_nearest_rows(graph.snapshot().table(DOC), "vec", np.array([-3e38, 0.0], np.float32), 2) is None


# --------------------------------------------------------------------------------------------- texts to be near to


def test_a_text_is_embedded_once_for_the_whole_query(docs: Graph) -> None:
    body = b'{"data": [{"index": 0, "embedding": [0.0, 2.0]}]}'
    with serve_embeddings(lambda _, __: Answer(body=body)) as server:
        search = make_search_context(docs, embed=EmbeddingSettings("openai-compatible", server.url, "m")).search
        ranking = nearest(text("words"))
        rows = partial_table(docs, ["a", "b", "d"])
        assert ids_of(rows, search.rank_top(ranking, rows, np.arange(3), 2)) == ["b", "d"]
        assert to_list(search.score(ranking, frame_of(rows, [1]))) == [0.0]
    assert [asked.texts for asked in server.asked] == [["words"]]
    assert server.asked[0].body["dimensions"] == 2


def test_the_recorded_model_is_asked_for_and_another_refused(tmp_path: Path) -> None:
    graph = documents(tmp_path, [{"code": "a", "body": "fox"}])
    mock = EmbeddingSettings("mock", model="m2")
    with pytest.raises(EmbeddingError, match="by the model 'm1'"):
        make_search_context(graph, embed=mock).search.score(nearest(text("x"), "gist"), frame_of(full_table(graph)))
    vectors = create_embedder(EmbeddingSettings("mock"), None).vectors(["fox", "dog"], 4)
    graph.mutate(
        'query q($g: Vector(4)) { update Doc set { gist: $g } where code = "a" }', params={"g": vectors[0].tolist()}
    )
    found = make_search_context(graph, embed=EmbeddingSettings("mock")).search.score(
        nearest(text("dog"), "gist"), frame_of(full_table(graph))
    )
    expected = math.dist(vectors[0].tolist(), vectors[1].tolist())
    assert to_list(found) == pytest.approx([expected])


def test_a_provider_that_is_down_fails_the_query(docs: Graph) -> None:
    down = EmbeddingSettings("openai-compatible", "http://127.0.0.1:9/v1", "m", attempts=1)
    with pytest.raises(EmbeddingError, match="cannot be reached"):
        make_search_context(docs, embed=down).search.rank_top(
            nearest(Constant("words", TEXT)), full_table(docs), np.arange(5), 2
        )
