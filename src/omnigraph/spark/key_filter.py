"""Leave out stored rows that no incoming row can match, before they are shuffled: a Bloom filter with one hash.

The keys of incoming rows set bits, in tasks; this process joins the bits and sends them to the tasks that read the
stored rows. So a merge of few rows reads the keys of a large table, but sends next to none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import FragmentTask, SparkExecutor
from omnigraph.spark.shuffle import hash_texts
from omnigraph.spark.sized_frames import divide_fragments
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.tables import Table, estimate_stored_row_bytes
from omnigraph.write.load import RowNumbers

MAX_FILTERED_KEYS: Final = 4_000_000
"""The bits of more keys would be too many to send through this process."""
MIN_ROWS_PER_KEY: Final = 4
"""With fewer stored rows for each key a filter would leave out too few of them."""
_MAX_BITS: Final = 1 << 25
_BITS_PER_KEY: Final = 32
"""One key in so many passes by chance, or one in eight if there are as many as possible."""
_BITS_IN_A_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The keys that some rows may have, a bit for each hash."""

    bits: bytes

    @classmethod
    def of(cls, keys: Sequence[pa.StringArray], size: int) -> KeyFilter:
        """Return a filter of so many bits, a power of two, that contains these keys."""
        bits = np.zeros(size, np.bool_)
        for each in keys:
            bits[_find_bits(each, size)] = True
        return cls(np.packbits(bits).tobytes())

    def __or__(self, other: KeyFilter) -> KeyFilter:
        """Return a filter with the keys of both."""
        own, others = (np.frombuffer(each.bits, np.uint8) for each in (self, other))
        return KeyFilter((own | others).tobytes())

    def find(self, keys: pa.StringArray) -> RowNumbers:
        """Return the positions of the keys that it contains, and of some that it does not. Nulls are left out."""
        packed = np.frombuffer(self.bits, np.uint8)
        at = _find_bits(keys, len(packed) * _BITS_IN_A_BYTE)
        found = packed[at >> 3] & (np.uint8(128) >> (at & 7).astype(np.uint8)) != 0
        if keys.null_count:
            found &= keys.is_valid().to_numpy(zero_copy_only=False)
        return np.flatnonzero(found)


@dataclass(frozen=True, slots=True)
class KeySource:
    """Fragments of a table with their row counts, and the task that yields the keys of their rows in a column."""

    table: Table
    fragments: Mapping[int, int]
    task: FragmentTask
    column: str


def can_filter_keys(keys: int, stored: int) -> bool:
    """Return whether it costs less to leave out stored rows by the keys of incoming ones than to shuffle all."""
    return keys <= MAX_FILTERED_KEYS and keys * MIN_ROWS_PER_KEY <= stored


def collect_key_filter(executor: SparkExecutor, sources: Sequence[KeySource], count: int) -> KeyFilter:
    """Read keys on executors, at most ``count``, and return a filter that contains all of them."""
    size = min(_MAX_BITS, 1 << max(_BITS_IN_A_BYTE, (count * _BITS_PER_KEY - 1).bit_length()))
    pieces = [
        (number, group)
        for number, source in enumerate(sources)
        for group in divide_fragments(source.fragments, estimate_stored_row_bytes(source.table), executor.parallelism)
    ]
    found = executor.run(partial(_set_bits, sources, size), pieces)
    return reduce(KeyFilter.__or__, found, KeyFilter.of((), size))


def _set_bits(sources: Sequence[KeySource], size: int, piece: tuple[int, Sequence[int]]) -> KeyFilter:
    """Task over fragments: return a filter of their keys."""
    number, fragments = piece
    source = sources[number]
    keys = [column_of(batch, source.column).drop_null() for batch in source.task(source.table, fragments)]
    return KeyFilter.of(cast("list[pa.StringArray]", keys), size)


def _find_bits(keys: Values | pa.StringArray, size: int) -> RowNumbers:
    # The highest bits of a hash are mixed best.
    shift = np.uint64(64 - (size.bit_length() - 1))
    return (hash_texts(cast("pa.StringArray", keys)) >> shift).astype(np.int64)
