"""The typed tree of a mutation: its statements, and the match that drives them. Reads have ``typed_tree``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from omnigraph.language.query.typed_tree import (
    AnyTypedRead,
    Expression,
    Identity,
    Predicate,
    ResultColumn,
    TypedInterfaceRead,
    TypedRead,
    single_reads_of,
)
from omnigraph.language.schema import TableKey
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AssignedValue:
    """A property and the value it gets."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class InsertNode:
    """A new node for each row of the match, defaults filled in. If its key exists, it replaces the whole row."""

    node_type: str
    values: tuple[AssignedValue, ...]


@dataclass(frozen=True, slots=True)
class InsertEdge:
    """A new edge between two node ids for each row of the match."""

    edge_type: str
    source: Expression
    destination: Expression
    values: tuple[AssignedValue, ...]


@dataclass(frozen=True, slots=True)
class UpdateNodes:
    """New values for the nodes that match; ``predicate`` names the row ``_``."""

    node_type: str
    values: tuple[AssignedValue, ...]
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class DeleteNodes:
    """Delete the nodes that match, and every edge of the types in ``cascades`` that touches them."""

    node_type: str
    predicate: Predicate
    cascades: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteEdges:
    """Delete the edges that match; ``from`` and ``to`` are called ``src`` and ``dst`` here."""

    edge_type: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class UpdateBound:
    """New values for the entity of a variable, in each row of the match that has one."""

    entity: Identity
    table_key: TableKey
    values: tuple[AssignedValue, ...]


@dataclass(frozen=True, slots=True)
class DeleteBound:
    """Delete the entity of a variable, in each row of the match that has one.

    With a node, every edge of the types in ``cascades`` that touches it.
    """

    entity: Identity
    table_key: TableKey
    cascades: tuple[str, ...]


Statement: TypeAlias = InsertNode | InsertEdge | UpdateNodes | DeleteNodes | DeleteEdges | UpdateBound | DeleteBound


@dataclass(frozen=True, slots=True)
class TypedMutation:
    """A checked mutation. Each statement runs once for each row of ``match``; without one, for one row.

    The columns of ``match`` are the values that its statements need and that are not the same for every row. If it has
    no clauses, the mutation has no match, but values that are computed from parameters. If it has interface variables,
    the statements are those of the first variant, and every variant has columns of the same names.
    """

    name: str
    parameters: Mapping[str, ValueType]
    statements: tuple[Statement, ...]
    match: TypedRead | TypedInterfaceRead | None = None

    @property
    def is_driven(self) -> bool:
        """Whether a match drives the statements."""
        return self.match is not None and bool(single_reads_of(self.match)[0].clauses)

    @property
    def row_values(self) -> tuple[ResultColumn, ...]:
        """The columns of the match, with the expressions of the statements that they are the values of."""
        return () if self.match is None else single_reads_of(self.match)[0].columns


TypedQuery: TypeAlias = AnyTypedRead | TypedMutation
