"""Migration steps in words, as a person would say them."""

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
    NarrowEnum,
    PatternRule,
    PropertyStep,
    RangeRule,
    RelaxProperty,
    RenameProperty,
    RenameType,
    RequireProperty,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.language.syntax import quoted


def in_words(step: Step) -> str:
    """What a step does."""
    match step:
        case PropertyStep():
            return _property_step(step, f"{step.type_name}.{step.property_name}")
        case RenameProperty():
            return f"rename {step.type_name}.{step.from_} to {step.to}"
        case AddConstraint():
            return f"add {_constraint(step.constraint)} to {step.type_name}"
        case DropConstraint():
            return f"drop {_constraint(step.constraint)} of {step.type_name}"
        case UnsupportedChange():
            code = f" [{step.code}]" if step.code else ""
            return f"{step.entity}: {step.reason}{code}"
        case _:
            return _type_step(step)


def _type_step(step: Step) -> str:
    match step:
        case AddType():
            return f"add {step.type_kind} {step.name}"
        case RenameType():
            return f"rename {step.type_kind} {step.from_} to {step.to}"
        case DropType():
            return f"drop {step.type_kind} {step.name} ({step.mode})"
        case ChangeCardinality():
            return f"change @card of {step.type_name} from {_cardinality(step.from_)} to {_cardinality(step.to)}"
        case UpdateTypeMetadata():
            return f"change the annotations of {step.type_kind} {step.type_name}"
        case _:
            return step.kind


def _property_step(step: PropertyStep, name: str) -> str:
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


def _constraint(constraint: Constraint) -> str:
    match constraint:
        case ColumnRule():
            return f"@{constraint.kind.lower()}({', '.join(constraint.columns)})"
        case RangeRule():
            return f"@range({constraint.property}, {_bound(constraint.minimum)}..{_bound(constraint.maximum)})"
        case PatternRule():
            return f"@check({constraint.property}, {quoted(constraint.pattern)})"


def _bound(value: float | None) -> str:
    return "" if value is None else str(value)


def _cardinality(cardinality: Cardinality) -> str:
    return f"{cardinality.minimum}..{_bound(cardinality.maximum)}"
