"""Patterns of Cypher and GQL, such as ``(a:Person)-[:KNOWS*1..3]->(b)``, as clauses of ``.gq``."""

from __future__ import annotations

import re

_WINDOW = 500
_NODE = r"(?:\(\s*\$?\w*\s*(?::\s*\w+)?\s*(?:\{[^{}]*\})?\s*\)|\$\w+(?:\s*:\s*[A-Z]\w*)?)"
_EDGE = r"(?:<?-\s*(?:\[[^\[\]{}\n]*\]|\w+)?\s*->?|->|<-)"
_PATH = re.compile(rf"{_NODE}(?:\s*{_EDGE}\s*{_NODE})+|\(\s*\$?\w*\s*:\s*\w+\s*(?:\{{[^{{}}]*\}})?\s*\)")
_STEP = re.compile(rf"(?P<node>{_NODE})|(?P<edge>{_EDGE})")
_NODE_PARTS = re.compile(r"\(?\s*\$?(?P<name>\w*)\s*(?::\s*(?P<type>\w+))?\s*(?P<matches>\{[^{}]*\})?")
_EDGE_PARTS = re.compile(
    r"<?-\s*\[?\s*(?:\$?(?P<name>\w+)\s*(?=:))?:?\s*(?P<types>\w+(?:\s*\|\s*:?\w+)*)?\s*"
    r"(?P<star>\*\s*(?P<low>\d+)?\s*(?P<dots>\.\.)?\s*(?P<high>\d+)?)?"
)
_PARAMETERS = re.compile(r"\bquery\s+\w+\s*\Z")
_NO_BRACE = re.compile(r"\bmatch\s*\Z")
_QUOTED = re.compile(r"'([^'\"\\]*)'")


def show_path(text: str, offset: int) -> str | None:
    """Return the clauses of the foreign pattern that an offset is in, or None if there is none."""
    begin = max(0, offset - _WINDOW)
    for match in _PATH.finditer(text, begin, offset + _WINDOW):
        before = text[begin : match.start()]
        if match.start() <= offset < match.end() and not _PARAMETERS.search(before):
            clauses = translate_path(match.group())
            return f"match {{ {clauses} }}" if _NO_BRACE.search(before) else clauses
    return None


def begin_path(text: str, offset: int) -> str | None:
    """Return the clauses of the foreign pattern that begins at an offset, or None if there is none."""
    match = _PATH.match(text, offset)
    return None if match is None else translate_path(match.group())


def translate_path(path: str) -> str:
    """Return a foreign pattern as clauses."""
    nodes = list[str]()
    edges = list[re.Match[str]]()
    clauses = list[str]()
    for number, step in enumerate(_STEP.finditer(path)):
        if step.lastgroup == "edge":
            edge = _EDGE_PARTS.match(step.group())
            assert edge is not None
            edges.append(edge)
            continue
        found = _NODE_PARTS.match(step.group())
        assert found is not None
        typed = found["type"]
        name = f"${lower_first(found['name'])}" if found["name"] else f"$x{number // 2 + 1}" if typed else "$_"
        nodes.append(name)
        if typed:
            matches = f" {use_double_quotes(found['matches'])}" if found["matches"] else ""
            clauses.append(f"{name}: {typed[:1].upper()}{typed[1:]}{matches}")
    pairs = zip(edges, nodes, nodes[1:], strict=False)
    return "  ".join([*clauses, *(_show_edge(edge, left, right) for edge, left, right in pairs)])


def _show_edge(edge: re.Match[str], left: str, right: str) -> str:
    types = re.split(r"\s*\|\s*:?", edge["types"]) if edge["types"] else ["edge"]
    words = "|".join(map(recase_edge, types))
    name = f"${lower_first(edge['name'])}:" if edge["name"] else ""
    hops = show_hops(edge["low"], edge["high"], is_range=bool(edge["dots"])) if edge["star"] else ""
    begins, ends = edge.string.startswith("<"), edge.string.endswith(">")
    if begins and not ends:
        left, right = right, left
    elif begins == ends:
        words = f"<{words}>"
    return f"{left} {name}{words}{hops} {right}"


def show_hops(low: str | None, high: str | None, *, is_range: bool) -> str:
    """Return a number of hops, or a range of them, as ``.gq`` writes it."""
    if low and not is_range:
        return f"{{{low}}}"
    return f"{{{low or 1},{high or ''}}}"


def recase_edge(name: str) -> str:
    """Return an edge as a traversal spells it: ``CALLS_AT`` and ``CallsAt`` are ``callsAt``."""
    first, *rest = name.split("_") if name.isupper() else [name]
    if name.isupper():
        return first.lower() + "".join(part.capitalize() for part in rest)
    return lower_first(first)


def lower_first(name: str) -> str:
    """Return a name with a lowercase first letter."""
    return name[:1].lower() + name[1:]


def use_double_quotes(text: str) -> str:
    """Return a text whose single-quoted strings are in double quotes."""
    return _QUOTED.sub(r'"\1"', text)
