"""Mutations and loads on a graph of plain dictionaries, and on a real one: facts that can do themselves on either.

They pickle, so that a child process can do one and die. Nothing here needs Hypothesis, which is slow to import.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.storage.failpoints import When, kill_at

SCHEMA = """
node Person { name: String @key  size: I64? }
node City { name: String @key  size: I64? }
node Firm { name: String @key  size: I64? }
edge Knows: Person -> Person
"""

Nodes: TypeAlias = Mapping[str, int | None]
"""The nodes of one type: their sizes by their names, which are their ids."""
Pair: TypeAlias = tuple[str, str]
Mode: TypeAlias = Literal["append", "merge", "update", "overwrite"]


class Refused(Exception):
    """A rule forbids the write: a real graph raises ``ValidationError`` and changes nothing."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Everything in a graph; a type that was dropped is not there. Edges are a bag, kept sorted."""

    nodes: Mapping[str, Nodes]
    knows: tuple[Pair, ...] = ()

    def with_nodes(self, type_name: str, nodes: Nodes) -> Rows:
        return replace(self, nodes={**self.nodes, type_name: nodes})

    def with_knows(self, *pairs: Pair) -> Rows:
        return replace(self, knows=tuple(sorted(pairs)))

    def without_type(self, type_name: str) -> Rows:
        return replace(self, nodes={name: nodes for name, nodes in self.nodes.items() if name != type_name})

    def checked(self) -> Rows:
        """The same, if both ends of every edge are there."""
        if any(end not in self.nodes["Person"] for pair in self.knows for end in pair):
            raise Refused
        return self


# --------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Insert:
    """A node; one of the same name is replaced."""

    type_name: str
    name: str
    size: int | None

    def __str__(self) -> str:
        return f"insert {self.type_name} {{ name: {_literal(self.name)}, size: {_literal(self.size)} }}"

    def on(self, rows: Rows) -> Rows:
        return rows.with_nodes(self.type_name, {**rows.nodes[self.type_name], self.name: self.size})


@dataclass(frozen=True, slots=True)
class Link:
    """An edge, which is always a new one."""

    source: str
    target: str
    type_name: str = "Person"

    def __str__(self) -> str:
        return f"insert Knows {{ from: {_literal(self.source)}, to: {_literal(self.target)} }}"

    def on(self, rows: Rows) -> Rows:
        return rows.with_knows(*rows.knows, (self.source, self.target))


@dataclass(frozen=True, slots=True)
class Resize:
    """One size for all that are smaller than another; those without a size are not."""

    type_name: str
    below: int
    size: int | None

    def __str__(self) -> str:
        return f"update {self.type_name} set {{ size: {_literal(self.size)} }} where size < {self.below}"  # noqa: S608  no SQL

    def on(self, rows: Rows) -> Rows:
        nodes = rows.nodes[self.type_name]
        found = {name: self.size for name, size in nodes.items() if size is not None and size < self.below}
        return rows.with_nodes(self.type_name, {**nodes, **found}) if found else rows


@dataclass(frozen=True, slots=True)
class Remove:
    """One node with its edges."""

    type_name: str
    name: str

    def __str__(self) -> str:
        return f"delete {self.type_name} where name = {_literal(self.name)}"

    def on(self, rows: Rows) -> Rows:
        nodes = rows.nodes[self.type_name]
        if self.name not in nodes:
            return rows
        left = rows.with_nodes(self.type_name, {name: size for name, size in nodes.items() if name != self.name})
        return left.with_knows(*(pair for pair in left.knows if self.type_name != "Person" or self.name not in pair))


@dataclass(frozen=True, slots=True)
class Unlink:
    """All edges from a node."""

    source: str
    type_name: str = "Person"

    def __str__(self) -> str:
        return f"delete Knows where from = {_literal(self.source)}"

    def on(self, rows: Rows) -> Rows:
        left = [pair for pair in rows.knows if pair[0] != self.source]
        return rows.with_knows(*left) if len(left) < len(rows.knows) else rows


Statement: TypeAlias = Insert | Link | Resize | Remove | Unlink


def _literal(value: str | int | None) -> str:
    return json.dumps(value)


# --------------------------------------------------------------------------------------------- writes


@dataclass(frozen=True, slots=True)
class Mutate:
    """Statements as one mutation; rules look at its end."""

    statements: tuple[Statement, ...]

    @property
    def types(self) -> set[str]:
        """The node types that must be there."""
        return {statement.type_name for statement in self.statements}

    def on(self, rows: Rows) -> Rows:
        """The graph after it; the same object when there is nothing to commit."""
        for statement in self.statements:
            rows = statement.on(rows)
        return rows.checked()

    def run(self, graph: Graph, branch: str) -> Commit | None:
        text = "\n  ".join(["query change() {", *map(str, self.statements)])
        return graph.mutate(f"{text}\n}}", branch=branch).commit


@dataclass(frozen=True, slots=True)
class Load:
    """Nodes by type, and edges unless they are None, in one of the modes. A table without a row is touched too."""

    mode: Mode
    nodes: Mapping[str, Nodes]
    knows: tuple[Pair, ...] | None = None

    @property
    def types(self) -> set[str]:
        """The node types that must be there."""
        return {*self.nodes, "Person"}

    def on(self, rows: Rows) -> Rows:
        """The graph after it; the same object when there is nothing to commit."""
        if self.mode == "overwrite":
            return self._over(rows).checked()
        if self.mode == "merge":
            merged = self._merged(rows).checked()
            return rows if merged == rows else merged
        if self.mode == "update":
            return self._updated(rows)
        if self.mode == "append" and any(nodes.keys() & rows.nodes[name].keys() for name, nodes in self.nodes.items()):
            raise Refused
        for name, nodes in self.nodes.items():
            rows = rows.with_nodes(name, {**rows.nodes[name], **nodes}) if nodes else rows
        return (rows.with_knows(*rows.knows, *self.knows) if self.knows else rows).checked()

    def _updated(self, rows: Rows) -> Rows:
        """Nodes must be there. Edges have no ids and nothing else that names them, so none can be updated."""
        if self.knows or any(nodes.keys() - rows.nodes[name].keys() for name, nodes in self.nodes.items()):
            raise Refused
        nodes = {name: {**rows.nodes[name], **nodes} for name, nodes in self.nodes.items()}
        return replace(rows, nodes={**rows.nodes, **nodes}) if {**rows.nodes, **nodes} != rows.nodes else rows

    def _merged(self, rows: Rows) -> Rows:
        """The graph has what the load has; equal edges are a bag, with as many as the larger side had."""
        nodes = {name: {**rows.nodes[name], **nodes} for name, nodes in self.nodes.items()}
        knows = Counter(rows.knows) | Counter(self.knows or ())
        return replace(rows, nodes={**rows.nodes, **nodes}).with_knows(*knows.elements())

    def _over(self, rows: Rows) -> Rows:
        new = replace(rows, nodes={**rows.nodes, **self.nodes})
        return new if self.knows is None else new.with_knows(*self.knows)

    def run(self, graph: Graph, branch: str) -> Commit | None:
        nodes = {name: _node_frame(nodes) for name, nodes in self.nodes.items()}
        edges = {} if self.knows is None else {"Knows": _edge_frame(self.knows)}
        return graph.load(
            nodes=nodes, edges=edges, mode=self.mode, branch=branch, allow_empty=self.mode == "overwrite"
        ).commit


Write: TypeAlias = Mutate | Load


def _node_frame(nodes: Nodes) -> pa.Table:
    columns = {"name": pa.array(list(nodes), pa.string()), "size": pa.array(list(nodes.values()), pa.int64())}
    return pa.table(columns)


def _edge_frame(pairs: tuple[Pair, ...]) -> pa.Table:
    ends = ([source for source, _ in pairs], [target for _, target in pairs])
    return pa.table({name: pa.array(end, pa.string()) for name, end in zip(("from", "to"), ends, strict=True)})


def write_and_die(uri: str, write: Write, branch: str, number: int, when: When) -> None:
    """Open the graph and write, in a process that dies at its durable write of that number, if it comes that far."""
    with kill_at(number, when):
        write.run(omnigraph.open(uri), branch)
