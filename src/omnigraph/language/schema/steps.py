"""The steps of a migration: what each one changes, what it does to stored rows, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import ClassVar, cast

from omnigraph.errors import Json
from omnigraph.language.schema.catalog import Annotation, Cardinality, PatternRule, RangeRule
from omnigraph.language.schema.identity import TableKey
from omnigraph.language.schema.ir import ColumnRule, ColumnRuleKind, Constraint, TypeKind
from omnigraph.language.schema.ir_json import encode_annotation, encode_cardinality, encode_constraint, encode_type
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass


class Tier(StrEnum):
    """What a step does to stored rows."""

    METADATA = "metadata"
    """No row changes."""
    REWRITE = "rewrite"
    """The rows of a table are rewritten; their values stay."""
    VALIDATED = "validated"
    """The rows are checked; one that breaks the new rule stops the migration."""
    DESTRUCTIVE = "destructive"
    """Stored data is lost, in every version."""


class DropMode(StrEnum):
    """Whether dropped data stays readable in older versions (soft) or not (hard)."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One step; ``kind`` is its name in JSON."""

    kind: ClassVar[str] = ""

    @property
    def tier(self) -> Tier:
        """What the step does to stored rows."""
        return Tier.METADATA

    def to_json(self) -> dict[str, Json]:
        """Return the step as JSON: its kind, the fields that are set, and its tier."""
        values = {field.name.rstrip("_"): getattr(self, field.name) for field in fields(self)}
        given = {name: _to_json(value) for name, value in values.items() if value is not None}
        return {"kind": self.kind, **given, "tier": str(self.tier)}


def _to_json(value: object) -> Json:
    match value:
        case ValueType():
            return cast(Json, encode_type(value))
        case Annotation():
            return cast(Json, encode_annotation(value))
        case Cardinality():
            return cast(Json, encode_cardinality(value))
        case ColumnRule() | RangeRule() | PatternRule():
            return cast(Json, encode_constraint(value))
        case tuple():
            return [_to_json(each) for each in cast("tuple[object, ...]", value)]
        case str():
            return str(value)
        case _:
            raise TypeError(f"a migration step has no JSON form for {type(value).__name__}")


# ---------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class TypeStep(MigrationStep):
    """A step about one type that is not dropped."""

    type_kind: TypeKind
    type_name: str

    @property
    def table_key(self) -> TableKey:
        """The table of the type."""
        return TableKey.of(self.type_kind, self.type_name)


@dataclass(frozen=True, slots=True)
class AddType(MigrationStep):
    """Add a type, with its properties and rules."""

    kind = "add_type"
    type_kind: TypeKind
    name: str


@dataclass(frozen=True, slots=True)
class RenameType(MigrationStep):
    """Rename a type: its rows move to the table of the new name, and keep their ids."""

    kind = "rename_type"
    type_kind: TypeKind
    from_: str
    to: str

    @property
    def old_key(self) -> TableKey:
        """The table of the old name."""
        return TableKey.of(self.type_kind, self.from_)

    @property
    def new_key(self) -> TableKey:
        """The table of the new name."""
        return TableKey.of(self.type_kind, self.to)

    @property
    def tier(self) -> Tier:
        """The directory of a table follows from its name, so the rows are rewritten."""
        return Tier.REWRITE


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata(TypeStep):
    """Change annotations of a type that no row depends on."""

    kind = "update_type_metadata"
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class ChangeCardinality(TypeStep):
    """Change how many edges of a type a source node may have."""

    kind = "change_cardinality"
    from_: Cardinality
    to: Cardinality

    @property
    def tier(self) -> Tier:
        """A wider cardinality needs no check."""
        wider_below = self.to.minimum <= self.from_.minimum
        wider_above = self.to.maximum is None or (
            self.from_.maximum is not None and self.to.maximum >= self.from_.maximum
        )
        return Tier.METADATA if wider_below and wider_above else Tier.VALIDATED


@dataclass(frozen=True, slots=True)
class DropType(MigrationStep):
    """Drop a type. After a soft drop, older versions still show it."""

    kind = "drop_type"
    type_kind: TypeKind
    name: str
    mode: DropMode

    @property
    def table_key(self) -> TableKey:
        """The table of the type."""
        return TableKey.of(self.type_kind, self.name)

    @property
    def tier(self) -> Tier:
        """Only a hard drop loses rows."""
        return Tier.DESTRUCTIVE if self.mode is DropMode.HARD else Tier.METADATA


# ---------------------------------------------------------------------------------------------- properties


@dataclass(frozen=True, slots=True)
class PropertyStep(TypeStep):
    """A step about one property of one type."""

    property_name: str


@dataclass(frozen=True, slots=True)
class AddProperty(PropertyStep):
    """Add a property. Existing rows get null, or the default if it is required."""

    kind = "add_property"
    property_type: ValueType
    default: str | None = None

    @property
    def tier(self) -> Tier:
        """A required property is filled in; interfaces have no rows."""
        filled = not self.property_type.nullable and self.type_kind is not TypeKind.INTERFACE
        return Tier.REWRITE if filled else Tier.METADATA


@dataclass(frozen=True, slots=True)
class RenameProperty(TypeStep):
    """Rename a property; its values stay."""

    kind = "rename_property"
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class WidenProperty(PropertyStep):
    """Change a number type to the wider type of its kind."""

    kind = "widen_property"
    from_: Scalar
    to: Scalar

    @property
    def tier(self) -> Tier:
        """The column is rewritten with the wider type; interfaces have no rows."""
        return Tier.METADATA if self.type_kind is TypeKind.INTERFACE else Tier.REWRITE


@dataclass(frozen=True, slots=True)
class RelaxProperty(PropertyStep):
    """Allow null in a required property."""

    kind = "relax_property"


@dataclass(frozen=True, slots=True)
class RequireProperty(PropertyStep):
    """Forbid null in a property."""

    kind = "require_property"

    @property
    def tier(self) -> Tier:
        """Rows with null are violations; interfaces have no rows."""
        return Tier.METADATA if self.type_kind is TypeKind.INTERFACE else Tier.VALIDATED


@dataclass(frozen=True, slots=True)
class ExtendEnum(PropertyStep):
    """Add values to an enum."""

    kind = "extend_enum"
    added_values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NarrowEnum(PropertyStep):
    """Remove values from an enum."""

    kind = "narrow_enum"
    removed_values: tuple[str, ...]

    @property
    def tier(self) -> Tier:
        """Rows with a removed value are violations; interfaces have no rows."""
        return Tier.METADATA if self.type_kind is TypeKind.INTERFACE else Tier.VALIDATED


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata(PropertyStep):
    """Change annotations of a property that no row depends on."""

    kind = "update_property_metadata"
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class DropProperty(PropertyStep):
    """Drop a property. After a soft drop, older versions still show it."""

    kind = "drop_property"
    mode: DropMode

    @property
    def tier(self) -> Tier:
        """Only a hard drop loses values."""
        return Tier.DESTRUCTIVE if self.mode is DropMode.HARD else Tier.METADATA


# ---------------------------------------------------------------------------------------------- constraints


@dataclass(frozen=True, slots=True)
class AddConstraint(TypeStep):
    """Add a rule. For a key, the stored ids must be the ids that the key gives."""

    kind = "add_constraint"
    constraint: Constraint

    @property
    def tier(self) -> Tier:
        """An index fits all rows; rows may break any other rule."""
        is_index = isinstance(self.constraint, ColumnRule) and self.constraint.kind is ColumnRuleKind.INDEX
        return Tier.METADATA if is_index else Tier.VALIDATED


@dataclass(frozen=True, slots=True)
class DropConstraint(TypeStep):
    """Drop a rule."""

    kind = "drop_constraint"
    constraint: Constraint


# ---------------------------------------------------------------------------------------------- no step


@dataclass(frozen=True, slots=True)
class UnsupportedChange(MigrationStep):
    """A difference that no step supports; a plan with one cannot be applied."""

    kind = "unsupported_change"
    entity: str
    reason: str
    code: str | None = None

    @property
    def tier(self) -> Tier:
        """The only way is to export, change and load again."""
        return Tier.DESTRUCTIVE


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from one schema to another, and where a rename may be meant."""

    steps: tuple[MigrationStep, ...]
    hints: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the plan can be applied."""
        return not self.unsupported

    @property
    def unsupported(self) -> Sequence[UnsupportedChange]:
        """The differences that no step supports."""
        return [step for step in self.steps if isinstance(step, UnsupportedChange)]

    def to_json(self) -> Mapping[str, Json]:
        """Return the plan as JSON."""
        return {
            "supported": self.supported,
            "steps": [step.to_json() for step in self.steps],
            "hints": list(self.hints),
        }
