"""Sort rows by their keys, null before every value, then by the ids of their variables.

Each key is evaluated only for the rows that the keys before it left tied. The ids, which break the last ties, are
long texts and rarely needed for more than a few rows. With a limit, rows that cannot be among the first are dropped
before anything is sorted.

Keys are encoded as unsigned integers in the same order. A text is encoded eight bytes at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.deadlines import check_deadline
from omnigraph.language.query import ColumnValue, Expression, Identity, PathFunction, PathValue, TypedOrderKey
from omnigraph.language.query.plan import ByRank, variables_of
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    Codes,
    EvaluationContext,
    Frame,
    Mask,
    OptionalEntities,
    PathSet,
    Positions,
    RowRange,
    arrow_type_of,
    concat_numbers,
    evaluate,
    find_rows,
    map_parts,
    map_values,
    number_tuples,
    order_codes,
    split_parts,
    take_rows,
)
from omnigraph.storage.columns import Values, column_of, compute, to_bool_array, to_list

_Pass: TypeAlias = Callable[[Positions], Codes]
"""One pass over a key: returns the codes of the values at some places."""

_CHUNK: Final = 8
"""Bytes of a text in one code."""
_CHUNKS: Final = 4
"""So many codes of a text are compared here, enough for the usual ids of 26 characters; the rest is left to Arrow."""
_SIGN: Final = np.uint64(1 << 63)
_ZERO, _ONE, _ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
_TEXT: Final = ValueType(Scalar.STRING)
_TEXTS: Final = ValueType(Scalar.STRING, is_list=True)


@dataclass(frozen=True, slots=True)
class _SortKey:
    """A sort key: its values for some rows, and its direction."""

    values: Callable[[Positions | None], Values]
    """Called with None for the values of all rows."""
    descending: bool = False

    def codes(self, pass_: _Pass, places: Positions) -> Codes:
        """Return the codes of a pass, inverted if the key is descending."""
        return ~pass_(places) if self.descending else pass_(places)


def sort_rows(
    frame: Frame,
    keys: Sequence[TypedOrderKey | ByRank],
    tie_break: Sequence[str],
    evaluation: EvaluationContext,
    limit: int | None = None,
) -> Positions:
    """Return the row numbers of a frame in order, or the first of them. Weights are ignored."""
    if keys and isinstance(keys[0], ByRank) and _ascend(frame.ranks):
        return np.arange(frame.num_rows if limit is None else min(limit, frame.num_rows))
    ties = list_ties(frame, tie_break)
    return _sort(frame.num_rows, [_make_frame_key(frame, key, evaluation) for key in (*keys, *ties)], limit)


def _ascend(ranks: Positions | None) -> bool:
    """Whether rows are in the order of their ranks, each with a rank of its own."""
    return ranks is not None and bool((ranks[1:] > ranks[:-1]).all())


def list_ties(frame: Frame, tie_break: Sequence[str]) -> list[TypedOrderKey]:
    """Return the keys that break ties by the ids of variables."""
    return [TypedOrderKey(_identify(frame, variable), descending=False) for variable in tie_break]


def _identify(frame: Frame, variable: str) -> Expression:
    """Return what tells the values of a variable apart: an id, or the nodes of a path."""
    entities = frame.bindings[variable].entities
    base = entities.base if isinstance(entities, OptionalEntities) else entities
    return PathValue(PathFunction.NODES, variable, _TEXTS) if isinstance(base, PathSet) else Identity(variable, _TEXT)


def sort_columns(table: pa.Table, keys: Sequence[tuple[str, bool]], limit: int | None = None) -> Positions:
    """Return the row numbers of a table in the order of some columns, each descending or not, or the first of them."""
    columns = [_sort_column(column_of(table, name), descending=descending) for name, descending in keys]
    return _sort(table.num_rows, columns, limit)


def sort_groups(table: pa.Table, keys: Sequence[TypedOrderKey | ByRank], limit: int | None = None) -> Positions:
    """Return the row numbers of a grouped table in order, or the first of them. All columns break ties."""
    stated = [_make_column_key(table, key) for key in keys]
    ties = [_sort_column(column_of(table, name), descending=False) for name in table.column_names]
    return _sort(table.num_rows, [*stated, *ties], limit)


# --------------------------------------------------------------------------------------------- keys


def _make_frame_key(frame: Frame, key: TypedOrderKey | ByRank, evaluation: EvaluationContext) -> _SortKey:
    if isinstance(key, TypedOrderKey):
        expression = key.expression
        narrow = frame.select(variables_of(expression))
        return _SortKey(
            lambda rows: _evaluate_key(expression, narrow if rows is None else narrow.take(rows), evaluation),
            key.descending,
        )
    ranks = frame.ranks
    assert ranks is not None, "a ranking below gives every row its rank"
    return _SortKey(lambda rows: cast("Values", pa.array(ranks if rows is None else ranks[rows])))


def _make_column_key(table: pa.Table, key: TypedOrderKey | ByRank) -> _SortKey:
    assert isinstance(key, TypedOrderKey)
    assert isinstance(key.expression, ColumnValue), "groups are sorted by their columns"
    return _sort_column(column_of(table, key.expression.name), descending=key.descending)


def _sort_column(column: Values, *, descending: bool) -> _SortKey:
    def values(rows: Positions | None) -> Values:
        found = column if rows is None else column.take(rows)
        return _rank_lists(found) if _is_list(found) else found

    return _SortKey(values, descending)


def _is_list(values: Values) -> bool:
    return pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)


def _rank_lists(lists: Values) -> Values:
    """Return the rank of each list, compared element by element; null for null."""
    items = to_list(lists)
    known = sorted({tuple(cast("list[float]", item)) for item in items if item is not None})
    ranks = {item: rank for rank, item in enumerate(known)}
    found = [None if item is None else ranks[tuple(cast("list[float]", item))] for item in items]
    return cast("Values", pa.array(found, pa.int64()))


def _evaluate_key(expression: Expression, frame: Frame, evaluation: EvaluationContext) -> Values:
    """Return the values of a key. A text that many rows share through their entity becomes its rank."""
    variables = variables_of(expression)
    populations = [frame.bindings[name].entities for name in variables]
    is_text = pa.types.is_string(arrow_type_of(expression))
    if not is_text or not variables or frame.num_rows <= sum(map(len, populations)):
        found = evaluate(expression, frame, evaluation)
        return _rank_lists(found) if _is_list(found) else found
    first, numbers = number_tuples([frame.bindings[name].positions for name in variables])
    ranks = _rank_texts(evaluate(expression, frame.take(first), evaluation))
    return map_values(len(numbers), lambda part: ranks.take(numbers[part]))


def _rank_texts(texts: Values) -> Values:
    """Return the rank of each text, equal for equal texts; null for null."""
    ranks = compute("rank", texts, options=pc.RankOptions("ascending", tiebreaker="dense"))
    return compute("if_else", compute("is_valid", texts), ranks, pa.scalar(None, pa.uint64()))


# --------------------------------------------------------------------------------------------- rows in order


def _sort(count: int, keys: Sequence[_SortKey], limit: int | None) -> Positions:
    """Return the numbers of the first rows in the order of the keys. The sort is stable."""
    size = count if limit is None else min(limit, count)
    if not keys or not size:
        return np.arange(size)
    # Rows of one run are tied so far. Only the last run may extend beyond the limit.
    rows = _find_candidates(count, keys[0], size)
    runs = np.zeros(len(rows), np.int64)
    place_of = np.empty(count, np.int64)
    for key in keys:
        tied = _find_tied(runs)
        if not len(tied):
            break
        chosen = take_rows(rows, tied)
        values = key.values(chosen)
        for part in split_parts(len(chosen)):
            place_of[chosen[part]] = np.arange(part.start, part.stop)
        for pass_ in _make_passes(values):
            check_deadline()
            tied = _find_tied(runs)
            if not len(tied):
                break
            rows, runs = _refine(rows, runs, tied, key.codes(pass_, take_rows(place_of, take_rows(rows, tied))), size)
    return rows[:size]


def _find_candidates(count: int, key: _SortKey, size: int) -> Positions:
    """Return the rows that can be among the first, by the first pass of the first key."""
    rows = np.arange(count)
    if size == count:
        return rows
    codes = key.codes(next(_make_passes(key.values(None))), rows)
    return find_rows(codes <= _find_threshold(codes, size))


def _find_threshold(codes: Codes, size: int) -> np.uint64:
    """Return the largest of the ``size`` smallest codes."""
    parts = [codes[part] for part in split_parts(len(codes))]
    if len(parts) > 1:
        # Only the smallest of each part can be among the smallest of all.
        codes = concat_numbers([np.partition(part, size - 1)[:size] if size < len(part) else part for part in parts])
    check_deadline()
    return np.partition(codes, size - 1)[size - 1]


def _find_tied(runs: Positions) -> Positions:
    """Return the places of the rows whose run has other rows."""
    same = runs[1:] == runs[:-1]
    return find_rows(np.append(same, False) | np.append(False, same))


def _refine(rows: Positions, runs: Positions, tied: Positions, codes: Codes, size: int) -> tuple[Positions, Positions]:
    """Sort the tied rows by their codes within each run, and drop the rows beyond the limit."""
    if len(rows) > size:
        begin = int(np.count_nonzero(runs < runs[-1]))
        last = np.count_nonzero(tied < begin)
        kept = codes[last:] <= _find_threshold(codes[last:], size - begin)
        rows, codes = np.append(rows[:begin], rows[begin:][kept]), np.append(codes[:last], codes[last:][kept])
        runs, tied = runs[: len(rows)], tied[: len(codes)]
    order = order_codes(codes)
    if runs[-1]:
        order = take_rows(order, order_codes(take_rows(runs, take_rows(tied, order)).view(np.uint64)))
    chosen, codes = take_rows(rows, take_rows(tied, order)), take_rows(codes, order)
    for part in split_parts(len(tied)):
        rows[tied[part]] = chosen[part]
    begins_run = np.diff(runs, prepend=runs[0]) != 0
    for part in split_parts(len(tied) - 1):
        begins_run[tied[1:][part]] |= codes[1:][part] != codes[:-1][part]
    runs = np.cumsum(begins_run)
    end = np.count_nonzero(runs <= runs[size - 1])
    return rows[:end], runs[:end]


# --------------------------------------------------------------------------------------------- codes


def _make_passes(values: Values) -> Iterator[_Pass]:
    """Yield the passes over values, the most significant first. Null has the code 0 in the first of them."""
    valid = to_bool_array(compute("is_valid", values))
    if pa.types.is_string(values.type):
        first, *others = _make_text_passes(values, valid)
        # No byte of a text is 255, so there is room for one code more.
        yield (
            (lambda places: np.where(take_rows(valid, places), first(places) + _ONE, _ZERO))
            if values.null_count
            else first
        )
        yield from others
        return
    codes = _encode_numbers(values)
    if values.null_count and valid.any():
        low, high = _find_bounds(codes, valid)
        if high - low == _ALL_BITS:
            yield lambda places: take_rows(valid, places).astype(np.uint64)
        else:
            encoded = codes
            codes = map_parts(len(codes), lambda part: np.where(valid[part], encoded[part] - low + _ONE, _ZERO))
    yield lambda places: take_rows(codes, places)


def _find_bounds(codes: Codes, valid: Mask) -> tuple[np.uint64, np.uint64]:
    """Return the smallest and the largest of the valid codes."""
    parts = [codes[part][valid[part]] for part in split_parts(len(codes)) if valid[part].any()]
    return min(part.min() for part in parts), max(part.max() for part in parts)


def _encode_numbers(values: Values) -> Codes:
    return map_parts(len(values), lambda part: _encode_part(values.slice(part.start, part.stop - part.start)))


def _encode_part(values: Values) -> Codes:
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if values.null_count:
        values = compute("coalesce", values, pa.scalar(0, pa.int8()).cast(values.type))
    numbers = values.to_numpy(zero_copy_only=False)
    match numbers.dtype.kind:
        case "f":
            # The bits of floats have their order once negative ones are inverted. Adding 0.0 makes both zeros equal.
            bits = (numbers.astype(np.float64) + 0.0).view(np.uint64)
            return np.where(bits & _SIGN, ~bits, bits | _SIGN)
        case "i":
            return numbers.astype(np.int64).view(np.uint64) ^ _SIGN
        case _:
            return numbers.astype(np.uint64)


def _make_text_passes(texts: Values, valid: Mask) -> Iterator[_Pass]:
    """Yield a pass for each eight bytes; texts that are tied after many of them are ranked by Arrow."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(cast("bytes", offsets), np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(
        np.int64
    )
    # In Arrow, a null may have bytes.
    begins, lengths = ends[:-1], np.where(valid, np.diff(ends), 0)
    held = np.frombuffer(b"" if data is None else cast("bytes", data), np.uint8)
    chunks = np.lib.stride_tricks.sliding_window_view(np.append(held, np.zeros(_CHUNK, np.uint8)), _CHUNK)
    longest = int(lengths.max(initial=0))
    for done in range(0, min(longest, _CHUNK * _CHUNKS), _CHUNK):
        yield partial(_encode_chunk, chunks, begins, lengths, done)
    if longest > _CHUNK * _CHUNKS:
        yield lambda places: _encode_numbers(_rank_texts(texts.take(places)))
    else:
        # A text and the same text followed by characters 0 have had the same codes.
        yield lambda places: take_rows(lengths, places).astype(np.uint64)


def _encode_chunk(
    chunks: npt.NDArray[np.uint8], begins: Positions, lengths: Positions, done: int, places: Positions
) -> Codes:
    """Encode the next bytes of texts, after those that are done, as one number, with zeros after the end."""

    def encode(part: RowRange) -> Codes:
        left = np.clip(lengths[places[part]] - done, 0, _CHUNK)
        found = chunks[np.where(left, begins[places[part]] + done, 0)].view(">u8")[:, 0].astype(np.uint64)
        beyond = (8 * (_CHUNK - left)).astype(np.uint64)
        # A shift by all 64 bits would do nothing.
        return np.where(left, found >> beyond % np.uint64(64) << beyond % np.uint64(64), np.uint64(0))

    return map_parts(len(places), encode)
