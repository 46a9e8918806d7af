"""The schema IR as JSON, byte for byte as other implementations write it, and its hash.

The indented form is stored, the compact form is hashed. The IR has no ids: they follow from the names.
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
    format_shortest,
)
from omnigraph.language.types import Scalar, ValueType


class TypeJson(TypedDict):
    """The type of a property."""

    scalar: str | dict[Literal["Vector"], int]
    nullable: bool
    list: bool
    enum_values: list[str] | None


class AnnotationJson(TypedDict):
    """An annotation; ``kwargs`` is left out if empty."""

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


def encode_ir(ir: SchemaIR) -> str:
    """Return the stored form: two blanks per level, no line break at the end."""
    return orjson.dumps(_encode_schema(ir), option=orjson.OPT_INDENT_2).decode()


def encode_compact_ir(ir: SchemaIR) -> str:
    """Return the form that is hashed."""
    return orjson.dumps(_encode_schema(ir)).decode()


def hash_ir(ir: SchemaIR) -> str:
    """Return the hash that identifies a schema: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(encode_compact_ir(ir).encode()).hexdigest()}"


def encode_state(ir: SchemaIR) -> str:
    """Return the content of the state file, which stores the hash of the IR beside it."""
    state = {"format_version": 1, "schema_ir_hash": hash_ir(ir), "schema_identity_version": 1}
    return orjson.dumps(state, option=orjson.OPT_INDENT_2).decode()


def _encode_schema(ir: SchemaIR) -> SchemaJson:
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_encode_interface(each) for each in ir.interfaces],
        "nodes": [_encode_node(each) for each in ir.nodes],
        "edges": [_encode_edge(each) for each in ir.edges],
    }


def _encode_interface(interface: InterfaceIR) -> InterfaceJson:
    return {
        "name": interface.name,
        "type_id": type_id(TypeKind.INTERFACE, interface.name),
        "properties": _encode_properties(TypeKind.INTERFACE, interface),
    }


def _encode_node(node: NodeIR) -> NodeJson:
    return {
        "name": node.name,
        "type_id": type_id(TypeKind.NODE, node.name),
        "annotations": [encode_annotation(each) for each in node.annotations],
        "implements": list(node.implements),
        "properties": _encode_properties(TypeKind.NODE, node),
        "constraints": [_encode_stored_constraint(each) for each in node.constraints],
    }


def _encode_edge(edge: EdgeIR) -> EdgeJson:
    return {
        "name": edge.name,
        "type_id": type_id(TypeKind.EDGE, edge.name),
        "from_type": edge.from_type,
        "to_type": edge.to_type,
        "cardinality": encode_cardinality(edge.cardinality),
        "annotations": [encode_annotation(each) for each in edge.annotations],
        "properties": _encode_properties(TypeKind.EDGE, edge),
        "constraints": [_encode_stored_constraint(each) for each in edge.constraints],
    }


def _encode_properties(kind: TypeKind, owner: InterfaceIR | NodeIR | EdgeIR) -> list[PropertyJson]:
    return [
        {
            "name": each.name,
            "prop_id": property_id(kind, owner.name, each.name),
            "prop_type": encode_type(each.type),
            "annotations": [encode_annotation(annotation) for annotation in each.annotations],
        }
        for each in owner.properties
    ]


def encode_type(type_: ValueType) -> TypeJson:
    """Return a type in the JSON of the IR and of migration plans."""
    return {
        "scalar": str(type_.scalar) if type_.dimension is None else {"Vector": type_.dimension},
        "nullable": type_.nullable,
        "list": type_.is_list,
        "enum_values": None if type_.enum_values is None else list(type_.enum_values),
    }


def encode_annotation(annotation: Annotation) -> AnnotationJson:
    """Return an annotation in the JSON of the IR and of migration plans."""
    found: AnnotationJson = {"name": annotation.name, "value": annotation.value}
    if annotation.keywords:
        found["kwargs"] = dict(annotation.keywords)
    return found


def encode_cardinality(cardinality: Cardinality) -> CardinalityJson:
    """Return a cardinality in the JSON of the IR and of migration plans."""
    return {"min": cardinality.minimum, "max": cardinality.maximum}


def encode_constraint(constraint: Constraint) -> ConstraintJson:
    """Return a constraint in the JSON of migration plans."""
    match constraint:
        case ColumnRule(kind, columns):
            return {str(kind): list(columns)}
        case RangeRule(name, minimum, maximum):
            return {"Range": {"property": name, "min": _encode_bound(minimum), "max": _encode_bound(maximum)}}
        case PatternRule(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}


def _encode_bound(bound: int | float | None) -> BoundJson:
    if bound is None:
        return None
    return {"Float" if isinstance(bound, float) else "Integer": bound}


def _encode_stored_constraint(constraint: Constraint) -> ConstraintJson:
    if not isinstance(constraint, RangeRule):
        return encode_constraint(constraint)
    minimum, maximum = _encode_stored_bound(constraint.minimum), _encode_stored_bound(constraint.maximum)
    return {"Range": {"property": constraint.property, "min": minimum, "max": maximum}}


def _encode_stored_bound(bound: int | float | None) -> BoundJson:
    return {"Float": orjson.Fragment(_format_float(bound))} if isinstance(bound, float) else _encode_bound(bound)


def _format_float(number: float) -> str:
    # Rust writes numbers from 1e-5 to 1e-4 without an exponent, Python with one.
    return format(Decimal(repr(number)), "f") if 1e-5 <= abs(number) < 1e-4 else format_shortest(number)


# ---------------------------------------------------------------------------------------------- reading


def decode_ir(text: str | bytes) -> SchemaIR:
    """Return the IR of a stored file. Its ids are ignored, since they follow from the names."""
    try:
        found = cast(SchemaJson, orjson.loads(text))
        version = found["ir_version"]
        if version != IR_VERSION:
            raise FormatTooNew(
                f"the stored schema has IR version {version}; this release reads {IR_VERSION}", hint="upgrade omnigraph"
            )
        return SchemaIR(
            tuple(InterfaceIR(each["name"], _decode_properties(each["properties"])) for each in found["interfaces"]),
            tuple(_decode_node(each) for each in found["nodes"]),
            tuple(_decode_edge(each) for each in found["edges"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"the stored schema IR cannot be read: {error!r}") from error


def _decode_node(node: NodeJson) -> NodeIR:
    return NodeIR(
        node["name"],
        _decode_annotations(node["annotations"]),
        tuple(node["implements"]),
        _decode_properties(node["properties"]),
        tuple(_decode_constraint(each) for each in node["constraints"]),
    )


def _decode_edge(edge: EdgeJson) -> EdgeIR:
    return EdgeIR(
        edge["name"],
        edge["from_type"],
        edge["to_type"],
        Cardinality(edge["cardinality"]["min"], edge["cardinality"]["max"]),
        _decode_annotations(edge["annotations"]),
        _decode_properties(edge["properties"]),
        tuple(_decode_constraint(each) for each in edge["constraints"]),
    )


def _decode_properties(properties: Iterable[PropertyJson]) -> tuple[PropertyIR, ...]:
    return tuple(
        PropertyIR(each["name"], _decode_type(each["prop_type"]), _decode_annotations(each["annotations"]))
        for each in properties
    )


def _decode_type(found: TypeJson) -> ValueType:
    scalar, values = found["scalar"], found["enum_values"]
    return ValueType(
        Scalar(scalar) if isinstance(scalar, str) else Scalar.VECTOR,
        found["nullable"],
        found["list"],
        None if values is None else tuple(values),
        None if isinstance(scalar, str) else scalar["Vector"],
    )


def _decode_annotations(annotations: Iterable[AnnotationJson]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(each["name"], each["value"], tuple(sorted(each.get("kwargs", {}).items()))) for each in annotations
    )


def _decode_constraint(found: ConstraintJson) -> Constraint:
    ((kind, body),) = found.items()
    if isinstance(body, list):
        return ColumnRule(ColumnRuleKind(kind), tuple(body))
    name = cast(str, body["property"])
    if kind == "Check":
        return PatternRule(name, cast(str, body["pattern"]))
    if kind == "Range":
        return RangeRule(name, _decode_bound(cast(BoundJson, body["min"])), _decode_bound(cast(BoundJson, body["max"])))
    raise ValueError(f"unknown constraint {kind}")


def _decode_bound(found: BoundJson) -> int | float | None:
    if found is None:
        return None
    ((kind, number),) = found.items()
    return float(cast(float, number)) if kind == "Float" else int(cast(int, number))
