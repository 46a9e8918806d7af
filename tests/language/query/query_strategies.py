"""Hypothesis strategies for `.gq`: every syntax tree that a text can have, and texts that are nearly right."""

from __future__ import annotations

import string
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from omnigraph.language.query import ast
from omnigraph.language.query.parser import MAX_HOPS, MAX_LIMIT
from omnigraph.language.types import MAX_VECTOR_DIMENSION, Scalar, ValueType
from tests.language.query.query_printer import WORD_OPERATORS, print_queries
from tests.selection import sized

KEYWORDS = (
    *("query", "match", "return", "order", "limit", "not", "is", "as", "asc", "desc", "contains", "starts_with"),
    *("insert", "update", "delete", "set", "where", "now", "nearest", "search", "match_text", "fuzzy", "bm25", "rrf"),
    *("count", "sum", "avg", "min", "max", "distinct", "true", "false", "null", "date", "datetime", "and", "or", "in"),
    *("ends_with", "matches", "exists", "having", "offset", "collect", "optional", "case", "else", "lower", "type"),
    "union",
)
LITERAL_WORDS = ("true", "false", "null")

_LETTERS = string.ascii_letters + string.digits + "_"

Part = TypeVar("Part")


def fuzzing(examples: int) -> settings:
    """Few examples by day; many times as many when OMNIGRAPH_FUZZ is ``large``."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=sized(examples // 4, 12 * examples), suppress_health_check=slow)


def _unprinted(strategy: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    """The same strategy under one word: Hypothesis prints strategies, and the text of nested ones explodes."""

    @st.composite
    def part(draw: st.DrawFn) -> Part:
        return draw(strategy)

    return part()


# ------------------------------------------------------------------------------------------------ words and values


def names(*excluded: str) -> st.SearchStrategy[str]:
    """Names, keywords among them."""
    tails = st.text(_LETTERS, max_size=6)
    free = st.builds(str.__add__, st.sampled_from(string.ascii_lowercase + "_"), tails)
    return _unprinted((st.sampled_from(KEYWORDS) | free).filter(lambda name: name not in excluded))


type_names = st.builds(str.__add__, st.sampled_from(string.ascii_uppercase), st.text(_LETTERS, max_size=6))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
variables = st.builds(ast.Variable, names())
property_accesses = st.builds(ast.PropertyAccess, names(), names())

integers = st.builds(ast.ScalarLiteral, st.integers(-(2**63), 2**64 - 1))
floats = st.builds(ast.ScalarLiteral, st.floats(allow_nan=False, allow_infinity=False))
scalar_literals: st.SearchStrategy[ast.AnyLiteral] = st.one_of(
    st.builds(ast.ScalarLiteral, texts | st.booleans() | st.none()),
    integers,
    floats,
    st.builds(ast.DateLiteral, texts),
    st.builds(ast.DateTimeLiteral, texts),
)


def _lists(items: st.SearchStrategy[ast.AnyLiteral]) -> st.SearchStrategy[ast.AnyLiteral]:
    return st.builds(ast.ListLiteral, st.lists(items, max_size=3).map(tuple))


literals = _unprinted(st.recursive(scalar_literals, _lists, max_leaves=5))
values: st.SearchStrategy[ast.ValueSyntax] = literals | variables | st.builds(ast.NowCall)


# ------------------------------------------------------------------------------------------------ expressions


def _alias_references(*excluded: str) -> st.SearchStrategy[ast.AliasReference]:
    return st.builds(ast.AliasReference, names(*LITERAL_WORDS, *excluded))


def _nearest(arguments: st.SearchStrategy[ast.ExpressionSyntax]) -> st.SearchStrategy[ast.NearestCall]:
    return st.builds(ast.NearestCall, property_accesses, arguments)


def _text_matches(arguments: st.SearchStrategy[ast.ExpressionSyntax]) -> st.SearchStrategy[ast.TextMatchCall]:
    functions = st.sampled_from([ast.TextFunction.SEARCH, ast.TextFunction.MATCH_TEXT])
    return st.builds(ast.TextMatchCall, functions, arguments, arguments) | st.builds(
        ast.TextMatchCall, st.just(ast.TextFunction.FUZZY), arguments, arguments, st.none() | arguments
    )


_DISTINCT_AGGREGATES = (ast.AggregateFunction.COUNT, ast.AggregateFunction.COLLECT)


def _calls(arguments: st.SearchStrategy[ast.ExpressionSyntax]) -> st.SearchStrategy[ast.ExpressionSyntax]:
    bm25 = st.builds(ast.Bm25Call, arguments, arguments)
    nearest = _nearest(arguments)
    return st.one_of(
        nearest,
        _text_matches(arguments),
        bm25,
        st.builds(ast.RrfCall, st.lists(nearest | bm25, min_size=2, max_size=4).map(tuple), st.none() | values),
        st.builds(ast.AggregateCall, st.sampled_from(ast.AggregateFunction), arguments),
        st.builds(ast.AggregateCall, st.sampled_from(_DISTINCT_AGGREGATES), arguments, st.just(True)),
        _computed(arguments),
    )


_FUNCTIONS = ("lower", "type", "substring", "no_such_function", "case", "else", "as", "return", "limit")
_SUMS = st.sampled_from([ast.ArithmeticOperator.ADD, ast.ArithmeticOperator.SUBTRACT])
_PRODUCTS = st.sampled_from([ast.ArithmeticOperator.MULTIPLY, ast.ArithmeticOperator.DIVIDE])


def _computed(parts: st.SearchStrategy[ast.ExpressionSyntax]) -> st.SearchStrategy[ast.ExpressionSyntax]:
    """Arithmetic, calls and cases of some parts."""
    conditions = parts.filter(lambda condition: condition != ast.AliasReference("else"))
    arms = st.lists(st.tuples(conditions, parts), min_size=1, max_size=2)
    return st.one_of(
        _chains(parts, _SUMS),
        _chains(parts, _PRODUCTS),
        st.builds(ast.FunctionCall, st.sampled_from(_FUNCTIONS), st.lists(parts, max_size=3).map(tuple)),
        st.builds(_build_case, arms, st.none() | parts),
    )


def _chains(
    parts: st.SearchStrategy[ast.ExpressionSyntax], operators: st.SearchStrategy[ast.ArithmeticOperator]
) -> st.SearchStrategy[ast.ArithmeticOperation]:
    steps = st.lists(st.tuples(operators, parts), min_size=1, max_size=2)
    return st.builds(_build_chain, parts, steps)


def _build_chain(
    first: ast.ExpressionSyntax, steps: list[tuple[ast.ArithmeticOperator, ast.ExpressionSyntax]]
) -> ast.ArithmeticOperation:
    operators, others = zip(*steps, strict=True)
    return ast.ArithmeticOperation((first, *others), operators)


def _build_case(
    arms: list[tuple[ast.ExpressionSyntax, ast.ExpressionSyntax]], otherwise: ast.ExpressionSyntax | None
) -> ast.CaseExpression:
    conditions, values = zip(*arms, strict=True)
    return ast.CaseExpression(conditions, values, otherwise)


def _operands(*excluded_words: str) -> st.SearchStrategy[ast.ExpressionSyntax]:
    """Expressions other than a plain variable."""
    simple = literals | st.builds(ast.NowCall) | property_accesses
    calls = _calls(_unprinted(st.recursive(simple | variables | _alias_references(), _calls, max_leaves=3)))
    return _unprinted(simple | _alias_references(*excluded_words) | calls)


operands = _operands()
expressions = variables | operands


# ------------------------------------------------------------------------------------------------ clauses


_hop_counts = st.integers(0, 3) | st.integers(0, MAX_HOPS)
hops = st.builds(ast.Hops, _hop_counts, st.none() | _hop_counts)
_first_edge, _other_edge = st.builds(ast.EdgeWord, names("not")), st.builds(ast.EdgeWord, names())
_edge_words = st.tuples(_first_edge) | st.tuples(_first_edge, _other_edge)
traversals = st.builds(
    ast.TraversalClause,
    source=variables,
    edges=_edge_words,
    destination=variables,
    undirected=st.booleans(),
    hops=st.none() | hops,
    edge_variable=st.none() | variables,
)
bindings = st.builds(
    ast.BindingClause,
    names(),
    type_names,
    st.lists(st.builds(ast.PropertyMatch, names(), values), max_size=3).map(tuple),
)
_text_clauses = _text_matches(expressions)
_comparisons = st.builds(ast.Comparison, expressions, st.sampled_from(ast.ComparisonOperator), expressions).filter(
    # As a clause it is a traversal, and in parentheses a comparison.
    lambda each: not isinstance(each.left, ast.Variable) or each.operator not in WORD_OPERATORS
)
_null_tests = st.builds(ast.NullTest, expressions, st.booleans())
_simple_conditions = _unprinted(st.one_of(_comparisons, _null_tests, _text_clauses))


def _joined_conditions(parts: st.SearchStrategy[ast.ExpressionSyntax]) -> st.SearchStrategy[ast.ExpressionSyntax]:
    several = st.lists(parts | expressions, min_size=2, max_size=3).map(tuple)
    blocks = st.lists(bindings | traversals | parts, min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(ast.LogicalOperation, st.sampled_from(ast.LogicalOperator), several),
        st.builds(ast.Inversion, parts | expressions),
        st.builds(ast.Comparison, parts, st.sampled_from(ast.ComparisonOperator), parts),
        st.builds(ast.NullTest, parts, st.booleans()),
        _computed(parts | expressions),
        st.builds(ast.Negation, blocks),
        st.builds(ast.Existence, blocks),
    )


conditions: st.SearchStrategy[ast.ExpressionSyntax] = _unprinted(
    st.recursive(_simple_conditions, _joined_conditions, max_leaves=5)
)
_inner_clauses = st.lists(bindings | traversals | conditions, min_size=1, max_size=2).map(tuple)
optionals = st.builds(ast.OptionalClause, _inner_clauses)
clauses: st.SearchStrategy[ast.ClauseSyntax] = bindings | traversals | conditions | expressions | optionals


# ------------------------------------------------------------------------------------------------ queries


_scalars = st.sampled_from([scalar for scalar in Scalar if scalar is not Scalar.VECTOR])
parameter_types = st.builds(ValueType, _scalars, st.booleans(), st.booleans()) | st.builds(
    ValueType, st.just(Scalar.VECTOR), st.booleans(), dimension=st.integers(1, MAX_VECTOR_DIMENSION)
)
parameters = st.builds(ast.Parameter, names(), parameter_types)

_null_column = st.just(ast.AliasReference("null"))
_sort_keys = (expressions | conditions).filter(
    lambda key: not (isinstance(key, ast.ScalarLiteral) and key.value is None)
) | _null_column
order_keys = st.builds(ast.OrderKey, _sort_keys) | st.builds(
    ast.OrderKey, _sort_keys.filter(lambda key: not isinstance(key, ast.NearestCall)), st.just(True)
)
_projections = st.builds(ast.Projection, expressions | conditions, st.none() | names()) | st.builds(
    ast.Projection, st.builds(ast.PropertyAccess, names(), st.just(ast.ALL_PROPERTIES))
)
reads = st.builds(
    ast.ReadBody,
    clauses=st.lists(clauses, min_size=1, max_size=4).map(tuple),
    projections=st.lists(_projections, min_size=1, max_size=3).map(tuple),
    order=st.lists(order_keys, max_size=2).map(tuple),
    limit=st.none() | variables | st.builds(ast.ScalarLiteral, st.integers(0, MAX_LIMIT)),
    offset=st.none() | variables | st.builds(ast.ScalarLiteral, st.integers(0, MAX_LIMIT)),
    distinct=st.booleans(),
    having=st.lists(conditions, max_size=2).map(tuple),
)

_branches = st.builds(
    ast.ReadBody,
    clauses=st.lists(clauses, min_size=1, max_size=2).map(tuple),
    projections=st.lists(_projections, min_size=1, max_size=2).map(tuple),
    distinct=st.booleans(),
    having=st.lists(conditions, max_size=1).map(tuple),
)
unions = st.builds(
    ast.UnionBody,
    branches=st.lists(_branches, min_size=2, max_size=3).map(tuple),
    distinct=st.booleans(),
    order=st.lists(order_keys, max_size=2).map(tuple),
    limit=st.none() | variables,
    offset=st.none() | st.builds(ast.ScalarLiteral, st.integers(0, MAX_LIMIT)),
)

_assigned_values = values | expressions | conditions
_assignments = st.lists(st.builds(ast.Assignment, names(), _assigned_values), min_size=1, max_size=3).map(tuple)
_predicates = st.builds(
    ast.WhereCondition,
    names(),
    st.sampled_from([each for each in ast.ComparisonOperator if each not in WORD_OPERATORS]),
    values,
)
_inserts = st.builds(ast.Insert, type_names, _assignments)
statements: st.SearchStrategy[ast.StatementSyntax] = st.one_of(
    _inserts,
    st.builds(ast.Update, type_names, _assignments, _predicates),
    st.builds(ast.Delete, type_names, _predicates),
)
bound_statements: st.SearchStrategy[ast.StatementSyntax] = st.one_of(
    _inserts,
    st.builds(ast.VariableUpdate, variables, _assignments),
    st.builds(ast.VariableDelete, variables),
)
mutations = st.builds(ast.MutationBody, st.lists(statements, min_size=1, max_size=3).map(tuple)) | st.builds(
    ast.MutationBody,
    st.lists(bound_statements, min_size=1, max_size=3).map(tuple),
    st.lists(clauses, min_size=1, max_size=3).map(tuple),
)

queries = st.builds(
    ast.Query,
    name=names(),
    parameters=st.lists(parameters, max_size=3).map(tuple),
    body=reads | unions | mutations,
    description=st.none() | texts,
    instruction=st.none() | texts,
)
query_files = st.builds(ast.QueryDocument, st.lists(queries, max_size=2).map(tuple))


# ------------------------------------------------------------------------------------------------ broken texts


_SCRAPS = st.sampled_from([*KEYWORDS, *'{}()[]<>$.,:;@#"\\/*=!-?\n\0\u20ac', "//", "/*", "*/", "==", "$x", "T", "1e3"])


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """The text of a file with a few pieces cut out, doubled or put in."""
    text = print_queries(draw(query_files))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))
        text = text[:start] + draw(st.sampled_from(["", text[start:end] * 2]) | _SCRAPS) + text[end:]
    return text
