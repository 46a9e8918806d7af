"""What search relies on in Lance: how words are analysed with and without an index, and what a distance is."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset
from lance.query import MatchQuery

from omnigraph.storage.tables import Access, IndexKind, Table, append, build_index, commit, create_table

TEXTS = pa.table({"id": ["a", "b"], "text": ["running foxes", "the"]})
MORE = pa.table({"id": ["c"], "text": ["A fox runs"]})


def texts(folder: Path, *, indexed: bool) -> Table:
    table = create_table(str(folder / "texts"), TEXTS, "op", Access())
    staged = build_index(table, "text", IndexKind.INVERTED) if indexed else None
    return table if staged is None else commit(table, staged, "op")


def found(dataset: LanceDataset, words: str, edits: int = 0) -> set[str]:
    query = MatchQuery(words, "text", fuzziness=edits)
    rows = dataset.scanner(columns=["id", "_score"], full_text_query=query).to_table()
    return set(cast("list[str]", rows["id"].to_pylist()))


def test_without_an_index_words_are_not_stemmed(tmp_path: Path) -> None:
    """So a column without one is indexed in memory."""
    assert found(texts(tmp_path, indexed=False).dataset, "fox") == set()
    assert found(texts(tmp_path / "with", indexed=True).dataset, "fox") == {"a"}


def test_rows_beyond_an_index_are_stemmed_as_it_does_but_not_searched_for_typing_errors(tmp_path: Path) -> None:
    """So an index must be complete for those."""
    table = texts(tmp_path, indexed=True)
    staged = append(table, MORE)
    assert staged is not None
    table = commit(table, staged, "op")
    assert found(table.dataset, "foxes") == {"a", "c"}
    assert found(table.dataset, "fo", 1) == {"a"}


def test_with_edits_the_words_are_taken_as_they_are_written(tmp_path: Path) -> None:
    """So they are stemmed before Lance gets them."""
    dataset = texts(tmp_path, indexed=True).dataset
    assert found(dataset, "running") == {"a"}
    assert found(dataset, "running", 1) == set()
    assert found(dataset, "run", 1) == {"a"}


def test_the_words_of_a_text_as_the_index_has_them() -> None:
    assert [token.text for token in lance.tokenize("The Running FOXES, Zürich")] == ["run", "fox", "zurich"]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_distance_is_squared(tmp_path: Path, indexed: bool) -> None:
    vectors = pa.array([[3.0, 4.0], None], pa.list_(pa.float32(), 2))
    table = create_table(str(tmp_path / "vectors"), pa.table({"id": ["a", "b"], "v": vectors}), "op", Access())
    staged = build_index(table, "v", IndexKind.IVF_FLAT) if indexed else None
    table = table if staged is None else commit(table, staged, "op")
    nearest = {"column": "v", "q": np.zeros(2, np.float32), "k": 5, "metric": "l2"}
    rows = table.dataset.scanner(columns=["id", "_distance"], nearest=cast("dict[str, object]", nearest)).to_table()
    assert rows.to_pylist() == [{"id": "a", "_distance": 25.0}]
