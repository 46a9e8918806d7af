"""How values come back: dates, strings, distances, words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.query import MatchQuery

MOMENT = datetime(2024, 5, 1, 10, 30, tzinfo=UTC)
MILLISECONDS = int(MOMENT.timestamp() * 1000)


def test_a_date64_made_from_a_datetime_loses_the_time() -> None:
    assert pa.array([MOMENT], pa.date64()).cast(pa.int64()).to_pylist() == [1714521600000]


def test_a_date64_made_from_milliseconds_keeps_them_in_lance(tmp_path: Path) -> None:
    moments = pa.array([MILLISECONDS, MILLISECONDS + 1], pa.int64()).cast(pa.date64())
    dataset = lance.write_dataset(pa.table({"at": moments}), str(tmp_path / "t"))
    dataset.create_scalar_index("at", "BTREE")
    assert dataset.schema.field("at").type == pa.date64()
    found = dataset.to_table(filter=f"at > cast({MILLISECONDS} as timestamp(3))")["at"]
    assert found.cast(pa.int64()).to_pylist() == [MILLISECONDS + 1]
    assert found.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [MILLISECONDS + 1]


def test_string_views_come_back_as_strings(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"s": pa.array(["x"], pa.string_view())}), str(tmp_path / "t"))
    assert dataset.schema.field("s").type == pa.string()


def test_the_distance_of_l2_is_squared(tmp_path: Path) -> None:
    vectors = pa.array([[0.0, 3.0]], pa.list_(pa.float32(), 2))
    dataset = lance.write_dataset(pa.table({"v": vectors}), str(tmp_path / "t"))
    found = dataset.to_table(nearest={"column": "v", "q": [0.0, 0.0], "k": 1})
    assert found["_distance"].to_pylist() == [9.0]


def test_words_without_an_index_raise_or_match_without_stems(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"text": ["running ships"]}), str(tmp_path / "t"))
    with pytest.raises(ValueError, match="unless an INVERTED index has been created"):
        dataset.to_table(full_text_query="ship")
    stem = MatchQuery("ship", "text")
    assert dataset.to_table(full_text_query=stem).num_rows == 0
    dataset.create_scalar_index("text", "INVERTED")
    assert dataset.to_table(full_text_query=stem).num_rows == 1


def test_a_filter_quotes_a_name_in_backticks(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"fooBar": [1, 2]}), str(tmp_path / "t"))
    assert dataset.count_rows("`fooBar` > 1") == 1
    assert dataset.to_table(filter="'fooBar' = 'fooBar'").num_rows == 2, "single quotes make a text"


def test_null_in_a_column_that_forbids_it_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False)])
    dataset = lance.write_dataset(schema.empty_table(), str(tmp_path / "t"))
    with pytest.raises(OSError, match="contained null values"):
        lance.write_dataset(pa.table({"id": pa.array([None], pa.string())}), dataset, mode="append")
