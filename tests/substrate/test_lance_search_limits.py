"""What the search for the best k relies on: how Lance scores with a limit, with a filter, and with several indexes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import lance
import pyarrow as pa
import pytest
from lance.query import MatchQuery

WORDS = ("fox", "dog", "cat", "bird", "cow")


def make_docs(first: int, count: int) -> pa.Table:
    chance = Random(first)  # noqa: S311  no secret
    bodies = [" ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(count)]
    return pa.table(
        {"id": [f"{first + n:04}" for n in range(count)], "body": bodies, "shelf": [n % 3 for n in range(count)]}
    )


@pytest.fixture
def docs(tmp_path: Path) -> lance.LanceDataset:
    made = lance.write_dataset(make_docs(0, 300), tmp_path / "docs", enable_stable_row_ids=True)
    made.create_scalar_index("body", "INVERTED")
    return made


def scores_of(docs: lance.LanceDataset, limit: int | None = None, where: str | None = None) -> dict[str, float]:
    scanner = docs.scanner(
        columns=["id", "_score"],
        full_text_query=MatchQuery("fox cow", "body"),
        limit=limit,
        filter=where,
        prefilter=where is not None,
    )
    found = scanner.to_table().to_pydict()
    return dict(zip(found["id"], found["_score"], strict=True))


def on_shelf(docs: lance.LanceDataset, number: int) -> set[str]:
    found = docs.to_table(columns=["id"], filter=f"shelf = {number}")["id"].to_pylist()
    return {str(id_) for id_ in found}


@pytest.mark.parametrize("is_covered", [True, False])
def test_a_limit_changes_no_score(docs: lance.LanceDataset, is_covered: bool) -> None:
    if not is_covered:
        docs.insert(make_docs(300, 50))
    every = scores_of(docs)
    for limit in (1, 10, 100):
        best = scores_of(docs, limit)
        assert best.items() <= every.items()
        assert sorted(best.values()) == sorted(every.values())[-limit:]


def test_a_filter_changes_no_score_if_the_index_covers_all_rows(docs: lance.LanceDataset) -> None:
    kept = on_shelf(docs, 1)
    every = {id_: score for id_, score in scores_of(docs).items() if id_ in kept}
    assert scores_of(docs, where="shelf = 1") == every


def test_a_filter_changes_scores_of_rows_beyond_the_index(docs: lance.LanceDataset) -> None:
    """The reason why conditions are filters of a text search only if all rows are indexed. Red: they always can be."""
    docs.insert(make_docs(300, 50))
    kept = on_shelf(docs, 1)
    every = {id_: score for id_, score in scores_of(docs).items() if id_ in kept}
    assert scores_of(docs, where="shelf = 1") != every


def test_of_two_indexes_of_a_column_only_the_first_is_used(tmp_path: Path) -> None:
    """The reason why a text has no index for its parts beside others. Red: it can have one of each kind."""
    made = lance.write_dataset(make_docs(0, 300), tmp_path / "docs")
    made.create_scalar_index("body", "BTREE", name="first")
    made.create_scalar_index("body", "NGRAM", name="second")
    uses = {
        where: "ScalarIndexQuery" in made.scanner(columns=["id"], filter=where).explain_plan()
        for where in ("body = 'fox'", "starts_with(body, 'fox')", "body IS NULL", "contains(body, 'fox')")
    }
    assert uses == {
        "body = 'fox'": True,
        "starts_with(body, 'fox')": True,
        "body IS NULL": True,
        "contains(body, 'fox')": False,
    }
