"""Parse ``.gq`` text into its syntax tree, by ``grammar.lark``. No name is resolved and no type is checked here."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from math import isinf
from typing import NoReturn, TypeAlias, cast

import lark
from lark import Token, Transformer

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.query.advice import TERMINAL_WORDS, advise_on_query
from omnigraph.language.query.separators import find_missing_commas
from omnigraph.language.source import Source, Span, suggest_similar
from omnigraph.language.syntax import Grammar, SyntaxRejection, load_lark, span_of, unquote_string
from omnigraph.language.types import MAX_VECTOR_DIMENSION, Scalar, ValueType

SYNTAX_CODE = "Q000"
MAX_LIMIT = 2**64 - 1
MAX_HOPS = 2**32 - 1
_INTEGERS = range(-(2**63), 2**64)
_DECLARATION = re.compile(r"^[ \t]*query\s+\w+\s*[({@]", re.MULTILINE)
_SCALAR_NAMES = tuple(str(scalar) for scalar in Scalar if scalar is not Scalar.VECTOR)
_FOREIGN_OPERATORS = {"==": "=", "<>": "!="}
_Arm: TypeAlias = tuple[ast.ExpressionSyntax, ast.ExpressionSyntax]
_United: TypeAlias = tuple[Token, Token | None, ast.ReadBody]
"""A further branch, and the words before it."""
_Tail: TypeAlias = tuple[
    tuple[ast.OrderKey, ...] | None, ast.ScalarLiteral | ast.Variable | None, ast.ScalarLiteral | ast.Variable | None
]
"""Order, limit and offset."""
_PATTERN_IN_CONDITION = "put the pattern in exists { ... }"


def parse_query_text(source: Source | Problem) -> ast.QueryDocument | list[Problem]:
    """Return the queries of a text, or all its syntax problems. A text that could not be decoded is one problem."""
    if isinstance(source, Problem):
        return [replace(source, code=SYNTAX_CODE)]
    document = _grammar().parse(source)
    if isinstance(document, list):
        return document
    return find_missing_commas(document, source, SYNTAX_CODE) or document


@cache
def _grammar() -> Grammar[ast.QueryDocument]:
    parser = load_lark(__package__ or "", cast("Transformer[Token, object]", _QueryTreeBuilder()))
    return Grammar(parser, SYNTAX_CODE, _DECLARATION, TERMINAL_WORDS, advise_on_query)


@lark.v_args(inline=True)
class _QueryTreeBuilder(Transformer[Token, object]):
    """One method per rule of the grammar. It has no state, so threads can share it."""

    def start(self, *queries: ast.Query) -> ast.QueryDocument:
        return ast.QueryDocument(queries)

    def query(
        self,
        word: Token,
        name: Token,
        parameters: tuple[ast.Parameter, ...],
        annotations: dict[str, str],
        body: ast.ReadBody | ast.UnionBody | ast.MutationBody,
        close: Token,
    ) -> ast.Query:
        return ast.Query(
            str(name),
            parameters,
            body,
            description=annotations.get("@description"),
            instruction=annotations.get("@instruction"),
            span=_span_between(word, close),
            name_span=span_of(name),
        )

    def annotations(self, *annotations: tuple[Token, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for word, text in annotations:
            if word in found:
                raise SyntaxRejection(f"{word} is written twice", span_of(word), "keep one of them")
            found[str(word)] = text
        return found

    def annotation(self, word: Token, text: Token) -> tuple[Token, str]:
        return word, unquote_string(text)

    def parameters(self, *parameters: ast.Parameter) -> tuple[ast.Parameter, ...]:
        return parameters

    def parameter(self, variable: Token, type_: ValueType) -> ast.Parameter:
        return ast.Parameter(_name_of(variable), type_, span_of(variable))

    def scalar_type(self, name: Token, nullable: Token | None) -> ValueType:
        return ValueType(_parse_scalar(name), nullable=nullable is not None)

    def list_type(self, name: Token, nullable: Token | None) -> ValueType:
        return ValueType(_parse_scalar(name), nullable=nullable is not None, is_list=True)

    def vector_type(self, name: Token, size: Token, nullable: Token | None) -> ValueType:
        if name != Scalar.VECTOR:
            raise SyntaxRejection(f"{name} has no size", span_of(name), f"write {name}, or Vector({size})")
        dimension = _parse_integer(size, range(1, MAX_VECTOR_DIMENSION + 1), "the size of a vector")
        return ValueType(Scalar.VECTOR, nullable=nullable is not None, dimension=dimension)

    # -------------------------------------------------------------------------------------------- reading

    def read(self, first: ast.ReadBody, *rest: object) -> ast.ReadBody | ast.UnionBody:
        united = cast("tuple[_United, ...]", rest[:-3])
        order, limit, offset = cast("_Tail", rest[-3:])
        if not united:
            return replace(first, order=order or (), limit=limit, offset=offset)
        words = [distinct or word for word, distinct, _ in united]
        for word in words:
            if word.type != words[0].type:
                hint = "write union distinct between all branches, or union between all"
                raise SyntaxRejection("a union is distinct at every place or at none", span_of(word), hint)
        branches = (first, *(branch for _, _, branch in united))
        return ast.UnionBody(branches, words[0].type == "DISTINCT", order or (), limit, offset)

    def united(self, word: Token, distinct: Token | None, branch: ast.ReadBody) -> _United:
        return word, distinct, branch

    def branch(
        self,
        clauses: tuple[ast.ClauseSyntax, ...],
        distinct: Token | None,
        projections: tuple[ast.Projection, ...],
        having: tuple[ast.ExpressionSyntax, ...] | None,
    ) -> ast.ReadBody:
        return ast.ReadBody(clauses, projections, distinct=distinct is not None, having=having or ())

    def having(self, *conditions: ast.ExpressionSyntax) -> tuple[ast.ExpressionSyntax, ...]:
        return conditions

    def clauses(self, *clauses: ast.ClauseSyntax) -> tuple[ast.ClauseSyntax, ...]:
        return clauses

    def optional(self, word: Token, clauses: tuple[ast.ClauseSyntax, ...], close: Token) -> ast.OptionalClause:
        return ast.OptionalClause(clauses, _span_between(word, close))

    def joined_pattern(self, pattern: ast.BindingClause | ast.TraversalClause, word: Token) -> NoReturn:
        kind = "binding" if isinstance(pattern, ast.BindingClause) else "traversal"
        instead = {
            "and": f"leave out 'and': all clauses of a match must hold; inside a condition, {_PATTERN_IN_CONDITION}",
            "or": _PATTERN_IN_CONDITION,
        }
        raise SyntaxRejection(f"a {kind} is no condition to join by '{word}'", span_of(word), instead[word])

    def binding(
        self,
        variable: Token,
        type_name: Token,
        matches: tuple[ast.PropertyMatch, ...] | None,
        close: Token | None,
    ) -> ast.BindingClause:
        return ast.BindingClause(
            _name_of(variable),
            str(type_name),
            matches or (),
            span=_span_between(variable, close or type_name),
            variable_span=span_of(variable),
            type_span=span_of(type_name),
        )

    def property_matches(self, *matches: ast.PropertyMatch) -> tuple[ast.PropertyMatch, ...]:
        return matches

    def property_match(self, name: Token, value: ast.ValueSyntax) -> ast.PropertyMatch:
        return ast.PropertyMatch(str(name), value, span=span_of(name).to(value.span), name_span=span_of(name))

    def traversal(
        self,
        source: Token,
        edge_variable: Token | None,
        edges: tuple[tuple[ast.EdgeWord, ...], bool],
        hops: ast.Hops | None,
        destination: Token,
    ) -> ast.TraversalClause:
        words, undirected = edges
        return ast.TraversalClause(
            _build_variable(source),
            words,
            _build_variable(destination),
            undirected=undirected,
            hops=hops,
            edge_variable=None if edge_variable is None else _build_variable(edge_variable),
            span=_span_between(source, destination),
        )

    def traversal_by_operator_word(
        self,
        source: Token,
        word: Token,
        others: tuple[ast.EdgeWord, ...] | None,
        hops: ast.Hops | None,
        destination: Token,
    ) -> ast.TraversalClause:
        return self.traversal(source, None, self.directed(word, others), hops, destination)

    def directed(self, word: Token, others: tuple[ast.EdgeWord, ...] | None) -> tuple[tuple[ast.EdgeWord, ...], bool]:
        return (_build_edge_word(word), *(others or ())), False

    def undirected(
        self, _open: Token, word: Token, others: tuple[ast.EdgeWord, ...] | None, _close: Token
    ) -> tuple[tuple[ast.EdgeWord, ...], bool]:
        return (_build_edge_word(word), *(others or ())), True

    def other_edges(self, *words: Token) -> tuple[ast.EdgeWord, ...]:
        return tuple(map(_build_edge_word, words))

    def hops(self, opening: Token, minimum: Token, maximum: Token | None, close: Token) -> ast.Hops:
        most = None if maximum is None else _parse_hop_count(maximum)
        return ast.Hops(_parse_hop_count(minimum), most, _span_between(opening, close))

    def exact_hops(self, opening: Token, count: Token, close: Token) -> ast.Hops:
        return self.hops(opening, count, count, close)

    def projections(self, *projections: ast.Projection) -> tuple[ast.Projection, ...]:
        return projections

    def projection(self, expression: ast.ExpressionSyntax, _as: Token | None, alias: Token | None) -> ast.Projection:
        if alias is None:
            return ast.Projection(expression, None, expression.span)
        return ast.Projection(expression, str(alias), expression.span.to(span_of(alias)))

    def spread(self, variable: Token, star: Token, word: Token | None, _alias: Token | None) -> ast.Projection:
        if word is not None:
            raise SyntaxRejection("$x.* takes no alias", span_of(word), "leave it out: each property names its column")
        everything = _build_property_access(variable, star)
        return ast.Projection(everything, None, everything.span)

    def order(self, *keys: ast.OrderKey) -> tuple[ast.OrderKey, ...]:
        return keys

    def order_key(self, expression: ast.ExpressionSyntax, direction: Token | None) -> ast.OrderKey:
        if isinstance(expression, ast.ScalarLiteral) and expression.value is None:
            # A sort key is never null, but a column may have that name.
            expression = ast.AliasReference("null", expression.span)
        if direction is None:
            return ast.OrderKey(expression, descending=False, span=expression.span)
        if isinstance(expression, ast.NearestCall):
            raise SyntaxRejection(
                "nearest takes no direction", span_of(direction), "leave it out: the nearest is first"
            )
        span = expression.span.to(span_of(direction))
        return ast.OrderKey(expression, descending=direction == "desc", span=span)

    def limit(self, count: Token) -> ast.ScalarLiteral | ast.Variable:
        return _build_count(count, "a limit")

    def offset(self, count: Token) -> ast.ScalarLiteral | ast.Variable:
        return _build_count(count, "an offset")

    # -------------------------------------------------------------------------------------------- writing

    def mutation(self, *statements: ast.StatementSyntax) -> ast.MutationBody:
        return ast.MutationBody(statements)

    def driven_mutation(
        self, clauses: tuple[ast.ClauseSyntax, ...], *statements: ast.StatementSyntax
    ) -> ast.MutationBody:
        return ast.MutationBody(statements, clauses)

    def insert(
        self, word: Token, type_name: Token, assignments: tuple[ast.Assignment, ...], close: Token
    ) -> ast.Insert:
        return ast.Insert(str(type_name), assignments, span=_span_between(word, close), type_span=span_of(type_name))

    def update(
        self, word: Token, type_name: Token, assignments: tuple[ast.Assignment, ...], predicate: ast.WhereCondition
    ) -> ast.Update:
        span = span_of(word).to(predicate.span)
        return ast.Update(str(type_name), assignments, predicate, span=span, type_span=span_of(type_name))

    def delete(self, word: Token, type_name: Token, predicate: ast.WhereCondition) -> ast.Delete:
        span = span_of(word).to(predicate.span)
        return ast.Delete(str(type_name), predicate, span=span, type_span=span_of(type_name))

    def update_bound(
        self, word: Token, variable: Token, assignments: tuple[ast.Assignment, ...], close: Token
    ) -> ast.VariableUpdate:
        return ast.VariableUpdate(_build_variable(variable), assignments, _span_between(word, close))

    def delete_bound(self, word: Token, variable: Token) -> ast.VariableDelete:
        return ast.VariableDelete(_build_variable(variable), _span_between(word, variable))

    def assignments(self, *assignments: ast.Assignment) -> tuple[ast.Assignment, ...]:
        return assignments

    def assignment(self, name: Token, value: ast.ExpressionSyntax) -> ast.Assignment:
        return ast.Assignment(str(name), value, span=span_of(name).to(value.span), name_span=span_of(name))

    def assigned(self, name: Token) -> Token:
        return name

    def predicate(self, name: Token, operator: Token, value: ast.ValueSyntax) -> ast.WhereCondition:
        span = span_of(name).to(value.span)
        return ast.WhereCondition(str(name), _parse_operator(operator), value, span=span, name_span=span_of(name))

    # -------------------------------------------------------------------------------------------- conditions

    def disjunction(self, *parts: ast.ExpressionSyntax | Token) -> ast.LogicalOperation:
        return _join_conditions(ast.LogicalOperator.OR, parts)

    def conjunction(self, *parts: ast.ExpressionSyntax | Token) -> ast.LogicalOperation:
        return _join_conditions(ast.LogicalOperator.AND, parts)

    def comparison(
        self, left: ast.ExpressionSyntax | Token, operator: Token, right: ast.ExpressionSyntax
    ) -> ast.Comparison:
        first = _build_variable(left) if isinstance(left, Token) else left
        return ast.Comparison(first, _parse_operator(operator), right, first.span.to(right.span))

    def null_test(
        self, operand: ast.ExpressionSyntax | Token, _is: Token, negation: Token | None, null: Token
    ) -> ast.NullTest:
        tested = _build_variable(operand) if isinstance(operand, Token) else operand
        return ast.NullTest(tested, negated=negation is not None, span=tested.span.to(span_of(null)))

    def group(self, opening: Token, inside: ast.ExpressionSyntax, close: Token) -> ast.ExpressionSyntax:
        return replace(inside, span=_span_between(opening, close))

    def inversion(self, word: Token, operand: ast.ExpressionSyntax, close: Token) -> ast.Inversion:
        return ast.Inversion(operand, _span_between(word, close))

    def negation(self, word: Token, clauses: tuple[ast.ClauseSyntax, ...], close: Token) -> ast.Negation:
        return ast.Negation(clauses, _span_between(word, close))

    def existence(self, word: Token, clauses: tuple[ast.ClauseSyntax, ...], close: Token) -> ast.Existence:
        return ast.Existence(clauses, _span_between(word, close))

    # -------------------------------------------------------------------------------------------- expressions

    def variable(self, token: Token) -> ast.Variable:
        return _build_variable(token)

    def property_access(self, variable: Token, name: Token) -> ast.PropertyAccess:
        return _build_property_access(variable, name)

    def alias_reference(self, name: Token) -> ast.AliasReference:
        return ast.AliasReference(str(name), span_of(name))

    def now(self, word: Token, close: Token) -> ast.NowCall:
        return ast.NowCall(_span_between(word, close))

    def aggregate(
        self, word: Token, distinct: Token | None, argument: ast.ExpressionSyntax, close: Token
    ) -> ast.AggregateCall:
        if distinct is not None and word not in {ast.AggregateFunction.COUNT, ast.AggregateFunction.COLLECT}:
            hint = "only count(distinct ...) and collect(distinct ...) do"
            raise SyntaxRejection(f"{word} takes no 'distinct'", span_of(distinct), hint)
        function = ast.AggregateFunction(word)
        return ast.AggregateCall(function, argument, distinct=distinct is not None, span=_span_between(word, close))

    def nearest(
        self, word: Token, variable: Token, name: Token, query: ast.ExpressionSyntax, close: Token
    ) -> ast.NearestCall:
        return ast.NearestCall(_build_property_access(variable, name), query, _span_between(word, close))

    def text_match(
        self, word: Token, target: ast.ExpressionSyntax, query: ast.ExpressionSyntax, close: Token
    ) -> ast.TextMatchCall:
        return self.fuzzy(word, target, query, None, close)

    def fuzzy(
        self,
        word: Token,
        target: ast.ExpressionSyntax,
        query: ast.ExpressionSyntax,
        max_edits: ast.ExpressionSyntax | None,
        close: Token,
    ) -> ast.TextMatchCall:
        return ast.TextMatchCall(ast.TextFunction(word), target, query, max_edits, _span_between(word, close))

    def bm25(
        self, word: Token, target: ast.ExpressionSyntax, query: ast.ExpressionSyntax, close: Token
    ) -> ast.Bm25Call:
        return ast.Bm25Call(target, query, _span_between(word, close))

    def rrf(self, word: Token, *rest: ast.NearestCall | ast.Bm25Call | ast.ValueSyntax | Token | None) -> ast.RrfCall:
        *arms, k, close = rest
        rankings = tuple(arm for arm in arms if isinstance(arm, ast.NearestCall | ast.Bm25Call))
        assert isinstance(close, Token)
        assert k is None or isinstance(k, ast.ValueSyntax)
        return ast.RrfCall(rankings, k, _span_between(word, close))

    def arithmetic(self, *parts: ast.ExpressionSyntax | Token) -> ast.ArithmeticOperation:
        operands = tuple(part for part in parts if not isinstance(part, Token))
        operators = tuple(ast.ArithmeticOperator(part) for part in parts if isinstance(part, Token))
        return ast.ArithmeticOperation(operands, operators, operands[0].span.to(operands[-1].span))

    def call(self, name: Token, *rest: ast.ExpressionSyntax | Token) -> ast.FunctionCall:
        arguments = tuple(part for part in rest if not isinstance(part, Token))
        (close,) = (part for part in rest if isinstance(part, Token))
        return ast.FunctionCall(str(name), arguments, span=_span_between(name, close), name_span=span_of(name))

    def choice(self, word: Token, *rest: _Arm | ast.ExpressionSyntax | Token) -> ast.CaseExpression:
        arms = [part for part in rest if isinstance(part, tuple)]
        others = [part for part in rest if not isinstance(part, tuple | Token)]
        (close,) = (part for part in rest if isinstance(part, Token))
        return ast.CaseExpression(
            tuple(condition for condition, _ in arms),
            tuple(value for _, value in arms),
            others[0] if others else None,
            _span_between(word, close),
        )

    def arm(self, condition: ast.ExpressionSyntax, value: ast.ExpressionSyntax) -> _Arm:
        return condition, value

    def otherwise(self, value: ast.ExpressionSyntax) -> ast.ExpressionSyntax:
        return value

    def text(self, token: Token) -> ast.ScalarLiteral:
        return ast.ScalarLiteral(unquote_string(token), span_of(token))

    def integer(self, token: Token) -> ast.ScalarLiteral:
        return ast.ScalarLiteral(_parse_integer(token, _INTEGERS, "an integer"), span_of(token))

    def decimal(self, token: Token) -> ast.ScalarLiteral:
        if "e" in token.lower():
            raise SyntaxRejection("a number has no exponent", span_of(token), "write out its digits")
        value = float(token)
        if isinf(value):
            raise SyntaxRejection("this number is out of range", span_of(token), "an F64 reaches to about 1.8 * 10^308")
        return ast.ScalarLiteral(value, span_of(token))

    def boolean(self, token: Token) -> ast.ScalarLiteral:
        return ast.ScalarLiteral(token == "true", span_of(token))

    def null(self, token: Token) -> ast.ScalarLiteral:
        return ast.ScalarLiteral(None, span_of(token))

    def date(self, word: Token, text: Token, close: Token) -> ast.DateLiteral:
        return ast.DateLiteral(unquote_string(text), _span_between(word, close))

    def datetime(self, word: Token, text: Token, close: Token) -> ast.DateTimeLiteral:
        return ast.DateTimeLiteral(unquote_string(text), _span_between(word, close))

    def list(self, opening: Token, items: tuple[ast.AnyLiteral, ...], close: Token) -> ast.ListLiteral:
        return ast.ListLiteral(items, _span_between(opening, close))

    def items(self, *items: ast.AnyLiteral) -> tuple[ast.AnyLiteral, ...]:
        return items


def _span_between(first: Token, last: Token) -> Span:
    return span_of(first).to(span_of(last))


def _name_of(variable: Token) -> str:
    return variable[1:]


def _build_variable(token: Token) -> ast.Variable:
    return ast.Variable(_name_of(token), span_of(token))


def _build_edge_word(token: Token) -> ast.EdgeWord:
    return ast.EdgeWord(str(token), span_of(token))


def _build_count(count: Token, what: str) -> ast.ScalarLiteral | ast.Variable:
    if count.type == "VAR":
        return _build_variable(count)
    return ast.ScalarLiteral(_parse_integer(count, range(MAX_LIMIT + 1), what), span_of(count))


def _build_property_access(variable: Token, name: Token) -> ast.PropertyAccess:
    return ast.PropertyAccess(
        _name_of(variable), str(name), span=_span_between(variable, name), name_span=span_of(name)
    )


def _join_conditions(
    operator: ast.LogicalOperator, parts: tuple[ast.ExpressionSyntax | Token, ...]
) -> ast.LogicalOperation:
    operands = tuple(part for part in parts if not isinstance(part, Token))
    return ast.LogicalOperation(operator, operands, operands[0].span.to(operands[-1].span))


def _parse_operator(token: Token) -> ast.ComparisonOperator:
    if token in _FOREIGN_OPERATORS:
        instead = _FOREIGN_OPERATORS[token]
        raise SyntaxRejection(f"'{token}' is not an operator", span_of(token), f"write '{instead}'")
    return ast.ComparisonOperator(token)


def _parse_scalar(name: Token) -> Scalar:
    if name == Scalar.VECTOR:
        raise SyntaxRejection("a vector needs its size", span_of(name), "write Vector(n), and no list around it")
    if name not in _SCALAR_NAMES:
        known = f"the types are {', '.join(_SCALAR_NAMES)} and Vector(n)"
        raise SyntaxRejection(
            f"'{name}' is not a type of parameters", span_of(name), suggest_similar(name, _SCALAR_NAMES) or known
        )
    return Scalar(name)


def _parse_hop_count(token: Token) -> int:
    return _parse_integer(token, range(MAX_HOPS + 1), "a number of hops")


def _parse_integer(token: Token, allowed: range, what: str) -> int:
    digits = token.lstrip("-0") or "0"
    # Python refuses to convert very long numbers; they are out of range anyway.
    if len(digits) <= len(str(allowed.stop)):
        value = -int(digits) if token.startswith("-") else int(digits)
        if value in allowed:
            return value
    bounds = f"{what} is from {allowed.start} to {allowed.stop - 1}"
    raise SyntaxRejection(bounds, span_of(token), "write a number in that range")
