"""The rows of a match as a DataFrame: which column holds which attribute of which variable.

Columns have generated names that are unique in a query. So the two sides of a join never share a column name, and
variables whose names differ only in case, which Spark treats as equal, stay apart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from omnigraph.errors import ParameterError
from omnigraph.language.query import Distance, TextMatch, TextScore, TraversalDirection
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.context import QueryContext
from omnigraph.spark.sized_frames import MIN_PARTITION_BYTES, SizedFrame, count_partitions, join_pairs
from omnigraph.spark.source import SparkSnapshot
from omnigraph.spark.spool import Spool

ID: Final = "id"
MARK: Final = "mark"
"""The attribute of a mark that holds its value."""
_MAX_LIMIT: Final = 2**31 - 1
"""The largest limit that Spark accepts."""
_MAX_COUNT: Final = 2**63 - 1
_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_log = logging.getLogger("omnigraph")
_NUMBER: Final = "number"
PAIR_BYTES: Final = 64
"""The size of a pair of ids, about."""
MAX_WALK_ROUNDS: Final = "spark.omnigraph.maxWalkRounds"
"""The setting of a Spark session that limits walks without an upper bound."""
_DEFAULT_ROUNDS: Final = 32
UNKNOWN_ROWS: Final = 2**62
"""The size of frames that nobody knows: too many rows for a broadcast."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """The arguments of ``rrf``: rankings, and the constant k."""

    arms: tuple[Distance | TextScore, ...]
    k: int


@dataclass(frozen=True, slots=True)
class RankNumber:
    """The position of an entity in a ranking of all entities of its type, 0 for the best."""

    ranking: Distance | TextScore


Attribute: TypeAlias = str | TextMatch | TextScore | Distance | RankNumber | Fusion
"""A value that an entity has in a query: its id or a property, by name, or the result of a search."""
Slot: TypeAlias = tuple[str, Attribute]
"""A variable, and an attribute of it."""
RESULT: Final = ""
"""Stands for the variable in slots that belong to the row itself, such as its rank. No variable has this name."""
RANK_SLOTS: Final[tuple[Slot, Slot]] = (RESULT, "distance"), (RESULT, "entity")
"""The sort key of a ranked row: the distance, then the id of the entity."""


@dataclass(frozen=True, slots=True)
class SparkQueryContext:
    """What a query on Spark needs: the context of the query, the DataFrames of its snapshot, and new column names."""

    query: QueryContext
    tables: SparkSnapshot
    spool: Spool
    data_bytes: int
    """The size of the tables of the query, or of the rows of its match if they are more."""
    column_names: Iterator[str] = field(default_factory=lambda: (f"c{number}" for number in count()))

    def new_column(self) -> str:
        """Return a column name that is unique in this query."""
        return next(self.column_names)

    def count_partitions(self) -> int:
        """Return how many partitions rows are shuffled to: as many as follow from the size of the data."""
        # Spark is asked for its cores only if they matter.
        cores = self.spool.parallelism if self.data_bytes >= MIN_PARTITION_BYTES else 1
        return count_partitions(self.data_bytes, cores)

    def gather(self, shuffled: DataFrame) -> DataFrame:
        """Return a frame that Spark has just shuffled, in fewer tasks if its setting makes more than the data need.

        Spark aggregates before such a shuffle, which a shuffle of our own would prevent. Tasks can be made fewer after
        it, with and without adaptive execution; more tasks than ``spark.sql.shuffle.partitions`` cannot.
        """
        count = self._needed_partitions()
        return shuffled if count is None else shuffled.coalesce(count)

    def _needed_partitions(self) -> int | None:
        """Return how many partitions the data need; None if Spark's setting has no more, or is no number."""
        text = self.tables.session.conf.get(_SHUFFLE_PARTITIONS) or ""
        if not text.isdecimal() or int(text) <= 1:
            return None
        needed = self.count_partitions()
        if needed > int(text):
            _log.warning(
                "a query shuffles up to %d MB to %s partitions; set %s to %d or more if its tasks spill",
                self.data_bytes >> 20,
                text,
                _SHUFFLE_PARTITIONS,
                needed,
            )
        return needed if needed < int(text) else None

    @property
    def max_walk_rounds(self) -> int:
        """How many hops a walk without an upper bound may take: each is a job over all edges."""
        text = self.tables.session.conf.get(MAX_WALK_ROUNDS, str(_DEFAULT_ROUNDS)) or ""
        if not (text.isdecimal() and int(text) > 0):
            hint = f"set it to a number of hops, or unset it for {_DEFAULT_ROUNDS}"
            raise ParameterError(f"the setting {MAX_WALK_ROUNDS} is '{text}', which is no positive number", hint=hint)
        return int(text)

    def count_rows(self, table_key: str) -> int:
        """Return how many rows a table has."""
        pin = self.tables.snapshot.pins.get(table_key)
        return 0 if pin is None else pin.row_count

    def count_walked(self, edge_type: str, direction: TraversalDirection) -> int:
        """Return how many pairs of nodes the edges of a type give, at most."""
        edges = self.count_rows(TableKey.of_edge(edge_type))
        return 2 * edges if direction is TraversalDirection.BOTH else edges


@dataclass(frozen=True, slots=True)
class MatchRows:
    """The rows of a match, and the column that holds each slot. There are at most ``max_rows`` rows."""

    frame: DataFrame
    slots: Mapping[Slot, str]
    max_rows: int = UNKNOWN_ROWS
    row_bytes: int = PAIR_BYTES

    @property
    def sized(self) -> SizedFrame:
        """The rows as a frame of known size."""
        return SizedFrame(self.frame, self.max_rows, self.row_bytes)

    def id_of(self, variable: str) -> str:
        """The column that holds the id of a variable."""
        return self.slots[variable, ID]

    def select_variables(self, variables: Iterable[str]) -> MatchRows:
        """Keep the columns of these variables only."""
        kept = frozenset(variables)
        slots = {slot: column for slot, column in self.slots.items() if slot[0] in kept}
        return replace(self, frame=self.frame.select(*slots.values()), slots=slots)

    def where(self, condition: Column) -> MatchRows:
        """Keep the rows that satisfy a condition."""
        return replace(self, frame=self.frame.where(condition))

    def join(
        self,
        other: SizedFrame,
        equal: Sequence[tuple[str, str]],
        bound: Mapping[Slot, str],
        context: SparkQueryContext,
    ) -> MatchRows:
        """Inner join with another frame on pairs of equal columns; ``bound`` are the slots that it adds."""
        slots = {**self.slots, **bound}
        frame = join_pairs(self.sized, other, equal, "inner", context.count_partitions).select(*slots.values())
        rows = min(UNKNOWN_ROWS, self.max_rows * other.max_rows)
        return MatchRows(frame, slots, rows, self.row_bytes + other.row_bytes)

    def left_join(
        self, other: SizedFrame, equal: tuple[str, str], bound: Mapping[Slot, str], context: SparkQueryContext
    ) -> MatchRows:
        """Left join with another frame that has a key once; ``bound`` are the slots that it adds."""
        slots = {**self.slots, **bound}
        frame = join_pairs(self.sized, other, [equal], "left", context.count_partitions).select(*slots.values())
        return replace(self, frame=frame, slots=slots, row_bytes=self.row_bytes + other.row_bytes)

    def with_column(self, slot: Slot, value: Column, column: str) -> MatchRows:
        """Add a column that holds the value of a slot."""
        return replace(self, frame=self.frame.withColumn(column, value), slots={**self.slots, slot: column})

    def semi_join(self, other: SizedFrame, equal: Sequence[tuple[str, str]], context: SparkQueryContext) -> MatchRows:
        """Keep the rows that have a match in another frame."""
        return replace(self, frame=join_pairs(self.sized, other, equal, "left_semi", context.count_partitions))


def bind_rows(found: SizedFrame, variable: str, properties: Iterable[str], context: SparkQueryContext) -> MatchRows:
    """Bind rows of a type to a variable: its id and these properties, in columns with new names."""
    columns = {name: context.new_column() for name in (ID, *properties)}
    slots: dict[Slot, str] = {(variable, name): column for name, column in columns.items()}
    frame = found.frame.select(*(fn.col(name).alias(column) for name, column in columns.items()))
    return MatchRows(frame, slots, found.max_rows, found.row_bytes)


def sort_rows(frame: DataFrame, order: Sequence[Column], context: SparkQueryContext) -> DataFrame:
    """Sort rows; leave them as they are if the order is empty. As many tasks sort as follow from the data."""
    if not order:
        return frame
    return frame.repartitionByRange(context.count_partitions(), *order).sortWithinPartitions(*order)


def take_first(frame: DataFrame, order: Sequence[Column], most: int) -> DataFrame:
    """Return the first ``most`` rows in an order; any ``most`` rows if the order is empty."""
    if most <= _MAX_LIMIT:
        return (frame.orderBy(*order) if order else frame).limit(most)
    # Spark cannot limit to that many rows, so one task numbers all of them.
    running = Window.orderBy(*(order or [fn.lit(0)])).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = frame.withColumn(_NUMBER, fn.count(fn.lit(1)).over(running))
    first = numbered.where(fn.col(_NUMBER) <= fn.lit(min(most, _MAX_COUNT))).drop(_NUMBER)
    return first.orderBy(*order) if order else first
