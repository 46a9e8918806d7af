"""Check all rows against the rules that are new in a schema. An executor checks them, and reports some violations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, TypeAlias, cast

import pyarrow as pa

from omnigraph.errors import ValidationError, Violation
from omnigraph.language.schema import (
    AddConstraint,
    Catalog,
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
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.storage.keys import make_ids
from omnigraph.write.evolve.reshaped_rows import ReshapedRows
from omnigraph.write.evolve.schema_migration import SchemaMigration, list_checked_tables
from omnigraph.write.executor import divide_evenly
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

MAX_VIOLATIONS: Final = 100
"""A refused schema describes so many violations, and counts the others."""


@dataclass(frozen=True, slots=True)
class FoundViolations:
    """Some violations, and how many there are."""

    described: tuple[Violation, ...] = ()
    count: int = 0

    def __add__(self, other: FoundViolations) -> FoundViolations:
        described = (*self.described, *other.described)[:MAX_VIOLATIONS]
        return FoundViolations(described, self.count + other.count)


SetRuleCheck: TypeAlias = "Callable[[Catalog, Snapshot, ReshapedRows, Collection[str]], FoundViolations]"
"""Checks the set rules of a type that have these texts, on all of its rows."""


def check_new_rules(migration: SchemaMigration, check_together: SetRuleCheck) -> None:
    """Refuse the new schema if rows break one of its new rules, or if ids to rewrite are ambiguous."""
    _refuse_ambiguous_ids(migration, check_together)
    found = FoundViolations()
    for key, steps in list_checked_tables(migration.plan).items():
        rows = migration.read_reshaped(type_of_table(migration.catalog, key))
        if rows is not None:
            found += _check_table(migration, rows, steps, check_together)
    if found.count:
        # However the rows were divided among tasks.
        described = sorted(found.described, key=lambda each: (each.type, each.rule, each.id or "", each.message))
        more = f" (and {found.count - 1:,} more)" if found.count > 1 else ""
        error = ValidationError(
            f"the rows do not fit the new schema: {described[0].message}{more}",
            described,
            hint="correct or delete these rows first, or remove the rule",
            # Not all are known: nothing could be counted exactly.
            groups=() if found.count > len(described) else None,
        )
        error.details["count"] = found.count
        error.details["more"] = found.count > len(found.described)
        raise error


def _refuse_ambiguous_ids(migration: SchemaMigration, check_together: SetRuleCheck) -> None:
    """Refuse ids to rewrite that several rows share, before or after: edges that refer to them would be ambiguous."""
    for key in migration.id_rewrites:
        type_ = type_of_table(migration.catalog, key)
        rewritten = migration.read_reshaped(type_)
        if not isinstance(type_, NodeType) or rewritten is None:
            continue
        for rows in (replace(rewritten, ids=None), rewritten):
            found = check_together(migration.catalog, migration.snapshot, rows, {format_key(type_)})
            if found.count:
                shared = f"{found.count} ids belong to several rows, such as '{found.described[0].value}'"
                message = f"{format_key(type_)} on {type_.name}: {shared}"
                raise ValidationError(
                    message, found.described, hint="delete or correct the rows that share an id first"
                )


def _check_table(
    migration: SchemaMigration, rows: ReshapedRows, steps: list[MigrationStep], check_together: SetRuleCheck
) -> FoundViolations:
    properties = frozenset(name for step in steps for name in _list_properties(step))
    set_rules = frozenset(text for step in steps for text in _list_set_rules(rows.type, step))
    check = _RowCheck(rows, properties, any(_adds_key(step) for step in steps))
    found = FoundViolations()
    if check.is_needed:
        pieces = divide_evenly(rows.table.fragment_rows(), migration.executor.parallelism)
        found = sum(migration.executor.run(check.check_fragments, pieces), found)
    if set_rules:
        found += check_together(migration.catalog, migration.snapshot, rows, set_rules)
    return found


@dataclass(frozen=True, slots=True)
class _RowCheck:
    """Checks the rules on single rows: those on some properties, and whether ids are those of a new key."""

    rows: ReshapedRows
    properties: frozenset[str]
    has_new_key: bool

    @property
    def is_needed(self) -> bool:
        """Whether a rule on single rows is new."""
        return bool(self.properties) or self.has_new_key

    def check_fragments(self, fragments: Collection[int]) -> FoundViolations:
        """Task: check the rows of some fragments."""
        described: list[Violation] = []
        count = 0
        for batch in self.rows.read(in_fragments=fragments):
            for violation in self._check_batch(batch):
                count += 1
                if len(described) < MAX_VIOLATIONS:
                    described.append(violation)
        return FoundViolations(tuple(described), count)

    def _check_batch(self, batch: pa.RecordBatch) -> Iterator[Violation]:
        type_ = self.rows.type
        yield from (_name_row(each) for each in check_rows(type_, batch) if each.property in self.properties)
        if self.has_new_key:
            yield from _find_wrong_ids(type_, batch)


def check_set_rules(
    catalog: Catalog, snapshot: Snapshot, rows: ReshapedRows, rules: Collection[str]
) -> FoundViolations:
    """Check set rules in this process. Memory does not grow with the rows."""
    key, columns = rows.type.table_key, list_rule_columns(catalog, rows.type.table_key)
    pieces = (pa.Table.from_batches([batch]) for batch in rows.read(columns))
    changes = RowChanges(key, spill_rows(rows.select_schema(columns), pieces), mode=IncomingMode.OVERWRITE)
    violations = check_changes(catalog, snapshot, [changes]).violations
    own = [each for each in violations if each.table_key == rows.type.table_key and each.rule in rules]
    return FoundViolations(tuple(islice(own, MAX_VIOLATIONS)), len(own))


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
            table_key=type_.table_key,
        )
