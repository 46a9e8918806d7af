"""Spilled rows: all of them come back, and rows with the same string are in one partition."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.write.spill import spill_partitions, spill_rows

SCHEMA = pa.schema([pa.field("text", pa.string()), pa.field("number", pa.int64())])


def pieces(texts: list[list[str | None]]) -> list[pa.Table]:
    return [
        pa.table(
            [pa.array(["before", *piece], pa.string()), pa.array(range(len(piece) + 1), pa.int64())], schema=SCHEMA
        )[1:]
        for piece in texts
    ]


def rows(tables: list[pa.Table]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


TEXTS = st.lists(st.lists(st.none() | st.text(max_size=20) | st.sampled_from(["a", "b"])))


@given(TEXTS, st.integers(1, 5))
def test_rows_with_the_same_string_are_in_one_partition(texts: list[list[str | None]], parts: int) -> None:
    given_ = pieces(texts)
    found = spill_partitions(SCHEMA, given_, "text", parts)
    assert len(found) == parts
    assert sorted(map(repr, rows(found))) == sorted(map(repr, rows(given_)))
    seen = [{text for text, _ in rows([part]) if text is not None} for part in found]
    assert sum(len(part) for part in seen) == len(set[object]().union(*seen))


@given(TEXTS)
def test_a_stream_comes_back_in_its_order(texts: list[list[str | None]]) -> None:
    assert rows([spill_rows(SCHEMA, pieces(texts))]) == rows(pieces(texts))


def test_many_texts_are_spread_evenly() -> None:
    many = pa.table(
        [pa.array([f"person-{number}" for number in range(100_000)]), pa.array(range(100_000))], schema=SCHEMA
    )
    sizes = [part.num_rows for part in spill_partitions(SCHEMA, [many], "text", 7)]
    assert max(sizes) < 1.2 * min(sizes)
