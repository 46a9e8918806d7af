"""Check the result of a read: its columns, order and limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omnigraph.language.query import ast
from omnigraph.language.query.check.expressions import (
    LITERALS,
    ComputedSyntax,
    check_aggregate,
    check_condition,
    check_expression,
)
from omnigraph.language.query.check.names import ENDS, ID, refuse_blob, reject_path, reject_unbound
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.scope import PATH, Place, QueryScope
from omnigraph.language.query.check.searches import check_ranking, is_count
from omnigraph.language.query.plan import variables_of, walk_expression
from omnigraph.language.query.typed_tree import (
    ColumnValue,
    Constant,
    Distance,
    Expression,
    FusedScore,
    ParameterValue,
    Predicate,
    RankingExpression,
    ResultColumn,
    TextScore,
    TypedOrderKey,
)
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass

_COUNT = ValueType(Scalar.U64)


# ------------------------------------------------------------------------------------------------ columns


def check_columns(projections: Sequence[ast.Projection], scope: QueryScope) -> tuple[ResultColumn, ...]:
    """Return the columns that can be resolved. Their names are unique."""
    grouped = has_aggregate(projections)
    columns: dict[str, ResultColumn] = {}
    for projection in (each for written in projections for each in _spread(written, scope)):
        expression = _check_projection(projection, scope, grouped=grouped)
        if expression is None:
            continue
        name = projection.alias or name_column(projection.expression)
        if name is None:
            scope.reject("Q014", "a computed column needs a name", projection.span, "add one: as found")
            continue
        if name in columns:
            hint = f"give this one an alias of its own: as {_free_alias(name, columns)}"
            scope.reject("Q007", f"two columns are called '{name}'", projection.span, hint)
        columns.setdefault(name, ResultColumn(name, expression))
    return tuple(columns.values())


def _spread(projection: ast.Projection, scope: QueryScope) -> list[ast.Projection]:
    """Replace ``$x.*`` by a column for the id, the ends of an edge, and each property that can be read, by name."""
    access = projection.expression
    if not isinstance(access, ast.PropertyAccess) or access.name != ast.ALL_PROPERTIES:
        return [projection]
    entity = scope.look_up(access.variable)
    if entity is None:
        reject_unbound("T6", access.variable, access.span, scope)
    if entity is PATH:
        reject_path(access.variable, access.span, scope)
    if not isinstance(entity, NodeType | EdgeType):
        return []
    readable = [name for name, declared in entity.properties.items() if declared.type.scalar is not Scalar.BLOB]
    ends = ENDS if isinstance(entity, EdgeType) else ()
    return [replace(projection, expression=replace(access, name=name)) for name in (ID, *ends, *sorted(readable))]


def has_aggregate(projections: Sequence[ast.Projection]) -> bool:
    """Whether the result is grouped."""
    return any(isinstance(projection.expression, ast.AggregateCall) for projection in projections)


def _check_projection(projection: ast.Projection, scope: QueryScope, *, grouped: bool) -> Expression | None:
    written = projection.expression
    if written == ast.AliasReference("distinct"):
        instead = "leave it out: rows are grouped beside an aggregate" if grouped else "write return distinct { ... }"
        return scope.reject("Q010", "distinct stands before the brace", written.span, instead)
    inside = scope.at(Place.RETURN)
    if isinstance(written, ast.AggregateCall):
        return check_aggregate(written, inside)
    expression = refuse_blob(check_expression(written, inside), written.span, scope)
    if expression is None or not grouped or _can_group(expression):
        return expression
    message = "beside an aggregate, columns speak of variables and have no score: rows are grouped by them"
    return scope.reject("T9", message, written.span, "leave it out, or use a second query")


def _can_group(expression: Expression) -> bool:
    if any(isinstance(part, RankingExpression) for part in walk_expression(expression)):
        return False
    if any(isinstance(part, ParameterValue) for part in walk_expression(expression)):
        return True
    return bool(variables_of(expression))


def _free_alias(name: str, columns: dict[str, ResultColumn]) -> str:
    stem = "".join(char if char.isalnum() else "_" for char in name).strip("_")
    number = 2
    while f"{stem}_{number}" in columns:
        number += 1
    return f"{stem}_{number}"


def name_column(written: ast.ExpressionSyntax) -> str | None:
    """Name a column without an alias: ``v.p``, ``v``, ``count(v)``, ``literal``; None if it needs one."""
    match written:
        case ast.ScalarLiteral() | ast.DateLiteral() | ast.DateTimeLiteral() | ast.ListLiteral():
            return "literal"
        case ast.NowCall():
            return "now()"
        case ast.PropertyAccess():
            return f"{written.variable}.{written.name}"
        case ast.Variable():
            return written.name
        case ast.NearestCall():
            return f"nearest({name_column(written.target)})"
        case ast.TextMatchCall():
            return f"{written.function}({name_column(written.target)})"
        case ast.Bm25Call():
            return f"bm25({name_column(written.target)})"
        case ast.RrfCall():
            return f"rrf({', '.join(str(name_column(arm)) for arm in written.arms)})"
        case ast.FunctionCall(arguments=(only,)):
            argument = name_column(only)
            return None if argument is None else f"{written.name}({argument})"
        case ast.AggregateCall():
            argument = name_column(written.argument)
            return None if argument is None else f"{written.function}({'distinct ' * written.distinct}{argument})"
        case _:
            return None


# ------------------------------------------------------------------------------------------------ order


@dataclass(frozen=True, slots=True)
class OrderScope:
    """What order keys are checked against."""

    projections: tuple[ast.Projection, ...]
    columns: tuple[ResultColumn, ...]
    is_grouped: bool
    has_limit: bool


def check_order(keys: Sequence[ast.OrderKey], result: OrderScope, scope: QueryScope) -> tuple[TypedOrderKey, ...]:
    """Check the sort keys. Only the first can be a ranking, because the rows are found by it."""
    return tuple(_check_keys(keys, result, scope))


def _check_keys(keys: Sequence[ast.OrderKey], result: OrderScope, scope: QueryScope) -> Iterator[TypedOrderKey]:
    by_distance = any(isinstance(key.expression, ast.NearestCall) for key in keys)
    for place, key in enumerate(keys):
        if by_distance and isinstance(key.expression, ast.AliasReference):
            hint = "leave one of the two out"
            scope.reject("T18", "nearest cannot be ordered together with an alias", key.span, hint)
            continue
        expression = _check_key_expression(key.expression, result, scope)
        if expression is None:
            continue
        if isinstance(expression, Distance | TextScore | FusedScore):
            if scope.chosen:
                _reject_united_ranking(expression, key, scope)
                continue
            _check_ranking_key(expression, key, place, result, scope)
            yield TypedOrderKey(expression, descending=not isinstance(expression, Distance))
        elif expression.type.is_list or expression.type.scalar is Scalar.VECTOR:
            scope.reject("Q011", f"rows cannot be ordered by {expression.type}", key.span, "order by another property")
        else:
            yield TypedOrderKey(expression, key.descending)


def _reject_united_ranking(ranking: RankingExpression, key: ast.OrderKey, scope: QueryScope) -> None:
    for name in sorted(variables_of(ranking) & scope.chosen.keys()):
        types = ", ".join(sorted(scope.chosen[name].possible))
        message = f"'${name}' is of the interface {scope.chosen[name].interface}, which cannot be ranked"
        return scope.reject("T35", message, key.span, f"rank the nodes of one type: {types}")
    message = "rows of several types are united here, and a ranking is of one match"
    return scope.reject("T34", message, key.span, "bind every variable to a node type, or order by a property")


def _check_ranking_key(
    ranking: Distance | TextScore | FusedScore, key: ast.OrderKey, place: int, result: OrderScope, scope: QueryScope
) -> None:
    if place > 0:
        hint = "put it first; to combine two rankings, write rrf(..., ...)"
        scope.reject("Q011", "a ranking must be the first order key", key.span, hint)
    if result.has_limit:
        return
    if isinstance(ranking, Distance):
        scope.reject("T17", "an order by nearest needs a limit", key.span, "add limit 10 after order")
    elif isinstance(ranking, FusedScore):
        scope.reject("T21", "an order by rrf needs a limit", key.span, "add limit 10 after order")


def _check_key_expression(written: ast.ExpressionSyntax, result: OrderScope, scope: QueryScope) -> Expression | None:
    match written:
        case ast.AliasReference():
            return _find_named_column(written, result, scope)
        case ast.NearestCall() | ast.Bm25Call() | ast.RrfCall() if not result.is_grouped:
            return _refuse_optional(check_ranking(written, scope), written, scope)
        case _ if isinstance(written, ast.PropertyAccess | ast.ConditionSyntax) and not result.is_grouped:
            return refuse_blob(check_expression(written, scope.at(Place.ORDER)), written.span, scope)
        case _ if isinstance(written, ComputedSyntax) and not result.is_grouped:
            return _check_computed_key(written, result, scope)
        case _:
            return _find_shown_column(written, result, scope)


def _check_computed_key(written: ComputedSyntax, result: OrderScope, scope: QueryScope) -> Expression | None:
    expression = refuse_blob(check_expression(written, scope.at(Place.ORDER)), written.span, scope)
    if expression is None:
        return None
    has_score = any(isinstance(part, RankingExpression) for part in walk_expression(expression))
    if variables_of(expression) and not has_score:
        return expression
    return _match_shown_column(expression, written, result, scope)


def _refuse_optional(
    ranking: Distance | TextScore | FusedScore | None, written: ast.ExpressionSyntax, scope: QueryScope
) -> Expression | None:
    if ranking is None or scope.optional.isdisjoint(variables_of(ranking)):
        return ranking
    hint = "rank a variable that is always bound"
    return scope.reject("T28", "a variable of an optional block cannot be ranked", written.span, hint)


def _find_named_column(reference: ast.AliasReference, result: OrderScope, scope: QueryScope) -> Expression | None:
    for column in result.columns:
        if column.name == reference.name:
            if isinstance(column.expression, Distance | TextScore | FusedScore) and not result.is_grouped:
                return column.expression
            return ColumnValue(column.name, column.expression.type)
    if any(projection.alias == reference.name for projection in result.projections):
        return None  # the problem of that projection is already reported
    hint = suggest_name(reference.name, [column.name for column in result.columns], "columns")
    return scope.reject("Q010", f"no column of the result is called '{reference.name}'", reference.span, hint)


def _find_shown_column(written: ast.ExpressionSyntax, result: OrderScope, scope: QueryScope) -> ColumnValue | None:
    """Find the column that shows an expression which can only be ordered by as a column."""
    if isinstance(written, (ast.NowCall, *LITERALS)):
        return scope.reject("Q011", "a constant cannot order rows", written.span, "order by a property or a column")
    inside = scope.at(Place.ORDER)
    is_aggregate = isinstance(written, ast.AggregateCall)
    expression = check_aggregate(written, inside) if is_aggregate else check_expression(written, inside)
    return None if expression is None else _match_shown_column(expression, written, result, scope)


def _match_shown_column(
    expression: Expression, written: ast.ExpressionSyntax, result: OrderScope, scope: QueryScope
) -> ColumnValue | None:
    for column in result.columns:
        if column.expression == expression:
            return ColumnValue(column.name, expression.type)
    if result.is_grouped:
        message = "with aggregates or distinct, only columns of the result can be ordered by"
    else:
        message = "only values of variables, columns of the result and rankings can be ordered by"
    return scope.reject("Q011", message, written.span, "add it to return")


# ------------------------------------------------------------------------------------------------ counts


def check_count(
    count: ast.ScalarLiteral | ast.Variable | None, word: str, scope: QueryScope
) -> Constant | ParameterValue | None:
    """Check a limit or an offset: a literal, or an integer parameter that is never null."""
    if count is None:
        return None
    if isinstance(count, ast.ScalarLiteral):
        if isinstance(count.value, int) and not isinstance(count.value, bool) and count.value >= 0:
            return Constant(count.value, _COUNT)
        return scope.reject("Q012", f"{word} is a count of rows", count.span, "write an integer of at least 0")
    declared = scope.parameters.get(count.name)
    if declared is None:
        hint = suggest_similar(count.name, scope.parameters) or f"declare ${count.name}: U32"
        return scope.reject("Q002", f"'${count.name}' is not a parameter", count.span, hint)
    if not is_count(declared):
        message = f"{word} is a count of rows; '${count.name}' is {declared}"
        return scope.reject("Q012", message, count.span, f"declare ${count.name}: U32")
    return ParameterValue(count.name, declared)


# ------------------------------------------------------------------------------------------------ having


def check_having(
    conditions: Sequence[ast.ExpressionSyntax], columns: tuple[ResultColumn, ...], scope: QueryScope
) -> tuple[Predicate, ...]:
    """Check the conditions on columns of the result."""
    checked = [check_condition(condition, scope.over(columns)) for condition in conditions]
    return tuple(condition for condition in checked if condition is not None)
