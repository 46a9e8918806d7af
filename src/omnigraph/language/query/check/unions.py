"""Check a union: its branches, each a read of its own, the columns in which they meet, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.computed import find_common_type
from omnigraph.language.query.check.names import is_null
from omnigraph.language.query.check.report import suggest_name
from omnigraph.language.query.check.result import check_count, name_column
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import (
    ColumnValue,
    Constant,
    Expression,
    RankingExpression,
    ResultColumn,
    TypedInterfaceRead,
    TypedOrderKey,
    TypedRead,
    TypedUnion,
    columns_of,
    single_reads_of,
)
from omnigraph.language.source import Span
from omnigraph.language.types import Scalar, ValueType

TypedBranch: TypeAlias = TypedRead | TypedInterfaceRead
CheckBranch: TypeAlias = Callable[[ast.ReadBody], TypedBranch | None]


def check_union(name: str, union: ast.UnionBody, scope: QueryScope, check: CheckBranch) -> TypedUnion | None:
    """Check every branch, and what stands after the last one. The scope has no variables."""
    checked = [check(branch) for branch in union.branches]
    limit, offset = check_count(union.limit, "limit", scope), check_count(union.offset, "offset", scope)
    if union.offset is not None and not union.order:
        hint = "add order { ... } before it: without an order any rows could be skipped"
        scope.reject("T26", "an offset needs an order", union.offset.span, hint)
    if scope.report.problems:
        return None
    branches = [branch for branch in checked if branch is not None]
    columns = _unite_columns(union, branches, scope)
    if columns is None:
        return None
    order = tuple(_check_order(union.order, columns, branches, scope))
    typed = tuple(_align_branch(branch, columns) for branch in branches)
    return TypedUnion(name, scope.parameters, typed, columns, union.distinct, order, limit, offset)


# ------------------------------------------------------------------------------------------------ columns


def _unite_columns(
    union: ast.UnionBody, branches: Sequence[TypedBranch], scope: QueryScope
) -> tuple[ColumnValue, ...] | None:
    """Return the columns of the union: every branch has these names in this order."""
    first = columns_of(branches[0])
    for written, branch in zip(union.branches[1:], branches[1:], strict=True):
        given = columns_of(branch)
        if len(given) != len(first):
            message = f"the number of columns here is {len(given)}, in the first branch it is {len(first)}"
            hint = f"the columns of the first branch are {', '.join(column.name for column in first)}"
            return scope.reject("T34", message, _span_of(written, len(given), len(given) - 1), hint)
        for place, (column, expected) in enumerate(zip(given, first, strict=True)):
            if column.name != expected.name:
                message = f"this column is called '{column.name}', in the first branch it is '{expected.name}'"
                hint = f"name it as there: as {expected.name}"
                return scope.reject("T34", message, _span_of(written, len(given), place), hint)
    united = [_meet(place, union, branches, scope) for place in range(len(first))]
    known = tuple(column for column in united if column is not None)
    return known if len(known) == len(united) else None


def _meet(place: int, union: ast.UnionBody, branches: Sequence[TypedBranch], scope: QueryScope) -> ColumnValue | None:
    """Find the type in which a column of all branches meets; a literal null fits every type."""
    given = [columns_of(branch)[place] for branch in branches]
    typed = [number for number, branch in enumerate(branches) if not _is_null_column(branch, place)]
    if not typed:
        return given[0]
    shared = given[typed[0]].type
    for number in typed[1:]:
        common = find_common_type(shared, given[number].type)
        if common is None:
            message = f"the column '{given[0].name}' is {given[number].type} here and {given[typed[0]].type} before"
            span = _span_of(union.branches[number], len(columns_of(branches[number])), place)
            return scope.reject("T34", message, span, "give it one type: columns of a union are of one type")
        shared = common
    types = [given[number].type for number in typed]
    loses_some = shared.scalar is Scalar.I64 and any(type_.scalar is Scalar.U64 for type_ in types)
    is_nullable = loses_some or len(typed) < len(given) or any(type_.nullable for type_ in types)
    enum_values = types[0].enum_values if len({type_.enum_values for type_ in types}) == 1 else None
    return ColumnValue(given[0].name, replace(shared, nullable=is_nullable, enum_values=enum_values))


def _is_null_column(branch: TypedBranch, place: int) -> bool:
    return all(is_null(read.columns[place].expression) for read in single_reads_of(branch))


def _span_of(branch: ast.ReadBody, columns: int, place: int) -> Span:
    """The span of a column; of all, if some are spread."""
    written = branch.projections
    return written[place].span if len(written) == columns else written[0].span.to(written[-1].span)


def _align_branch(branch: TypedBranch, columns: tuple[ColumnValue, ...]) -> TypedBranch:
    """Give the null literals of a branch the types of the union."""
    if isinstance(branch, TypedRead):
        return replace(branch, columns=_align_columns(branch.columns, columns))
    variants = (replace(each, columns=_align_columns(each.columns, columns)) for each in branch.variants)
    aligned = zip(branch.columns, columns, strict=True)
    shown = (united if _is_null_column(branch, place) else own for place, (own, united) in enumerate(aligned))
    return replace(branch, variants=tuple(variants), columns=tuple(shown))


def _align_columns(given: tuple[ResultColumn, ...], columns: tuple[ColumnValue, ...]) -> tuple[ResultColumn, ...]:
    return tuple(
        replace(own, expression=_align(own.expression, united.type)) for own, united in zip(given, columns, strict=True)
    )


def _align(expression: Expression, target: ValueType) -> Expression:
    return Constant(None, target) if is_null(expression) else expression


# ------------------------------------------------------------------------------------------------ order


def _check_order(
    keys: Sequence[ast.OrderKey], columns: tuple[ColumnValue, ...], branches: Sequence[TypedBranch], scope: QueryScope
) -> Iterator[TypedOrderKey]:
    """Check sort keys: the columns of the union, which a ranking cannot be."""
    for key in keys:
        column = _find_key(key.expression, columns, scope)
        if column is None:
            continue
        if _shows_score(column.name, branches):
            _reject_ranking(key.span, scope)
        elif column.type.is_list or column.type.scalar is Scalar.VECTOR:
            scope.reject("Q011", f"rows cannot be ordered by {column.type}", key.span, "order by another column")
        else:
            yield TypedOrderKey(column, key.descending)


def _find_key(written: ast.ExpressionSyntax, columns: tuple[ColumnValue, ...], scope: QueryScope) -> ColumnValue | None:
    if isinstance(written, ast.NearestCall | ast.Bm25Call | ast.RrfCall):
        return _reject_ranking(written.span, scope)
    name = written.name if isinstance(written, ast.AliasReference) else name_column(written)
    for column in columns:
        if column.name == name:
            return column
    names = [column.name for column in columns]
    if isinstance(written, ast.AliasReference):
        hint = suggest_name(written.name, names, "columns")
        return scope.reject("Q010", f"no column of the union is called '{written.name}'", written.span, hint)
    hint = f"name a column: {', '.join(names)}"
    return scope.reject("Q011", "only its columns order the rows of a union", written.span, hint)


def _shows_score(name: str, branches: Sequence[TypedBranch]) -> bool:
    reads = (read for branch in branches for read in single_reads_of(branch))
    return any(
        column.name == name and isinstance(column.expression, RankingExpression)
        for read in reads
        for column in read.columns
    )


def _reject_ranking(span: Span, scope: QueryScope) -> None:
    hint = "scores of different matches do not compare: rank in a query of its own, or order by another column"
    return scope.reject("T34", "a union cannot be ranked", span, hint)
