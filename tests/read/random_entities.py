"""Entities with properties of every type, in memory: as Arrow tables, and as the plain evaluator of plans has them.

The values are few and awkward, so that they are often equal, nearly equal, or equal only after rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.language.query.typed_tree import PropertyValue
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue, parse_date, parse_datetime, round_to_f32
from omnigraph.read.frames.evaluation import EvaluationContext, SearchExpression
from omnigraph.read.frames.frame import EntityColumn, Frame, Positions
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values, column_of, to_list
from tests.language.query.plan.plan_evaluator import Entity, Graph, Row

INTEGERS = [-(2**63), -(2**53) - 1, -3, -1, 0, 1, 2, 3, 2**31 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [-1e300, -(2.0**63), -2.5, -1.0, -0.0, 0.0, 0.1, round_to_f32(0.1), 0.5, 1.0, 2.0, 2.0**53, 2.0**63, 2.0**64]
STEM = "a text that is longer than four times eight bytes"
TEXTS = [
    "",
    "a",
    "a\0",
    "a\0b",
    "ab",
    "b",
    "Zoë",
    "zoe",
    "%_",
    "😀",
    "😀x",
    "é",
    "exactly8",
    "exactly8s",
    STEM,
    STEM + "!",
]
DAYS = [parse_date(text) for text in ("0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")]
MOMENTS = [parse_datetime(text) for text in ("0001-01-01", "1969-12-31T23:59:59.999Z", "2024-01-01T08:00:00.123Z")]

POOLS: Mapping[Scalar, Sequence[ConstantValue]] = {
    **{scalar: [number for number in INTEGERS if number in allowed] for scalar, allowed in INTEGER_RANGES.items()},
    Scalar.F32: [round_to_f32(number) for number in FLOATS if abs(number) < 1e38],
    Scalar.F64: FLOATS,
    Scalar.STRING: TEXTS,
    Scalar.BOOL: [True, False],
    Scalar.DATE: DAYS,
    Scalar.DATETIME: MOMENTS,
    Scalar.VECTOR: [(0.0, 1.0), (-0.0, 1.0), (0.5, -2.0)],
}
SINGLE = {scalar.lower(): ValueType(scalar, nullable=True) for scalar in POOLS if scalar is not Scalar.VECTOR}
LISTS = {f"{name}s": ValueType(each.scalar, nullable=True, is_list=True) for name, each in SINGLE.items()}
VECTOR = {"vector": ValueType(Scalar.VECTOR, nullable=True, dimension=2)}
PLAIN: Mapping[pa.DataType, pa.DataType] = {pa.date32(): pa.int32(), pa.date64(): pa.int64()}
PROPERTIES: Mapping[str, ValueType] = {**SINGLE, **LISTS, **VECTOR}


class NoSearch:
    """No search: what is tested here has no search functions."""

    def score(self, expression: SearchExpression, frame: Frame) -> Values:
        raise AssertionError(f"{type(expression).__name__} of {frame.num_rows} rows")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A set of entities that is a table in memory."""

    rows: pa.Table
    table_key: str = "node:Thing"

    def __len__(self) -> int:
        return self.rows.num_rows

    def is_key(self, column: str) -> bool:
        return column == "id"

    def take_ids(self, positions: Positions) -> pa.StringArray:
        return cast("pa.StringArray", column_of(self.rows, "id").take(positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        return column_of(self.rows, column).take(positions)


@dataclass(frozen=True, slots=True)
class Things:
    """Entities, and rows of two variables that speak of them."""

    entities: tuple[Entity, ...]
    pairs: tuple[tuple[int, int], ...]
    parameters: Mapping[str, ConstantValue]
    weights: tuple[int, ...] | None = None

    @property
    def frame(self) -> Frame:
        entities = loaded(self.entities)
        ends = np.array(self.pairs, np.int64).reshape(-1, 2)
        bindings = {"a": EntityColumn(entities, ends[:, 0].copy()), "b": EntityColumn(entities, ends[:, 1].copy())}
        return Frame(len(ends), bindings, None if self.weights is None else np.array(self.weights, np.int64))

    @property
    def rows(self) -> list[Row]:
        """The same rows for the plain evaluator, each as often as it counts."""
        once: list[Row] = [{"a": self.entities[a], "b": self.entities[b]} for a, b in self.pairs]
        weights = self.weights or (1,) * len(once)
        return [row for row, weight in zip(once, weights, strict=True) for _ in range(weight)]

    @property
    def graph(self) -> Graph:
        return Graph({}, {}, self.parameters)

    @property
    def request(self) -> EvaluationContext:
        return EvaluationContext(self.parameters, 0, NoSearch())


def loaded(entities: Sequence[Entity]) -> Loaded:
    columns = {
        name: arrow_values(type_, [each.properties[name] for each in entities]) for name, type_ in PROPERTIES.items()
    }
    ids = pa.array([each.id for each in entities], pa.string())
    return Loaded(pa.Table.from_arrays([ids, *columns.values()], names=["id", *columns]))


def constants(values: Values) -> list[ConstantValue]:
    """A column as the evaluator has it: days, milliseconds, tuples."""
    if pa.types.is_list(values.type):
        item = cast("pa.ListType[pa.DataType]", values.type).value_type
        values = values.cast(pa.list_(PLAIN.get(item, item)))
    found = to_list(values.cast(PLAIN.get(values.type, values.type)))
    return [
        cast("ConstantValue", tuple(cast("list[object]", each)) if isinstance(each, list) else each) for each in found
    ]


def values_of(type_: ValueType) -> st.SearchStrategy[ConstantValue]:
    """Values of a type, null among them."""
    single = st.sampled_from(POOLS[type_.scalar])
    return st.none() | (st.lists(single, max_size=3).map(tuple) if type_.is_list else single)


def properties_of(names: Mapping[str, ValueType]) -> st.SearchStrategy[PropertyValue]:
    """Properties of either variable."""
    return st.sampled_from([PropertyValue(variable, *named) for variable in ("a", "b") for named in names.items()])


@st.composite
def things(draw: st.DrawFn, *, weighted: bool = False, most_rows: int = 12) -> Things:
    """Few entities, and rows that speak of them; often more rows than entities."""
    # One number stands for all values: Hypothesis would take far longer to choose each by itself.
    chance = Random(draw(st.integers(0, 2**32 - 1)))  # noqa: S311  no secret
    ids = chance.sample(TEXTS, chance.randint(1, 5))
    entities = [Entity(id_, {name: _chosen(chance, type_) for name, type_ in PROPERTIES.items()}) for id_ in ids]
    count = draw(st.integers(0, most_rows))
    pairs = [(chance.randrange(len(ids)), chance.randrange(len(ids))) for _ in range(count)]
    weights = tuple(chance.randint(1, 3) for _ in pairs) if weighted else None
    parameters = {name: _chosen(chance, type_) for name, type_ in PROPERTIES.items()}
    return Things(tuple(entities), tuple(pairs), parameters, weights)


def _chosen(chance: Random, type_: ValueType) -> ConstantValue:
    pool = POOLS[type_.scalar]
    if chance.random() < 0.2:
        return None
    return tuple(chance.choices(pool, k=chance.randint(0, 3))) if type_.is_list else chance.choice(pool)
