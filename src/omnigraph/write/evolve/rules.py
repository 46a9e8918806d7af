"""Rules that the rows of a graph were never held against: all rows are, and every violation is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from omnigraph.errors import ValidationError, Violation
from omnigraph.language.schema import (
    AddConstraint,
    ChangeCardinality,
    ColumnRule,
    ColumnRuleKind,
    EdgeType,
    NarrowEnum,
    NodeType,
    PatternRule,
    RangeRule,
    RequireProperty,
    Step,
    Tier,
)
from omnigraph.language.types import Scalar
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, places, to_list
from omnigraph.storage.keys import ids_of
from omnigraph.write.rules import (
    Arrival,
    Image,
    cardinality_text,
    check_changes,
    check_rows,
    key_text,
    rule_columns,
    type_of,
    unique_text,
)
from omnigraph.write.spill import spilled

if TYPE_CHECKING:
    from omnigraph.write.evolve.tables import Evolution


def check_validated(evolution: Evolution) -> None:
    """Refuse the new schema if a row breaks a rule of it that is new; all such rows are listed."""
    by_key: dict[str, list[Step]] = {}
    for step in evolution.plan.steps:
        if step.tier is Tier.VALIDATED and isinstance(
            step, AddConstraint | ChangeCardinality | NarrowEnum | RequireProperty
        ):
            by_key.setdefault(f"{step.type_kind}:{step.type_name}", []).append(step)
    found = [each for key, steps in by_key.items() for each in _violations(evolution, key, steps)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ValidationError(
            f"the rows do not fit the new schema: {found[0].message}{more}",
            found,
            hint="correct or delete these rows first, or leave the rule out",
        )


def _violations(evolution: Evolution, table_key: str, steps: list[Step]) -> Iterator[Violation]:
    type_ = type_of(evolution.catalog, table_key)
    table = evolution.source(type_)
    if table is None:
        return
    properties = {name for step in steps for name in _properties(step)}
    sets = {text for step in steps for text in _set_rules(type_, step)}
    found: list[Violation] = []
    wanted = arrow_schema(type_)
    blobs = [name for name, each in type_.properties.items() if each.type.scalar is Scalar.BLOB]
    columns = rule_columns(evolution.catalog, table_key)
    schema = pa.schema([(name, cast("pa.DataType", wanted.field(name).type)) for name in columns])

    def checked() -> Iterator[pa.Table]:
        for batch in evolution.loose_rows(type_, table, without=blobs):
            found.extend(_with_row(each) for each in check_rows(type_, batch) if each.property in properties)
            if any(_is_key(step) for step in steps):
                found.extend(_wrong_ids(type_, batch))
            yield pa.table([column_of(batch, name) for name in columns], schema=schema)

    image = Image(table_key, spilled(schema, checked()), arrival=Arrival.OVERWRITE)
    yield from found
    if sets:
        together = check_changes(evolution.catalog, evolution.snapshot, [image]).violations
        yield from (each for each in together if each.type == type_.name and each.rule in sets)


def _with_row(violation: Violation) -> Violation:
    """A row that is stored has no line in a file: its id tells which it is."""
    return replace(violation, message=f"{violation.message}, in the row '{violation.id}'")


def _properties(step: Step) -> Iterator[str]:
    match step:
        case NarrowEnum() | RequireProperty():
            yield step.property_name
        case AddConstraint(constraint=RangeRule() | PatternRule() as rule):
            yield rule.property
        case _:
            pass


def _set_rules(type_: NodeType | EdgeType, step: Step) -> Iterator[str]:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.UNIQUE, columns=columns)):
            yield unique_text(columns)
        case ChangeCardinality() if isinstance(type_, EdgeType):
            yield cardinality_text(type_)
        case _:
            pass


def _is_key(step: Step) -> bool:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.KEY)):
            return True
        case _:
            return False


def _wrong_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[Violation]:
    """A node with a key has the text of its key as its id: rows that were stored without one may have any."""
    if not isinstance(type_, NodeType) or not type_.key:
        return
    ids = column_of(batch, "id")
    expected = cast("Values", ids_of(type_, batch))
    wrong = places(compute("coalesce", compute("not_equal", ids, expected), pa.scalar(value=True)))
    for id_, given in zip(to_list(ids.take(wrong)), to_list(expected.take(wrong)), strict=True):
        message = f"{key_text(type_)} on {type_.name}: the row '{id_}' would have to have the id '{given}'"
        yield Violation(
            type_.name,
            key_text(type_),
            message,
            id=cast(str, id_),
            property=", ".join(type_.key),
            value=cast("str | None", given),
        )
