"""Propose a schema for tables: which are nodes, by what key, and which are edges between them.

A table with a column that is unique, never empty and named like an id is a node type. A table without one, in which two
columns hold keys of other tables, is an edge type. A column of a node table that holds keys of another table is an edge
type too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from omnigraph.language.schema import format_schema
from omnigraph.language.source import Source
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.table_profile import ColumnProfile, TableProfile, make_edge_name

_END_NAMES: Final = ("from", "to", "src", "dst", "source", "target", "start", "end", "a", "b")
_ENDS: Final = 2


@dataclass(frozen=True, slots=True)
class NodeProposal:
    """A table whose rows are nodes."""

    table: TableProfile
    name: str
    key: ColumnProfile | None
    properties: tuple[ColumnProfile, ...]


@dataclass(frozen=True, slots=True)
class EndProposal:
    """A column that holds the keys of a node type."""

    column: ColumnProfile
    node: NodeProposal


@dataclass(frozen=True, slots=True)
class EdgeProposal:
    """A table whose rows are edges; of a table of nodes, only those rows that have a value in ``to``."""

    table: TableProfile
    name: str
    from_: EndProposal
    to: EndProposal
    properties: tuple[ColumnProfile, ...] = ()
    comes_with_nodes: bool = False


@dataclass(frozen=True, slots=True)
class SchemaProposal:
    """The proposed types."""

    nodes: tuple[NodeProposal, ...]
    edges: tuple[EdgeProposal, ...]

    def render(self) -> str:
        """Return the schema as text, with a comment on each guess."""
        # The name of a file or a column may hold anything, and a comment ends with its line.
        text = "\n".join(re.sub(r"[\r\n\0]", " ", line) for line in _render_lines(self))
        layout = format_schema(Source(text))
        assert isinstance(layout, str), layout
        return layout


def propose_schema(tables: Sequence[TableProfile]) -> SchemaProposal:
    """Propose types for tables."""
    keys = _find_keys(tables)
    keyed = [NodeProposal(table, table.node_name, key, ()) for table in tables if (key := keys[table.path]) is not None]
    nodes: list[NodeProposal] = []
    edges: list[EdgeProposal] = []
    for table in tables:
        key = keys[table.path]
        ends = [end for each in table.columns if each is not key for end in _find_end(each, table, keyed)]
        if key is None and len(ends) >= _ENDS:
            properties = _without(table.columns, [end.column for end in ends[:_ENDS]])
            edges.append(EdgeProposal(table, make_edge_name(table.path), ends[0], ends[1], properties))
            continue
        own = NodeProposal(table, table.node_name, key, _without(table.columns, [end.column for end in ends]))
        nodes.append(own)
        if key is None:
            # Edges could not name the nodes of this table.
            nodes[-1] = NodeProposal(table, table.node_name, None, table.columns)
            continue
        edges += [_propose_reference(own, key, end) for end in ends]
    return _number_names(nodes, edges)


def _without(columns: Sequence[ColumnProfile], left_out: Sequence[ColumnProfile]) -> tuple[ColumnProfile, ...]:
    return tuple(each for each in columns if each not in left_out)


def _find_keys(tables: Sequence[TableProfile]) -> dict[str, ColumnProfile | None]:
    """Return the key of each table. A table that only links others has none, even if a column happens to be unique."""
    found = {table.path: _find_key(table) for table in tables}
    keyed = [
        NodeProposal(table, table.node_name, key, ()) for table in tables if (key := found[table.path]) is not None
    ]
    for table in tables:
        key = found[table.path]
        if key is None or _rank_key(key, table.node_name.lower(), table) <= _OWN_KEY:
            continue
        others = [each for each in keyed if each.table is not table]
        ends = [end.column for each in table.columns for end in _find_end(each, table, others)]
        if len(ends) >= _ENDS and key in ends:
            found[table.path] = None
    return found


def _find_key(table: TableProfile) -> ColumnProfile | None:
    """Return the key of a table: the unique column that looks most like an id."""
    own = table.node_name.lower()
    candidates = [each for each in table.columns if each.is_unique]
    ranked = sorted(candidates, key=lambda each: (_rank_key(each, own, table), table.columns.index(each)))
    return ranked[0] if ranked and _rank_key(ranked[0], own, table) < _NO_KEY else None


_OWN_KEY: Final = 2
"""Up to this rank, a key is named after its own table, or after nothing."""
_NO_KEY: Final = 9


def _rank_key(column: ColumnProfile, own: str, table: TableProfile) -> int:
    name = column.property_name
    if name == "id":
        return 0
    if name.replace("_", "") in (f"{own}id", f"{own}code", f"{own}key", own):
        return 1
    if name in ("code", "key", "uuid", "guid"):
        return 2
    is_first = column is table.columns[0]
    if column.looks_like_id or name == "name":
        return (3 if column.looks_like_id else 4) + (0 if is_first else 2)
    return 7 if is_first and name not in _END_NAMES else _NO_KEY


def _find_end(column: ColumnProfile, table: TableProfile, nodes: Sequence[NodeProposal]) -> Iterator[EndProposal]:
    """Yield the node type whose keys a column holds, if there is one."""
    if not column.texts:
        return
    holding = [each for each in nodes if each.key is not None and column.texts <= each.key.texts]
    named = [each for each in holding if _names(column, each)]
    if named:
        yield EndProposal(column, named[0])
    elif len(holding) == 1 and (column.property_name.removesuffix("_value") in _END_NAMES or _is_word(column)):
        # Numbers of one table are easily numbers of another by chance.
        is_own = holding[0].table is table
        if not is_own or column.property_name.removesuffix("_value") in _END_NAMES:
            yield EndProposal(column, holding[0])


def _names(column: ColumnProfile, node: NodeProposal) -> bool:
    """Whether the name of a column names a node type, or its key."""
    name, own = column.property_name.replace("_", ""), node.name.lower()
    key = "" if node.key is None else node.key.property_name.replace("_", "")
    return name in (own, f"{own}s", f"{own}id", f"{own}code", f"{own}key", f"{own}{key}") or (
        name == key and name not in ("id", "code", "key", "name")
    )


def _is_word(column: ColumnProfile) -> bool:
    return not all(each.lstrip("-").isdecimal() for each in column.texts)


def _propose_reference(node: NodeProposal, key: ColumnProfile, end: EndProposal) -> EdgeProposal:
    role = end.column.property_name
    for ending in ("_id", "_code", "_key"):
        role = role.removesuffix(ending)
    suffix = "".join(word.capitalize() for word in role.split("_"))
    return EdgeProposal(node.table, f"{node.name}{suffix}", EndProposal(key, node), end, (), comes_with_nodes=True)


def _number_names(nodes: Sequence[NodeProposal], edges: Sequence[EdgeProposal]) -> SchemaProposal:
    """Number the names that occur twice: case counts for nobody."""
    taken: set[str] = set()

    def choose(name: str) -> str:
        number, found = 2, name
        while found.lower() in taken:
            number, found = number + 1, f"{name}{number}"
        taken.add(found.lower())
        return found

    named = {id(each): replace(each, name=choose(each.name)) for each in nodes}
    by_path = {each.table.path: each for each in named.values()}
    return SchemaProposal(
        tuple(named.values()),
        tuple(
            replace(
                edge,
                name=choose(edge.name),
                from_=replace(edge.from_, node=by_path[edge.from_.node.table.path]),
                to=replace(edge.to, node=by_path[edge.to.node.table.path]),
            )
            for edge in edges
        ),
    )


# --------------------------------------------------------------------------------------------- as text


def key_name_of(node: NodeProposal) -> str:
    """The name of the key property: ``id`` is taken by the system."""
    assert node.key is not None
    return property_name_of(node.key, node.name)


def property_name_of(column: ColumnProfile, type_name: str) -> str:
    """The name of the property of a column."""
    return f"{type_name.lower()}_id" if column.property_name == "id" else column.property_name


def _render_lines(proposal: SchemaProposal) -> Iterator[str]:
    yield "// Proposed from tables. Each comment says what a line was guessed from: check it before you use it."
    for node in proposal.nodes:
        yield ""
        yield f"// {node.table.label}" + ("" if node.key is not None else "; no column is unique, so there is no key")
        yield f"node {node.name} {{"
        yield from _render_properties(node.properties, node.name, node.key)
        yield "}"
    for edge in proposal.edges:
        yield ""
        yield f"// {edge.table.label}"
        yield f"// from '{edge.from_.column.column}' to '{edge.to.column.column}': {_describe_ends(edge)}"
        body = list(_render_properties(edge.properties, edge.name, None))
        head = f"edge {edge.name}: {edge.from_.node.name} -> {edge.to.node.name}"
        yield from [f"{head} {{", *body, "}"] if body else [head]
    yield ""


def _describe_ends(edge: EdgeProposal) -> str:
    if edge.comes_with_nodes:
        return f"all values of '{edge.to.column.column}' are keys of {edge.to.node.table.path}"
    return f"all values are keys of {edge.from_.node.table.path} and {edge.to.node.table.path}"


def _render_properties(columns: Sequence[ColumnProfile], type_name: str, key: ColumnProfile | None) -> Iterator[str]:
    for each in columns:
        name = property_name_of(each, type_name)
        notes = [] if name == each.column else [f"column '{each.column}'"]
        if each.type is None:
            yield f"  // {name}: left out; {each.reason}"
            continue
        mark = ""
        if each is key:
            mark = " @key"
            notes.append("unique and never empty")
        notes += [each.reason] if each.reason else []
        comment = f" // {'; '.join(notes)}" if notes else ""
        yield f"  {name}: {each.type}{mark}{comment}"
