"""Migration steps as text."""

from __future__ import annotations

from omnigraph.language.schema import (
    AddConstraint,
    AddProperty,
    AddType,
    Cardinality,
    ChangeCardinality,
    ColumnRule,
    Constraint,
    DropConstraint,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationStep,
    NarrowEnum,
    PatternRule,
    PropertyStep,
    RangeRule,
    RelaxProperty,
    RenameProperty,
    RenameType,
    RequireProperty,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.language.syntax import quote_string


def describe_step(step: MigrationStep) -> str:
    """Describe a step in a few words."""
    match step:
        case PropertyStep():
            return _describe_property_step(step, f"{step.type_name}.{step.property_name}")
        case RenameProperty():
            return f"rename {step.type_name}.{step.from_} to {step.to}"
        case AddConstraint():
            return f"add {_format_constraint(step.constraint)} to {step.type_name}"
        case DropConstraint():
            return f"drop {_format_constraint(step.constraint)} of {step.type_name}"
        case UnsupportedChange():
            code = f" [{step.code}]" if step.code else ""
            return f"{step.entity}: {step.reason}{code}"
        case _:
            return _describe_type_step(step)


def _describe_type_step(step: MigrationStep) -> str:
    match step:
        case AddType():
            return f"add {step.type_kind} {step.name}"
        case RenameType():
            return f"rename {step.type_kind} {step.from_} to {step.to}"
        case DropType():
            return f"drop {step.type_kind} {step.name} ({step.mode})"
        case ChangeCardinality():
            old, new = _format_cardinality(step.from_), _format_cardinality(step.to)
            return f"change @card of {step.type_name} from {old} to {new}"
        case UpdateTypeMetadata():
            return f"change the annotations of {step.type_kind} {step.type_name}"
        case _:
            return step.kind


def _describe_property_step(step: PropertyStep, name: str) -> str:
    match step:
        case AddProperty():
            filled = f", filled with {step.default}" if step.default is not None else ""
            return f"add {name}: {step.property_type}{filled}"
        case WidenProperty():
            return f"widen {name} from {step.from_} to {step.to}"
        case RelaxProperty():
            return f"allow null in {name}"
        case RequireProperty():
            return f"require {name}"
        case ExtendEnum():
            return f"allow {', '.join(step.added_values)} in {name}"
        case NarrowEnum():
            return f"no longer allow {', '.join(step.removed_values)} in {name}"
        case UpdatePropertyMetadata():
            return f"change the annotations of {name}"
        case DropProperty():
            return f"drop {name} ({step.mode})"
        case _:
            return f"{step.kind} {name}"


def _format_constraint(constraint: Constraint) -> str:
    match constraint:
        case ColumnRule():
            return f"@{constraint.kind.lower()}({', '.join(constraint.columns)})"
        case RangeRule():
            low, high = _format_bound(constraint.minimum), _format_bound(constraint.maximum)
            return f"@range({constraint.property}, {low}..{high})"
        case PatternRule():
            return f"@check({constraint.property}, {quote_string(constraint.pattern)})"


def _format_bound(value: float | None) -> str:
    return "" if value is None else str(value)


def _format_cardinality(cardinality: Cardinality) -> str:
    return f"{cardinality.minimum}..{_format_bound(cardinality.maximum)}"
