"""What a load changed in values so that they fit: counts and first rows of rounded columns, and integers as times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.write.load.rows.conversion import ConvertedColumn, IntegerTimes
from omnigraph.write.load.rows.positions import RowNumbers
from omnigraph.write.rounding import RoundedColumn, is_identifying

if TYPE_CHECKING:
    from omnigraph.write.load.rows.validation import ValidatedBatch


@dataclass(frozen=True, slots=True)
class ColumnConversion:
    """The rounded rows of a column, the text of a value as it was given, and the integers that became times."""

    rounded: RowNumbers
    show: Callable[[int], str]
    times: IntegerTimes | None = None


def note_conversion(
    conversions: dict[str, ColumnConversion], name: str, converted: ConvertedColumn, show: Callable[[int], str]
) -> None:
    """Keep what a conversion changed, if it changed anything."""
    if len(converted.rounded) or converted.times is not None:
        conversions[name] = ColumnConversion(converted.rounded, show, converted.times)


@dataclass(frozen=True, slots=True)
class RoundingPolicy:
    """Which values must not be rounded: all if the load is strict, else those that identify a row.

    ``identity`` has the columns by which the load finds stored rows, by table key.
    """

    is_strict: bool = False
    identity: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def refuses(self, type_: NodeType | EdgeType, name: str) -> bool:
        """Whether a rounded value of a property rejects its row."""
        return self.is_strict or is_identifying(type_, name) or name in self.identity.get(type_.table_key, ())


@dataclass(slots=True)
class ConversionReport:
    """What a load rounded, and the integers that it took as times, by table key and property."""

    rounded: dict[tuple[str, str], RoundedColumn] = field(default_factory=dict[tuple[str, str], RoundedColumn])
    times: dict[tuple[str, str], IntegerTimes] = field(default_factory=dict[tuple[str, str], IntegerTimes])

    def add(self, batch: ValidatedBatch) -> None:
        """Count what was changed in a batch."""
        for column in batch.rounded:
            self.add_rounded(column)
        for name, times in batch.times.items():
            self.add_times(batch.type.table_key, name, times)

    def add_rounded(self, column: RoundedColumn) -> None:
        """Count rounded values that follow the others."""
        key = (column.table_key or "", column.property)
        known = self.rounded.get(key)
        self.rounded[key] = column if known is None else replace(known, count=known.count + column.count)

    def add_times(self, table_key: str, name: str, times: IntegerTimes) -> None:
        """Count integers that were taken as times."""
        known = self.times.get((table_key, name))
        self.times[table_key, name] = times if known is None else known + times

    def list_rounded(self) -> tuple[RoundedColumn, ...]:
        """Return the rounded columns, sorted by table and property."""
        return tuple(self.rounded[key] for key in sorted(self.rounded))

    def list_notes(self, types: Iterable[NodeType | EdgeType]) -> tuple[str, ...]:
        """Return a note for each column whose integers look like seconds."""
        names: dict[str, str] = {type_.table_key: type_.name for type_ in types}
        return tuple(
            f"{names[key]}.{name}: every integer ({times.count}) is in January 1970 as milliseconds; "
            "if they are seconds, multiply them by 1000"
            for (key, name), times in sorted(self.times.items())
            if times.january == times.count
        )


def find_accepted(conversion: ColumnConversion, rejected_rows: Sequence[int]) -> RowNumbers:
    """Return the rounded rows of a column that were not rejected."""
    return np.setdiff1d(conversion.rounded, np.array(rejected_rows, np.int64))
