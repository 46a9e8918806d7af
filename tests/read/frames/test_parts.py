"""Steps that are done in parts give what NumPy gives for all rows at once, and look at the deadline in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph.deadlines import Deadline
from omnigraph.read.frames import parts
from omnigraph.read.frames.parts import (
    concat_numbers,
    count_by_position,
    find_distinct,
    find_rows,
    mark_rows,
    number_codes,
    number_tuples,
    order_codes,
    repeat_numbers,
    sort_digits,
    sort_distinct,
    sort_numbers,
    split_groups,
    take_rows,
)

SIZES = [0, 1, 6, 7, 8, 50, 500]


class CountedLooks(Deadline):
    """A deadline that counts how often it is looked at."""

    count = 0

    def check(self) -> None:
        self.count += 1


def count_looks(work: Callable[[], object]) -> int:
    with CountedLooks() as deadline:
        work()
    return deadline.count


@pytest.fixture(autouse=True, params=[7, 250_000], ids=["in parts", "at once"])
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", request.param)


@pytest.fixture(params=SIZES)
def numbers(request: pytest.FixtureRequest) -> npt.NDArray[np.int64]:
    size: int = request.param
    return np.random.default_rng(size).integers(0, max(1, size // 2), size)


def test_rows_are_copied(numbers: npt.NDArray[np.int64]) -> None:
    order = np.random.default_rng(1).permutation(len(numbers))
    assert take_rows(numbers, order).tolist() == numbers[order].tolist()
    assert concat_numbers([numbers, order, numbers[:3]]).tolist() == [*numbers, *order, *numbers[:3]]
    assert find_rows(numbers > 2).tolist() == np.flatnonzero(numbers > 2).tolist()
    assert np.flatnonzero(mark_rows(numbers, 300)).tolist() == sorted(set(numbers.tolist()))
    assert repeat_numbers(numbers).tolist() == np.repeat(np.arange(len(numbers)), numbers).tolist()


def test_rows_are_counted(numbers: npt.NDArray[np.int64]) -> None:
    weights = np.arange(len(numbers))
    large = weights * 2**50
    assert count_by_position(numbers, None, 300).tolist() == np.bincount(numbers, minlength=300).tolist()
    assert count_by_position(numbers, weights, 300).tolist() == np.bincount(numbers, weights, 300).tolist()
    assert sum(count_by_position(numbers, large, 300).tolist()) == sum(large.tolist())


@pytest.mark.parametrize("bits", [1, 16, 40, 64])
@pytest.mark.parametrize("size", SIZES)
def test_orders_are_stable(size: int, bits: int) -> None:
    chance = np.random.default_rng(size)
    codes = chance.integers(0, 2**bits - 1, size, np.uint64, endpoint=True)
    codes[: size // 2] = codes[size - size // 2 :]
    assert order_codes(codes).tolist() == np.argsort(codes, kind="stable").tolist()
    assert sort_numbers(codes.copy()).tolist() == sorted(codes.tolist())
    kept = codes.copy()
    assert sort_distinct(codes).tolist() == sorted(set(codes.tolist()))
    assert codes.tolist() == kept.tolist()
    digits = codes.astype(np.uint16)
    if size:
        assert sort_digits(digits).tolist() == np.argsort(digits, kind="stable").tolist()


@pytest.mark.parametrize("width", [1, 1_000, 2**40])
def test_equal_codes_have_equal_numbers(numbers: npt.NDArray[np.int64], width: int) -> None:
    codes = numbers * width
    first, found = number_codes(codes)
    distinct, places = find_distinct(codes)
    assert sorted(set(found.tolist())) == list(range(len(first)))
    assert codes[first][found].tolist() == distinct[places].tolist() == codes.tolist()
    assert first.tolist() == [codes.tolist().index(code) for code in codes[first].tolist()]
    pairs = list(zip(codes.tolist(), (numbers % 3).tolist(), strict=True))
    first, found = number_tuples([codes, numbers % 3])
    assert [pairs[row] for row in first[found]] == pairs
    assert len(first) == len(set(pairs))


def test_groups_stay_together(numbers: npt.NDArray[np.int64]) -> None:
    ranges = list(split_groups(numbers))
    ends = {0, *np.cumsum(numbers).tolist()}
    assert [row for each in ranges for row in range(each.start, each.stop)] == list(range(sum(numbers.tolist())))
    assert {each.stop for each in ranges} <= ends
    # Only a group alone is larger than a call may be.
    assert all(
        each.stop - each.start <= parts.ROWS_AT_ONCE or not ends & set(range(each.start + 1, each.stop))
        for each in ranges
    )


def test_a_look_for_each_part(request: pytest.FixtureRequest) -> None:
    size, at_once = 500, parts.ROWS_AT_ONCE
    codes = np.random.default_rng(1).integers(0, 2**40, size)
    works: list[Callable[[], object]] = [
        lambda: take_rows(codes, np.arange(size)),
        lambda: concat_numbers([codes, codes]),
        lambda: find_rows(codes > 5),
        lambda: repeat_numbers(np.full(size, 2)),
        lambda: number_codes(codes),
        lambda: number_codes(np.arange(size)),
        lambda: count_by_position(np.arange(size), None, size),
        lambda: count_by_position(np.arange(size), codes, size),
        lambda: order_codes(codes.view(np.uint64)),
        lambda: list(split_groups(np.ones(size, np.int64))),
    ]
    for work in works:
        looks = count_looks(work)
        assert looks >= size // at_once, request.node.name


def test_a_sort_is_divided_where_it_is_long() -> None:
    codes = np.random.default_rng(2).integers(0, 2**40, 112).view(np.uint64)
    assert count_looks(lambda: sort_numbers(codes)) >= 112 // (4 * parts.ROWS_AT_ONCE)
    assert codes.tolist() == sorted(codes.tolist())
