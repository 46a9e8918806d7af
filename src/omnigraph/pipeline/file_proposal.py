"""Propose a pipeline file for tables and a schema: a source for each table, and the expression of each property."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.proposal_sql import list_csv_options, quote_column
from omnigraph.pipeline.schema_proposal import (
    EdgeProposal,
    EndProposal,
    NodeProposal,
    SchemaProposal,
    property_name_of,
)
from omnigraph.pipeline.table_profile import ColumnProfile, TableProfile

_SQL_TYPES: Final = {
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
}
_FORMATS: Final = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class PipelineProposal:
    """A pipeline file for tables: the types that the schema has, and comments on what does not fit."""

    graph: str
    folder: Path
    proposal: SchemaProposal
    catalog: Catalog

    def render(self) -> str:
        """Return the file as text."""
        return "\n".join(self._render_lines()) + "\n"

    def _render_lines(self) -> Iterator[str]:
        nodes = [(each, type_) for each in self.proposal.nodes if (type_ := self.catalog.nodes.get(each.name))]
        edges = [(each, type_) for each in self.proposal.edges if (type_ := self.catalog.find_edge(each.name))]
        if not nodes and not edges:
            names = ", ".join(each.name for each in (*self.proposal.nodes, *self.proposal.edges))
            raise ParameterError(
                f"the schema has none of the types that the tables would become: {names}",
                hint="name files like types, or let omnigraph schema infer propose the schema",
            )
        yield "# Proposed from tables. Check the expressions, then: omnigraph pipeline plan FILE"
        yield "version: 1"
        yield f"graph: {_quote(self.graph)}"
        yield "load: {mode: merge}"
        yield from self._render_sources([each.table for each, _ in (*nodes, *edges)])
        yield from self._render_views([each for each, _ in edges])
        if nodes:
            yield "nodes:"
            for node, type_ in nodes:
                yield from self._render_node(node, type_)
        if edges:
            yield "edges:"
            for edge, edge_type in edges:
                yield from self._render_edge(edge, edge_type)
        yield from self._render_unmatched()

    def _render_sources(self, tables: Sequence[TableProfile]) -> Iterator[str]:
        yield "sources:"
        for table in dict.fromkeys(tables):
            format_ = table.files[0].format
            if format_ not in _FORMATS:
                raise ParameterError(
                    f"{table.path} is an Arrow file, which Spark cannot read",
                    hint="save it as Parquet, or load it with omnigraph load --node or --edge",
                )
            yield f"  {source_name(table)}:"
            yield f"    format: {_FORMATS[format_]}"
            yield f"    path: {_quote(self._relative(table.path))}"
            csv = table.files[0].csv
            if format_ == "csv":
                options = list_csv_options(csv, has_header=csv.has_header, spans_lines=table.spans_lines)
                told = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
                yield f"    options: {{{told}}}"

    def _relative(self, path: str) -> str:
        return path if Path(path).is_absolute() else os.path.relpath(path, self.folder)

    def _render_views(self, edges: Sequence[EdgeProposal]) -> Iterator[str]:
        partial = [each for each in edges if _has_view(each)]
        if partial:
            yield "views:"
        for edge in partial:
            condition = f"{quote_column(edge.to.column.column)} IS NOT NULL"
            sql = f"SELECT * FROM {source_name(edge.table)} WHERE {condition}"  # noqa: S608  it is shown, not run
            yield f"  {view_name(edge)}: {_quote(sql)}"

    def _render_node(self, node: NodeProposal, type_: NodeType) -> Iterator[str]:
        yield f"  {type_.name}:"
        yield f"    view: {source_name(node.table)}"
        yield from self._render_columns(node.properties, node.name, type_, node.table)

    def _render_edge(self, edge: EdgeProposal, type_: EdgeType) -> Iterator[str]:
        yield f"  {type_.name}:"
        yield f"    view: {view_name(edge) if _has_view(edge) else source_name(edge.table)}"
        yield f"    from: {_quote(self._express_end(edge.from_, edge.table, type_.from_type))}"
        yield f"    to: {_quote(self._express_end(edge.to, edge.table, type_.to_type))}"
        yield from self._render_columns(edge.properties, edge.name, type_, edge.table)

    def _express_end(self, end: EndProposal, table: TableProfile, node_name: str) -> str:
        node = self.catalog.nodes[node_name]
        (key,) = node.key if node.key is not None and len(node.key) == 1 else (None,)
        type_ = ValueType(Scalar.STRING) if key is None else node.properties[key].type
        return _express(end.column, type_, table)

    def _render_columns(
        self, columns: Sequence[ColumnProfile], name: str, type_: NodeType | EdgeType, table: TableProfile
    ) -> Iterator[str]:
        known = {property_name_of(each, name): each for each in columns if each.type is not None}
        mapped = [(each, known[each.name]) for each in type_.properties.values() if each.name in known]
        if mapped:
            yield "    columns:"
        for each, column in mapped:
            yield f"      {each.name}: {_quote(_express(column, each.type, table))}"
        for each in type_.properties.values():
            if each.name not in known:
                yield f"      # {each.name}: no column of {table.path} has this name"
        left = [column.column for key, column in known.items() if key not in type_.properties]
        if left:
            yield f"    # not used: {', '.join(' '.join(each.split()) for each in left)}"

    def _render_unmatched(self) -> Iterator[str]:
        for node in self.proposal.nodes:
            if node.name not in self.catalog.nodes:
                yield f"# {node.table.path}: the schema has no node type {node.name}"
        for edge in self.proposal.edges:
            if self.catalog.find_edge(edge.name) is None:
                yield f"# {edge.table.path}: the schema has no edge type {edge.name}"


def source_name(table: TableProfile) -> str:
    """The name of the source of a table, which is the name of its type in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", table.node_name).lower() + "_rows"


def view_name(edge: EdgeProposal) -> str:
    """The name of the view with the rows of a table that have a value in the column of the end."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", edge.name).lower() + "_links"


def _has_view(edge: EdgeProposal) -> bool:
    return edge.to.column.type is not None and edge.to.column.type.nullable


def _express(column: ColumnProfile, type_: ValueType, table: TableProfile) -> str:
    """Return the expression of a column as a property of a type."""
    name = quote_column(column.column)
    if table.files[0].format != "csv":
        return name
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        item = "float" if type_.scalar is Scalar.VECTOR else _SQL_TYPES.get(type_.scalar, "string")
        return f"from_json({name}, 'array<{item}>', map('mode', 'FAILFAST'))"
    sql = _SQL_TYPES.get(type_.scalar)
    return name if sql is None else f"cast({name} AS {sql})"


def _quote(text: str) -> str:
    """Return a text for YAML. In quotes, because some words, such as ``no``, mean something else without them."""
    return json.dumps(text, ensure_ascii=False)
