"""What the `.gq` grammar accepts, what it makes of it, and where it says that things stand."""

from __future__ import annotations

import logging
from importlib.resources import files

import lark
import pytest

from omnigraph.errors import Problem, SourceTooLarge
from omnigraph.language.query import ast
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.source import MAX_SOURCE_BYTES, Source, Span, decode_source
from tests.language.query.query_printer import print_queries
from tests.language.query.query_strategies import KEYWORDS, LITERAL_WORDS

GRAMMAR = files("omnigraph.language.query").joinpath("grammar.lark").read_text("utf-8")


def parsed(text: str) -> ast.QueryDocument:
    file = parse_query_text(Source(text))
    assert isinstance(file, ast.QueryDocument), "\n".join(problem.render() for problem in file)
    return file


def problems(source: Source | Problem) -> list[Problem]:
    found = parse_query_text(source)
    assert isinstance(found, list)
    return found


def read(clauses: str = "$v: Vessel", projections: str = "$v", tail: str = "") -> ast.ReadBody:
    body = parsed(f"query q() {{ match {{ {clauses} }} return {{ {projections} }} {tail} }}").queries[0].body
    assert isinstance(body, ast.ReadBody)
    return body


def edges(*names: str) -> tuple[ast.EdgeWord, ...]:
    return tuple(map(ast.EdgeWord, names))


def clause(text: str) -> ast.ClauseSyntax:
    (only,) = read(text).clauses
    return only


def statements(text: str) -> tuple[ast.StatementSyntax, ...]:
    body = parsed(f"query q() {{ {text} }}").queries[0].body
    assert isinstance(body, ast.MutationBody)
    return body.statements


# ------------------------------------------------------------------------------------------------ the grammar


def test_the_grammar_has_no_conflict(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=lark.logger.name)
    lark.logger.addHandler(caplog.handler)
    try:
        lark.Lark(GRAMMAR, parser="lalr", lexer="contextual", debug=True)
    finally:
        lark.logger.removeHandler(caplog.handler)
    assert [record.message for record in caplog.records] == []


def test_the_tests_know_every_keyword() -> None:
    patterns = {each.name: each.pattern.value for each in lark.Lark(GRAMMAR, parser="lalr").terminals}
    words = {
        word
        for name, pattern in patterns.items()
        for words, boundary, _ in [pattern.partition(r"\b")]
        if boundary and name not in ("DESCRIPTION", "INSTRUCTION", "EDGE")
        for word in words.strip("()").split("|")
    }
    assert words <= set(KEYWORDS)


def test_the_grammar_knows_every_aggregate() -> None:
    patterns = {each.name: each.pattern.value for each in lark.Lark(GRAMMAR, parser="lalr").terminals}
    assert patterns["AGGREGATE"].startswith(rf"({'|'.join(ast.AggregateFunction)})\b")


# ------------------------------------------------------------------------------------------------ keywords as names


@pytest.mark.parametrize("word", KEYWORDS)
def test_every_keyword_is_a_name_where_a_name_stands(word: str) -> None:
    query = parsed(f"query {word}(${word}: String) {{ match {{ $v: T }} return {{ $v }} limit ${word} }}").queries[0]
    assert (query.name, query.parameters[0].name) == (word, word)
    assert clause(f"$v: T {{ {word}: 1, {word}: 2 }}") == ast.BindingClause(
        "v", "T", (ast.PropertyMatch(word, ast.ScalarLiteral(1)), ast.PropertyMatch(word, ast.ScalarLiteral(2)))
    )
    assert clause(f"$v.{word} = 1") == ast.Comparison(
        ast.PropertyAccess("v", word), ast.ComparisonOperator.EQUAL, ast.ScalarLiteral(1)
    )
    assert read(projections=f"$v.x as {word} $v.y as {word}, $v").projections[1].alias == word
    assert clause(f"$a <{word}> $b") == ast.TraversalClause(
        ast.Variable("a"), edges(word), ast.Variable("b"), undirected=True
    )
    assert statements(f"delete T where {word} = 1") == (
        ast.Delete("T", ast.WhereCondition(word, ast.ComparisonOperator.EQUAL, ast.ScalarLiteral(1))),
    )


@pytest.mark.parametrize("word", KEYWORDS)
def test_every_keyword_is_a_property_to_assign_without_commas(word: str) -> None:
    values = ["1", "-1.5", '"a"', "true", "false", "null", "$p", "now()", 'date("x")', 'datetime("x")', "[1]", "[]"]
    (insert,) = statements(f"insert T {{ {' '.join(f'{word}: {value}' for value in values)} }}")
    assert isinstance(insert, ast.Insert)
    assert [each.name for each in insert.assignments] == [word] * len(values)


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word != "not"])
def test_every_keyword_but_not_is_an_edge(word: str) -> None:
    ends = ast.Variable("a"), ast.Variable("b")
    assert clause(f"$a {word} $b") == ast.TraversalClause(ends[0], edges(word), ends[1])
    assert clause(f"$a {word}{{1,2}} $b") == ast.TraversalClause(ends[0], edges(word), ends[1], hops=ast.Hops(1, 2))
    assert clause(f"$a $e:{word} $b") == ast.TraversalClause(
        ends[0], edges(word), ends[1], edge_variable=ast.Variable("e")
    )


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in {"true", "false"}])
def test_every_keyword_but_a_boolean_is_a_column_to_order_by(word: str) -> None:
    column = ast.AliasReference(word)
    keys = (ast.OrderKey(column, descending=True), ast.OrderKey(column), ast.OrderKey(column))
    assert read(tail=f"order {{ {word} desc, {word} asc, {word} }}").order == keys


@pytest.mark.parametrize("word", [word for word in KEYWORDS if word not in {"not", *LITERAL_WORDS}])
def test_a_keyword_that_begins_a_clause_stays_a_name_when_printed(word: str) -> None:
    file = parsed(f"query q() {{ match {{ $v.a = 1, {word} = 2, {word} is null }} return {{ $v, {word} }} }}")
    assert parsed(print_queries(file)) == file


@pytest.mark.parametrize("word", LITERAL_WORDS)
def test_a_literal_word_needs_a_boundary(word: str) -> None:
    (key,) = read(tail=f"order {{ {word}_count }}").order
    assert key.expression == ast.AliasReference(f"{word}_count")


@pytest.mark.parametrize("text", ["queryq() {}", "query q() { matchx { $v: T } return { $v } }"])
def test_a_keyword_needs_a_boundary(text: str) -> None:
    assert problems(Source(text))


# ------------------------------------------------------------------------------------------------ likenesses


A, B = ast.Variable("a"), ast.Variable("b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$a < $b.p", ast.Comparison(A, ast.ComparisonOperator.LESS, ast.PropertyAccess("b", "p"))),
        ("$a < $b", ast.Comparison(A, ast.ComparisonOperator.LESS, B)),
        ("$a < knows", ast.Comparison(A, ast.ComparisonOperator.LESS, ast.AliasReference("knows"))),
        ("$a < true", ast.Comparison(A, ast.ComparisonOperator.LESS, ast.ScalarLiteral(value=True))),
        ("$a <knows> $b", ast.TraversalClause(A, edges("knows"), B, undirected=True)),
        ("$a < knows > $b", ast.TraversalClause(A, edges("knows"), B, undirected=True)),
        ("$a <= $b", ast.Comparison(A, ast.ComparisonOperator.LESS_OR_EQUAL, B)),
        ("$a contains $b", ast.TraversalClause(A, edges("contains"), B)),
        ("$a contains $b.p", ast.Comparison(A, ast.ComparisonOperator.CONTAINS, ast.PropertyAccess("b", "p"))),
        ('$a contains "x"', ast.Comparison(A, ast.ComparisonOperator.CONTAINS, ast.ScalarLiteral("x"))),
        ('$a starts_with "x"', ast.Comparison(A, ast.ComparisonOperator.STARTS_WITH, ast.ScalarLiteral("x"))),
        ("$a is $b", ast.TraversalClause(A, edges("is"), B)),
        ("$a is null", ast.NullTest(A)),
        ("$a.p is not null", ast.NullTest(ast.PropertyAccess("a", "p"), negated=True)),
        ("$a nothing $b", ast.TraversalClause(A, edges("nothing"), B)),
        ("$a not_yet $b", ast.TraversalClause(A, edges("not_yet"), B)),
        ("not { $a: T }", ast.Negation((ast.BindingClause("a", "T"),))),
        ("$a knows{3} $b", ast.TraversalClause(A, edges("knows"), B, hops=ast.Hops(3, 3))),
        ("$a knows|likes $b", ast.TraversalClause(A, edges("knows", "likes"), B)),
        ("$a knows | is|not{0,} $b", ast.TraversalClause(A, edges("knows", "is", "not"), B, hops=ast.Hops(0, None))),
        ("$a <knows|null> $b", ast.TraversalClause(A, edges("knows", "null"), B, undirected=True)),
        ("$a contains|in $b", ast.TraversalClause(A, edges("contains", "in"), B)),
        ("$a knows{3,} $b", ast.TraversalClause(A, edges("knows"), B, hops=ast.Hops(3, None))),
        ("$a: T { }", ast.BindingClause("a", "T")),
    ],
)
def test_clauses_that_look_alike(text: str, expected: ast.ClauseSyntax) -> None:
    assert clause(text) == expected


def test_a_text_predicate_stands_alone_or_is_compared() -> None:
    predicate = ast.TextMatchCall(ast.TextFunction.SEARCH, ast.PropertyAccess("a", "p"), ast.ScalarLiteral("x"))
    alone, compared = read('search($a.p, "x") search($a.p, "x") = false').clauses
    assert alone == predicate
    assert compared == ast.Comparison(predicate, ast.ComparisonOperator.EQUAL, ast.ScalarLiteral(value=False))


def test_commas_between_clauses_change_nothing() -> None:
    assert read("$a: T, $a knows $b, $a.p = $b,") == read("$a: T $a knows $b $a.p = $b")


def test_a_filter_ends_where_the_next_clause_begins() -> None:
    assert read("$a.p = $b $b knows $c").clauses == (
        ast.Comparison(ast.PropertyAccess("a", "p"), ast.ComparisonOperator.EQUAL, B),
        ast.TraversalClause(B, edges("knows"), ast.Variable("c")),
    )


def test_count_distinct() -> None:
    (projection,) = read(projections="count(distinct $v) as n").projections
    counted = ast.AggregateCall(ast.AggregateFunction.COUNT, ast.Variable("v"), distinct=True)
    assert projection == ast.Projection(counted, "n")


# ------------------------------------------------------------------------------------------------ numbers and texts


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**63, 2**64 - 1])
def test_integers_of_the_whole_range(number: int) -> None:
    assert clause(f"$a.p = {number}") == ast.Comparison(
        ast.PropertyAccess("a", "p"), ast.ComparisonOperator.EQUAL, ast.ScalarLiteral(number)
    )


def test_leading_zeros_do_not_count() -> None:
    assert read(tail=f"limit {'0' * 5000}7").limit == ast.ScalarLiteral(7)


@pytest.mark.parametrize(
    "text",
    [
        f"$a.p = {2**64}",
        f"$a.p = {-(2**63) - 1}",
        f"$a.p = {'9' * 5000}",
        f"$a.p = {'9' * 400}.0",
        f"$a knows{{1,{2**32}}} $b",
        f"$a knows{{{2**32}}} $b",
    ],
)
def test_numbers_out_of_range_are_problems(text: str) -> None:
    (problem,) = problems(Source(f"query q() {{ match {{\n{text} }} return {{ $a }} }}"))
    assert problem.position.line == 2
    assert problem.position.text[problem.position.column - 1] in "-0123456789"


def test_escapes_and_raw_line_breaks() -> None:
    (binding,) = read('$v: T { a: "\\"\\\\\\n\\r\\t", b: "two\nlines // no comment" }').clauses
    assert isinstance(binding, ast.BindingClause)
    assert [match.value for match in binding.matches] == [
        ast.ScalarLiteral('"\\\n\r\t'),
        ast.ScalarLiteral("two\nlines // no comment"),
    ]


# ------------------------------------------------------------------------------------------------ places


def test_every_part_knows_its_place() -> None:
    text = (
        'query q($n: I32) { match { $v: T { p: 1 }\n  not { $v $e:tows{1,2} $w } $v.name = date("x") } return { $v } }'
    )

    def at(span: Span) -> str:
        return text[span.start : span.end]

    (query,) = parsed(text).queries
    assert isinstance(query.body, ast.ReadBody)
    binding, negation, comparison = query.body.clauses
    assert isinstance(binding, ast.BindingClause)
    assert isinstance(negation, ast.Negation)
    (traversal,) = negation.clauses
    assert isinstance(traversal, ast.TraversalClause)
    assert traversal.hops is not None
    assert isinstance(comparison, ast.Comparison)
    assert isinstance(comparison.left, ast.PropertyAccess)
    assert at(query.span) == text
    assert at(query.name_span) == "q"
    assert at(query.parameters[0].span) == "$n"
    assert at(binding.span) == "$v: T { p: 1 }"
    assert at(binding.type_span) == "T"
    assert at(binding.matches[0].span) == "p: 1"
    assert at(negation.span) == "not { $v $e:tows{1,2} $w }"
    assert at(traversal.span) == "$v $e:tows{1,2} $w"
    assert at(traversal.edges_span) == "tows"
    assert at(traversal.hops.span) == "{1,2}"
    assert at(comparison.span) == '$v.name = date("x")'
    assert at(comparison.left.name_span) == "name"
    assert at(comparison.right.span) == 'date("x")'


# ------------------------------------------------------------------------------------------------ bad input


def test_every_broken_query_of_a_file_is_reported() -> None:
    text = "\n".join(
        [
            "query a() { match { $v: T } return { $v. } }",
            "query fine() { delete T where query = 1 }",
            "query b { delete T where x = 1 }",
            '// query c() { } "',
            'query d() { insert T { a: "\\q" } }',
        ]
    )
    assert [(each.position.line, each.position.column) for each in problems(Source(text))] == [(1, 42), (3, 9), (5, 28)]


def test_problems_of_reading_become_syntax_problems() -> None:
    for data, message in ((b"query q\xff", "UTF-8"), (b"query \0q", "NUL")):
        (problem,) = problems(decode_source(data, "q.gq"))
        assert problem.code == "Q000"
        assert message in problem.message
        assert (problem.position.file, problem.position.line) == ("q.gq", 1)


def test_a_text_of_ten_megabytes_is_refused() -> None:
    with pytest.raises(SourceTooLarge):
        decode_source(b" " * (10 * 1024 * 1024), "q.gq")
    assert isinstance(decode_source(b" " * MAX_SOURCE_BYTES, "q.gq"), Source)


@pytest.mark.parametrize(
    "nested",
    [
        "not { " * 200 + "$v: T" + " }" * 200,
        "$v.p = " + "count(" * 200 + "$v" + ")" * 200,
        "$v.p = " + "[" * 200 + "]" * 200,
    ],
)
def test_deep_nesting_is_refused_with_a_place(nested: str) -> None:
    text = f"query q() {{ match {{ {nested} }} return {{ $v }} }}"
    (problem,) = problems(decode_source(text.encode(), None))
    assert "nested" in problem.message
    # The parser itself has no limit; what it gets past the check on reading does not overflow it.
    assert isinstance(parse_query_text(Source(text)), ast.QueryDocument)


@pytest.mark.parametrize("nested", ["not { " * 97 + "$v: T" + " }" * 97, "$v.p = " + "[" * 98 + "]" * 98])
def test_the_deepest_nesting_allowed_is_read_and_printed(nested: str) -> None:
    source = decode_source(f"query q() {{ match {{ {nested} }} return {{ $v }} }}".encode(), None)
    assert isinstance(source, Source)
    file = parsed(source.text)
    assert parsed(print_queries(file)) == file


@pytest.mark.parametrize("unclosed", ['"' + '\\"' * 100_000, '"' + '\\"' * 100_000 + "\\", "/* " * 100_000])
def test_what_is_never_closed_takes_no_long_time(unclosed: str) -> None:
    (problem,) = problems(decode_source(f"query q() {{ match {{ $v.a = {unclosed}".encode(), None))
    assert "is not closed" in problem.message


def test_an_empty_text_has_no_queries() -> None:
    assert parsed(" \t\r\n// nothing\n/* at all */") == ast.QueryDocument(())
