"""Convert a pandas frame to Arrow. A column of Python objects of several kinds is refused with its first odd value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Final, Protocol, cast

import pyarrow as pa

from omnigraph.errors import ParameterError

_MOST_SHOWN: Final = 80
_HINT: Final = "give all values of the column one type, or None where there is no value"


class PandasFrame(Protocol):
    """What is used of a frame. pandas itself is not imported for its type."""

    def items(self) -> Iterator[tuple[object, PandasColumn]]:
        """Yield the name and the values of each column."""
        ...


class PandasColumn(Protocol):
    """What is used of a column."""

    @property
    def dtype(self) -> object:
        """The type of the column; ``object`` for Python objects."""
        ...

    def tolist(self) -> list[object]:
        """Return the values."""
        ...


def convert_pandas(name: str, frame: PandasFrame) -> pa.Table:
    """Return the columns of a frame. Its index is not a property."""
    objects = {str(column): values.tolist() for column, values in frame.items() if values.dtype == object}
    for column, values in objects.items():
        row = _find_other_kind(values)
        if row is not None:
            raise _make_type_error(name, column, row, values[row])
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)  # pyright: ignore[reportArgumentType]  see PandasFrame
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        for column, values in objects.items():
            row = _find_unconvertible(values)
            if row is not None:
                raise _make_type_error(name, column, row, values[row]) from error
        raise ParameterError(f"{name} cannot be converted to Arrow: {error}", hint=_HINT) from error


def _make_type_error(name: str, column: str, row: int, value: object) -> ParameterError:
    shown = _shorten(repr(value))
    return ParameterError(
        f"{name}: column '{column}' has no single type: {shown} in row {row + 1} is {type(value).__name__}",
        hint=_HINT,
        details={"column": column, "row": row + 1, "value": shown},
    )


def _find_other_kind(values: Sequence[object]) -> int | None:
    """Return where a column first mixes dates with times, or strings with bytes, which Arrow would convert silently."""
    kinds = {type_: _kind_of(type_) for type_ in set(map(type, values))}
    for pair in ({"day", "time"}, {"bytes", "text"}):
        if pair <= set(kinds.values()):
            first = next(kinds[type(value)] for value in values if kinds[type(value)] in pair)
            return next(row for row, value in enumerate(values) if kinds[type(value)] in pair - {first})
    return None


def _kind_of(type_: type) -> str | None:
    """Return the kind of the values of a type, where there are kinds that Arrow does not tell apart."""
    if issubclass(type_, datetime):
        # The type of a missing time is derived from it too.
        return None if type_.__name__ == "NaTType" else "time"
    kinds = {date: "day", bytes: "bytes", str: "text"}
    return next((kind for base, kind in kinds.items() if issubclass(type_, base)), None)


def _can_convert(values: Sequence[object]) -> bool:
    try:
        pa.array(cast("Sequence[str]", values), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _find_unconvertible(values: Sequence[object]) -> int | None:
    """Return the last of the fewest first values that cannot be converted together; None if all can."""
    if _can_convert(values):
        return None
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if _can_convert(values[: middle + 1]):
            low = middle + 1
        else:
            high = middle
    return low


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
