"""Plan a typed read: its ranking and its result. ``match_planner.py`` plans the match.

The first order key may be a ranking: ``nearest``, ``bm25`` or ``rrf``, directly or through an alias, always best first.
If the ranked variable is scanned, the best are taken right above the scan: its own conditions apply before; traversals,
comparisons with other variables and blocks apply after and may leave fewer than ``limit`` rows. If a traversal
reaches it, the best are taken from what the whole match found, blocks included. In both cases the result is sorted
by rank, later keys and ids sort the rows of one entity, and the limit cuts the rows again. ``rrf`` plans the match
once per arm; a ``nearest`` arm takes the best ``limit``, a ``bm25`` arm takes all. With an offset, as many more
are taken. Conditions of ``having`` apply after all this.

The branches of a union are planned one by one, and a read with interface variables once for each combination of their
types. The rows are united. What the result does not show but groups, order or ties need is carried in further columns,
which a projection drops at the end. With an order and a limit, each branch is sorted and cut as well, so that no branch
gives more rows than the result has.

Except for rankings, the start of a match does not change its rows. So a caller that knows the sizes of tables can pass
an ``estimate`` of scans, and the smallest scan comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from omnigraph.language.query.plan.marks import name_marks, replace_blocks
from omnigraph.language.query.plan.match_planner import EstimateScan, PendingRanking, place_marks, plan_match
from omnigraph.language.query.plan.operators import (
    BranchPlan,
    ByRank,
    Fuse,
    Group,
    Keep,
    Limit,
    MatchPlan,
    MutationPlan,
    Project,
    ReadPlan,
    Select,
    Sort,
    TopRows,
    Union,
)
from omnigraph.language.query.plan.printer import print_expression
from omnigraph.language.query.plan.visitor import ExpressionPart, Part, rebuild, variables_bound_by, walk_plan
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.query.typed_tree import (
    PATH_KEY,
    Aggregate,
    And,
    AnyTypedRead,
    ColumnValue,
    Distance,
    Expression,
    FusedScore,
    Identity,
    PathFunction,
    PathValue,
    Predicate,
    RankingExpression,
    ResultColumn,
    TextScore,
    TypedInterfaceRead,
    TypedOrderKey,
    TypedRead,
    TypedUnion,
    TypeName,
    columns_of,
    single_reads_of,
)
from omnigraph.language.schema import TableKey
from omnigraph.language.types import Scalar, ValueType

_ID = ValueType(Scalar.STRING, nullable=True)
_IDS = ValueType(Scalar.STRING, nullable=True, is_list=True)
"""The types of what tells rows apart; a variable may be absent."""


def plan_read(query: AnyTypedRead, estimate: EstimateScan | None = None) -> ReadPlan:
    """Plan a read. The same query and estimates always give the same plan."""
    match query:
        case TypedUnion():
            return _plan_union(query, estimate)
        case TypedRead() | TypedInterfaceRead() if _is_grouped(single_reads_of(query)[0]):
            return _order_groups(_plan_groups(query, estimate), single_reads_of(query)[0])
        case TypedInterfaceRead():
            return _plan_variants(query, estimate)
        case TypedRead():
            return _plan_projected(query, estimate)


def _is_grouped(query: TypedRead) -> bool:
    return query.distinct or any(isinstance(column.expression, Aggregate) for column in query.columns)


def plan_mutation(mutation: TypedMutation) -> MutationPlan:
    """Plan the match of a mutation; its statements run as they are written."""
    return MutationPlan(mutation, None if mutation.match is None else plan_read(mutation.match))


# ------------------------------------------------------------------------------------------------ result


def _plan_groups(query: TypedRead | TypedInterfaceRead, estimate: EstimateScan | None) -> Group | Keep:
    if isinstance(query, TypedInterfaceRead):
        return _group_variants(query, estimate)
    matched, columns = _mark_columns(plan_match(query.clauses, estimate=estimate), query, estimate)
    return _keep_groups(Group(matched, columns), query)


def _keep_groups(groups: Group, query: TypedRead) -> Group | Keep:
    return Keep(groups, _join_conditions(query.having)) if query.having else groups


def _order_groups(groups: Group | Keep, query: TypedRead) -> ReadPlan:
    plan = Sort(groups, query.order, tie_break=()) if query.order else groups
    return plan if query.limit is None and query.offset is None else Limit(plan, query.limit, query.offset)


def _join_conditions(conditions: tuple[Predicate, ...]) -> Predicate:
    return conditions[0] if len(conditions) == 1 else And(conditions)


def _plan_projected(query: TypedRead, estimate: EstimateScan | None) -> Project:
    plan, columns = _plan_sorted(query, estimate)
    if query.limit is not None or query.offset is not None:
        return Project(Limit(plan, query.limit, query.offset), columns)
    return Project(plan, columns)


def _plan_sorted(query: TypedRead, estimate: EstimateScan | None) -> tuple[MatchPlan | Sort, tuple[ResultColumn, ...]]:
    """Plan the rows of a read in their order, and its columns."""
    first = _resolve_alias(query.order[0].expression, query.columns) if query.order else None
    ranking = first if isinstance(first, RankingExpression) else None
    matched = plan_match(query.clauses, estimate=estimate) if ranking is None else _plan_ranked(query, ranking)
    matched, columns = _mark_columns(matched, query, estimate)
    if query.having:
        matched = Select(matched, _resolve_aliases(_join_conditions(query.having), columns))
    keys = tuple(replace(key, expression=_resolve_alias(key.expression, columns)) for key in query.order)
    if ranking is not None:
        return Sort(matched, (ByRank(), *keys[1:]), _tie_breaking_variables(query)), columns
    return Sort(matched, keys, _tie_breaking_variables(query)) if keys else matched, columns


def _mark_columns(
    matched: MatchPlan, query: TypedRead, estimate: EstimateScan | None
) -> tuple[MatchPlan, tuple[ResultColumn, ...]]:
    """Mark the rows of a match for the blocks in columns; return the columns with marks in place of the blocks."""
    taken = frozenset[str]().union(*map(variables_bound_by, walk_plan(matched, into_blocks=False)))
    names = name_marks([column.expression for column in query.columns], taken)
    columns = tuple(replace(each, expression=replace_blocks(each.expression, names)) for each in query.columns)
    return place_marks(matched, names, estimate), columns


def _resolve_alias(expression: Expression, columns: Iterable[ResultColumn]) -> Expression:
    if isinstance(expression, ColumnValue):
        return next(column.expression for column in columns if column.name == expression.name)
    return expression


def _resolve_aliases(part: Part, columns: tuple[ResultColumn, ...]) -> Part:
    """Return an expression with the columns that it names replaced by what they show."""

    def resolve(inner: ExpressionPart) -> ExpressionPart:
        return _resolve_alias(inner, columns) if isinstance(inner, ColumnValue) else rebuild(inner, resolve)

    return rebuild(part, resolve)


def _tie_breaking_variables(query: TypedRead) -> tuple[str, ...]:
    """Every named variable of the match, sorted."""
    return tuple(sorted(query.variables))


# ------------------------------------------------------------------------------------------------ union


def _plan_union(query: TypedUnion, estimate: EstimateScan | None) -> ReadPlan:
    """Unite the rows of all branches; everything above reads their columns."""
    branches = tuple(plan for branch in query.branches for plan in _plan_branches(branch, query, estimate))
    plan: Union | Group | Sort = Union(branches, query.columns)
    if query.distinct:
        plan = Group(plan, tuple(ResultColumn(column.name, column) for column in query.columns))
    if query.order:
        plan = Sort(plan, query.order, tie_break=())
    return plan if query.limit is None and query.offset is None else Limit(plan, query.limit, query.offset)


def _plan_branches(
    branch: TypedRead | TypedInterfaceRead, union: TypedUnion, estimate: EstimateScan | None
) -> Iterator[BranchPlan]:
    """Plan a branch of a union; with an interface variable, and without groups, it is a branch for each type."""
    keys = _list_cut_keys(branch, union)
    if _is_grouped(single_reads_of(branch)[0]):
        groups = _plan_groups(branch, estimate)
        if keys and union.limit is not None:
            yield TopRows(Sort(groups, keys, tie_break=()), union.limit, union.offset)
        else:
            yield groups
        return
    for read in single_reads_of(branch):
        # Columns break ties, and not the ids of variables.
        sorted_read = replace(read, order=keys, limit=union.limit, offset=union.offset, variables={})
        yield _plan_branch(sorted_read, (), estimate)


def _list_cut_keys(branch: TypedRead | TypedInterfaceRead, union: TypedUnion) -> tuple[TypedOrderKey, ...]:
    """Return the keys by which a branch can be sorted and cut before it is united; none if it cannot be cut."""
    pairs = zip(columns_of(branch), union.columns, strict=True)
    # Numbers that differ may be equal once they are converted.
    is_same = all(own.type.scalar is united.type.scalar for own, united in pairs)
    # Of distinct rows, the first of one branch may all be rows of another one.
    if union.limit is None or not union.order or union.distinct or not is_same:
        return ()
    stated = [key.expression for key in union.order]
    ties = (TypedOrderKey(column, descending=False) for column in union.columns if column not in stated)
    return (*union.order, *ties)


def _plan_variants(query: TypedInterfaceRead, estimate: EstimateScan | None) -> ReadPlan:
    """Unite the rows of all variants, with what sorts them in columns of their own."""
    first = query.variants[0]
    keys = [_list_sort_keys(variant, query.interface_variables) for variant in query.variants]
    branches = [
        _plan_branch(variant, _carry_values(key.expression for key in of_variant), estimate)
        for variant, of_variant in zip(query.variants, keys, strict=True)
    ]
    union = _unite(branches)
    plan: Union | Sort | Limit = union
    if first.order:
        plan = Sort(union, tuple(_sort_by_column(key, union) for key in keys[0]), tie_break=())
    if first.limit is not None or first.offset is not None:
        plan = Limit(plan, first.limit, first.offset)
    if len(union.columns) == len(query.columns):
        return plan
    return Project(plan, tuple(ResultColumn(column.name, column) for column in query.columns))


def _list_sort_keys(variant: TypedRead, interface_variables: tuple[str, ...]) -> list[TypedOrderKey]:
    """Return what the rows of a variant are sorted by: the stated keys, then what tells the rows apart."""
    if not variant.order:
        return []
    ties = [each for name in sorted(variant.variables) for each in _tell_apart(name, variant, interface_variables)]
    return [*variant.order, *(TypedOrderKey(expression, descending=False) for expression in ties)]


def _tell_apart(variable: str, variant: TypedRead, interface_variables: tuple[str, ...]) -> Iterator[Expression]:
    """Yield what tells the values of a variable apart: the nodes of a path, an id, the type if it differs."""
    key = variant.variables[variable]
    if key == PATH_KEY:
        yield PathValue(PathFunction.NODES, variable, _IDS)
        return
    if variable in interface_variables:
        yield TypeName(variable, TableKey(key).type_name, _ID)
    yield Identity(variable, _ID)


def _sort_by_column(key: TypedOrderKey, union: Union) -> TypedOrderKey:
    """Return the same key over the columns of a union."""
    name = _name_value(key.expression)
    return replace(key, expression=next(column for column in union.columns if column.name == name))


def _name_value(expression: Expression) -> str:
    """Name the column of a value that the result does not show; a column that it shows has its name."""
    if isinstance(expression, ColumnValue):
        return expression.name
    text = print_expression(expression)
    # No column that a query names has a dollar sign.
    return text if "$" in text else f"${text}"


def _carry_values(expressions: Iterable[Expression]) -> tuple[ResultColumn, ...]:
    """Return a column for each value that the result does not show."""
    values = {_name_value(each): each for each in expressions if not isinstance(each, ColumnValue)}
    return tuple(ResultColumn(name, expression) for name, expression in values.items())


def _plan_branch(query: TypedRead, carried: tuple[ResultColumn, ...], estimate: EstimateScan | None) -> Project:
    """Plan the rows of one branch, sorted only if it has to give no more than the first of them."""
    query = replace(query, columns=(*query.columns, *carried))
    if query.limit is None or not query.order:
        found, columns = _plan_sorted(replace(query, order=()), estimate)
        return Project(found, columns)
    found, columns = _plan_sorted(query, estimate)
    assert isinstance(found, Sort)
    return Project(TopRows(found, query.limit, query.offset), columns)


def _unite(branches: Sequence[Project]) -> Union:
    """Unite projections with the same columns, which are null if one of them can be."""
    columns = list[ColumnValue]()
    for first, *others in zip(*(branch.columns for branch in branches), strict=True):
        is_nullable = any(each.expression.type.nullable for each in (first, *others))
        columns.append(ColumnValue(first.name, replace(first.expression.type, nullable=is_nullable)))
    return Union(tuple(branches), tuple(columns))


def _group_variants(query: TypedInterfaceRead, estimate: EstimateScan | None) -> Group | Keep:
    """Group the united rows of all variants; the arguments of aggregates are columns of their own."""
    first = query.variants[0]
    union = _unite([_plan_branch(*_ungroup(variant), estimate) for variant in query.variants])
    types = {column.name: column.type for column in union.columns}
    columns: list[ResultColumn] = []
    for shown, column in zip(query.columns, first.columns, strict=True):
        expression: Expression = shown
        if isinstance(column.expression, Aggregate):
            name = _name_value(column.expression.argument)
            expression = replace(column.expression, argument=ColumnValue(name, types[name]), type=shown.type)
        columns.append(ResultColumn(column.name, expression))
    return _keep_groups(Group(union, tuple(columns)), first)


def _ungroup(variant: TypedRead) -> tuple[TypedRead, tuple[ResultColumn, ...]]:
    """Return the rows that a variant groups, and the arguments of its aggregates as columns."""
    plain = tuple(column for column in variant.columns if not isinstance(column.expression, Aggregate))
    aggregates = [each.expression for each in variant.columns if isinstance(each.expression, Aggregate)]
    rows = replace(variant, columns=plain, order=(), limit=None, offset=None, distinct=False, having=())
    return rows, _carry_values(aggregate.argument for aggregate in aggregates)


# ------------------------------------------------------------------------------------------------ ranking


def _plan_ranked(query: TypedRead, ranking: RankingExpression) -> MatchPlan:
    if not isinstance(ranking, FusedScore):
        return plan_match(query.clauses, PendingRanking(ranking, query.limit, query.offset))
    return Fuse(
        tuple(plan_match(query.clauses, _plan_arm(arm, query)) for arm in ranking.arms),
        variable=_variable_of(ranking),
        k=ranking.k,
        limit=query.limit,
        skip=query.offset,
    )


def _plan_arm(ranking: Distance | TextScore, query: TypedRead) -> PendingRanking:
    return (
        PendingRanking(ranking, query.limit, query.offset)
        if isinstance(ranking, Distance)
        else PendingRanking(ranking, None)
    )


def _variable_of(ranking: RankingExpression) -> str:
    first = ranking.arms[0] if isinstance(ranking, FusedScore) else ranking
    return first.target.variable
