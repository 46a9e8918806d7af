"""The best k: the storage is asked for little more than k rows, and the rows are those of ranking everything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.dataset import ScannerBuilder

from omnigraph.graph import Graph
from omnigraph.read.search import scores as search_module
from omnigraph.read.search import top_k as top_k_module
from omnigraph.read.search.text import TextIndex, TextQuery
from omnigraph.read.search.top_k import find_best_rows
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import Access, IndexKind, Table, WordSearch
from tests.read.profiles import find_operator
from tests.read.search.searched_graphs import DOC, SCHEMA, add, bm25, documents, make_search_context, text
from tests.selection import sized


@dataclass(frozen=True, slots=True)
class AskedScan:
    """One scan that Lance was asked for: its limit, its filter, and the number of rows that it gave."""

    limit: int | None
    where: str | None
    rows: int


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[AskedScan]:
    """The scans that Lance is asked for, searches among them. Indexes are used whatever the number of rows."""
    asked: list[AskedScan] = []
    to_scanner, to_reader = ScannerBuilder.to_scanner, lance.LanceScanner.to_reader
    made: dict[int, tuple[lance.LanceScanner, int | None, str | None]] = {}

    def making(self: ScannerBuilder) -> lance.LanceScanner:
        scanner = to_scanner(self)
        near = cast("Mapping[str, int]", self._nearest or {})
        if "__manifest" not in str(self.ds.uri):
            made[id(scanner)] = scanner, self._limit or near.get("k"), self._filter
        return scanner

    def reading(self: lance.LanceScanner) -> pa.RecordBatchReader:
        reader = to_reader(self)
        if id(self) not in made:
            return reader
        found = reader.read_all()
        asked.append(AskedScan(*made[id(self)][1:], found.num_rows))
        return found.to_reader()

    monkeypatch.setattr(search_module, "_FEW", 0)
    monkeypatch.setattr(ScannerBuilder, "to_scanner", making)
    monkeypatch.setattr(lance.LanceScanner, "to_reader", reading)
    return asked


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Indexed documents that no test changes."""
    return make_library(tmp_path_factory.mktemp("library"))


PARAMETERS = {"k": "$k: I32", "v": "$v: Vector(2)"}


def codes(graph: Graph, query: str, branch: str = "main", **params: object) -> list[str]:
    declared = ", ".join(PARAMETERS[name] for name in params)
    rows = graph.query(f"query q({declared}) {{ {query} }}", params=params, branch=branch).rows
    return [str(row["d.code"]) for row in cast("Sequence[Mapping[str, object]]", rows)]


def make_library(folder: Path, count: int = 400, *, index: bool = True) -> Graph:
    """Documents of which every fourth has the word fox once, more often the higher its number."""
    rows = [
        {
            "code": f"{n:03}",
            "body": " ".join(["fox"] * (n // 4 + 1) + ["dog"] * (100 - n // 4)) if n % 4 == 0 else "bird",
            "plain": "fox " * (n // 4 + 1) + "dog " * (100 - n // 4) if n % 4 == 0 else "bird",
            "shelf": n % 2,
            "vec": [float(n), 0.0],
        }
        for n in range(count)
    ]
    graph = documents(folder, rows)
    if index:
        graph.ensure_indexes()
    return graph


# --------------------------------------------------------------------------------------------- what is asked for

BEST_TEXTS = 'match { $d: Doc } return { $d.code, $d.shelf } order { bm25($d.body, "fox") } limit 3'


def test_the_best_texts_are_one_search_with_a_limit(library: Graph, scans: list[AskedScan]) -> None:
    codes(library, BEST_TEXTS)  # reads the statistics of the index once
    scans.clear()
    assert codes(library, BEST_TEXTS) == ["396", "392", "388"]
    assert [(scan.limit, scan.rows) for scan in scans] == [(5, 5)]


def test_their_scores_need_no_further_search(library: Graph, scans: list[AskedScan]) -> None:
    shown = BEST_TEXTS.replace("$d.shelf", 'bm25($d.body, "fox") as score')
    everything = make_search_context(library).search.find_texts(bm25(text("fox")), DOC)
    assert everything is not None
    columns = (column_of(everything, name) for name in ("id", InternalColumn.SCORE))
    scores = dict(zip(*map(to_list, columns), strict=True))
    scans.clear()
    rows = cast("Sequence[Mapping[str, object]]", library.query(f"query q() {{ {shown} }}").rows)
    assert [(row["d.code"], row["score"]) for row in rows] == [(code, scores[code]) for code in ("396", "392", "388")]
    assert len(scans) == 1


def test_a_match_of_the_same_words_is_part_of_the_ranking(library: Graph, scans: list[AskedScan]) -> None:
    query = BEST_TEXTS.replace("$d: Doc", '$d: Doc search($d.body, "fox")')
    assert codes(library, query) == ["396", "392", "388"]
    assert [(scan.limit, scan.rows) for scan in scans] == [(5, 5)]


def test_other_words_are_looked_for_first(library: Graph) -> None:
    assert codes(library, BEST_TEXTS.replace("$d: Doc", '$d: Doc search($d.body, "bird")')) == []
    assert codes(library, BEST_TEXTS.replace("$d: Doc", '$d: Doc search($d.plain, "dog")')) == ["396", "392", "388"]


def test_conditions_are_filters_of_the_search(library: Graph, scans: list[AskedScan]) -> None:
    assert codes(library, BEST_TEXTS.replace("$d: Doc", "$d: Doc { shelf: 0 }")) == ["396", "392", "388"]
    assert [(scan.limit, scan.where, scan.rows) for scan in scans] == [(5, "(`shelf` = 0)", 5)]


def test_where_rows_are_not_indexed_all_matches_are_scored(tmp_path: Path, scans: list[AskedScan]) -> None:
    graph = make_library(tmp_path)
    add(graph, [{"code": f"f{n}", "body": "fox fox", "shelf": n % 2} for n in range(9)])
    everything = codes(graph, BEST_TEXTS.replace("limit 3", ""))
    scans.clear()
    assert codes(graph, BEST_TEXTS) == everything[:3]
    assert (scans[0].limit, scans[0].where, scans[0].rows) == (None, None, 109), "the scores of Lance would be others"
    even = [code for code in everything if int(code[-1]) % 2 == 0]
    assert len(even) < len(everything)
    query = BEST_TEXTS.replace("$d: Doc", "$d: Doc { shelf: 0 }")
    scans.clear()
    assert codes(graph, query) == even[:3]
    assert not [scan for scan in scans if scan.limit]


def test_a_column_without_an_index_has_a_limit_too(tmp_path: Path, scans: list[AskedScan]) -> None:
    graph = make_library(tmp_path, index=False)
    query = BEST_TEXTS.replace("$d.body", "$d.plain")
    codes(graph, query)
    scans.clear()
    assert codes(graph, query) == ["396", "392", "388"]
    assert [(scan.limit, scan.rows) for scan in scans if scan.limit] == [(5, 5)]
    assert max(scan.rows for scan in scans) == 5


def test_the_nearest_are_one_search_with_a_limit(library: Graph, scans: list[AskedScan]) -> None:
    query = "match { $d: Doc } return { $d.code, nearest($d.vec, $v) as away } order { nearest($d.vec, $v) } limit 3"
    assert codes(library, query, v=[0.0, 0.0]) == ["000", "001", "002"]
    assert [(scan.limit, scan.rows) for scan in scans] == [(5, 5)]
    scans.clear()
    odd = query.replace("$d: Doc", "$d: Doc { shelf: 1 }")
    assert codes(library, odd, v=[0.0, 0.0]) == ["001", "003", "005"]
    assert [(scan.limit, scan.where, scan.rows) for scan in scans] == [(5, "(`shelf` = 1)", 5)]


def test_conditions_that_no_scan_decides_are_met_by_fetching_more(library: Graph, scans: list[AskedScan]) -> None:
    query = 'match { $d: Doc  $d.code matches "[05]$" } return { $d.code } order { nearest($d.vec, $v) } limit 3'
    codes(library, query, v=[0.0, 0.0])
    scans.clear()
    assert codes(library, query, v=[0.0, 0.0]) == ["000", "005", "010"]
    assert [(scan.limit, scan.rows) for scan in scans if scan.limit] == [(55, 55)], "a fifth of all rows"


def test_few_candidates_are_ranked_without_the_index(library: Graph, scans: list[AskedScan]) -> None:
    query = 'match { $d: Doc { code: "008" } } return { $d.code } order { nearest($d.vec, $v) } limit 3'
    assert codes(library, query, v=[0.0, 0.0]) == ["008"]
    assert not [scan for scan in scans if scan.limit]


def test_none_of_the_best_is_no_search(library: Graph, scans: list[AskedScan]) -> None:
    assert codes(library, BEST_TEXTS.replace("limit 3", "limit $k"), k=0) == []
    assert not [scan for scan in scans if scan.limit]


def test_profile_and_explain_name_the_way(library: Graph, scans: list[AskedScan]) -> None:
    plan = library.explain(f"query q() {{ {BEST_TEXTS} }}")
    assert "ranked by the storage" in plan
    assert "in the ranking above" in plan
    assert scans == [], "nothing is read to explain"
    profile = library.profile(f"query q() {{ {BEST_TEXTS} }}")
    ranked, scan = find_operator(profile, "TopRanked"), find_operator(profile, "Scan")
    assert (ranked["rows"], ranked["way"]) == (3, "ranked by the storage"), "not the eleven that the storage gave"
    assert (scan["rows"], scan["way"]) == (3, "in the ranking above")


def test_scores_of_a_few_nodes_are_searched_among_them(tmp_path: Path, scans: list[AskedScan]) -> None:
    graph = make_library(tmp_path)
    graph.mutate('query q() { insert Cites { from: "001", to: "008" } insert Cites { from: "001", to: "003" } }')
    query = """match { $a: Doc { code: "001" }  $a cites $d }
      return { $d.code, bm25($d.body, "fox") as score } order { $d.code }"""
    everything = make_search_context(graph).search.find_texts(bm25(text("fox")), DOC)
    assert everything is not None
    columns = (column_of(everything, name) for name in ("id", InternalColumn.SCORE))
    scores = dict(zip(*map(to_list, columns), strict=True))
    scans.clear()
    rows = cast("Sequence[Mapping[str, object]]", graph.query(f"query q() {{ {query} }}").rows)
    assert [(row["d.code"], row["score"]) for row in rows] == [("003", None), ("008", scores["008"])]
    assert [scan.rows for scan in scans if scan.where and "`id` IN" in scan.where][-1] == 1


# --------------------------------------------------------------------------------------------- ties and stale entries


@pytest.mark.parametrize("spare", [0, 1, 8])
def test_of_many_with_one_score_the_smallest_ids_are_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    monkeypatch.setattr(search_module, "_FEW", 0)
    monkeypatch.setattr(top_k_module, "_SPARE", spare)
    graph = documents(tmp_path, [{"code": f"{99 - n:02}", "body": "fox", "vec": [1.0, 1.0]} for n in range(100)])
    graph.ensure_indexes()
    for ranking in ('bm25($d.body, "fox")', "nearest($d.vec, $v)"):
        query = f"match {{ $d: Doc }} return {{ $d.code }} order {{ {ranking} }} limit 3"
        assert codes(graph, query, v=[0.0, 0.0]) == ["00", "01", "02"]
        assert codes(graph, query.replace("limit 3", "limit 5 offset 98"), v=[0.0, 0.0]) == ["98", "99"]


def test_an_index_that_is_older_than_a_compaction_gives_less_than_was_asked_for(tmp_path: Path) -> None:
    """Why an answer with too few rows is not taken for the whole."""
    rows = [{"id": f"{n:03}", "body": "fox " * (n % 10 + 1) + "dog " * (9 - n % 10)} for n in range(100)]
    table = tables.create_table(str(tmp_path / "t"), pa.Table.from_pylist(rows), "op", Access())
    staged = tables.build_index(table, "body", IndexKind.INVERTED)
    assert staged is not None
    table = tables.commit(table, staged, "index")
    table.dataset.delete("id LIKE '%8' OR id LIKE '%9'")
    table = table.open_at(None)
    compacted = tables.compact(table)
    assert compacted is not None
    table = tables.commit(table, compacted, "compaction")
    search = WordSearch(table, "body", "fox")
    assert search.count_entries() == 100
    assert search.read().num_rows == 80
    assert search.read(limit=10).num_rows < 10
    assert best_of(table, 5) == ["007", "017", "027", "037", "047"]


def best_of(table: Table, limit: int) -> list[object]:
    index = TextIndex(table, "body", is_private=False)
    found = find_best_rows(index.fetch_best(TextQuery("fox")), limit)
    assert found is not None
    return to_list(column_of(found.rows, "id").take(found.order_best(limit)))


# --------------------------------------------------------------------------------------------- against everything

WORDS = ["fox", "dog", "bird", "cow"]
bodies = st.one_of(st.none(), st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join))
places = st.one_of(st.none(), st.tuples(st.integers(-2, 2), st.integers(-2, 2)))
documents_ = st.dictionaries(
    st.integers(0, 30).map(lambda n: f"{n:02}"), st.tuples(bodies, places, st.integers(0, 1)), min_size=1, max_size=25
)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("put"), documents_),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 30).map(lambda n: f"{n:02}"), min_size=1, max_size=8)),
        st.tuples(st.sampled_from(["index", "optimize", "branch"]), st.none()),
    ),
    min_size=1,
    max_size=5,
)
Model = dict[str, tuple[str | None, tuple[int, int] | None, int]]

CONDITIONS: dict[str, set[int]] = {
    "": {0, 1},
    "$d.shelf = 1": {1},
    "$d.shelf + 0 = 1": {1},
    "$d.added is null  $d.shelf = 1": {1},
    "$d.added is not null": set(),
}
"""Clauses, and the shelves that satisfy them: pushed down, not pushed down, and of a column that the table may lack."""


@pytest.mark.costly
@settings(max_examples=sized(5, 120))
@given(
    documents_,
    histories,
    st.sampled_from([0, 1, 2, 3, 7, 100]),
    st.integers(0, 3),
    st.sampled_from(["fox", "dog bird", "zebra"]),
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
    st.sampled_from([0, 1, 8]),
)
def test_after_any_history_the_best_are_those_of_ranking_everything(
    first: Model,
    history: list[tuple[str, Model | set[str] | None]],
    limit: int,
    offset: int,
    words: str,
    place: tuple[int, int],
    spare: int,
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_FEW", 0)
        patch.setattr(search_module, "_LEAST_REDUCTION", 1)
        patch.setattr(top_k_module, "_SPARE", spare)
        patch.setattr(top_k_module, "_SPARE_CANDIDATES", spare)
        graph, model, branch = build(Path(folder), [("put", first), ("index", None), *history])
        for column in ("body", "plain"):
            scores = all_scores(graph, branch, column, words)
            assert scores.keys() == {
                code for code, (body, _, _) in model.items() if body and set(body.split()) & set(words.split())
            }
            for clauses, shelves in CONDITIONS.items():
                chosen = [code for code, (_, _, shelf) in model.items() if code in scores and shelf in shelves]
                best = sorted(chosen, key=lambda code: (-scores[code], code))[offset : offset + limit]
                ranking = f'bm25($d.{column}, "{words}")'
                tail = f"return {{ $d.code, {ranking} as s }} order {{ {ranking} }} limit $k offset {offset}"
                for matched in ("", f'search($d.{column}, "{words}")'):
                    query = f"match {{ $d: Doc  {clauses}  {matched} }} {tail}"
                    rows = graph.query(f"query q($k: I32) {{ {query} }}", params={"k": limit}, branch=branch).rows
                    found = [tuple(row.values()) for row in cast("Sequence[Mapping[str, object]]", rows)]
                    assert found == [(code, scores[code]) for code in best], query
        at = [float(n) for n in place]
        for clauses, shelves in CONDITIONS.items():
            away = {
                code: math.dist(at, where) for code, (_, where, shelf) in model.items() if where and shelf in shelves
            }
            best = sorted(away, key=lambda code: (away[code], code))[offset : offset + limit]
            tail = f"return {{ $d.code }} order {{ nearest($d.vec, $v) }} limit $k offset {offset}"
            assert codes(graph, f"match {{ $d: Doc  {clauses} }} {tail}", branch, k=limit, v=at) == best, clauses


def build(folder: Path, history: Sequence[tuple[str, Model | set[str] | None]]) -> tuple[Graph, Model, str]:
    """A graph after a history, what its last branch holds, and the name of that branch."""
    graph, model, branch = documents(folder), Model(), "main"
    for number, (step, given_) in enumerate(history):
        match given_:
            case dict():
                model |= given_
                put(graph, branch, given_)
            case set():
                for code in sorted(given_ & model.keys()):
                    del model[code]
                    graph.mutate(f'query q() {{ delete Doc where code = "{code}" }}', branch=branch)
            case None if step == "index":
                graph.ensure_indexes(branch)
            case None if step == "optimize":
                graph.optimize()
            case None:
                graph.create_branch(f"b{number}", branch)
                branch = f"b{number}"
    # The tables of a branch that is not written to have no such column.
    graph.apply_schema(SCHEMA.replace("shelf: I32?", "shelf: I32?\n  added: String?"))
    return graph, model, branch


def put(graph: Graph, branch: str, rows: Model) -> None:
    types = {"code": pa.string(), "body": pa.string(), "plain": pa.string(), "shelf": pa.int32()}
    given_ = [{"code": code, "body": body, "plain": body, "shelf": shelf} for code, (body, _, shelf) in rows.items()]
    vectors = [None if at is None else [float(n) for n in at] for _, at, _ in rows.values()]
    table = pa.Table.from_pylist(given_, pa.schema(types)).append_column(
        "vec", pa.array(vectors, pa.list_(pa.float32()))
    )
    graph.load(nodes={"Doc": table}, mode="merge", branch=branch)


def all_scores(graph: Graph, branch: str, column: str, words: str) -> dict[str, float]:
    """The scores of all rows, without a limit and without a condition."""
    ranking = f'bm25($d.{column}, "{words}")'
    query = f"query q() {{ match {{ $d: Doc }} return {{ $d.code, {ranking} as s }} order {{ {ranking} }} }}"
    rows = cast("Sequence[Mapping[str, object]]", graph.query(query, branch=branch).rows)
    return {str(row["d.code"]): float(str(row["s"])) for row in rows}
