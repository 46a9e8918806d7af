"""The ``.gq`` text of a syntax tree, a query to a line: parsing what is printed gives the same tree again.

Its layout is the work of ``format_queries``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import get_args

from omnigraph.language.query import ast
from omnigraph.language.syntax import quote_string

WORD_OPERATORS = tuple(operator for operator in ast.ComparisonOperator if operator.isidentifier())


def print_queries(file: ast.QueryDocument) -> str:
    """The text of a file, a query to a line."""
    return "\n".join(print_query(query) for query in file.queries)


def print_query(query: ast.Query) -> str:
    """The text of one query, ending with a line break."""
    parameters = ", ".join(f"${each.name}: {each.type}" for each in query.parameters)
    annotations = "".join(
        f" @{word}({quote_string(text)})"
        for word, text in (("description", query.description), ("instruction", query.instruction))
        if text is not None
    )
    return f"query {query.name}({parameters}){annotations} {{ {' '.join(_body(query))} }}\n"


def _body(query: ast.Query) -> list[str]:
    match query.body:
        case ast.ReadBody():
            return [*_branch(query.body), *_tail(query.body)]
        case ast.UnionBody():
            first, *others = query.body.branches
            word = "union distinct" if query.body.distinct else "union"
            return [*_branch(first), *(part for each in others for part in (word, *_branch(each))), *_tail(query.body)]
        case ast.MutationBody():
            return _mutation(query.body)


# ------------------------------------------------------------------------------------------------ reading


def _branch(read: ast.ReadBody) -> list[str]:
    parts = _match(read.clauses)
    parts += [
        f"return {'distinct ' * read.distinct}{{",
        *(f"{_projection(each)}," for each in read.projections),
        "}",
    ]
    if read.having:
        parts += ["having {", *_clauses(read.having), "}"]
    return parts


def _tail(read: ast.ReadBody | ast.UnionBody) -> list[str]:
    parts: list[str] = []
    if read.order:
        parts.append(f"order {{ {', '.join(map(_order_key, read.order))} }}")
    if read.limit is not None:
        parts.append(f"limit {_expression(read.limit)}")
    if read.offset is not None:
        parts.append(f"offset {_expression(read.offset)}")
    return parts


def _match(clauses: Iterable[ast.ClauseSyntax]) -> list[str]:
    return ["match {", *_clauses(clauses), "}"]


def _clauses(clauses: Iterable[ast.ClauseSyntax]) -> list[str]:
    parts: list[str] = []
    for clause in clauses:
        if parts and _begins_with_word(clause):
            # The word may be a keyword elsewhere; after a comma it can only be a name.
            parts[-1] += ","
        parts += _clause(clause)
    return parts


def _begins_with_word(clause: ast.ClauseSyntax) -> bool:
    """Whether this clause and the one before could be read as one: it begins like the end of one."""
    match clause:
        case ast.Comparison(left=first) | ast.NullTest(operand=first) | ast.LogicalOperation(operands=(first, *_)):
            literals = get_args(ast.AnyLiteral)
            begin = (*literals, ast.AliasReference, ast.FunctionCall, ast.CaseExpression, ast.ArithmeticOperation)
            return isinstance(first, (*begin, *get_args(ast.ConditionSyntax))) or not _can_lead(clause)
        case _:
            return not isinstance(
                clause, ast.BindingClause | ast.TraversalClause | ast.OptionalClause
            ) and not _can_lead(clause)


def _clause(clause: ast.ClauseSyntax) -> list[str]:
    match clause:
        case ast.Negation(clauses):
            return ["not {", *_clauses(clauses), "}"]
        case ast.Existence(clauses):
            return ["exists {", *_clauses(clauses), "}"]
        case ast.OptionalClause(clauses):
            return ["optional {", *_clauses(clauses), "}"]
        case ast.BindingClause(variable, type_name, matches):
            return [f"${variable}: {type_name}{_properties(matches)}"]
        case ast.TraversalClause():
            return [_traversal(clause)]
        case _:
            return [_expression(clause) if _can_lead(clause) else f"({_expression(clause)})"]


def _can_lead(condition: ast.ExpressionSyntax) -> bool:
    """Whether a condition can be a clause without parentheses: it begins with no plain variable, and is no value."""
    match condition:
        case ast.Comparison(ast.Variable(), operator, right):
            return operator not in WORD_OPERATORS or not _begins_with_variable(right)
        case ast.Comparison(left=first) | ast.NullTest(operand=ast.ArithmeticOperation() as first):
            return not _begins_with_variable(first)
        case ast.LogicalOperation(operator, (first, *_)):
            return _needs_parentheses(first, operator) or _can_lead(first)
        case _:
            return isinstance(condition, ast.ConditionSyntax | ast.TextMatchCall)


def _begins_with_variable(expression: ast.ExpressionSyntax) -> bool:
    while isinstance(expression, ast.ArithmeticOperation):
        first = expression.operands[0]
        if isinstance(first, ast.ArithmeticOperation) and (_is_product(expression) or not _is_product(first)):
            # It stands in parentheses.
            return False
        expression = first
    return isinstance(expression, ast.Variable)


def _properties(entries: Iterable[ast.PropertyMatch | ast.Assignment]) -> str:
    """Braces with ``name: value`` entries, or nothing at all."""
    inside = ", ".join(f"{entry.name}: {_side(entry.value)}" for entry in entries)
    return f" {{ {inside} }}" if inside else ""


def _traversal(traversal: ast.TraversalClause) -> str:
    binding = f"{_expression(traversal.edge_variable)}:" if traversal.edge_variable else ""
    words = "|".join(word.name for word in traversal.edges)
    edge = f"<{words}>" if traversal.undirected else words
    hops = _hops(traversal.hops) if traversal.hops else ""
    return f"{_expression(traversal.source)} {binding}{edge}{hops} {_expression(traversal.destination)}"


def _hops(hops: ast.Hops) -> str:
    if hops.minimum == hops.maximum:
        return f"{{{hops.minimum}}}"
    return f"{{{hops.minimum},{'' if hops.maximum is None else hops.maximum}}}"


def _projection(projection: ast.Projection) -> str:
    alias = f" as {projection.alias}" if projection.alias is not None else ""
    return _expression(projection.expression) + alias


def _order_key(key: ast.OrderKey) -> str:
    return _expression(key.expression) + (" desc" if key.descending else "")


# ------------------------------------------------------------------------------------------------ writing


def _mutation(mutation: ast.MutationBody) -> list[str]:
    return [*(_match(mutation.clauses) if mutation.clauses else ()), *map(_statement, mutation.statements)]


def _statement(statement: ast.StatementSyntax) -> str:
    match statement:
        case ast.Insert(type_name, assignments):
            return f"insert {type_name}{_properties(assignments)}"
        case ast.Update(type_name, assignments, predicate):
            return f"update {type_name} set{_properties(assignments)} where {_predicate(predicate)}"
        case ast.Delete(type_name, predicate):
            return f"delete {type_name} where {_predicate(predicate)}"
        case ast.VariableUpdate(variable, assignments):
            return f"update {_expression(variable)} set{_properties(assignments)}"
        case ast.VariableDelete(variable):
            return f"delete {_expression(variable)}"


def _predicate(predicate: ast.WhereCondition) -> str:
    return f"{predicate.name} {predicate.operator} {_expression(predicate.value)}"


# ------------------------------------------------------------------------------------------------ expressions


def _needs_parentheses(operand: ast.ExpressionSyntax, operator: ast.LogicalOperator) -> bool:
    """Whether an operand of ``and`` or ``or`` is not bound more tightly than its operator."""
    if not isinstance(operand, ast.LogicalOperation):
        return False
    return operand.operator is ast.LogicalOperator.OR or operator is ast.LogicalOperator.AND


def _joined(expression: ast.LogicalOperation) -> str:
    parts = (
        f"({_expression(each)})" if _needs_parentheses(each, expression.operator) else _expression(each)
        for each in expression.operands
    )
    return f" {expression.operator} ".join(parts)


def _chain(expression: ast.ArithmeticOperation) -> str:
    first, *rest = map(_factor if _is_product(expression) else _term, expression.operands)
    signs = zip(expression.operators, rest, strict=True)
    return "".join([first, *(f" {operator} {operand}" for operator, operand in signs)])


def _is_product(expression: ast.ExpressionSyntax) -> bool:
    products = {ast.ArithmeticOperator.MULTIPLY, ast.ArithmeticOperator.DIVIDE}
    return isinstance(expression, ast.ArithmeticOperation) and expression.operators[0] in products


def _factor(operand: ast.ExpressionSyntax) -> str:
    return f"({_expression(operand)})" if isinstance(operand, ast.ArithmeticOperation) else _side(operand)


def _term(operand: ast.ExpressionSyntax) -> str:
    return _side(operand) if _is_product(operand) else _factor(operand)


def _case(expression: ast.CaseExpression) -> str:
    arms = zip(expression.conditions, expression.values, strict=True)
    written = [f"{_expression(condition)}: {_expression(value)}" for condition, value in arms]
    otherwise = [] if expression.otherwise is None else [f"else: {_expression(expression.otherwise)}"]
    return f"case {{ {', '.join([*written, *otherwise])} }}"


def _side(operand: ast.ExpressionSyntax) -> str:
    return f"({_expression(operand)})" if isinstance(operand, ast.ConditionSyntax) else _expression(operand)


def _condition(condition: ast.ConditionSyntax) -> str:
    match condition:
        case ast.Comparison(left, operator, right):
            return f"{_side(left)} {operator} {_side(right)}"
        case ast.NullTest(operand, negated):
            return f"{_side(operand)} is {'not ' if negated else ''}null"
        case ast.LogicalOperation():
            return _joined(condition)
        case ast.Inversion(operand):
            return f"not ({_expression(operand)})"
        case ast.Negation() | ast.Existence():
            return " ".join(_clause(condition))


def _expression(expression: ast.ExpressionSyntax) -> str:
    if isinstance(expression, ast.ConditionSyntax):
        return _condition(expression)
    match expression:
        case ast.ScalarLiteral():
            return _constant(expression)
        case ast.ListLiteral(items):
            return f"[{', '.join(map(_expression, items))}]"
        case ast.Variable(name):
            return f"${name}"
        case ast.PropertyAccess(variable, name):
            return f"${variable}.{name}"
        case ast.AliasReference(name):
            return name
        case ast.ArithmeticOperation():
            return _chain(expression)
        case ast.CaseExpression():
            return _case(expression)
        case _:
            return _call(expression)


def _call(
    expression: ast.DateLiteral
    | ast.DateTimeLiteral
    | ast.NowCall
    | ast.AggregateCall
    | ast.NearestCall
    | ast.TextMatchCall
    | ast.Bm25Call
    | ast.RrfCall
    | ast.FunctionCall,
) -> str:
    match expression:
        case ast.FunctionCall(name, arguments):
            return f"{name}({_arguments(*arguments)})"
        case ast.DateLiteral(text):
            return f"date({quote_string(text)})"
        case ast.DateTimeLiteral(text):
            return f"datetime({quote_string(text)})"
        case ast.NowCall():
            return "now()"
        case ast.AggregateCall(function, argument, distinct):
            inner = _expression(argument)
            if re.match(r"distinct\b", inner):
                # Here the word would not be the name of a column.
                inner = f"({inner})"
            return f"{function}({'distinct ' if distinct else ''}{inner})"
        case ast.NearestCall(target, query):
            return f"nearest({_arguments(target, query)})"
        case ast.TextMatchCall(function, target, query, max_edits):
            return f"{function}({_arguments(target, query, max_edits)})"
        case ast.Bm25Call(target, query):
            return f"bm25({_arguments(target, query)})"
        case ast.RrfCall(arms, k):
            return f"rrf({_arguments(*arms, k)})"


def _arguments(*arguments: ast.ExpressionSyntax | None) -> str:
    return ", ".join(_expression(argument) for argument in arguments if argument is not None)


def _constant(constant: ast.ScalarLiteral) -> str:
    match constant.value:
        case None:
            return "null"
        case bool(value):
            return "true" if value else "false"
        case str(value):
            return quote_string(value)
        case int(value):
            return str(value)
        case float(value):
            # The shortest digits that read back as the same number; the language has no exponents.
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"
