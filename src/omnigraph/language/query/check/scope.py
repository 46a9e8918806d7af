"""The scope of a query while it is checked: the catalog, the parameters and the variables bound so far.

Clauses are checked in text order. A variable whose binding was wrong stays in scope as ``UNKNOWN``, so that one
mistake is reported once and not again at every use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import Enum, auto
from itertools import count
from typing import Final, Literal, TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.query.typed_tree import PATH_KEY, ResultColumn
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import Span
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass


class _Unknown(Enum):
    UNKNOWN = auto()


class _Path(Enum):
    PATH = auto()


UNKNOWN: Final = _Unknown.UNKNOWN
PATH: Final = _Path.PATH
Entity: TypeAlias = NodeType | EdgeType | Literal[_Path.PATH, _Unknown.UNKNOWN]
"""What a variable is bound to; ``UNKNOWN`` after a wrong binding."""


@dataclass(frozen=True, slots=True)
class ChosenType:
    """The node type that an interface variable stands for, while one combination of types is checked.

    ``node_type`` has the properties of the interface only; ``possible`` are the types of all combinations.
    """

    interface: str
    node_type: NodeType
    possible: frozenset[str]


def is_interface(name: str, catalog: Catalog) -> bool:
    """Whether a binding names an interface. A node type of the same name comes first."""
    return name in catalog.interfaces and name not in catalog.nodes


class Place(Enum):
    """Where an expression stands; some are only allowed in some places."""

    MATCH = auto()
    RETURN = auto()
    ORDER = auto()
    AGGREGATE = auto()
    HAVING = auto()
    ASSIGNMENT = auto()


@dataclass(slots=True)
class QueryScope:
    """The names that a clause can use.

    ``used`` holds the variables that were looked up, ``hidden`` the names that an earlier block bound for itself.
    """

    catalog: Catalog
    parameters: Mapping[str, ValueType]
    report: ProblemReport
    anonymous_names: Iterator[str]
    variables: dict[str, Entity] = field(default_factory=dict[str, Entity])
    used: set[str] = field(default_factory=set[str])
    hidden: set[str] = field(default_factory=set[str])
    optional: set[str] = field(default_factory=set[str])
    """Variables that an optional block has bound: they may be absent."""
    chosen: Mapping[str, ChosenType] = field(default_factory=dict[str, ChosenType])
    """By interface variable: what it stands for."""
    is_block: bool = False
    """Whether this is the inside of a block."""
    is_test: bool = False
    """Whether this is the inside of ``exists`` or ``not``."""
    outer: set[str] = field(default_factory=set[str])
    """Variables of the clauses around this block."""
    place: Place = Place.MATCH
    columns: tuple[ResultColumn, ...] = ()
    """The columns of the result, which ``having`` speaks of."""

    def at(self, place: Place) -> QueryScope:
        """Return the same scope for expressions in another place."""
        return replace(self, place=place)

    def over(self, columns: tuple[ResultColumn, ...]) -> QueryScope:
        """Return the scope of ``having``: it speaks of columns."""
        return replace(self, place=Place.HAVING, columns=columns)

    def reject(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Report a problem."""
        self.report.add(code, message, span, hint)

    def look_up(self, name: str) -> Entity | None:
        """Return what a variable is bound to, if it is, and record the use."""
        found = self.variables.get(name)
        if found is not None:
            self.used.add(name)
        return found

    def bind(self, variable: str, entity: Entity, span: Span) -> None:
        """Bind a new variable."""
        if variable in self.hidden:
            self.reject(
                "Q003",
                f"'${variable}' is used in a block above, where it is a variable of its own",
                span,
                f"bind '${variable}' before the block, or rename one of the two",
            )
        self.variables[variable] = entity

    def list_tables(self) -> Mapping[str, str]:
        """Return the table key of each variable whose binding is right; that of a path is ``PATH_KEY``."""
        return {
            name: PATH_KEY if entity is PATH else entity.table_key
            for name, entity in self.variables.items()
            if entity is not UNKNOWN
        }

    def open_block(self, *, is_test: bool) -> QueryScope:
        """Return the scope of a block: it sees the variables bound so far, and its own stay inside it."""
        inner = QueryScope(self.catalog, self.parameters, self.report, self.anonymous_names, dict(self.variables))
        inner.optional |= self.optional
        inner.outer |= self.variables.keys()
        inner.chosen = self.chosen
        inner.is_block = True
        inner.is_test = is_test
        return inner

    def name_of_type(self, variable: str, entity: NodeType | EdgeType) -> str:
        """Return the name of the type of a variable, as the query declares it."""
        return self.chosen[variable].interface if variable in self.chosen else entity.name

    def types_of(self, variable: str, entity: NodeType | EdgeType) -> frozenset[str]:
        """Return the names of the types that a variable can have."""
        return self.chosen[variable].possible if variable in self.chosen else frozenset({entity.name})

    def is_own_optional(self, name: str) -> bool:
        """Whether a variable may be absent and belongs to this list of clauses, not to one around it."""
        return name in self.optional and name not in self.outer

    def close_block(self, inner: QueryScope) -> tuple[str, ...]:
        """Leave a block; return the outer variables that it used."""
        used = tuple(name for name in self.variables if name in inner.used)
        self.used.update(used)
        self.hidden.update((inner.variables.keys() | inner.hidden) - self.variables.keys())
        return used


def open_scope(
    parts: Iterable[ast.ClauseSyntax],
    catalog: Catalog,
    parameters: Mapping[str, ValueType],
    report: ProblemReport,
    chosen: Mapping[str, ChosenType] | None = None,
) -> QueryScope:
    """Return the scope at the start of a match. ``parts`` are all its clauses, and what may have blocks after it."""
    taken = frozenset(_bound_names(parts))
    fresh = (name for name in (f"{ast.ANONYMOUS}{number}" for number in count(1)) if name not in taken)
    return QueryScope(catalog, parameters, report, fresh, chosen=chosen or {})


def _bound_names(clauses: Iterable[ast.ClauseSyntax]) -> Iterator[str]:
    """Yield every variable that a match binds, in blocks too."""
    for clause in clauses:
        match clause:
            case ast.BindingClause():
                yield clause.variable
            case ast.TraversalClause():
                ends = (clause.source, clause.destination, clause.edge_variable)
                yield from (variable.name for variable in ends if variable is not None)
            case ast.OptionalClause():
                yield from _bound_names(clause.clauses)
            case _:
                for part in ast.walk_syntax(clause):
                    if isinstance(part, ast.Negation | ast.Existence):
                        yield from _bound_names(part.clauses)
