"""Plan a migration: the steps from one schema IR to another, in the order in which they are applied.

Interfaces come first, then nodes, then edges, each by name, with the dropped types of a kind last. Renames are applied
to the old schema before it is compared, so that an edge of a renamed node, or a rule of a renamed property, is not a
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

from omnigraph.language.schema.catalog import Annotation, PatternRule, RangeRule
from omnigraph.language.schema.ir import (
    ColumnRule,
    ColumnRuleKind,
    Constraint,
    EdgeIR,
    InterfaceIR,
    NodeIR,
    PropertyIR,
    SchemaIR,
    TypeKind,
    constraint_key,
)
from omnigraph.language.schema.resolve import CONSTRAINT_ANNOTATIONS
from omnigraph.language.schema.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    DropConstraint,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationPlan,
    MigrationStep,
    NarrowEnum,
    RelaxProperty,
    RenameProperty,
    RenameType,
    RequireProperty,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass

REQUIRED_WITHOUT_DEFAULT = "OG-MF-103"
TYPE_CHANGED = "OG-MF-106"
KEY_ORDER_CHANGED = "OG-MF-107"

_WIDER = {Scalar.I32: Scalar.I64, Scalar.U32: Scalar.U64, Scalar.F32: Scalar.F64}
# Stored rows do not depend on these, or a step about constraints covers it.
_FREE_ANNOTATIONS = CONSTRAINT_ANNOTATIONS | {"description", "instruction", "rename_from", "default"}

TypeIR = TypeVar("TypeIR", InterfaceIR, NodeIR, EdgeIR)


def plan_migration(old: SchemaIR, new: SchemaIR, *, allow_data_loss: bool = False) -> MigrationPlan:
    """Return the steps from one schema to another; ``allow_data_loss`` makes every drop a hard drop."""
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    nodes = _find_renames(old.nodes, new.nodes)
    edges = _find_renames(old.edges, new.edges)

    def compare_interfaces(before: InterfaceIR, after: InterfaceIR) -> Iterator[MigrationStep]:
        return _compare_properties(_Owner(TypeKind.INTERFACE, after.name), before.properties, after.properties, mode)

    def compare_nodes(before: NodeIR, after: NodeIR) -> Iterator[MigrationStep]:
        return _compare_nodes(before, after, mode)

    def compare_edges(before: EdgeIR, after: EdgeIR) -> Iterator[MigrationStep]:
        moved = replace(before, from_type=nodes.new_name(before.from_type), to_type=nodes.new_name(before.to_type))
        return _compare_edges(moved, after, mode)

    return MigrationPlan(
        (
            *_compare_types(TypeKind.INTERFACE, old.interfaces, new.interfaces, _Renames(), compare_interfaces, mode),
            *_compare_types(TypeKind.NODE, old.nodes, new.nodes, nodes, compare_nodes, mode, new.interfaces),
            *_compare_types(TypeKind.EDGE, old.edges, new.edges, edges, compare_edges, mode),
        ),
        (
            *_find_possible_renames(old.nodes, new.nodes, nodes),
            *_find_possible_renames(old.edges, new.edges, edges),
        ),
    )


# ---------------------------------------------------------------------------------------------- renames


@dataclass(frozen=True, slots=True)
class _Renames:
    """The renames in both directions, and why other rename hints were rejected."""

    new_names: Mapping[str, str] = field(default_factory=dict[str, str])
    old_names: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])

    def new_name(self, old: str) -> str:
        return self.new_names.get(old, old)

    def old_name(self, new: str) -> str:
        return self.old_names.get(new, new)


def _find_renames(
    old: Sequence[NodeIR | EdgeIR | PropertyIR],
    new: Sequence[NodeIR | EdgeIR | PropertyIR],
) -> _Renames:
    before = {each.name: each for each in old}
    after = {each.name for each in new}
    accepted: dict[str, str] = {}
    refused: dict[str, str] = {}
    for each in new:
        hint = _rename_hint(each)
        # A file can be applied again: the old schema then carries the same hint.
        if hint is None or (each.name in before and _rename_hint(before[each.name]) == hint):
            continue
        if each.name in before:
            refused[each.name] = (
                f"@rename_from names '{hint}', but '{each.name}' exists already and keeps its own values: "
                "remove the hint, or swap two names in two changes, by a third name"
            )
        elif hint not in before:
            refused[each.name] = f"@rename_from names '{hint}', which does not exist"
        elif hint in after:
            refused[each.name] = f"@rename_from names '{hint}', which is still declared"
        elif hint in accepted:
            refused[each.name] = f"@rename_from names '{hint}', which is renamed to '{accepted[hint]}' already"
        else:
            accepted[hint] = each.name
    return _Renames(accepted, {new_name: old_name for old_name, new_name in accepted.items()}, refused)


def _rename_hint(declared: NodeIR | EdgeIR | PropertyIR) -> str | None:
    return next((annotation.value for annotation in declared.annotations if annotation.name == "rename_from"), None)


def _find_possible_renames(
    old: Sequence[NodeIR | EdgeIR], new: Sequence[NodeIR | EdgeIR], type_renames: _Renames
) -> Iterator[str]:
    """Yield a hint for each property that is added where one of the same type is dropped."""
    types_before = {each.name: each for each in old}
    for after in new:
        before = types_before.get(type_renames.old_name(after.name))
        if before is None:
            continue
        renames = _find_renames(before.properties, after.properties)
        remaining = {renames.old_name(each.name) for each in after.properties}
        known = {each.name for each in before.properties}
        dropped = [each for each in before.properties if each.name not in remaining]
        for added in (each for each in after.properties if renames.old_name(each.name) not in known):
            for gone in dropped:
                if replace(gone.type, nullable=True) == replace(added.type, nullable=True):
                    yield (
                        f"{after.name}.{gone.name} is dropped and {after.name}.{added.name} is added: to keep the "
                        f'values, declare {added.name} with @rename_from("{gone.name}")'
                    )


# ---------------------------------------------------------------------------------------------- types


@dataclass(frozen=True, slots=True)
class _Owner:
    """The type that a step is about, by its new name."""

    kind: TypeKind
    name: str

    def reject(self, reason: str, *, member: str | None = None, code: str | None = None) -> UnsupportedChange:
        entity = f"{self.kind}:{self.name}" + (f".{member}" if member else "")
        return UnsupportedChange(entity, reason, code)


def _compare_types(
    kind: TypeKind,
    old: Sequence[TypeIR],
    new: Sequence[TypeIR],
    renames: _Renames,
    compare: Callable[[TypeIR, TypeIR], Iterator[MigrationStep]],
    mode: DropMode,
    interfaces: Sequence[InterfaceIR] = (),
) -> Iterator[MigrationStep]:
    old_types = {each.name: each for each in old}
    for after in new:
        before = old_types.pop(renames.old_name(after.name), None)
        if after.name in renames.rejected:
            yield _Owner(kind, after.name).reject(renames.rejected[after.name])
        elif before is None:
            yield AddType(kind, after.name)
            yield from _refuse_hints_of_new_type(_Owner(kind, after.name), after, interfaces)
        else:
            if before.name != after.name:
                yield RenameType(kind, before.name, after.name)
            yield from compare(before, after)
    for name in old_types:
        if kind is TypeKind.INTERFACE:
            yield _Owner(kind, name).reject("an interface cannot be removed or renamed")
        else:
            yield DropType(kind, name, mode)


def _refuse_hints_of_new_type(
    owner: _Owner, added: InterfaceIR | NodeIR | EdgeIR, interfaces: Iterable[InterfaceIR]
) -> Iterator[MigrationStep]:
    """Refuse rename hints of an added type. An inherited hint is about the other types of its interface."""
    names = added.implements if isinstance(added, NodeIR) else ()
    inherited = [declared for interface in interfaces if interface.name in names for declared in interface.properties]
    for declared in added.properties:
        hint = _rename_hint(declared)
        if hint is not None and declared not in inherited:
            reason = f"@rename_from names '{hint}', but the type is new and has no values to keep"
            yield owner.reject(reason, member=declared.name)


def _compare_nodes(before: NodeIR, after: NodeIR, mode: DropMode) -> Iterator[MigrationStep]:
    owner = _Owner(TypeKind.NODE, after.name)
    if before.implements != after.implements:
        yield owner.reject("the interfaces of a node cannot change")
    yield from _compare_type_annotations(owner, before, after)
    yield from _compare_properties(owner, before.properties, after.properties, mode, _key_of(after.constraints))
    yield from _compare_constraints(owner, before, after)


def _compare_edges(before: EdgeIR, after: EdgeIR, mode: DropMode) -> Iterator[MigrationStep]:
    owner = _Owner(TypeKind.EDGE, after.name)
    if (before.from_type, before.to_type) != (after.from_type, after.to_type):
        yield owner.reject("the endpoints of an edge cannot change")
    if before.cardinality != after.cardinality:
        yield ChangeCardinality(owner.kind, owner.name, before.cardinality, after.cardinality)
    yield from _compare_type_annotations(owner, before, after)
    yield from _compare_properties(owner, before.properties, after.properties, mode)
    yield from _compare_constraints(owner, before, after)


def _compare_type_annotations(
    owner: _Owner, before: NodeIR | EdgeIR, after: NodeIR | EdgeIR
) -> Iterator[MigrationStep]:
    renamed = before.name != after.name
    changed = _find_changed_annotations(before.annotations, after.annotations, renamed=renamed)
    if changed - _FREE_ANNOTATIONS:
        yield owner.reject(_explain_rejected_annotations(changed))
    elif changed:
        yield UpdateTypeMetadata(owner.kind, owner.name, after.annotations)


# ---------------------------------------------------------------------------------------------- properties


def _compare_properties(
    owner: _Owner,
    old: Sequence[PropertyIR],
    new: Sequence[PropertyIR],
    mode: DropMode,
    key: Collection[str] = (),
) -> Iterator[MigrationStep]:
    renames = _find_renames(old, new)
    old_properties = {each.name: each for each in old}
    for after in new:
        before = old_properties.pop(renames.old_name(after.name), None)
        if after.name in renames.rejected:
            yield owner.reject(renames.rejected[after.name], member=after.name)
        elif before is None:
            yield _add_property(owner, after)
        else:
            if before.name != after.name:
                yield RenameProperty(owner.kind, owner.name, before.name, after.name)
            yield from _compare_property_types(owner, before, after, in_key=after.name in key)
            yield from _compare_property_annotations(owner, before, after, renames)
    for name in old_properties:
        yield DropProperty(owner.kind, owner.name, name, mode)


def _add_property(owner: _Owner, after: PropertyIR) -> MigrationStep:
    if after.type.nullable or owner.kind is TypeKind.INTERFACE:
        return AddProperty(owner.kind, owner.name, after.name, after.type)
    default = next((each.value for each in after.annotations if each.name == "default"), None)
    if default is None:
        reason = "a required property can only be added with a @default"
        return owner.reject(reason, member=after.name, code=REQUIRED_WITHOUT_DEFAULT)
    return AddProperty(owner.kind, owner.name, after.name, after.type, default)


def _compare_property_types(
    owner: _Owner, before: PropertyIR, after: PropertyIR, *, in_key: bool
) -> Iterator[MigrationStep]:
    old, new = before.type, after.type
    place = (owner.kind, owner.name, after.name)
    if old.enum_values is not None and new.enum_values is not None:
        added = sorted(set(new.enum_values) - set(old.enum_values))
        removed = sorted(set(old.enum_values) - set(new.enum_values))
        if added:
            yield ExtendEnum(*place, tuple(added))
        if removed:
            yield NarrowEnum(*place, tuple(removed))
    elif _is_widening(old, new, in_key=in_key):
        yield WidenProperty(*place, old.scalar, new.scalar)
    elif replace(old, nullable=new.nullable) != new:
        reason = f"{old} cannot become {new}"
        yield owner.reject(reason, member=after.name, code=TYPE_CHANGED)
        return
    if new.nullable and not old.nullable:
        yield RelaxProperty(*place)
    if old.nullable and not new.nullable:
        yield RequireProperty(*place)


def _is_widening(old: ValueType, new: ValueType, *, in_key: bool) -> bool:
    # The text of a float depends on its width, so the ids made from it would change.
    if in_key and old.scalar is Scalar.F32:
        return False
    return not old.is_list and not new.is_list and _WIDER.get(old.scalar) == new.scalar


def _compare_property_annotations(
    owner: _Owner, before: PropertyIR, after: PropertyIR, renames: _Renames
) -> Iterator[MigrationStep]:
    former = tuple(
        replace(each, value=renames.new_name(each.value)) if each.name == "embed" and each.value else each
        for each in before.annotations
    )
    changed = _find_changed_annotations(former, after.annotations, renamed=before.name != after.name)
    if changed - _FREE_ANNOTATIONS:
        yield owner.reject(_explain_rejected_annotations(changed), member=after.name)
    elif changed:
        yield UpdatePropertyMetadata(owner.kind, owner.name, after.name, after.annotations)


def _find_changed_annotations(
    before: Iterable[Annotation], after: Iterable[Annotation], *, renamed: bool
) -> frozenset[str]:
    """Return the names of the annotations that were added, removed or changed; the hint of a rename does not count."""
    old, new = Counter(before), Counter(after)
    names = {each.name for each in (old - new) + (new - old)}
    return frozenset(names - {"rename_from"} if renamed else names)


def _explain_rejected_annotations(changed: frozenset[str]) -> str:
    stuck = ", ".join(f"@{name}" for name in sorted(changed - _FREE_ANNOTATIONS))
    return f"{stuck} cannot be added, changed or removed"


# ---------------------------------------------------------------------------------------------- constraints


def _key_of(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    keys = (each for each in constraints if isinstance(each, ColumnRule) and each.kind is ColumnRuleKind.KEY)
    return next((key.columns for key in keys), ())


def _compare_constraints(owner: _Owner, before: NodeIR | EdgeIR, after: NodeIR | EdgeIR) -> Iterator[MigrationStep]:
    renames = _find_renames(before.properties, after.properties)
    old = {constraint_key(each): each for each in (_rename_columns(each, renames) for each in before.constraints)}
    new = {constraint_key(each): each for each in after.constraints}
    key = [renames.new_name(column) for column in _key_of(before.constraints)]
    if key != sorted(key) and tuple(sorted(key)) == _key_of(after.constraints):
        reason = f"the rename changes the order of the key's properties, and with it every id: {', '.join(key)}"
        yield owner.reject(reason, code=KEY_ORDER_CHANGED)
    for name in sorted(old.keys() - new.keys()):
        yield DropConstraint(owner.kind, owner.name, old[name])
    for name in sorted(new.keys() - old.keys()):
        yield AddConstraint(owner.kind, owner.name, new[name])


def _rename_columns(constraint: Constraint, renames: _Renames) -> Constraint:
    match constraint:
        case ColumnRule(kind, columns):
            return ColumnRule(kind, tuple(sorted(renames.new_name(column) for column in columns)))
        case RangeRule() | PatternRule():
            return replace(constraint, property=renames.new_name(constraint.property))
