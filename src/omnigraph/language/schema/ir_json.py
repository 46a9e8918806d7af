"""The schema IR as JSON, byte for byte as other readers write it, and the hash that they compare.

The compact form is hashed, the pretty form is stored. Ids are not kept in the IR: they follow from the names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal, NotRequired, TypeAlias, TypedDict, cast

import orjson

from omnigraph.errors import FormatError, FormatTooNew
from omnigraph.language.schema.catalog import Annotation, Cardinality, PatternRule, RangeRule
from omnigraph.language.schema.identity import property_id, type_id
from omnigraph.language.schema.ir import (
    IR_VERSION,
    ColumnRule,
    ColumnRuleKind,
    Constraint,
    EdgeIR,
    InterfaceIR,
    NodeIR,
    PropertyIR,
    SchemaIR,
    TypeKind,
    shortest,
)
from omnigraph.language.types import Scalar, ValueType


class TypeJson(TypedDict):
    """The type of a property."""

    scalar: str | dict[Literal["Vector"], int]
    nullable: bool
    list: bool
    enum_values: list[str] | None


class AnnotationJson(TypedDict):
    """An annotation; ``kwargs`` only when there are some."""

    name: str
    value: str | None
    kwargs: NotRequired[dict[str, str]]


class PropertyJson(TypedDict):
    """A property."""

    name: str
    prop_id: int
    prop_type: TypeJson
    annotations: list[AnnotationJson]


BoundJson: TypeAlias = "dict[str, int | float] | dict[str, orjson.Fragment] | None"
ConstraintJson: TypeAlias = "dict[str, list[str] | dict[str, str | BoundJson]]"


class InterfaceJson(TypedDict):
    """An interface."""

    name: str
    type_id: int
    properties: list[PropertyJson]


class NodeJson(TypedDict):
    """A node type."""

    name: str
    type_id: int
    annotations: list[AnnotationJson]
    implements: list[str]
    properties: list[PropertyJson]
    constraints: list[ConstraintJson]


class CardinalityJson(TypedDict):
    """The cardinality of an edge."""

    min: int
    max: int | None


class EdgeJson(TypedDict):
    """An edge type."""

    name: str
    type_id: int
    from_type: str
    to_type: str
    cardinality: CardinalityJson
    annotations: list[AnnotationJson]
    properties: list[PropertyJson]
    constraints: list[ConstraintJson]


class SchemaJson(TypedDict):
    """A whole schema."""

    ir_version: int
    interfaces: list[InterfaceJson]
    nodes: list[NodeJson]
    edges: list[EdgeJson]


# ---------------------------------------------------------------------------------------------- writing


def ir_to_json(ir: SchemaIR) -> str:
    """The stored form: two blanks per level, no line break at the end."""
    return orjson.dumps(_schema(ir), option=orjson.OPT_INDENT_2).decode()


def compact_ir_json(ir: SchemaIR) -> str:
    """The form that is hashed."""
    return orjson.dumps(_schema(ir)).decode()


def ir_hash(ir: SchemaIR) -> str:
    """The identity of a schema: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(compact_ir_json(ir).encode()).hexdigest()}"


def state_json(ir: SchemaIR) -> str:
    """The file that stands beside the stored IR and says which hash it has."""
    state = {"format_version": 1, "schema_ir_hash": ir_hash(ir), "schema_identity_version": 1}
    return orjson.dumps(state, option=orjson.OPT_INDENT_2).decode()


def _schema(ir: SchemaIR) -> SchemaJson:
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_interface(each) for each in ir.interfaces],
        "nodes": [_node(each) for each in ir.nodes],
        "edges": [_edge(each) for each in ir.edges],
    }


def _interface(interface: InterfaceIR) -> InterfaceJson:
    return {
        "name": interface.name,
        "type_id": type_id(TypeKind.INTERFACE, interface.name),
        "properties": _properties(TypeKind.INTERFACE, interface),
    }


def _node(node: NodeIR) -> NodeJson:
    return {
        "name": node.name,
        "type_id": type_id(TypeKind.NODE, node.name),
        "annotations": [annotation_json(each) for each in node.annotations],
        "implements": list(node.implements),
        "properties": _properties(TypeKind.NODE, node),
        "constraints": [_stored_constraint(each) for each in node.constraints],
    }


def _edge(edge: EdgeIR) -> EdgeJson:
    return {
        "name": edge.name,
        "type_id": type_id(TypeKind.EDGE, edge.name),
        "from_type": edge.from_type,
        "to_type": edge.to_type,
        "cardinality": cardinality_json(edge.cardinality),
        "annotations": [annotation_json(each) for each in edge.annotations],
        "properties": _properties(TypeKind.EDGE, edge),
        "constraints": [_stored_constraint(each) for each in edge.constraints],
    }


def _properties(kind: TypeKind, owner: InterfaceIR | NodeIR | EdgeIR) -> list[PropertyJson]:
    return [
        {
            "name": each.name,
            "prop_id": property_id(kind, owner.name, each.name),
            "prop_type": type_json(each.type),
            "annotations": [annotation_json(annotation) for annotation in each.annotations],
        }
        for each in owner.properties
    ]


def type_json(type_: ValueType) -> TypeJson:
    """A type, as the IR and the migration plan write it."""
    return {
        "scalar": str(type_.scalar) if type_.dimension is None else {"Vector": type_.dimension},
        "nullable": type_.nullable,
        "list": type_.is_list,
        "enum_values": None if type_.enum_values is None else list(type_.enum_values),
    }


def annotation_json(annotation: Annotation) -> AnnotationJson:
    """An annotation, as the IR and the migration plan write it."""
    found: AnnotationJson = {"name": annotation.name, "value": annotation.value}
    if annotation.keywords:
        found["kwargs"] = dict(annotation.keywords)
    return found


def cardinality_json(cardinality: Cardinality) -> CardinalityJson:
    """A cardinality, as the IR and the migration plan write it."""
    return {"min": cardinality.minimum, "max": cardinality.maximum}


def constraint_json(constraint: Constraint) -> ConstraintJson:
    """A constraint, as the migration plan writes it."""
    match constraint:
        case ColumnRule(kind, columns):
            return {str(kind): list(columns)}
        case RangeRule(name, minimum, maximum):
            return {"Range": {"property": name, "min": _bound(minimum), "max": _bound(maximum)}}
        case PatternRule(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}


def _bound(bound: int | float | None) -> BoundJson:
    if bound is None:
        return None
    return {"Float" if isinstance(bound, float) else "Integer": bound}


def _stored_constraint(constraint: Constraint) -> ConstraintJson:
    if not isinstance(constraint, RangeRule):
        return constraint_json(constraint)
    minimum, maximum = _stored_bound(constraint.minimum), _stored_bound(constraint.maximum)
    return {"Range": {"property": constraint.property, "min": minimum, "max": maximum}}


def _stored_bound(bound: int | float | None) -> BoundJson:
    return {"Float": orjson.Fragment(_float(bound))} if isinstance(bound, float) else _bound(bound)


def _float(number: float) -> str:
    # Readers in Rust write the decade above 1e-5 without exponent, as Python does not.
    return format(Decimal(repr(number)), "f") if 1e-5 <= abs(number) < 1e-4 else shortest(number)


# ---------------------------------------------------------------------------------------------- reading


def ir_from_json(text: str | bytes) -> SchemaIR:
    """The IR of a stored file. Its ids are not read, since they follow from the names."""
    try:
        found = cast(SchemaJson, orjson.loads(text))
        version = found["ir_version"]
        if version != IR_VERSION:
            raise FormatTooNew(
                f"the stored schema has IR version {version}; this release reads {IR_VERSION}", hint="upgrade omnigraph"
            )
        return SchemaIR(
            tuple(InterfaceIR(each["name"], _read_properties(each["properties"])) for each in found["interfaces"]),
            tuple(_read_node(each) for each in found["nodes"]),
            tuple(_read_edge(each) for each in found["edges"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"the stored schema IR cannot be read: {error!r}") from error


def _read_node(node: NodeJson) -> NodeIR:
    return NodeIR(
        node["name"],
        _read_annotations(node["annotations"]),
        tuple(node["implements"]),
        _read_properties(node["properties"]),
        tuple(_read_constraint(each) for each in node["constraints"]),
    )


def _read_edge(edge: EdgeJson) -> EdgeIR:
    return EdgeIR(
        edge["name"],
        edge["from_type"],
        edge["to_type"],
        Cardinality(edge["cardinality"]["min"], edge["cardinality"]["max"]),
        _read_annotations(edge["annotations"]),
        _read_properties(edge["properties"]),
        tuple(_read_constraint(each) for each in edge["constraints"]),
    )


def _read_properties(properties: Iterable[PropertyJson]) -> tuple[PropertyIR, ...]:
    return tuple(
        PropertyIR(each["name"], _read_type(each["prop_type"]), _read_annotations(each["annotations"]))
        for each in properties
    )


def _read_type(found: TypeJson) -> ValueType:
    scalar, values = found["scalar"], found["enum_values"]
    return ValueType(
        Scalar(scalar) if isinstance(scalar, str) else Scalar.VECTOR,
        found["nullable"],
        found["list"],
        None if values is None else tuple(values),
        None if isinstance(scalar, str) else scalar["Vector"],
    )


def _read_annotations(annotations: Iterable[AnnotationJson]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(each["name"], each["value"], tuple(sorted(each.get("kwargs", {}).items()))) for each in annotations
    )


def _read_constraint(found: ConstraintJson) -> Constraint:
    ((kind, body),) = found.items()
    if isinstance(body, list):
        return ColumnRule(ColumnRuleKind(kind), tuple(body))
    name = cast(str, body["property"])
    if kind == "Check":
        return PatternRule(name, cast(str, body["pattern"]))
    if kind == "Range":
        return RangeRule(name, _read_bound(cast(BoundJson, body["min"])), _read_bound(cast(BoundJson, body["max"])))
    raise ValueError(f"unknown constraint {kind}")


def _read_bound(found: BoundJson) -> int | float | None:
    if found is None:
        return None
    ((kind, number),) = found.items()
    return float(cast(float, number)) if kind == "Float" else int(cast(int, number))
