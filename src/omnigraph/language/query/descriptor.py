"""The operation descriptor: the columns a query returns, the types it reads and the types it writes.

Tools need it before they call a query: client generators, policies, agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.errors import Json
from omnigraph.language.query.plan import walk_expression
from omnigraph.language.query.typed_statements import (
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    TypedQuery,
    UpdateBound,
    UpdateNodes,
)
from omnigraph.language.query.typed_tree import (
    Block,
    Clause,
    ColumnValue,
    Expression,
    Predicate,
    TypedBinding,
    TypedOptional,
    TypedRead,
    TypedTraversal,
    columns_of,
    single_reads_of,
)
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True)
class ResultField:
    """One column of the result, as a client sees it."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``result``, without the fields that do not apply."""
        item = {} if self.item_kind is None else {"item_kind": self.item_kind}
        dim = {} if self.vector_dim is None else {"vector_dim": self.vector_dim}
        return {"name": self.name, "kind": self.kind, **item, **dim, "nullable": self.nullable}


@dataclass(frozen=True, slots=True)
class TypeUse:
    """A node or edge type that a query reads or writes."""

    kind: str
    type_name: str

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``reads`` or ``writes``."""
        return {"kind": self.kind, "type_name": self.type_name}


@dataclass(frozen=True, slots=True)
class OperationDescriptor:
    """The descriptor of one query. ``reads`` and ``writes`` list each type once, nodes before edges, sorted by name."""

    result: tuple[ResultField, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the ``operation`` object of lint."""
        return {
            "result": [field.to_json() for field in self.result],
            "reads": [use.to_json() for use in self.reads],
            "writes": [use.to_json() for use in self.writes],
        }


def describe_operation(query: TypedQuery, catalog: Catalog) -> OperationDescriptor:
    """Describe a checked query."""
    if not isinstance(query, TypedMutation):
        return OperationDescriptor(
            result=tuple(_describe_column(column) for column in columns_of(query)),
            reads=_sort_uses(use for read in single_reads_of(query) for use in _types_of_read(read)),
            writes=(),
        )
    written = [use for statement in query.statements for use in _types_written(statement)]
    ends = [use for statement in query.statements for use in _types_of_ends(statement, catalog)]
    reads = () if query.match is None else single_reads_of(query.match)
    matched = [use for read in reads for use in _types_read(read.clauses)]
    return OperationDescriptor(result=(), reads=_sort_uses([*matched, *written, *ends]), writes=_sort_uses(written))


def _types_of_read(read: TypedRead) -> Iterator[TypeUse]:
    yield from _types_read(read.clauses)
    for column in read.columns:
        yield from _types_in_blocks(column.expression)


def _describe_column(column: ColumnValue) -> ResultField:
    kind: ValueType = column.type
    scalar = _KINDS[kind.scalar]
    if kind.is_list:
        return ResultField(column.name, "list", kind.nullable, item_kind=scalar)
    return ResultField(column.name, scalar, kind.nullable, vector_dim=kind.dimension)


def _types_read(clauses: Iterable[Clause]) -> Iterator[TypeUse]:
    for clause in clauses:
        match clause:
            case TypedBinding():
                yield _node(clause.node_type)
            case TypedTraversal():
                yield from (_edge(step.edge_type) for step in clause.steps)
                yield _node(clause.source_type)
                yield _node(clause.destination_type)
            case TypedOptional():
                yield from _types_read(clause.clauses)
            case _:
                yield from _types_in_blocks(clause)


def _types_in_blocks(part: Expression | Predicate) -> Iterator[TypeUse]:
    for inner in walk_expression(part):
        if isinstance(inner, Block):
            yield from _types_read(inner.clauses)


def _types_written(statement: Statement) -> Iterator[TypeUse]:
    match statement:
        case InsertNode() | UpdateNodes():
            yield _node(statement.node_type)
        case InsertEdge() | DeleteEdges():
            yield _edge(statement.edge_type)
        case DeleteNodes():
            yield _node(statement.node_type)
            yield from map(_edge, statement.cascades)
        case UpdateBound():
            yield _table(statement.table_key)
        case DeleteBound():
            yield _table(statement.table_key)
            yield from map(_edge, statement.cascades)


def _types_of_ends(statement: Statement, catalog: Catalog) -> Iterator[TypeUse]:
    if isinstance(statement, InsertEdge):
        edge = catalog.edges[statement.edge_type]
        yield _node(edge.from_type)
        yield _node(edge.to_type)


def _sort_uses(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(set(uses), key=lambda use: (use.kind != "node", use.type_name)))


def _table(key: TableKey) -> TypeUse:
    return TypeUse(key.kind, key.type_name)


def _node(type_name: str) -> TypeUse:
    return TypeUse("node", type_name)


def _edge(type_name: str) -> TypeUse:
    return TypeUse("edge", type_name)
