"""Groups that are larger than the memory of their query: as rows in files, sorted by their keys, and merged again.

A row has the keys of a group, and what each aggregate knows of it. Rows with equal keys come one after the other when
sorted files are merged, so only the groups of one batch are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query import ResultColumn
from omnigraph.read.frames import Positions, find_rows, number_tuples, order_codes, repeat_numbers, take_rows
from omnigraph.read.memory import QueryMemory
from omnigraph.read.result.aggregate import (
    AggregateState,
    Groups,
    PresentValues,
    merge_equal_groups,
    merge_groups,
    number_values,
)
from omnigraph.read.result.row_sorter import RowSorter, SortColumn
from omnigraph.storage.columns import Values, column_of, compute, to_list

_TOTAL: Final = pa.decimal128(38)
"""A sum of integers of 64 bits may need 126."""


class SpilledGroups:
    """Groups of parts of the rows, in files. They have keys: without any there is one group."""

    def __init__(self, columns: Sequence[ResultColumn], key_count: int, memory: QueryMemory) -> None:
        self._columns = columns
        self._key_names = [f"key {number}" for number in range(key_count)]
        self._names: list[str] = []
        self._sorter = RowSorter([SortColumn(name, descending=False) for name in self._key_names], None, memory)

    def write(self, parts: Sequence[Groups]) -> None:
        """Write the groups of some parts to a file."""
        merged = merge_groups(parts, self._columns)
        self._names = merged.keys.column_names
        self._sorter.write_run(self._to_rows(merged))

    def read(self) -> Iterator[Groups]:
        """Yield the groups of all rows, some at a time."""
        # The last group of a batch may go on in the next one.
        last: pa.Table | None = None
        for batch in self._sorter.finish():
            rows = batch if last is None else pa.concat_tables([last, batch])
            begin = self._find_last_group(rows)
            if begin:
                yield self._merge(rows.slice(0, begin))
            last = self._to_rows(self._merge(rows.slice(begin)))
        if last is not None:
            yield self._to_groups(last)

    def close(self) -> None:
        """Free the files."""
        self._sorter.close()

    def _find_last_group(self, rows: pa.Table) -> int:
        _, numbers = number_tuples([number_values(column_of(rows, name)) for name in self._key_names])
        others = find_rows(numbers != numbers[-1])
        return int(others[-1]) + 1 if len(others) else 0

    def _merge(self, rows: pa.Table) -> Groups:
        return merge_equal_groups([self._to_groups(rows)], self._columns)

    def _to_rows(self, groups: Groups) -> pa.Table:
        columns: dict[str, Values] = {}
        for name, key in zip(self._key_names, groups.keys.column_names, strict=True):
            columns[name] = column_of(groups.keys, key)
        for number, state in enumerate(groups.states):
            columns[f"count {number}"] = cast("Values", pa.array(state.counts))
            if state.totals is not None:
                columns[f"total {number}"] = _write_totals(state.totals)
            if state.extremes is not None:
                columns[f"extreme {number}"] = state.extremes
            if state.listed is not None:
                columns[f"values {number}"], columns[f"weights {number}"] = _write_lists(state.listed)
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def _to_groups(self, rows: pa.Table) -> Groups:
        keys = rows.select(self._key_names).rename_columns(self._names)
        names, states = set(rows.column_names), list[AggregateState]()
        while f"count {len(states)}" in names:
            number = len(states)
            found = {
                what: column_of(rows, f"{what} {number}") if f"{what} {number}" in names else None
                for what in ("count", "total", "extreme", "values", "weights")
            }
            counts = cast("Values", found["count"]).to_numpy(zero_copy_only=False)
            totals = None if found["total"] is None else _read_totals(found["total"])
            values, weights = found["values"], found["weights"]
            listed = None if values is None or weights is None else _read_lists(values, weights)
            states.append(AggregateState(counts, totals, found["extreme"], listed))
        return Groups(rows.num_rows, keys, tuple(states))


def _write_totals(totals: Positions | np.ndarray[tuple[int], np.dtype[np.float64]]) -> Values:
    if totals.dtype.kind == "f":
        return cast("Values", pa.array(totals))
    if totals.dtype.kind == "O":
        return cast("Values", pa.array(cast("list[int]", totals.tolist()), _TOTAL))
    return cast("Values", pa.array(totals)).cast(_TOTAL)


def _read_totals(totals: Values) -> Positions:
    if pa.types.is_floating(totals.type):
        return totals.to_numpy(zero_copy_only=False)
    try:
        return totals.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        # More than 64 bits: integers of Python, as in the sums that they are merged with.
        return cast("Positions", np.array([int(cast("int", each)) for each in to_list(totals)], np.object_))


def _write_lists(listed: PresentValues) -> tuple[Values, Values]:
    """Return the values of each group, and the weights of these values, as lists."""
    order = order_codes(listed.numbers.view(np.uint64))
    offsets = pa.array(np.append(0, np.cumsum(np.bincount(listed.numbers, minlength=listed.groups))), pa.int32())
    weights = np.ones(len(order), np.int64) if listed.weights is None else take_rows(listed.weights, order)
    lists = (pa.ListArray.from_arrays(offsets, each) for each in (listed.values.take(order), pa.array(weights)))
    values, of_values = (cast("Values", each) for each in lists)
    return values, of_values


def _read_lists(values: Values, weights: Values) -> PresentValues:
    lengths = compute("list_value_length", values).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = compute("list_flatten", weights).to_numpy(zero_copy_only=False)
    is_weighted = bool((flat != 1).any())
    return PresentValues(
        compute("list_flatten", values), repeat_numbers(lengths), flat if is_weighted else None, len(lengths)
    )
