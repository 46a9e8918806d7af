"""Check all rows against the rules that are new in a schema, and report every violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pyarrow as pa

from omnigraph.errors import ValidationError, Violation
from omnigraph.language.schema import (
    AddConstraint,
    ChangeCardinality,
    ColumnRule,
    ColumnRuleKind,
    Constraint,
    EdgeType,
    MigrationStep,
    NarrowEnum,
    NodeType,
    PatternRule,
    RangeRule,
    RequireProperty,
)
from omnigraph.language.types import Scalar
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.storage.keys import make_ids
from omnigraph.write.evolve.schema_migration import SchemaMigration, list_checked_tables
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


def check_new_rules(migration: SchemaMigration) -> None:
    """Refuse the new schema if rows break one of its new rules; list all violations."""
    by_key = list_checked_tables(migration.plan)
    found = [each for key, steps in by_key.items() for each in _find_violations(migration, key, steps)]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ValidationError(
            f"the rows do not fit the new schema: {found[0].message}{more}",
            found,
            hint="correct or delete these rows first, or remove the rule",
        )


def _find_violations(migration: SchemaMigration, table_key: str, steps: list[MigrationStep]) -> Iterator[Violation]:
    type_ = type_of_table(migration.catalog, table_key)
    table = migration.source_of(type_)
    if table is None:
        return
    properties = {name for step in steps for name in _list_properties(step)}
    set_rules = {text for step in steps for text in _list_set_rules(type_, step)}
    found: list[Violation] = []
    table_schema = arrow_schema(type_)
    blobs = [name for name, each in type_.properties.items() if each.type.scalar is Scalar.BLOB]
    columns = list_rule_columns(migration.catalog, table_key)
    schema = pa.schema([(name, cast("pa.DataType", table_schema.field(name).type)) for name in columns])

    def check_batches() -> Iterator[pa.Table]:
        for batch in migration.read_nullable_rows(type_, table, without=blobs):
            found.extend(_name_row(each) for each in check_rows(type_, batch) if each.property in properties)
            if any(_adds_key(step) for step in steps):
                found.extend(_find_wrong_ids(type_, batch))
            yield pa.table([column_of(batch, name) for name in columns], schema=schema)

    changes = RowChanges(table_key, spill_rows(schema, check_batches()), mode=IncomingMode.OVERWRITE)
    yield from found
    if set_rules:
        together = check_changes(migration.catalog, migration.snapshot, [changes]).violations
        yield from (each for each in together if each.type == type_.name and each.rule in set_rules)


def _name_row(violation: Violation) -> Violation:
    """Add the id of a stored row to the message, since it has no line in a file."""
    return replace(violation, message=f"{violation.message}, in the row '{violation.id}'")


def _list_properties(step: MigrationStep) -> Iterator[str]:
    match step:
        case NarrowEnum() | RequireProperty():
            yield step.property_name
        case AddConstraint():
            yield from _list_properties_of_rule(step.constraint)
        case _:
            pass


def _list_properties_of_rule(constraint: Constraint) -> Iterator[str]:
    """Return the property that a rule of one row constrains. Rules of columns look at many rows, or at none."""
    match constraint:
        case RangeRule() | PatternRule():
            yield constraint.property
        case ColumnRule():
            pass


def _list_set_rules(type_: NodeType | EdgeType, step: MigrationStep) -> Iterator[str]:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.UNIQUE, columns=columns)):
            yield format_unique(columns)
        case ChangeCardinality() if isinstance(type_, EdgeType):
            yield format_cardinality(type_)
        case _:
            pass


def _adds_key(step: MigrationStep) -> bool:
    match step:
        case AddConstraint(constraint=ColumnRule(kind=ColumnRuleKind.KEY)):
            return True
        case _:
            return False


def _find_wrong_ids(type_: NodeType | EdgeType, batch: pa.RecordBatch) -> Iterator[Violation]:
    """Yield violations of ids that differ from the key. Rows stored without a key may have any id."""
    if not isinstance(type_, NodeType) or not type_.key:
        return
    ids = column_of(batch, "id")
    expected = cast("Values", make_ids(type_, batch))
    wrong = find_true(compute("coalesce", compute("not_equal", ids, expected), pa.scalar(value=True)))
    for id_, required in zip(to_list(ids.take(wrong)), to_list(expected.take(wrong)), strict=True):
        message = f"{format_key(type_)} on {type_.name}: the row '{id_}' must have the id '{required}'"
        yield Violation(
            type_.name,
            format_key(type_),
            message,
            id=cast(str, id_),
            property=", ".join(type_.key),
            value=cast("str | None", required),
        )
