"""A schema as a picture of its types, for notebooks and files."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.draw import TypeArrow, TypeBox, TypeField, draw_schema
from omnigraph.language.schema.catalog import Catalog, NodeType


def draw_catalog(catalog: Catalog, rows: Mapping[str, int]) -> str:
    """Return an SVG of all types; ``rows`` are counts by table key, where they are known."""
    boxes = [TypeBox(node.name, tuple(_draw_fields(node)), rows.get(node.table_key)) for node in catalog.nodes.values()]
    arrows = [
        TypeArrow(edge.name, edge.from_type, edge.to_type, rows.get(edge.table_key)) for edge in catalog.edges.values()
    ]
    return draw_schema(boxes, arrows)


def _draw_fields(node: NodeType) -> list[TypeField]:
    """Return the properties of a node type, its key first."""
    key = node.key or ()
    unique = {each[0] for each in node.unique if len(each) == 1}
    ordered = [*key, *(name for name in node.properties if name not in key)]
    return [
        TypeField(name, str(node.properties[name].type), "key" if name in key else "unique" if name in unique else "")
        for name in ordered
    ]
