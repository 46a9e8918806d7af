"""Print plans and expressions: one operator per line, its inputs indented below it, conditions written as in ``.gq``.

The text is stable: case files compare it, and ``omnigraph query --explain`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from omnigraph.language.query.ast import ANONYMOUS, ArithmeticOperator
from omnigraph.language.query.plan.operators import (
    ByRank,
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    Keep,
    Limit,
    Mark,
    MatchPlan,
    MutationPlan,
    NodeScan,
    Optional,
    Outer,
    PlanOperator,
    Project,
    Select,
    Sort,
    TopRanked,
    TopRows,
    Union,
    With,
    Without,
)
from omnigraph.language.query.plan.visitor import inputs_of
from omnigraph.language.query.typed_statements import (
    AssignedValue,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    UpdateBound,
    UpdateNodes,
)
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    Arithmetic,
    Block,
    Call,
    Choose,
    ColumnValue,
    Compare,
    Constant,
    Distance,
    EdgeStep,
    EndIdentity,
    Expression,
    FusedScore,
    Identity,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    PathValue,
    Predicate,
    PropertyValue,
    ResultColumn,
    TextMatch,
    TextScore,
    TraversalDirection,
    Truth,
    TypedExistence,
    TypedNegation,
    TypedOrderKey,
    TypeName,
)
from omnigraph.language.syntax import quote_string
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue, from_days, from_milliseconds

_ARROWS = {TraversalDirection.OUT: ("-", "->"), TraversalDirection.IN: ("<-", "-"), TraversalDirection.BOTH: ("-", "-")}
_OWN_ARROWS = {TraversalDirection.OUT: ">", TraversalDirection.IN: "<", TraversalDirection.BOTH: ""}
_MAX_TREE_WIDTH = 80


def print_plan(plan: PlanOperator | MutationPlan, notes: Callable[[PlanOperator], str] | None = None) -> str:
    """Print a plan as an indented tree, with a note on each operator if ``notes`` is given."""
    lines = list(_print_mutation(plan)) if isinstance(plan, MutationPlan) else list(_print_operators(plan))
    if notes is None:
        return "\n".join(text for text, _ in lines)
    width = min(max(len(text) for text, operator in lines if operator is not None), _MAX_TREE_WIDTH)
    return "\n".join(
        text if operator is None else f"{text:<{width}}  {notes(operator)}".rstrip() for text, operator in lines
    )


def _print_mutation(plan: MutationPlan) -> Iterator[tuple[str, PlanOperator | None]]:
    """Print the statements of a mutation, and the plan of its match as the last one below it."""
    statements = plan.mutation.statements
    branches = _branch_prefixes("", len(statements) + (plan.match is not None))
    yield f"Mutation {plan.mutation.name}", None
    for statement, (first, _) in zip(statements, branches, strict=False):
        yield first + _print_statement(statement), None
    if plan.match is not None:
        yield from _print_operators(plan.match, *branches[-1])


def _print_operators(
    plan: PlanOperator, before: str = "", before_inputs: str = ""
) -> Iterator[tuple[str, PlanOperator]]:
    # No recursion: a long match is a deep plan.
    waiting = [(plan, before, before_inputs)]
    while waiting:
        operator, first, rest = waiting.pop()
        yield first + print_operator(operator), operator
        inputs = inputs_of(operator)
        branches = _branch_prefixes(rest, len(inputs))
        waiting += reversed([(below, *branch) for below, branch in zip(inputs, branches, strict=True)])


def _branch_prefixes(indent: str, count: int) -> list[tuple[str, str]]:
    """The prefixes of the first line and of the other lines of each subtree."""
    return [*[(indent + "├─ ", indent + "│  ")] * (count - 1), (indent + "└─ ", indent + "   ")][:count]


# ------------------------------------------------------------------------------------------------ operators


def print_operator(plan: PlanOperator) -> str:
    """Print one operator on one line, without its inputs."""
    match plan:
        case Project() | Group():
            return f"{type(plan).__name__} {', '.join(map(_print_column, plan.columns))}"
        case Sort():
            ties = f", then ids of {_print_variables(plan.tie_break)}" if plan.tie_break else ""
            return f"Sort {', '.join(map(_print_key, plan.keys))}{ties}"
        case Keep():
            return f"Keep {print_expression(plan.predicate)}"
        case Limit():
            after = "" if plan.skip is None else f" after {print_expression(plan.skip)}"
            return f"Limit {'all' if plan.count is None else print_expression(plan.count)}{after}"
        case TopRows():
            return f"TopRows {_print_count(plan)}"
        case Union():
            return "Union"
        case _:
            return _print_match_operator(plan)


def _print_match_operator(plan: MatchPlan) -> str:
    match plan:
        case NodeScan():
            return f"Scan ${plan.variable}: {plan.node_type}{_print_where(plan.predicates)}"
        case Outer():
            return f"Outer {_print_variables(plan.variables)}".rstrip()
        case Cross():
            return "Cross"
        case Select():
            return f"Select {print_expression(plan.predicate)}"
        case With() | Without():
            return f"{type(plan).__name__} {_print_variables(plan.outer)}"
        case Optional():
            return f"Optional {_print_variables(plan.outer)}"
        case Mark():
            return f"Mark ${plan.name} by {_print_variables(plan.outer)}"
        case TopRanked():
            return f"TopRanked {_print_count(plan)} by {print_expression(plan.ranking)}"
        case Fuse():
            return f"Fuse {_print_count(plan)} of ${plan.variable} with k = {print_expression(plan.k)}"
        case _:
            return f"{type(plan).__name__} {_print_step(plan)}"


def _print_count(plan: TopRanked | Fuse | TopRows) -> str:
    limit = "all" if plan.limit is None else print_expression(plan.limit)
    return limit if plan.skip is None else f"{limit} + {print_expression(plan.skip)}"


def _print_step(plan: Expand | ExpandEdges | Connect | ConnectEdges) -> str:
    match plan:
        case Expand() | Connect():
            (before, after), edge = _print_steps(plan.steps)
            path = "" if plan.path is None else f"path ${plan.path}: "
            edge, conditions = path + edge + _print_hops(plan), ()
        case ExpandEdges() | ConnectEdges():
            before, after = _ARROWS[plan.direction]
            edge, conditions = f"${plan.edge_variable}: {plan.edge_type}", plan.edge_predicates
    walk = f"${plan.source} {before}[{edge}]{after} ${plan.destination}"
    if isinstance(plan, Connect | ConnectEdges):
        return walk + _print_where(conditions)
    return f"{walk}: {plan.destination_type}{_print_where((*conditions, *plan.predicates))}"


def _print_steps(steps: tuple[EdgeStep, ...]) -> tuple[tuple[str, str], str]:
    """Print the arrow and the edge types of a walk. Directions that differ are written at their types."""
    if len({step.direction for step in steps}) == 1:
        return _ARROWS[steps[0].direction], "|".join(step.edge_type for step in steps)
    return _ARROWS[TraversalDirection.BOTH], "|".join(_OWN_ARROWS[step.direction] + step.edge_type for step in steps)


def _print_hops(plan: Expand | Connect) -> str:
    if plan.minimum == plan.maximum == 1:
        return ""
    return f"{{{plan.minimum},{'' if plan.maximum is None else plan.maximum}}}"


def _print_where(predicates: tuple[Predicate, ...]) -> str:
    return f" where {' and '.join(map(_print_part, predicates))}" if predicates else ""


def _print_variables(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in names)


def _print_column(column: ResultColumn) -> str:
    text = print_expression(column.expression)
    return text if text.replace("$", "") == column.name else f"{text} as {column.name}"


def _print_key(key: TypedOrderKey | ByRank) -> str:
    if isinstance(key, ByRank):
        return "by rank"
    return print_expression(key.expression) + (" desc" if key.descending else "")


# ------------------------------------------------------------------------------------------------ statements


def _print_statement(statement: Statement) -> str:
    match statement:
        case InsertNode():
            return f"Insert {statement.node_type} {_print_assignments(statement.values)}"
        case InsertEdge():
            ends = [f"from: {print_expression(statement.source)}", f"to: {print_expression(statement.destination)}"]
            return f"Insert {statement.edge_type} {_print_assignments(statement.values, ends)}"
        case UpdateNodes():
            where = _print_where((statement.predicate,))
            return f"Update {statement.node_type} {_print_assignments(statement.values)}{where}"
        case DeleteNodes():
            edges = f", with edges of {', '.join(statement.cascades)}" if statement.cascades else ""
            return f"Delete {statement.node_type}{_print_where((statement.predicate,))}{edges}"
        case DeleteEdges():
            return f"Delete {statement.edge_type}{_print_where((statement.predicate,))}"
        case UpdateBound():
            return f"Update {print_expression(statement.entity)} {_print_assignments(statement.values)}"
        case DeleteBound():
            edges = f", with edges of {', '.join(statement.cascades)}" if statement.cascades else ""
            return f"Delete {print_expression(statement.entity)}{edges}"


def _print_assignments(values: Iterable[AssignedValue], ends: Iterable[str] = ()) -> str:
    return f"{{ {', '.join([*ends, *(f'{value.name}: {_print_value(value.value)}' for value in values)])} }}"


# ------------------------------------------------------------------------------------------------ expressions


def print_expression(part: Expression | Predicate) -> str:
    """Print an expression or predicate as ``.gq`` spells it."""
    match part:
        case Truth():
            return print_expression(part.predicate)
        case Constant():
            return _print_literal(part.value, part.type)
        case ParameterValue():
            return f"${part.name}"
        case Now():
            return "now()"
        case PropertyValue():
            # The row of a mutation's where clause has no name in the language.
            return part.name if part.variable == ANONYMOUS else f"${part.variable}.{part.name}"
        case Identity():
            return f"${part.variable}"
        case EndIdentity():
            return f"${part.variable}.{part.end}"
        case ColumnValue():
            return part.name
        case Aggregate():
            return f"{part.function}({'distinct ' if part.distinct else ''}{print_expression(part.argument)})"
        case Distance() | TextMatch() | TextScore() | FusedScore():
            return _print_search(part)
        case Arithmetic() | Call() | Choose() | TypeName() | PathValue():
            return _print_computed(part)
        case _:
            return _print_predicate(part)


def _print_computed(part: Arithmetic | Call | Choose | TypeName | PathValue) -> str:
    match part:
        case PathValue():
            return f"{part.function}(${part.variable})"
        case Arithmetic():
            first, *others = (_print_term(operand, part) for operand in part.operands)
            steps = zip(part.operators, others, strict=True)
            return "".join([first, *(f" {operator} {operand}" for operator, operand in steps)])
        case Call():
            return f"{part.function}({', '.join(map(_print_value, part.arguments))})"
        case Choose():
            arms = zip(part.conditions, part.values, strict=True)
            spelled = [f"{print_expression(condition)}: {_print_value(value)}" for condition, value in arms]
            otherwise = [] if part.otherwise is None else [f"else: {_print_value(part.otherwise)}"]
            return f"case {{ {', '.join([*spelled, *otherwise])} }}"
        case TypeName():
            return f"type(${part.variable})"


def _print_term(operand: Expression, operation: Arithmetic) -> str:
    """Print an operand, in parentheses where it would be read as a part of the operation around it."""
    is_sum = _is_sum(operation)
    if isinstance(operand, Arithmetic) and (not is_sum or _is_sum(operand)):
        return f"({print_expression(operand)})"
    return _print_operand(operand)


def _is_sum(operation: Arithmetic) -> bool:
    return operation.operators[0] in {ArithmeticOperator.ADD, ArithmeticOperator.SUBTRACT}


def _print_value(part: Expression) -> str:
    """Print an argument or the value of an arm. An id is a value there, not an entity."""
    return f"{print_expression(part)}.id" if isinstance(part, Identity) else print_expression(part)


def _print_predicate(part: Compare | IsNull | And | Or | Not | Marked | Block) -> str:
    match part:
        case Compare():
            return f"{_print_side(part.left, part.right)} {part.operator} {_print_side(part.right, part.left)}"
        case IsNull():
            return f"{_print_operand(part.operand)} is {'not ' if part.negated else ''}null"
        case And():
            return " and ".join(map(_print_part, part.parts))
        case Or():
            return " or ".join(map(_print_part, part.parts))
        case Not():
            return f"not ({print_expression(part.part)})"
        case Marked():
            return f"${part.name}"
        case TypedExistence() | TypedNegation():
            return f"{'exists' if isinstance(part, TypedExistence) else 'not'} {{ ... }}"


def _print_part(part: Predicate) -> str:
    """Print a condition among others that are joined."""
    return f"({print_expression(part)})" if isinstance(part, And | Or) else print_expression(part)


def _print_side(part: Expression, other: Expression) -> str:
    """Print one side of a comparison. Two entities are compared by their names, an id and a value are not."""
    is_id = isinstance(part, Identity) and not isinstance(other, Identity)
    return f"{_print_operand(part)}.id" if is_id else _print_operand(part)


def _print_operand(part: Expression) -> str:
    """Print one side of a comparison."""
    return f"({print_expression(part)})" if isinstance(part, Truth) else print_expression(part)


def _print_search(part: Distance | TextMatch | TextScore | FusedScore) -> str:
    match part:
        case Distance():
            return f"nearest({print_expression(part.target)}, {print_expression(part.query)})"
        case TextScore():
            return f"bm25({print_expression(part.target)}, {print_expression(part.query)})"
        case FusedScore():
            return f"rrf({', '.join(map(print_expression, (*part.arms, part.k)))})"
        case TextMatch():
            edits = "" if part.max_edits is None else f", {print_expression(part.max_edits)}"
            return f"{part.function}({print_expression(part.target)}, {print_expression(part.query)}{edits})"


def _print_literal(value: ConstantValue, of: ValueType) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"[{', '.join(_print_literal(item, of.item) for item in value)}]"
        case str():
            return quote_string(value)
        case int() if of.scalar is Scalar.DATE:
            return f'date("{from_days(value)}")'
        case int() if of.scalar is Scalar.DATETIME:
            moment = from_milliseconds(value).isoformat(timespec="milliseconds")
            return f'datetime("{moment.replace("+00:00", "Z")}")'
        case _:
            return str(value)
