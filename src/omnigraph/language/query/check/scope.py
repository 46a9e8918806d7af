"""What a part of a query can see while it is checked: the catalog, the parameters, the variables bound so far.

Clauses are checked in text order. A variable whose binding was wrong stays in scope as ``UNKNOWN``, so that one
mistake is reported once and not again at every use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import Final, Literal, TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import Span
from omnigraph.language.types import ValueType


class _Unknown(Enum):
    UNKNOWN = auto()


UNKNOWN: Final = _Unknown.UNKNOWN
Entity: TypeAlias = NodeType | EdgeType | Literal[_Unknown.UNKNOWN]
"""What a variable stands for."""


@dataclass(slots=True)
class QueryScope:
    """The names that a clause can use. ``mentioned`` are the variables that were used, ``hidden`` the names that
    belong to a negation above and therefore mean something else there."""

    catalog: Catalog
    parameters: Mapping[str, ValueType]
    report: ProblemReport
    anonymous_names: Iterator[str]
    variables: dict[str, Entity] = field(default_factory=dict[str, Entity])
    mentioned: set[str] = field(default_factory=set[str])
    hidden: set[str] = field(default_factory=set[str])

    def reject(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Note a problem."""
        self.report.add(code, message, span, hint)

    def entity(self, name: str) -> Entity | None:
        """What a variable stands for, if it is bound; the use is remembered."""
        found = self.variables.get(name)
        if found is not None:
            self.mentioned.add(name)
        return found

    def bind(self, variable: str, entity: Entity, span: Span) -> None:
        """Bring a new variable into scope."""
        if variable in self.hidden:
            self.reject(
                "Q003",
                f"'${variable}' is used in a negation above, where it is a variable of its own",
                span,
                f"bind '${variable}' before the negation, or rename one of the two",
            )
        self.variables[variable] = entity

    def inner(self) -> QueryScope:
        """The scope of a negation: it sees what is bound so far and keeps its own variables to itself."""
        return QueryScope(self.catalog, self.parameters, self.report, self.anonymous_names, dict(self.variables))

    def leave(self, inner: QueryScope) -> tuple[str, ...]:
        """Come back from a negation: which of the outer variables it used."""
        used = tuple(name for name in self.variables if name in inner.mentioned)
        self.mentioned.update(used)
        self.hidden.update((inner.variables.keys() | inner.hidden) - self.variables.keys())
        return used


def open_scope(
    query: ast.ReadBody, catalog: Catalog, parameters: Mapping[str, ValueType], report: ProblemReport
) -> QueryScope:
    """The scope that the match of a read begins with."""
    taken = frozenset(_names(query.clauses))
    fresh = (name for name in (f"{ast.ANONYMOUS}{number}" for number in count(1)) if name not in taken)
    return QueryScope(catalog, parameters, report, fresh)


def _names(clauses: Iterable[ast.ClauseSyntax]) -> Iterator[str]:
    """Every variable that a match binds, negations included."""
    for clause in clauses:
        match clause:
            case ast.BindingClause():
                yield clause.variable
            case ast.TraversalClause():
                ends = (clause.source, clause.destination, clause.edge_variable)
                yield from (variable.name for variable in ends if variable is not None)
            case ast.NegationClause():
                yield from _names(clause.clauses)
            case _:
                pass
