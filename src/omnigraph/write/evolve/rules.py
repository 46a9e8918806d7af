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
    IncomingMode,
    RowChanges,
    check_changes,
    check_rows,
    format_cardinality,
    format_key,
    format_unique,
    list_rule_columns,
    type_of_table,
)
from omnigraph.write.spill import spill_rows

if TYPE_CHECKING:
    from omnigraph.write.evolve.schema_migration import SchemaMigration


def check_new_rules(migration: SchemaMigration) -> None:
    """Refuse the new schema if a row breaks a rule of it that is new; all such rows are listed."""
    by_key: dict[str, list[Step]] = {}
    for step in migration.plan.steps:
        if step.tier is Tier.VALIDATED and isinstance(
            step, AddConstraint | ChangeCardinality | NarrowEnum | RequireProperty
        ):
            by_key.setdefault(step.table_key, []).append(step)
    found = [each for key, steps in by_key.items() for each in _find_violations(migration, key, steps)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ValidationError(
            f"the rows do not fit the new schema: {found[0].message}{more}",
            found,
            hint="correct or delete these rows first, or leave the rule out",
        )


def _find_violations(migration: SchemaMigration, table_key: str, steps: list[Step]) -> Iterator[Violation]:
    type_ = type_of_table(migration.catalog, table_key)
    table = migration.source_of(type_)
    if table is None:
        return
    properties = {name for step in steps for name in _checked_properties(step)}
    sets = {text for step in steps for text in _checked_set_rules(type_, step)}
    found: list[Violation] = []
    wanted = arrow_schema(type_)
    blobs = [name for name, each in type_.properties.items() if each.type.scalar is Scalar.BLOB]
    columns = list_rule_columns(migration.catalog, table_key)
    schema = pa.schema([(name, cast("pa.DataType", wanted.field(name).type)) for name in columns])

    def checked() -> Iterator[pa.Table]:
        for batch in migration.read_nullable_rows(type_, table, without=blobs):
            found.extend(_name_row(each) for each in check_rows(type_, batch) if each.property in properties)
            if any(_adds_key(step) for step in steps):
                found.extend(_find_wrong_ids(type_, batch))
            yield pa.table([column_of(batch, name) for name in columns], schema=schema)

    image = RowChanges(table_key, spill_rows(schema, checked()), mode=IncomingMode.OVERWRITE)
    yield from found
    if sets:
        together = check_changes(migration.catalog, migration.snapshot, [image]).violations
        yield from (each for each in together if each.type == type_.name and each.rule in sets)


def _name_row(violation: Violation) -> Violation:
    """A row that is stored has no line in a file: its id tells which it is."""
    return replace(violation, message=f"{violation.message}, in the row '{violation.id}'")


def _checked_properties(step: Step) -> Iterator[str]:
    match step:
        case NarrowEnum() | RequireProperty():
            yield step.property_name
        case AddConstraint(constraint=RangeRule() | PatternRule() as rule):
            yield rule.property
        case _:
            pass


def _checked_set_rules(type_: NodeType | EdgeType, step: Step) -> Iterator[str]:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.UNIQUE, columns=columns)):
            yield format_unique(columns)
        case ChangeCardinality() if isinstance(type_, EdgeType):
            yield format_cardinality(type_)
        case _:
            pass


def _adds_key(step: Step) -> bool:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.KEY)):
            return True
        case _:
            return False


def _find_wrong_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[Violation]:
    """A node with a key has the text of its key as its id: rows that were stored without one may have any."""
    if not isinstance(type_, NodeType) or not type_.key:
        return
    ids = column_of(batch, "id")
    expected = cast("Values", ids_of(type_, batch))
    wrong = places(compute("coalesce", compute("not_equal", ids, expected), pa.scalar(value=True)))
    for id_, given in zip(to_list(ids.take(wrong)), to_list(expected.take(wrong)), strict=True):
        message = f"{format_key(type_)} on {type_.name}: the row '{id_}' would have to have the id '{given}'"
        yield Violation(
            type_.name,
            format_key(type_),
            message,
            id=cast(str, id_),
            property=", ".join(type_.key),
            value=cast("str | None", given),
        )
