"""Check the ladder of expressions: resolve the names of an expression and find its type.

Conditions are expressions, and blocks of clauses are conditions, so clauses are checked here too, in text order. Each
function returns the typed form, or None after it has reported a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.aggregates import apply_aggregate
from omnigraph.language.query.check.bindings import check_binding
from omnigraph.language.query.check.comparisons import WORD_OPERATORS, compare
from omnigraph.language.query.check.computed import apply_arithmetic, choose
from omnigraph.language.query.check.functions import ENTITY_FUNCTIONS, apply_function, is_function, reject_unknown
from omnigraph.language.query.check.literals import type_literal
from omnigraph.language.query.check.names import BOOL, DATETIME, STRING, check_property, check_variable, refuse_blob
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.check.scope import PATH, Place, QueryScope
from omnigraph.language.query.check.searches import check_ranking, check_text_match
from omnigraph.language.query.check.traversal import check_traversal
from omnigraph.language.query.plan import walk_expression
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    Block,
    Clause,
    ColumnValue,
    Compare,
    Constant,
    Expression,
    Identity,
    IsNull,
    Not,
    Now,
    Or,
    Predicate,
    RankingExpression,
    Truth,
    TypedExistence,
    TypedNegation,
    TypedOptional,
    TypeName,
)
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar

ComputedSyntax: TypeAlias = ast.ArithmeticOperation | ast.FunctionCall | ast.CaseExpression
LITERALS = (ast.ScalarLiteral, ast.DateLiteral, ast.DateTimeLiteral, ast.ListLiteral)


# ------------------------------------------------------------------------------------------------ clauses


def check_clauses(clauses: Iterable[ast.ClauseSyntax], scope: QueryScope) -> tuple[Clause, ...]:
    """Return every clause that can be resolved, and report the problems of the others."""
    return tuple(typed for clause in clauses for typed in _check_clause(clause, scope))


def _check_clause(clause: ast.ClauseSyntax, scope: QueryScope) -> Iterator[Clause]:
    match clause:
        case ast.BindingClause():
            found = check_binding(clause, scope)
        case ast.OptionalClause():
            found = _check_optional(clause, scope)
        case ast.TraversalClause():
            comparison = _to_comparison(clause, scope)
            if comparison is None:
                yield from check_traversal(clause, scope)
                return
            found = check_condition(comparison, scope)
        case _:
            found = check_condition(clause, scope)
    if isinstance(found, And):
        yield from found.parts
    elif found is not None:
        yield found


def _check_optional(block: ast.OptionalClause, scope: QueryScope) -> TypedOptional | None:
    if scope.is_test:
        hint = "leave out the optional block: it never decides whether there is a match"
        return scope.reject("T28", "an optional block does not stand inside exists or not", block.span, hint)
    found_before = len(scope.report.problems)
    inner = scope.open_block(is_test=False)
    clauses = check_clauses(block.clauses, inner)
    outer = tuple(name for name in scope.variables if name in inner.used)
    scope.used.update(outer)
    bound = {name: entity for name, entity in inner.variables.items() if name not in scope.variables}
    for name, entity in bound.items():
        scope.bind(name, entity, block.span)
    scope.hidden.update(inner.hidden - scope.variables.keys())
    scope.optional.update(bound, inner.optional)
    if not outer and len(scope.report.problems) == found_before:
        hint = "use a variable that is bound before it"
        return scope.reject("T28", "this optional block uses no variable of the match around it", block.span, hint)
    return TypedOptional(clauses, outer, tuple(bound))


def _to_comparison(step: ast.TraversalClause, scope: QueryScope) -> ast.Comparison | None:
    """Read ``$names contains $word`` as a comparison: it parses as a traversal, but the left side is a parameter."""
    word = step.edges[0].name
    if word not in WORD_OPERATORS or scope.catalog.find_edge(word) is not None:
        return None
    plain = len(step.edges) == 1 and step.hops is None and step.edge_variable is None and not step.undirected
    if not plain or step.source.name not in scope.parameters or step.source.name in scope.variables:
        return None
    return ast.Comparison(step.source, ast.ComparisonOperator(word), step.destination, step.span)


# ------------------------------------------------------------------------------------------------ conditions


def check_condition(condition: ast.ExpressionSyntax, scope: QueryScope) -> Predicate | None:
    """Check something that has to be true or false: a comparison, a test, a block, or several of them joined."""
    match condition:
        case ast.Comparison():
            return _check_comparison(condition, scope)
        case ast.NullTest():
            return _check_null_test(condition, scope)
        case ast.TextMatchCall() if scope.place is Place.HAVING:
            column = find_column(condition, scope)
            return None if column is None else Compare(column, ast.ComparisonOperator.EQUAL, Constant(True, BOOL))  # noqa: FBT003  a value
        case ast.TextMatchCall():
            return check_text_match(condition, scope)
        case ast.LogicalOperation():
            parts = [check_condition(operand, scope) for operand in condition.operands]
            known = tuple(part for part in parts if part is not None)
            return _join(condition.operator, known) if len(known) == len(parts) else None
        case ast.Inversion(operand):
            inverted = check_condition(operand, scope)
            return None if inverted is None else Not(inverted)
        case ast.Negation() | ast.Existence():
            return _check_block(condition, scope)
        case _:
            return _reject_value(condition, scope)


def _join(operator: ast.LogicalOperator, parts: tuple[Predicate, ...]) -> And | Or:
    """Join predicates; parts of the same kind become one."""
    kind = And if operator is ast.LogicalOperator.AND else Or
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))


def _reject_value(value: ast.ExpressionSyntax, scope: QueryScope) -> None:
    found = None
    if isinstance(value, ast.PropertyAccess | ast.Variable | ComputedSyntax):
        known = len(scope.report.problems)
        found = check_expression(value, scope)
        if found is None and len(scope.report.problems) > known:
            return None
    is_bool = found is not None and found.type.scalar is Scalar.BOOL and not found.type.is_list
    hint = "write = true after it" if is_bool else "compare it, as in $x.p = 1, or test it, as in $x.p is not null"
    return scope.reject("T25", "this is a value, not a condition", value.span, hint)


def _check_block(block: ast.Negation | ast.Existence, scope: QueryScope) -> Block | None:
    word = "not" if isinstance(block, ast.Negation) else "exists"
    if scope.place not in {Place.MATCH, Place.RETURN}:
        hint = f"make it a column, as in return {{ {word} {{ ... }} as found }}, and use that"
        if scope.place is Place.ASSIGNMENT:
            hint = "put it in the match, or bind what it finds in optional { ... } and test that"
        return scope.reject("T25", f"{word} {{ ... }} stands in match and in return only", block.span, hint)
    found_before = len(scope.report.problems)
    inner = scope.open_block(is_test=True)
    clauses = check_clauses(block.clauses, inner)
    outer = scope.close_block(inner)
    if outer or len(scope.report.problems) > found_before:
        return (TypedNegation if isinstance(block, ast.Negation) else TypedExistence)(clauses, outer)
    hint = "use a variable that is bound before it"
    return scope.reject("T9", f"this {word} {{ ... }} uses no variable of the match around it", block.span, hint)


def _check_comparison(comparison: ast.Comparison, scope: QueryScope) -> Compare | None:
    entities = _is_entity(comparison.left, scope) and _is_entity(comparison.right, scope)
    if entities and scope.place is not Place.HAVING:
        return _compare_entities(comparison, scope)
    left, right = _check_operand(comparison.left, scope), _check_operand(comparison.right, scope)
    if left is None or right is None:
        return None
    return compare(left, comparison.operator, right, comparison.span, scope)


def _is_entity(operand: ast.ExpressionSyntax, scope: QueryScope) -> bool:
    if not isinstance(operand, ast.Variable) or operand.name in scope.parameters:
        return False
    return isinstance(scope.look_up(operand.name), NodeType | EdgeType)


def _compare_entities(comparison: ast.Comparison, scope: QueryScope) -> Compare | None:
    """Check ``$a = $b`` and ``$a != $b`` of two nodes or edges: whether they are the same."""
    sides = [side for side in (comparison.left, comparison.right) if isinstance(side, ast.Variable)]
    entities = [scope.variables[side.name] for side in sides]
    if comparison.operator not in {ast.ComparisonOperator.EQUAL, ast.ComparisonOperator.NOT_EQUAL}:
        hint = "compare their properties or ids, as in $a.id < $b.id"
        return scope.reject("T7", f"{comparison.operator} cannot take two entities", comparison.span, hint)
    known = [
        (side.name, entity)
        for side, entity in zip(sides, entities, strict=True)
        if isinstance(entity, NodeType | EdgeType)
    ]
    one, other = (scope.types_of(*each) for each in known)
    if one.isdisjoint(other):
        kinds = " and ".join(scope.name_of_type(*each) for each in known)
        hint = "compare their properties or ids, as in $a.id = $b.id"
        return scope.reject("T7", f"{kinds} are different types: no two of them are the same", comparison.span, hint)
    left, right = (STRING.as_nullable() if name in scope.optional else STRING for name, _ in known)
    (first, first_type), (last, last_type) = known
    if first_type.name != last_type.name:
        # In this combination of types the two are never the same, whatever their ids are.
        names = TypeName(first, first_type.name, left), TypeName(last, last_type.name, right)
        return Compare(names[0], comparison.operator, names[1])
    return Compare(Identity(first, left), comparison.operator, Identity(last, right))


def find_column(written: ast.ExpressionSyntax, scope: QueryScope) -> ColumnValue | None:
    """Find the column of the result that has a name, or that shows an expression."""
    if isinstance(written, ast.AliasReference):
        for column in scope.columns:
            if column.name == written.name:
                return ColumnValue(column.name, column.expression.type)
        hint = suggest_name(written.name, [column.name for column in scope.columns], "columns")
        return scope.reject("Q010", f"no column of the result is called '{written.name}'", written.span, hint)
    inside = scope.at(Place.RETURN)
    is_aggregate = isinstance(written, ast.AggregateCall)
    expression = check_aggregate(written, inside) if is_aggregate else check_expression(written, inside)
    if expression is None:
        return None
    for column in scope.columns:
        if column.expression == expression:
            return ColumnValue(column.name, expression.type)
    return scope.reject("Q011", "having speaks of columns of the result", written.span, "add it to return")


def _names_column(written: ast.ExpressionSyntax, scope: QueryScope) -> bool:
    """Whether an expression in ``having`` stands for a column: anything that depends on rows of the match."""
    if scope.place is not Place.HAVING:
        return False
    if isinstance(written, ast.Variable):
        return written.name not in scope.parameters
    return isinstance(
        written,
        ast.AliasReference
        | ast.AggregateCall
        | ast.PropertyAccess
        | ast.TextMatchCall
        | ast.NearestCall
        | ast.Bm25Call
        | ast.RrfCall,
    )


def _check_null_test(test: ast.NullTest, scope: QueryScope) -> IsNull | None:
    if _names_column(test.operand, scope):
        column = find_column(test.operand, scope)
        return None if column is None else IsNull(column, test.negated)
    is_path = isinstance(test.operand, ast.Variable) and scope.variables.get(test.operand.name) is PATH
    if isinstance(test.operand, ast.Variable) and not is_path and _is_optional(test.operand, scope):
        return IsNull(Identity(test.operand.name, STRING.as_nullable()), test.negated)
    if not isinstance(test.operand, ast.PropertyAccess | ast.Variable | ComputedSyntax) or (
        isinstance(test.operand, ast.Variable) and _is_node(test.operand, scope)
    ):
        message = "only a property, a parameter or a computed value can be null"
        return scope.reject("T7", message, test.operand.span, "write $x.p is null")
    operand = check_expression(test.operand, scope)
    return None if operand is None else IsNull(operand, test.negated)


def _is_optional(variable: ast.Variable, scope: QueryScope) -> bool:
    """Whether a variable may be absent, and record its use."""
    if variable.name in scope.parameters or variable.name not in scope.optional:
        return False
    return scope.look_up(variable.name) is not None


def _check_operand(operand: ast.ExpressionSyntax, scope: QueryScope) -> Expression | None:
    """Check one side of a comparison: a property, a parameter, a literal, now() or another condition."""
    if _names_column(operand, scope):
        return _refuse_blob_or_vector(find_column(operand, scope), operand, scope)
    match operand:
        case ast.AliasReference():
            return _reject_word(operand, scope)
        case ast.Variable() if _is_node(operand, scope):
            hint = f"compare a property or the id: ${operand.name}.property, ${operand.name}.id"
            return scope.reject("T7", f"'${operand.name}' is a node, not a value", operand.span, hint)
        case ast.ScalarLiteral(None):
            return scope.reject("T7", "nothing equals null", operand.span, "write is null or is not null")
        case _:
            return _refuse_blob_or_vector(check_expression(operand, scope), operand, scope)


def _reject_word(word: ast.AliasReference, scope: QueryScope) -> None:
    hint = f'write "{word.name}" for a text, ${word.name} for a variable'
    return scope.reject("T7", f"'{word.name}' is not a value here", word.span, hint)


def _is_node(variable: ast.Variable, scope: QueryScope) -> bool:
    return variable.name not in scope.parameters and isinstance(scope.look_up(variable.name), NodeType)


def _refuse_blob_or_vector(
    found: Expression | None, operand: ast.ExpressionSyntax, scope: QueryScope
) -> Expression | None:
    if found is not None and found.type.scalar in {Scalar.BLOB, Scalar.VECTOR}:
        return scope.reject("T7", f"a {found.type.scalar} cannot be compared", operand.span, "compare another property")
    return found


# ------------------------------------------------------------------------------------------------ values


def check_expression(expression: ast.ExpressionSyntax, scope: QueryScope) -> Expression | None:
    """Check any expression but an aggregate; a literal gets its own type."""
    if _names_column(expression, scope):
        return find_column(expression, scope)
    match expression:
        case ast.ScalarLiteral() | ast.DateLiteral() | ast.DateTimeLiteral() | ast.ListLiteral():
            return type_literal(expression, scope.report)
        case ast.NowCall():
            return Now(DATETIME)
        case ast.Variable():
            return check_variable(expression, scope)
        case ast.PropertyAccess():
            return check_property(expression, scope)
        case ast.AliasReference():
            return _reject_alias(expression, scope)
        case ast.AggregateCall() | ast.NearestCall() | ast.Bm25Call() | ast.RrfCall() if scope.place in _WITHOUT_SCORES:
            return _reject_score(expression, scope)
        case ast.AggregateCall():
            hint = f"make {expression.function} a column of its own; having compares it"
            return scope.reject("T8", "an aggregate is a whole column of return", expression.span, hint)
        case ast.TextMatchCall():
            return check_text_match(expression, scope)
        case ast.NearestCall() | ast.Bm25Call() | ast.RrfCall():
            return check_ranking(expression, scope)
        case ast.ArithmeticOperation() | ast.FunctionCall() | ast.CaseExpression():
            return _check_computed(expression, scope)
        case _:
            predicate = check_condition(expression, scope)
            return None if predicate is None else _to_value(predicate)


_FOREIGN_WORDS: Mapping[str, str] = dict.fromkeys(
    ("case", "when", "then", "end"), "write case { condition: value, else: value }"
)


_WITHOUT_SCORES = frozenset({Place.MATCH, Place.ASSIGNMENT})


def _reject_alias(word: ast.AliasReference, scope: QueryScope) -> None:
    if scope.place is Place.ASSIGNMENT:
        return _reject_word(word, scope)
    hint = _FOREIGN_WORDS.get(word.name, "write the expression that it names")
    return scope.reject("Q010", f"'{word.name}' is not a value", word.span, hint)


def _reject_score(call: ast.AggregateCall | ast.NearestCall | ast.Bm25Call | ast.RrfCall, scope: QueryScope) -> None:
    what = call.function if isinstance(call, ast.AggregateCall) else "a score"
    if scope.place is Place.ASSIGNMENT:
        hint = "find it with a query, and pass it as a parameter"
        return scope.reject("T29", f"{what} is no value of a mutation", call.span, hint)
    hint = "return it, and compare it in having"
    return scope.reject("T7", f"{what} cannot be compared in a match", call.span, hint)


def _to_value(predicate: Predicate) -> Truth:
    return Truth(predicate, BOOL.as_nullable() if _can_be_unknown(predicate) else BOOL)


def _can_be_unknown(predicate: Predicate) -> bool:
    match predicate:
        case Compare():
            return predicate.left.type.nullable or predicate.right.type.nullable
        case And() | Or():
            return any(map(_can_be_unknown, predicate.parts))
        case Not():
            return _can_be_unknown(predicate.part)
        case _:
            return False


# ------------------------------------------------------------------------------------------------ computed values


def _check_computed(computed: ComputedSyntax, scope: QueryScope) -> Expression | None:
    """Check arithmetic, a call or a case. In ``having`` one that a column shows stands for that column."""
    shown = _find_shown(computed, scope) if scope.place is Place.HAVING else None
    if shown is not None:
        return shown
    match computed:
        case ast.ArithmeticOperation():
            operands = _check_parts(computed.operands, scope)
            return None if operands is None else apply_arithmetic(computed, operands, scope)
        case ast.FunctionCall() if computed.name in ENTITY_FUNCTIONS:
            return ENTITY_FUNCTIONS[computed.name](computed, scope)
        case ast.FunctionCall() if is_function(computed.name):
            arguments = _check_parts(computed.arguments, scope)
            return None if arguments is None else apply_function(computed, arguments, scope)
        case ast.FunctionCall():
            return reject_unknown(computed, scope)
        case ast.CaseExpression():
            return _check_case(computed, scope)


def _find_shown(computed: ComputedSyntax, scope: QueryScope) -> ColumnValue | None:
    """Find the column that shows a computed value, without a word if there is none."""
    silent = replace(scope, place=Place.RETURN, report=ProblemReport(scope.report.source))
    expression = _check_computed(computed, silent)
    for column in scope.columns:
        if column.expression == expression:
            return ColumnValue(column.name, column.expression.type)
    return None


def _check_case(written: ast.CaseExpression, scope: QueryScope) -> Expression | None:
    checked = [check_condition(condition, scope) for condition in written.conditions]
    conditions = tuple(condition for condition in checked if condition is not None)
    otherwise = () if written.otherwise is None else (written.otherwise,)
    values = _check_parts((*written.values, *otherwise), scope)
    if values is None or len(conditions) < len(checked):
        return None
    return choose(written, conditions, values, scope)


def _check_parts(parts: Sequence[ast.ExpressionSyntax], scope: QueryScope) -> tuple[Expression, ...] | None:
    """Check all operands or arguments; None if a problem of one of them is reported."""
    checked = [_check_part(part, scope) for part in parts]
    known = tuple(part for part in checked if part is not None)
    return known if len(known) == len(checked) else None


def _check_part(part: ast.ExpressionSyntax, scope: QueryScope) -> Expression | None:
    if isinstance(part, ast.AliasReference) and scope.place is Place.MATCH:
        return _reject_word(part, scope)
    return refuse_blob(check_expression(part, scope), part.span, scope)


def check_aggregate(call: ast.AggregateCall, scope: QueryScope) -> Aggregate | None:
    """Check an aggregate and its argument."""
    argument = refuse_blob(check_expression(call.argument, scope.at(Place.AGGREGATE)), call.argument.span, scope)
    if argument is None:
        return None
    if any(isinstance(part, RankingExpression) for part in walk_expression(argument)):
        hint = f"write {call.function}($variable.property)"
        return scope.reject("T8", f"{call.function} does not work on scores", call.argument.span, hint)
    return apply_aggregate(call, argument, scope)
