"""Find texts in a column: by hashing the whole column, or by binary search in a sorted order that is made once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.frame import Mask, Positions
from omnigraph.storage.columns import Values, compute, to_list

CompactPositions: TypeAlias = npt.NDArray[np.int32]
"""Positions as they are stored in bulk; a table has less than 2**31 rows in memory."""
ChunkedValues: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]]"
_ReadText: TypeAlias = Callable[[int], bytes]
"""Returns the bytes of the text at a position."""
_FEW_TEXTS: Final = 32
"""Up to so many, a search in Python is faster than the calls of Arrow that a search of all together needs."""

_MANY_TEXTS: Final = 100_000
"""From so many on, numbers made of the first bytes tell where to search."""
_KEY_BYTES: Final = 8
_KEYED_AT_ONCE: Final = 1_000_000
_SAMPLE: Final = 64
"""So many pairs of neighbours tell whether texts are in order."""


def find_positions(texts: Values | ChunkedValues, among: Values) -> CompactPositions:
    """Return the position of each text in an array of distinct values, or -1. This hashes all of ``among``."""
    if len(texts) <= _FEW_TEXTS and len(among) <= _FEW_TEXTS:
        places = {text: place for place, text in enumerate(to_list(among))}
        return np.array([places.get(text, -1) for text in to_list(cast("Values", texts))], np.int32)
    if pa.types.is_large_string(among.type) and not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    found = pc.call_function("index_in", [texts], pc.SetLookupOptions(among))
    filled = cast("Values | ChunkedValues", pc.fill_null(found, -1))
    return cast("CompactPositions", filled.to_numpy())


def find_distinct_texts(texts: Values) -> Values:
    """Return each text once, in the order of the first ones."""
    if len(texts) <= 1 or (len(texts) <= _FEW_TEXTS and len(set(to_list(texts))) == len(texts)):
        return texts
    return texts.unique()


def find_sorted(numbers: Positions, among: Positions) -> Mask:
    """Return whether each number is among sorted ones. For few numbers this is far cheaper than the sets of NumPy."""
    if not len(among):
        return np.zeros(len(numbers), np.bool_)
    at = np.minimum(among.searchsorted(numbers), len(among) - 1)
    return among[at] == numbers


@dataclass(frozen=True, slots=True)
class SortedTexts:
    """Distinct texts, and the order that sorts them by their bytes."""

    texts: Values
    order: npt.NDArray[np.int64]
    _keys: list[_TextKeys] = field(default_factory=list["_TextKeys"])
    """Made when many texts are searched."""
    _readers: list[_ReadText] = field(default_factory=list["_ReadText"])
    """Made when few texts are searched."""

    @property
    def nbytes(self) -> int:
        """The bytes of the order, and of the keys that it may get; the texts have their own cache entry."""
        return 2 * self.order.nbytes

    def locate(self, searched: Values) -> Positions:
        """Return the position of each text or -1: a few one by one, many by binary searches that advance together."""
        if len(searched) <= _FEW_TEXTS:
            texts = cast("list[str]", cast("pa.StringArray", searched).to_pylist())
            return np.array([self.locate_one(text) for text in texts], np.int64)
        searched = searched if searched.type == self.texts.type else searched.cast(self.texts.type)
        low, high = self._narrow(searched)
        widest = int((high - low).max(initial=0))
        # One place alone needs no search: whether its text is the one is compared in any case.
        for _ in range(widest.bit_length() if widest > 1 else 0):
            middle = np.minimum((low + high) >> 1, len(self.order) - 1)
            is_below = self._compare("less", middle, searched)
            low, high = np.where(is_below, middle + 1, low), np.where(is_below, high, np.minimum(middle, high))
        at = np.minimum(low, len(self.order) - 1)
        return np.where(self._compare("equal", at, searched), self.order[at], -1)

    def _narrow(self, searched: Values) -> tuple[Positions, Positions]:
        """Return between which places of the order each text is, if it is there."""
        if len(searched) < _MANY_TEXTS:
            return np.zeros(len(searched), np.int64), np.full(len(searched), len(self.order), np.int64)
        if not self._keys:
            self._keys.append(_TextKeys.make(self.texts, self.order))
        return self._keys[0].find(searched)

    def count_below(self, searched: Values) -> Positions:
        """Return for each text how many of these are smaller."""
        texts = cast("list[str]", cast("pa.StringArray", searched).to_pylist())
        return np.array([bisect_left(self.order, text.encode(), key=self._read_text) for text in texts], np.int64)

    def rank_texts(self) -> Positions:
        """Return the rank of each text by its bytes."""
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(len(self.order))
        return ranks

    def locate_one(self, text: str) -> int:
        """Return the position of a text, -1 if it is not there."""
        wanted, read = text.encode(), self._read_text
        at = bisect_left(self.order, wanted, key=read)
        if at == len(self.order) or read(self.order[at]) != wanted:
            return -1
        return int(self.order[at])

    @property
    def _read_text(self) -> _ReadText:
        if not self._readers:
            self._readers.append(_text_reader(self.texts))
        return self._readers[0]

    def _compare(self, how: str, places: Positions, searched: Values) -> npt.NDArray[np.bool_]:
        mask = compute(how, self.texts.take(self.order[places]), searched)
        return mask.to_numpy(zero_copy_only=False)


def _text_reader(texts: Values) -> _ReadText:
    """Return a function that gives the bytes of one text: a scalar of Arrow costs several times as much."""
    _, offsets, data = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    if offsets is None or not offsets.size:
        bounds: npt.NDArray[np.int64 | np.int32] = np.zeros(1, width)
    else:
        bounds = np.frombuffer(cast("memoryview", offsets), width)[texts.offset :]
    content = memoryview(b"" if data is None else data)

    def read(position: int) -> bytes:
        return bytes(content[bounds[position] : bounds[position + 1]])

    return read


@dataclass(frozen=True, slots=True)
class _TextKeys:
    """The eight bytes behind what all texts begin with, as numbers, in the order of the texts."""

    skipped: int
    numbers: npt.NDArray[np.uint64]
    are_distinct: bool

    @classmethod
    def make(cls, texts: Values, order: npt.NDArray[np.int64]) -> _TextKeys:
        read = _text_reader(texts)
        first, last = (read(int(order[0])), read(int(order[-1]))) if len(order) else (b"", b"")
        differs = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
        skipped = next(differs, min(len(first), len(last)))
        numbers = _read_keys(texts, skipped)[order]
        return cls(skipped, numbers, bool((numbers[1:] > numbers[:-1]).all()))

    def find(self, searched: Values) -> tuple[Positions, Positions]:
        """Return the places before and behind all texts with the same bytes."""
        wanted = _read_keys(searched, self.skipped)
        # Neighbours are found in the same pages of memory.
        arranged = np.argsort(wanted)
        sorted_ = wanted[arranged]
        low = np.empty(len(wanted), np.int64)
        low[arranged] = self.numbers.searchsorted(sorted_)
        if self.are_distinct:
            return low, low + 1
        high = np.empty(len(wanted), np.int64)
        high[arranged] = self.numbers.searchsorted(sorted_, "right")
        return low, high


def _read_keys(texts: Values, skipped: int) -> npt.NDArray[np.uint64]:
    """Return eight bytes of each text as a number that sorts like them; a text that is too short has zeros."""
    _, offsets, data = texts.buffers()
    keys = np.zeros(len(texts), np.uint64)
    if offsets is None or data is None or not len(data):
        return keys
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    bounds = np.frombuffer(cast("memoryview", offsets), width)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(cast("memoryview", data), np.uint8)
    for at in range(0, len(texts), _KEYED_AT_ONCE):
        part = slice(at, min(at + _KEYED_AT_ONCE, len(texts)))
        places, ends = bounds[part].astype(np.int64) + skipped, bounds[part.start + 1 : part.stop + 1]
        for _ in range(_KEY_BYTES):
            byte = content[np.minimum(places, len(content) - 1)] * (places < ends)
            keys[part] = keys[part] << np.uint64(8) | byte
            places += 1
    return keys


def mostly_ascend(texts: Values) -> bool:
    """Whether most texts are followed by a greater one, as far as a few of them tell: then a sort takes little time."""
    if len(texts) < 2:
        return True
    places = np.linspace(0, len(texts) - 2, min(_SAMPLE, len(texts) - 1)).astype(np.int64)
    ascend = compute("less", texts.take(places), texts.take(places + 1)).to_numpy(zero_copy_only=False)
    return bool(np.count_nonzero(ascend) * 10 >= len(ascend) * 9)


def sort_texts(texts: Values) -> SortedTexts:
    """Sort texts by their bytes."""
    order = cast("pa.UInt64Array", compute("array_sort_indices", texts))
    return SortedTexts(texts, order.to_numpy().astype(np.int64))
