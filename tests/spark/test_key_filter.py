"""A filter of keys contains all of them, and few others."""

from __future__ import annotations

from functools import reduce
from typing import cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.spark.key_filter import KeyFilter, can_filter_keys

Text = st.one_of(st.none(), st.text(max_size=20))


@given(st.lists(st.lists(st.text(max_size=20)), max_size=4), st.lists(Text), st.integers(3, 14))
def test_a_key_is_always_found_and_a_null_never(given_: list[list[str]], others: list[str | None], log: int) -> None:
    filters = [KeyFilter.of([pa.array(keys, pa.string())], 1 << log) for keys in given_]
    whole = reduce(KeyFilter.__or__, filters, KeyFilter.of((), 1 << log))
    asked = [key for keys in given_ for key in keys] + others
    found = cast("list[int]", whole.find(pa.array(asked, pa.string())).tolist())
    assert found == sorted(found)
    assert set(range(sum(map(len, given_)))) <= set(found)
    assert all(asked[at] is not None for at in found)


def test_few_other_keys_pass() -> None:
    keys = pa.array([f"id:{number:026}" for number in range(40_000)])
    filter_ = KeyFilter.of([keys.slice(0, 1_000)], 1 << 15)
    assert 1_000 <= len(filter_.find(keys)) < 1_000 + 39_000 // 16


def test_a_filter_is_for_few_keys_among_many_rows() -> None:
    assert can_filter_keys(10, 1_000)
    assert not can_filter_keys(10, 20)
    assert not can_filter_keys(10_000_000, 10**12)
