"""A diff as a picture on the graph, and as HTML for notebooks: counts per type, and the picture where it is small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from omnigraph.draw import DRAWN_ENTITIES, DiffEdge, DiffMark, DiffNode, draw_diff
from omnigraph.language.schema import Catalog
from omnigraph.read.changes.compare_rows import Op

if TYPE_CHECKING:
    from omnigraph.read.changes.diff import EntityChange, TypeChanges

MARKS: Final = {Op.INSERTED: DiffMark.INSERTED, Op.UPDATED: DiffMark.UPDATED, Op.DELETED: DiffMark.DELETED}
SHOWN_VALUE: Final = 80


def draw_changes(entities: Iterable[EntityChange], before: Catalog, after: Catalog) -> str | None:
    """Return an SVG of changed entities; None if there are more than can be drawn."""
    drawn = list(islice(entities, DRAWN_ENTITIES + 1))
    if len(drawn) > DRAWN_ENTITIES:
        return None
    nodes: list[DiffNode] = []
    edges: list[DiffEdge] = []
    for entity in drawn:
        mark, details = MARKS[entity.op], _describe(entity)
        if entity.kind == "node":
            nodes.append(DiffNode(entity.type, entity.id, mark, details))
        else:
            type_ = after.edges.get(entity.type) or before.edges[entity.type]
            from_node = (type_.from_type, entity.from_ or "")
            edges.append(DiffEdge(entity.type, from_node, (type_.to_type, entity.to or ""), mark, details))
    return draw_diff(nodes, edges)


def to_counts_table(counts: Iterable[TypeChanges]) -> str:
    """Return the counts per type as an HTML table."""
    rows = "".join(
        f"<tr><td>{escape(each.type)}</td><td>{escape(each.kind)}</td>"
        f"<td>+{each.inserted}</td><td>~{each.updated}</td><td>-{each.deleted}</td></tr>"
        for each in counts
    )
    if not rows:
        return "<p>no changes</p>"
    return f"<table><tr><th>type</th><th>kind</th><th>came</th><th>changed</th><th>went</th></tr>{rows}</table>"


def _describe(entity: EntityChange) -> str:
    """Return one line for each changed property, with both values."""
    before: Mapping[str, object] = entity.before or {}
    after: Mapping[str, object] = entity.after or {}
    return "\n".join(f"{name}: {_shorten(before.get(name))} -> {_shorten(after.get(name))}" for name in entity.changed)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}..."
