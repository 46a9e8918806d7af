"""Steps over many rows, in parts: no call of NumPy or Arrow takes so many rows that a deadline is noticed late.

A deadline can be looked at only between two calls. So a step that takes all rows of a frame at once is written here
once, as calls for :data:`ROWS_AT_ONCE` rows each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.deadlines import check_deadline, wait_for
from omnigraph.storage.columns import Values, encode_values

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions in a set of entities, or row numbers of a frame."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint64]
"""Unsigned integers in the order of the values that they encode."""
RowRange: TypeAlias = "slice[int, int, None]"
"""The rows of one call."""
Number = TypeVar("Number", bound=np.generic)

ROWS_AT_ONCE: Final = 250_000
"""So many rows are copied in 3 ms, and hashed or evaluated in 30."""
_DENSE: Final = 4
"""Up to this many codes per row, an array over all codes is faster than hashing."""
_SORTED_PER_COPIED: Final = 4
"""So many times as many rows are sorted at once: NumPy sorts a million numbers in 50 ms, or in 10 with AVX-512."""
_HALVED_PER_COPIED: Final = 16
"""So many times as many rows are divided at their median at once, which takes 40 ms for 4 million."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Multiplied by it, numbers that are near each other differ in their first bits."""


def split_parts(count: int) -> Iterator[RowRange]:
    """Yield the rows of one call after the other. The deadline is looked at before each."""
    for begin in range(0, count, ROWS_AT_ONCE):
        check_deadline()
        yield slice(begin, min(begin + ROWS_AT_ONCE, count))


def split_groups(counts: Positions) -> Iterator[RowRange]:
    """Yield the rows of one call after the other, if rows are arranged in groups: of whole groups, at least one."""
    ends = np.cumsum(counts)
    begin, total = 0, int(ends[-1]) if len(ends) else 0
    while begin < total:
        check_deadline()
        # The group that ends last among the next rows, or else the one that begins here.
        last = int(np.searchsorted(ends, begin + ROWS_AT_ONCE, "right")) - 1
        end = int(ends[last]) if last >= 0 and ends[last] > begin else int(ends[np.searchsorted(ends, begin, "right")])
        yield slice(begin, end)
        begin = end


def take_rows(numbers: npt.NDArray[Number], rows: Positions) -> npt.NDArray[Number]:
    """Return the numbers of some rows."""
    if len(rows) <= ROWS_AT_ONCE:
        return numbers[rows]
    found = np.empty(len(rows), numbers.dtype)
    for part in split_parts(len(rows)):
        found[part] = numbers[rows[part]]
    return found


def concat_numbers(arrays: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    """Concatenate arrays."""
    count = sum(map(len, arrays))
    if count <= ROWS_AT_ONCE:
        return np.concatenate(arrays)
    found, end = np.empty(count, np.result_type(*arrays)), 0
    for each in arrays:
        for part in split_parts(len(each)):
            found[end + part.start : end + part.stop] = each[part]
        end += len(each)
    return found


def map_parts(count: int, work: Callable[[RowRange], npt.NDArray[Number]]) -> npt.NDArray[Number]:
    """Return the numbers that a function gives for all rows, one for each."""
    if count <= ROWS_AT_ONCE:
        return work(slice(0, count))
    return concat_numbers([work(part) for part in split_parts(count)])


def map_values(count: int, work: Callable[[RowRange], Values]) -> Values:
    """Return the values that a function gives for all rows, one for each."""
    if count <= ROWS_AT_ONCE:
        return work(slice(0, count))
    found = [work(part) for part in split_parts(count)]
    return wait_for(lambda: pa.concat_arrays(found))


def repeat_numbers(counts: Positions) -> Positions:
    """Return each number below the length of the counts as often as its count says."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if total <= ROWS_AT_ONCE:
        return np.repeat(np.arange(len(counts)), counts)
    found = np.empty(total, np.int64)
    for part in split_parts(total):
        # The first and the last of these numbers may have begun before and go on after them.
        first, last = (int(each) for each in np.searchsorted(ends, [part.start, part.stop - 1], "right"))
        stops = np.minimum(ends[first : last + 1], part.stop)
        found[part] = np.repeat(np.arange(first, last + 1), np.diff(stops, prepend=part.start))
    return found


def find_rows(mask: Mask) -> Positions:
    """Return the rows where a mask is true."""
    if len(mask) <= ROWS_AT_ONCE:
        return np.flatnonzero(mask)
    return concat_numbers([np.flatnonzero(mask[part]) + part.start for part in split_parts(len(mask))])


def mark_rows(rows: Positions, size: int) -> Mask:
    """Return a mask that is true at some rows."""
    mask = np.zeros(size, np.bool_)
    for part in split_parts(len(rows)):
        mask[rows[part]] = True
    return mask


def count_by_position(positions: Positions, weights: Positions | None, size: int) -> Positions:
    """Return the number of rows at each of ``size`` positions."""
    if weights is None and len(positions) <= ROWS_AT_ONCE:
        return np.bincount(positions, minlength=size)
    numbers = np.zeros(size, np.int64)
    for part in split_parts(len(positions)):
        # Its cost does not grow with the number of positions, as that of bincount does in each part.
        np.add.at(numbers, positions[part], 1 if weights is None else weights[part])
    return numbers


# --------------------------------------------------------------------------------------------- orders


def order_codes(codes: Codes) -> Positions:
    """Return the stable order of unsigned integers.

    A code and its row in one number: NumPy sorts numbers many times faster than it finds their order. Codes that need
    all bits are sorted by their last bits first.
    """
    if not len(codes):
        return np.zeros(0, np.int64)
    low = codes.min()
    width, row_bits = int(codes.max() - low).bit_length(), max(1, (len(codes) - 1).bit_length())
    code_bits = 64 - row_bits
    rows, mask = np.uint64(row_bits), np.uint64((1 << row_bits) - 1)
    order: Positions | None = None
    for done in range(0, width, code_bits):
        arranged = codes if order is None else take_rows(codes, order)
        shift, is_last = np.uint64(done), done + code_bits >= width
        kept = np.uint64((1 << (width - done if is_last else code_bits)) - 1)

        def pack(part: RowRange) -> Codes:
            digits = (arranged[part] - low >> shift) & kept  # noqa: B023  called at once, as below
            return digits << rows | np.arange(part.start, part.stop, dtype=np.uint64)

        packed = sort_numbers(map_parts(len(codes), pack))
        places = map_parts(len(packed), lambda part: (packed[part] & mask).view(np.int64))  # noqa: B023
        order = places if order is None else take_rows(order, places)
    return np.arange(len(codes)) if order is None else order


def sort_numbers(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return integers in ascending order. The array itself is sorted, or is of no use afterwards."""
    if len(numbers) <= _HALVED_PER_COPIED * ROWS_AT_ONCE:
        _sort_in_place(numbers)
        return numbers
    # A sample tells how to divide them into ranges of about the same size, which are sorted one by one.
    count = min(2**16, 2 * len(numbers) // (_HALVED_PER_COPIED * ROWS_AT_ONCE) + 1)
    sample = np.sort(numbers[:: max(1, len(numbers) // (64 * count))])
    bounds = sample[len(sample) * np.arange(1, count) // count]
    ranges = map_parts(len(numbers), lambda part: np.searchsorted(bounds, numbers[part], "right").astype(np.uint16))
    found = take_rows(numbers, sort_digits(ranges))
    begin = 0
    for end in np.cumsum(count_by_position(cast("Positions", ranges), None, count)).tolist():
        _sort_in_place(found[begin:end])
        begin = end
    return found


def _sort_in_place(numbers: npt.NDArray[Number]) -> None:
    check_deadline()
    if len(numbers) <= _SORTED_PER_COPIED * ROWS_AT_ONCE:
        numbers.sort()
        return
    middle = len(numbers) // 2
    numbers.partition(middle)
    _sort_in_place(numbers[:middle])
    _sort_in_place(numbers[middle:])


def sort_digits(digits: npt.NDArray[np.uint16]) -> Positions:
    """Return the stable order of numbers of 16 bits, for which NumPy uses a radix sort."""
    if len(digits) <= ROWS_AT_ONCE:
        return np.argsort(digits, kind="stable")
    size = int(digits.max()) + 1
    counts = count_by_position(cast("Positions", digits), None, size)
    # Where the next row of each digit belongs.
    places = np.cumsum(counts) - counts
    order = np.empty(len(digits), np.int64)
    for part in split_parts(len(digits)):
        rows = np.argsort(digits[part], kind="stable")
        arranged = digits[part][rows]
        here = np.bincount(arranged, minlength=size)
        order[(places - (np.cumsum(here) - here))[arranged] + np.arange(len(rows))] = rows + part.start
        places += here
    return order


# --------------------------------------------------------------------------------------------- equal numbers


def number_tuples(columns: Sequence[Positions]) -> tuple[Positions, Positions]:
    """Number the distinct tuples of some columns. Return the first row of each, and the number of each row's tuple."""
    first, numbers = number_codes(columns[0])
    for column in columns[1:]:
        check_deadline()
        if len(first) == len(numbers):
            # All rows are different already.
            break
        # Codes stay below the number of rows times the largest position, so they never overflow.
        width = int(column.max(initial=0)) + 1
        before = numbers
        codes = map_parts(len(numbers), lambda part: before[part] * width + column[part])  # noqa: B023  called at once
        first, numbers = number_codes(codes)
    return first, numbers


def sort_distinct(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct numbers in ascending order. NumPy's ``unique`` hashes them, which takes 20 times as long."""
    ascending = sort_numbers(numbers.copy())
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]


def find_distinct(numbers: Positions) -> tuple[Positions, Positions]:
    """Return the distinct numbers, in any order, and the place of each row's number among them."""
    first, places = number_codes(numbers)
    return take_rows(numbers, first), places


def number_codes(codes: Positions) -> tuple[Positions, Positions]:
    """Number the distinct codes of one column, without sorting, which would be far slower."""
    if _ascend(codes):
        # Such as all neighbours of one node: each code is there once.
        return np.arange(len(codes)), np.arange(len(codes))
    size = int(codes.max(initial=0)) + 1
    if size <= _DENSE * (len(codes) + 1):
        return _number_dense_codes(codes, size)
    if len(codes) <= ROWS_AT_ONCE:
        return _number_dense_codes(*_encode_codes(codes))
    return _number_in_buckets(codes)


def _ascend(numbers: Positions) -> bool:
    """Whether each number is greater than the one before."""
    pairs = split_parts(len(numbers) - 1)
    return all(bool((numbers[part.start + 1 : part.stop + 1] > numbers[part]).all()) for part in pairs)


def _encode_codes(codes: Positions) -> tuple[Positions, int]:
    encoded = encode_values(cast("Values", pa.array(codes)))
    return encoded, int(encoded.max(initial=0)) + 1


def _number_dense_codes(codes: Positions, size: int) -> tuple[Positions, Positions]:
    row_of = np.empty(size, np.int64)
    for part in split_parts(size):
        row_of[part] = -1
    for part in reversed(list(split_parts(len(codes)))):
        check_deadline()
        # Assigned in reverse, so that the first row of each code remains.
        row_of[codes[part][::-1]] = np.arange(part.start, part.stop)[::-1]
    present = concat_numbers([np.flatnonzero(row_of[part] >= 0) + part.start for part in split_parts(size)])
    first = take_rows(row_of, present)
    for part in split_parts(len(present)):
        row_of[present[part]] = np.arange(part.start, part.stop)
    return first, take_rows(row_of, codes)


def _number_in_buckets(codes: Positions) -> tuple[Positions, Positions]:
    """Number codes by hashing a part of them at a time: equal codes are in the same part."""
    bits = min(16, 1 + (len(codes) // ROWS_AT_ONCE).bit_length())
    shift = np.uint64(64 - bits)
    buckets = map_parts(len(codes), lambda part: (codes[part].view(np.uint64) * _MIX >> shift).astype(np.uint16))
    order = sort_digits(buckets)
    ends = np.cumsum(count_by_position(cast("Positions", buckets), None, 1 << bits))
    firsts, numbers, count, begin = list[Positions](), np.empty(len(codes), np.int64), 0, 0
    for end in ends.tolist():
        check_deadline()
        rows = order[begin:end]
        first, within = _number_dense_codes(*_encode_codes(codes[rows]))
        firsts.append(rows[first])
        numbers[rows] = within + count
        count, begin = count + len(first), end
    return concat_numbers(firsts), numbers
