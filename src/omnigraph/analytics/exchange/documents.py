"""A projection as documents that programs for looking at graphs read: GraphML, and the JSON of Cytoscape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast
from xml.sax.saxutils import escape, quoteattr

from omnigraph.analytics.projection import ProjectedGraph
from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json
from omnigraph.read.rows import create_file, parse_target
from omnigraph.storage.columns import Values, to_list

_HEAD: Final = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="type" for="node" attr.name="type" attr.type="string"/>
<key id="id" for="node" attr.name="id" attr.type="string"/>
"""
_WEIGHT: Final = '<key id="weight" for="edge" attr.name="weight" attr.type="double"/>\n'
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINES_AT_A_TIME: Final = 100_000


def write_graphml(projected: ProjectedGraph, path: str | Path) -> None:
    """Write a directed graph of GraphML. Nodes are numbered; their types and ids are data, and so are weights.

    The file is there when it is complete.
    """
    with create_file(parse_target(path)) as file:
        for number, line in enumerate(_list_lines(projected)):
            if number % _LINES_AT_A_TIME == 0:
                check_deadline()
            file.write(line.encode())


def _list_lines(projected: ProjectedGraph) -> Iterator[str]:
    graph = projected.graph
    yield _HEAD
    if graph.weights is not None:
        yield _WEIGHT
    yield '<graph edgedefault="directed">\n'
    for number, (type_, id_) in enumerate(_list_names(projected)):
        data = f'<data key="type">{escape(type_)}</data><data key="id">{_to_xml(id_)}</data>'
        yield f"<node id={quoteattr(f'n{number}')}>{data}</node>\n"
    weights = None if graph.weights is None else graph.weights.tolist()
    for number, (begin, end) in enumerate(zip(graph.begins.tolist(), graph.ends.tolist(), strict=True)):
        data = "" if weights is None else f'<data key="weight">{weights[number]!r}</data>'
        yield f'<edge source="n{begin}" target="n{end}">{data}</edge>\n'
    yield "</graph>\n</graphml>\n"


def _to_xml(text: str) -> str:
    """Escape a text, and replace what no XML may have: control characters, and the last two of the first plane."""
    # Whoever reads XML takes a carriage return for the end of a line, unless it is a reference.
    return escape(_NOT_IN_XML.sub("\ufffd", text), {"\r": "&#13;"})


def make_cytoscape_elements(projected: ProjectedGraph) -> dict[str, Json]:
    """Return the nodes and edges as Cytoscape reads them: ``{"elements": {"nodes": [...], "edges": [...]}}``.

    ``cytoscape_graph`` of NetworkX reads them too: it needs ``value``, ``key``, and what kind of graph it is.
    """
    graph = projected.graph
    check_deadline()
    nodes: list[Json] = [
        {"data": {"id": f"n{number}", "value": f"n{number}", "name": id_, "label": id_, "type": type_}}
        for number, (type_, id_) in enumerate(_list_names(projected))
    ]
    weights = None if graph.weights is None else graph.weights.tolist()
    edges: list[Json] = []
    for number, (begin, end) in enumerate(zip(graph.begins.tolist(), graph.ends.tolist(), strict=True)):
        data: dict[str, Json] = {"id": f"e{number}", "key": number, "source": f"n{begin}", "target": f"n{end}"}
        if weights is not None:
            data["weight"] = weights[number]
        edges.append({"data": data})
    kind: dict[str, Json] = {"directed": True, "multigraph": True}
    return {"data": {"name": "omnigraph"}, **kind, "elements": {"nodes": nodes, "edges": edges}}


def _list_names(projected: ProjectedGraph) -> Iterator[tuple[str, str]]:
    types = cast("list[str]", to_list(cast("Values", projected.types)))
    return zip(types, cast("list[str]", to_list(projected.ids)), strict=True)
