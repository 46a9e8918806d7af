"""Row rules: rules that one row can break by itself.

:func:`find_row_violations` runs on Arrow batches in the columns of a type's table, locally and on Spark. Each rule
computes a mask over a whole column, and does nothing more if no row breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import EdgeType, NodeType, PatternRule, Property, RangeRule
from omnigraph.language.types import FLOATS, INTEGER_RANGES, INTEGERS, Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_field
from omnigraph.storage.columns import Rows, Values, column_of, compute, find_true, join_texts, make_nulls
from omnigraph.storage.keys import to_canonical_text, to_key_text
from omnigraph.write.rules.rule_texts import (
    FINITE,
    ID,
    NO_NULL_ITEMS,
    REQUIRED,
    format_pattern,
    format_range,
    format_unique,
    shorten,
)

ROW_VIOLATIONS: Final = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("property", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        pa.field("message", pa.string(), nullable=False),
    ]
)


AbsentValues: TypeAlias = Mapping[str, npt.NDArray[np.bool_]]
"""By column, which records do not mention it. A column that all records mention is not there."""


@dataclass(frozen=True, slots=True)
class _RowBreaches:
    """Rows of a batch that break one rule. The message is ``says``, followed by the value if it has one."""

    property: str
    rule: str
    rows: npt.NDArray[np.int64]
    says: str
    values: pa.StringArray | None = None
    quote: str = ""


@dataclass(frozen=True, slots=True)
class _CheckedValues:
    """The values that a rule looks at: one for each row, or the elements of lists with the row of each."""

    values: Values
    rows: npt.NDArray[np.int64] | None = None

    def rows_at(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of the values at some positions."""
        return at if self.rows is None else self.rows[at]


def find_row_violations(type_: NodeType | EdgeType, rows: Rows, absent: AbsentValues | None = None) -> pa.Table:
    """Find every row rule that rows break, as :data:`ROW_VIOLATIONS`, sorted by row; ``row`` counts from 0.

    A missing column counts as all null. A vector may be a list of any length: a wrong length is a violation. A value
    that is ``absent`` is not required: the stored row has it.
    """
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    found: list[pa.Table] = []
    first = 0
    for batch in batches:
        own = {name: mask[first : first + batch.num_rows] for name, mask in (absent or {}).items()}
        found.extend(_describe(type_.name, broken, first) for broken in _check_batch(type_, batch, own))
        first += batch.num_rows
    if not found:
        return ROW_VIOLATIONS.empty_table()
    return pa.concat_tables(found).sort_by([("row", "ascending"), ("property", "ascending"), ("rule", "ascending")])


def _describe(type_name: str, broken: _RowBreaches, first: int) -> pa.Table:
    count = len(broken.rows)
    before = f"{broken.rule} on {type_name}: '{broken.property}' {broken.says}"
    if broken.values is None:
        values, messages = pa.nulls(count, pa.string()), pa.array([before] * count, pa.string())
    else:
        values = pa.array([shorten(str(text)) for text in broken.values.to_pylist()], pa.string())
        messages = join_texts(f"{before} {broken.quote}", values, broken.quote)
    named = [pa.array([text] * count, pa.string()) for text in (broken.property, broken.rule)]
    return pa.table([pa.array(broken.rows + first), *named, values, messages], schema=ROW_VIOLATIONS)


# --------------------------------------------------------------------------------------------- the rules of a type


def _check_batch(type_: NodeType | EdgeType, batch: pa.RecordBatch, absent: AbsentValues) -> Iterator[_RowBreaches]:
    columns = {each.name: _get_column(batch, each) for each in type_.properties.values()}
    yield from _check_ids(type_, batch, absent)
    for each in type_.properties.values():
        yield from _check_property(each, columns[each.name], absent)
    yield from _check_comparable(type_, columns)
    if isinstance(type_, NodeType):
        for rule in type_.ranges:
            yield from _check_range(rule, type_.properties[rule.property].type, columns[rule.property])
        for rule in type_.patterns:
            yield from _check_pattern(rule, columns[rule.property])


def _get_column(batch: pa.RecordBatch, each: Property) -> Values:
    if each.name in batch.schema.names:
        return column_of(batch, each.name)
    return make_nulls(batch.num_rows, arrow_field(each.name, each.type).type)


def _check_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch, absent: AbsentValues) -> Iterator[_RowBreaches]:
    for name in ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",):
        values = column_of(batch, name)
        missing = _find_missing(name, values, absent)
        if len(missing) and isinstance(type_, NodeType) and type_.key is not None:
            # A key that gives no id breaks another rule already.
            keyless = to_canonical_text(batch, type_.key).is_null()
            missing = np.setdiff1d(missing, find_true(cast("Values", keyless)))
        yield from _report_rows(name, ID if name == "id" else REQUIRED, missing, "is missing")
        empty = compute("equal", values, pa.scalar(""))
        yield from _report_rows(name, ID if name == "id" else REQUIRED, find_true(empty), "is empty")


def _find_missing(name: str, values: Values, absent: AbsentValues) -> npt.NDArray[np.int64]:
    """Return the rows without a value, except those whose record does not mention the column."""
    missing = find_true(compute("is_null", values))
    return missing[~absent[name][missing]] if name in absent else missing


def _check_property(each: Property, values: Values, absent: AbsentValues) -> Iterator[_RowBreaches]:
    name, type_ = each.name, each.type
    if values.null_count and not type_.nullable:
        yield from _report_rows(name, REQUIRED, _find_missing(name, values, absent), "is missing")
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        if type_.dimension is not None:
            yield from _check_vector_length(name, type_, values)
        items = _flatten_lists(values)
        if items.values.null_count:
            nulls = items.rows_at(find_true(compute("is_null", items.values)))
            yield from _report_rows(name, NO_NULL_ITEMS, np.unique(nulls), "holds a null")
    else:
        items = _CheckedValues(values)
    yield from _check_scalars(name, type_, items)


def _check_scalars(name: str, type_: ValueType, items: _CheckedValues) -> Iterator[_RowBreaches]:
    """Check single values: of a property, or of the elements of its lists."""
    if type_.enum_values is not None:
        allowed = pa.array(type_.enum_values, pa.string())
        known = compute("is_in", items.values, options=pc.SetLookupOptions(allowed, skip_nulls=False))
        unknown = compute("and", compute("invert", known), compute("is_valid", items.values))
        yield from _report_values(name, str(type_.item), items, find_true(unknown), "is")
    if type_.scalar in FLOATS or type_.scalar is Scalar.VECTOR:
        yield from _report_values(
            name, FINITE, items, find_true(compute("invert", compute("is_finite", items.values))), "is"
        )


def _check_vector_length(name: str, type_: ValueType, values: Values) -> Iterator[_RowBreaches]:
    assert type_.dimension is not None
    lengths = compute("list_value_length", values)
    wrong = find_true(compute("not_equal", lengths, pa.scalar(type_.dimension)))
    yield from _report_values(name, str(type_.item), _CheckedValues(lengths), wrong, "has this many elements:")


def _check_comparable(type_: NodeType | EdgeType, columns: dict[str, Values]) -> Iterator[_RowBreaches]:
    for names in type_.unique:
        for name in names:
            if name in type_.properties and not is_comparable(type_.properties[name].type):
                valid = find_true(compute("is_valid", columns[name]))
                yield from _report_rows(
                    name, format_unique(names), valid, "is a list or vector, which cannot be compared"
                )


def is_comparable(type_: ValueType) -> bool:
    """Whether ``@unique`` can compare values of the type. Properties of other types must be null."""
    return not (type_.is_list or type_.scalar is Scalar.VECTOR)


def _check_range(rule: RangeRule, type_: ValueType, values: Values) -> Iterator[_RowBreaches]:
    yield from _report_values(
        rule.property, format_range(rule), _CheckedValues(values), find_true(_find_outside(rule, type_, values)), "is"
    )


def _find_outside(rule: RangeRule, type_: ValueType, values: Values) -> Values:
    """Find the values outside a range. Integers are compared as integers, floats with exact bounds."""
    if type_.scalar in INTEGERS:
        allowed = INTEGER_RANGES[type_.scalar]
        low = allowed[0] if rule.minimum is None else max(allowed[0], math.ceil(rule.minimum))
        high = allowed[-1] if rule.maximum is None else min(allowed[-1], math.floor(rule.maximum))
        if low > high:
            return compute("is_valid", values)
        lowest, highest = pa.scalar(low, values.type), pa.scalar(high, values.type)
    else:
        lowest = pa.scalar(-math.inf if rule.minimum is None else _round_up_to_float(rule.minimum))
        highest = pa.scalar(math.inf if rule.maximum is None else -_round_up_to_float(-rule.maximum))
    # Computed as the inverse of "inside", so that NaN is outside and null is neither.
    inside = compute("and", compute("greater_equal", values, lowest), compute("less_equal", values, highest))
    return compute("invert", inside)


def _round_up_to_float(bound: float) -> float:
    try:
        nearest = float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -math.inf
    return math.nextafter(nearest, math.inf) if nearest < bound else nearest


def _check_pattern(rule: PatternRule, values: Values) -> Iterator[_RowBreaches]:
    found = compute("match_substring_regex", values, options=pc.MatchSubstringOptions(rule.pattern))
    unmatched = find_true(compute("invert", found))
    yield from _report_values(rule.property, format_pattern(rule), _CheckedValues(values), unmatched, "is")


# --------------------------------------------------------------------------------------------- reports


def _report_rows(name: str, rule: str, rows: npt.NDArray[np.int64], says: str) -> Iterator[_RowBreaches]:
    if len(rows):
        yield _RowBreaches(name, rule, rows, says)


def _report_values(
    name: str, rule: str, items: _CheckedValues, at: npt.NDArray[np.int64], says: str
) -> Iterator[_RowBreaches]:
    if len(at):
        values = to_key_text(items.values.take(at))
        quote = "'" if pa.types.is_string(items.values.type) else ""
        yield _RowBreaches(name, rule, items.rows_at(at), says, values, quote)


def _flatten_lists(lists: Values) -> _CheckedValues:
    """Return the elements of all lists that are not null."""
    valid = find_true(compute("is_valid", lists))
    # Arrow's functions differ on whether values under a null list count; they must not.
    whole = lists if len(valid) == len(lists) else lists.drop_null()
    lengths = compute("list_value_length", whole).to_numpy(zero_copy_only=False)
    return _CheckedValues(compute("list_flatten", whole), np.repeat(valid, lengths))
