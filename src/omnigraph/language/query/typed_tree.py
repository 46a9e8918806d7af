"""A query after type checking: every name is resolved against the catalog, every expression has its type.

The checker builds these, the planner reads them. Names and types are correct here; only parameter values and data can
still be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from omnigraph.language.query.ast import AggregateFunction, ArithmeticOperator, ComparisonOperator, TextFunction
from omnigraph.language.types import ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.lazy_dataclass import dataclass


class TraversalDirection(StrEnum):
    """How an edge is followed from the variable on the left."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class PathFunction(StrEnum):
    """The functions that read a path."""

    HOPS = "hops"
    NODES = "nodes"
    EDGES = "edges"


PATH_KEY = "path"
"""Stands for the table key of a path, which is in no table."""


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """One way to make a hop: along the edges of a type, in a direction."""

    edge_type: str
    direction: TraversalDirection


class Function(StrEnum):
    """The functions of values: each gives one value for the values of its arguments."""

    LOWER = "lower"
    UPPER = "upper"
    TRIM = "trim"
    LENGTH = "length"
    SUBSTRING = "substring"
    CONCAT = "concat"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    TRUNCATE = "truncate"
    DAYS_BETWEEN = "days_between"
    COALESCE = "coalesce"
    SIZE = "size"


UsedVariable: TypeAlias = Annotated[str, "used"]
"""A bound variable that an expression or an operator needs."""


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, converted to the type that it is compared with or assigned to."""

    value: ConstantValue
    type: ValueType
    is_rounded: bool = False
    """Whether the conversion to the type of a property rounded it."""


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value of a parameter."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the request."""

    type: ValueType


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property of a bound node or edge."""

    variable: UsedVariable
    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of a bound node or edge: the value of a bare ``$v``, and of ``$v.id``."""

    variable: UsedVariable
    type: ValueType


@dataclass(frozen=True, slots=True)
class EndIdentity:
    """The id of the node at a stored end of a bound edge, ``from`` or ``to``, whichever way the edge was walked."""

    variable: UsedVariable
    end: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class PathValue:
    """``hops``, ``nodes`` or ``edges`` of a bound path: its length, or the ids on it from left to right."""

    function: PathFunction
    variable: UsedVariable
    type: ValueType


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column of the result, as ``order`` names it."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Distance:
    """``nearest``: the Euclidean distance of a vector property from a vector, or from the embedding of a text."""

    target: PropertyValue
    query: Expression
    type: ValueType


@dataclass(frozen=True, slots=True)
class TextMatch:
    """``search``, ``match_text``, ``fuzzy``: whether a text property matches."""

    function: TextFunction
    target: PropertyValue
    query: Expression
    max_edits: Expression | None
    type: ValueType


@dataclass(frozen=True, slots=True)
class TextScore:
    """``bm25``: how well a text property matches."""

    target: PropertyValue
    query: Expression
    type: ValueType


@dataclass(frozen=True, slots=True)
class FusedScore:
    """``rrf``: two or more rankings fused by reciprocal rank."""

    arms: tuple[Distance | TextScore, ...]
    k: Expression
    type: ValueType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over the rows of a group."""

    function: AggregateFunction
    argument: Expression
    distinct: bool
    type: ValueType


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition as a value: true, false, or null where it is unknown."""

    predicate: Predicate
    type: ValueType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - *`` or ``/`` between numbers, from left to right, one operator between each two operands.

    Integers are exact in I64; with a float, and for ``/``, the result is an F64. Null where an operand is null, where a
    step does not fit or is no finite number, and where an operand of U64 is beyond I64.
    """

    operands: tuple[Expression, ...]
    operators: tuple[ArithmeticOperator, ...]
    type: ValueType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values. Null if an argument is null, except for ``coalesce``."""

    function: Function
    arguments: tuple[Expression, ...]
    type: ValueType


@dataclass(frozen=True, slots=True)
class Choose:
    """``case``: the value of the first condition that is true, else ``otherwise``, else null."""

    conditions: tuple[Predicate, ...]
    values: tuple[Expression, ...]
    otherwise: Expression | None
    type: ValueType


@dataclass(frozen=True, slots=True)
class TypeName:
    """``type($x)``: the name of the type of a bound node or edge; null where the variable is absent."""

    variable: UsedVariable
    type_name: str
    type: ValueType


Expression: TypeAlias = (
    Constant
    | ParameterValue
    | Now
    | PropertyValue
    | Identity
    | EndIdentity
    | PathValue
    | ColumnValue
    | Distance
    | TextMatch
    | TextScore
    | FusedScore
    | Aggregate
    | Truth
    | Arithmetic
    | Call
    | Choose
    | TypeName
)
ComputedExpression: TypeAlias = Arithmetic | Call | Choose
"""Expressions that are computed from others."""
RankingExpression: TypeAlias = Distance | TextScore | FusedScore


# ------------------------------------------------------------------------------------------------ predicates


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right`` in three-valued logic: with a null on either side it is unknown."""

    left: Expression
    operator: ComparisonOperator
    right: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand is null``, or its negation."""

    operand: Expression
    negated: bool


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true: false if one is false, else unknown if one is unknown."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A part is true: else unknown if one is unknown."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false; unknown if the part is unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Marked:
    """The mark of a row, which an operator below has set for a block. A plan has it in place of the block."""

    name: UsedVariable


@dataclass(frozen=True, slots=True)
class TypedExistence:
    """``exists``: with the outer variables fixed, the inner clauses have a match."""

    clauses: BlockClauses
    outer: tuple[UsedVariable, ...]


@dataclass(frozen=True, slots=True)
class TypedNegation:
    """``not { }``: with the outer variables fixed, the inner clauses have no match."""

    clauses: BlockClauses
    outer: tuple[UsedVariable, ...]


Block: TypeAlias = TypedExistence | TypedNegation
Predicate: TypeAlias = Compare | IsNull | TextMatch | And | Or | Not | Marked | Block


# ------------------------------------------------------------------------------------------------ match clauses


@dataclass(frozen=True, slots=True)
class TypedBinding:
    """A variable that stands for each node of a type; the predicates come from its braces."""

    variable: str
    node_type: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class TypedTraversal:
    """A traversal. The source is the variable on the left, whatever the directions.

    Each hop is one of the ``steps``. ``edge_variable`` set means one row per edge, and there is one step; else one row
    per distinct destination at ``minimum`` to ``maximum`` hops, any number of them without a maximum. Anonymous ends
    have names of their own that begin with ``_``. ``path`` is the variable that is bound to the path of each row.
    """

    source: str
    source_type: str
    steps: tuple[EdgeStep, ...]
    destination: str
    destination_type: str
    minimum: int
    maximum: int | None
    edge_variable: str | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class TypedOptional:
    """``optional``: each match of the inner clauses, with the outer variables fixed, or one row without any.

    ``variables`` are those that the block binds; in a row without a match they are absent, and all they have is null.
    """

    clauses: BlockClauses
    outer: tuple[str, ...]
    variables: tuple[str, ...]


Clause: TypeAlias = TypedBinding | TypedTraversal | TypedOptional | Predicate
BlockClauses: TypeAlias = Annotated[tuple[Clause, ...], "block"]
"""The clauses of a block. They are no operands of it: their variables are their own."""


# ------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class TypedOrderKey:
    """One sort key."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class TypedRead:
    """A checked read. ``having`` speaks of columns.

    ``variables`` maps each name that the result can use to its table key (``node:T`` or ``edge:T``), a path to
    ``PATH_KEY``: no anonymous ends, and nothing that only a negation binds.
    """

    name: str
    parameters: Mapping[str, ValueType]
    variables: Mapping[str, str]
    clauses: tuple[Clause, ...]
    columns: tuple[ResultColumn, ...]
    order: tuple[TypedOrderKey, ...]
    limit: Constant | ParameterValue | None
    offset: Constant | ParameterValue | None = None
    distinct: bool = False
    having: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedInterfaceRead:
    """A checked read with interface variables: the same read, checked for each combination of their types.

    The rows of all variants are united before they are grouped, sorted and limited. Variants have the same columns,
    order keys and limits; only the types differ that their variables have.
    """

    interface_variables: tuple[str, ...]
    columns: tuple[ColumnValue, ...]
    variants: tuple[TypedRead, ...]

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.variants[0].name

    @property
    def parameters(self) -> Mapping[str, ValueType]:
        """The declared parameters."""
        return self.variants[0].parameters


@dataclass(frozen=True, slots=True)
class TypedUnion:
    """Checked reads whose rows are put together, each row once if it is ``distinct``. The order speaks of columns.

    Every branch has these columns in this order; numbers of other types are converted. Branches have no order.
    """

    name: str
    parameters: Mapping[str, ValueType]
    branches: tuple[TypedRead | TypedInterfaceRead, ...]
    columns: tuple[ColumnValue, ...]
    distinct: bool
    order: tuple[TypedOrderKey, ...]
    limit: Constant | ParameterValue | None
    offset: Constant | ParameterValue | None


AnyTypedRead: TypeAlias = TypedRead | TypedInterfaceRead | TypedUnion


def single_reads_of(query: AnyTypedRead) -> tuple[TypedRead, ...]:
    """Return the reads of one match each whose rows make up the result."""
    match query:
        case TypedRead():
            return (query,)
        case TypedInterfaceRead():
            return query.variants
        case TypedUnion():
            return tuple(read for branch in query.branches for read in single_reads_of(branch))


def columns_of(query: AnyTypedRead) -> tuple[ColumnValue, ...]:
    """Return the names and types of the columns of a result."""
    if isinstance(query, TypedRead):
        return tuple(ColumnValue(column.name, column.expression.type) for column in query.columns)
    return query.columns
