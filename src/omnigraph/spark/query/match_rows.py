"""Rows of a match as a DataFrame: which of its columns is the id, and which the properties, of each bound variable.

Columns have made-up names, each used once in a query. So the sides of a join never share a name, whatever they were
made from; and variables that differ only in case, which Spark would take for one, stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from omnigraph.language.query import Distance, TextMatch, TextScore
from omnigraph.read.context import QueryContext
from omnigraph.spark.source import SparkSnapshot

ID: Final = "id"
_MOST: Final = 2**31 - 1
"""The largest limit that Spark takes."""
_MOST_COUNTED: Final = 2**63 - 1
_NUMBER: Final = "number"


@dataclass(frozen=True, slots=True)
class Fusion:
    """What ``rrf`` means: two rankings, and the constant by which they are fused."""

    first: Distance | TextScore
    second: Distance | TextScore
    k: int


@dataclass(frozen=True, slots=True)
class RankNumber:
    """The number of an entity in a ranking of all entities of its type, 0 for the best."""

    ranking: Distance | TextScore


Attribute: TypeAlias = str | TextMatch | TextScore | Distance | RankNumber | Fusion
"""What is known of an entity: its id or a property by name, or what a search says of it."""
Slot: TypeAlias = tuple[str, Attribute]
"""A variable, and a trait of it."""
RESULT: Final = ""
"""In the place of a variable, for what a ranking says of rows; no variable has this name."""
RANK_SLOTS: Final[tuple[Slot, Slot]] = (RESULT, "distance"), (RESULT, "entity")
"""What the ranking of a row goes by."""


@dataclass(frozen=True, slots=True)
class SparkQueryContext:
    """One query: what is asked, where its rows are read, and names for the columns of its frames."""

    reading: QueryContext
    tables: SparkSnapshot
    column_names: Iterator[str] = field(default_factory=lambda: (f"c{number}" for number in count()))

    def new_column(self) -> str:
        """A name that no other column of the query has."""
        return next(self.column_names)


@dataclass(frozen=True, slots=True)
class MatchRows:
    """The rows of a match, and the column of each slot."""

    frame: DataFrame
    slots: Mapping[Slot, str]

    def id_of(self, variable: str) -> str:
        """The column of a variable's id."""
        return self.slots[variable, ID]

    def select_variables(self, variables: Iterable[str]) -> MatchRows:
        """The same rows, with the columns of some variables."""
        wanted = frozenset(variables)
        slots = {slot: column for slot, column in self.slots.items() if slot[0] in wanted}
        return MatchRows(self.frame.select(*slots.values()), slots)

    def where(self, condition: Column) -> MatchRows:
        """The rows that fulfil a condition."""
        return MatchRows(self.frame.where(condition), self.slots)

    def join(self, other: DataFrame, equal: Iterable[tuple[str, str]], bound: Mapping[Slot, str]) -> MatchRows:
        """Each row with those of another frame that have equal values in some columns, which bind more slots."""
        slots = {**self.slots, **bound}
        return MatchRows(self.frame.join(other, _all_equal(equal)).select(*slots.values()), slots)

    def left_join(self, other: DataFrame, equal: tuple[str, str], bound: Mapping[Slot, str]) -> MatchRows:
        """Each row with the one of another frame that has an equal value in a column, or with nulls."""
        slots = {**self.slots, **bound}
        return MatchRows(self.frame.join(other, _all_equal([equal]), "left").select(*slots.values()), slots)

    def with_column(self, slot: Slot, value: Column, column: str) -> MatchRows:
        """The rows with one more value, in a column of a new name."""
        return MatchRows(self.frame.withColumn(column, value), {**self.slots, slot: column})

    def semi_join(self, other: DataFrame, equal: Iterable[tuple[str, str]]) -> MatchRows:
        """The rows that have one or more such in another frame."""
        return MatchRows(self.frame.join(other, _all_equal(equal), "left_semi"), self.slots)


def _all_equal(columns: Iterable[tuple[str, str]]) -> Column:
    return reduce(Column.__and__, (fn.col(left) == fn.col(right) for left, right in columns))


def bind_rows(found: DataFrame, variable: str, properties: Iterable[str], asked: SparkQueryContext) -> MatchRows:
    """Rows of a type as those of a variable, with its id and some properties."""
    columns = {name: asked.new_column() for name in (ID, *properties)}
    slots: dict[Slot, str] = {(variable, name): column for name, column in columns.items()}
    return MatchRows(found.select(*(fn.col(name).alias(column) for name, column in columns.items())), slots)


def sort_rows(frame: DataFrame, order: Sequence[Column]) -> DataFrame:
    """The rows in an order, or as they are if there is none."""
    return frame.orderBy(*order) if order else frame


def take_first(frame: DataFrame, order: Sequence[Column], most: int) -> DataFrame:
    """The first rows in an order, or any rows if there is none."""
    if most <= _MOST:
        return sort_rows(frame, order).limit(most)
    # Spark has no other way to count that far, and one task sees all rows for it.
    so_far = Window.orderBy(*(order or [fn.lit(0)])).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = frame.withColumn(_NUMBER, fn.count(fn.lit(1)).over(so_far))
    return sort_rows(counted.where(fn.col(_NUMBER) <= fn.lit(min(most, _MOST_COUNTED))).drop(_NUMBER), order)
