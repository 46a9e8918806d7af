"""Habits of Cypher, GQL and SQL get an error whose hint shows the ``.gq`` form, and that form parses."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.source import Source
from tests.selection import sized

PLACES: Final = {
    "clause": "query q($n: String) {\n  match {\n    $p: Person\n    HERE\n  }\n  return { $p.name }\n}",
    "match": "query q() {\n  HERE\n  return { $p.name }\n}",
    "after match": "query q() {\n  match { $p: Person }\n  HERE\n  return { $p.name }\n}",
    "return": "query q() {\n  match { $p: Person }\n  HERE\n}",
    "column": "query q() {\n  match { $p: Person }\n  return { HERE as n }\n}",
    "part": "query q() {\n  match { $p: Person }\n  return { $p.name }\n  HERE\n}",
    "statement": "query q() {\n  HERE\n}",
    "braces": "query q() {\n  insert Person { HERE }\n}",
    "parameter": "query q(HERE) {\n  match { $p: Person }\n  return { $p.name }\n}",
    "text": "HERE",
}
"""Where a foreign text, or the form of a hint, may stand in a query that is right."""

WHERE: Final = "match { $p: Person  $p.age > 3 }"
HABITS: Final = {
    "where": [
        ("match", "match { $p: Person where $p.age > 3 }", WHERE),
        ("match", "match { $p: Person } where $p.age > 3", WHERE),
        ("match", "match { $p: Person } WHERE $p.age > 3", WHERE),
        ("match", "match { $p: Person } Where { $p.age > 3 }", WHERE),
        ("match", "match {\n $p: Person\n WHERE $p.age > 3\n}", WHERE),
        ("part", "where $p.age > 3", "match { $x: Type  $x.p > 1 }"),
    ],
    "=~": [
        ("clause", '$p.name =~ "A.*"', '$p.name matches "^A.*$"'),
        ("clause", "$p.name=~'A.*'", '$p.name matches "^A.*$"'),
        ("clause", '$p.name =~ "A|B"', '$p.name matches "^(A|B)$"'),
        ("clause", "$p.name =~ $n", "$p.name matches $n"),
        ("clause", '$p.name ~ "A"', '$p.name matches "A"'),
        ("clause", '$p.name !~ "A"', 'not ($p.name matches "A")'),
        ("clause", '$p.name REGEXP "A"', '$p.name matches "A"'),
        ("clause", '$p.name NOT RLIKE "A"', 'not ($p.name matches "A")'),
    ],
    "<>": [
        ("clause", '$p.name <> "A"', "'!='"),
        ("clause", '$p.name<>"A"', "'!='"),
        ("clause", "$p <> $q", "'!='"),
        ("clause", "$p.age ≠ 3", "!="),
        ("clause", '$q: Person { name: <> "A" }', '$x.name != "A"'),
    ],
    "like": [
        ("clause", '$p.name LIKE "A%"', '$p.name starts_with "A"'),
        ("clause", "$p.name like '%A'", '$p.name ends_with "A"'),
        ("clause", "$p.name Like '%A%'", '$p.name contains "A"'),
        ("clause", '$p.name like "A"', '$p.name = "A"'),
        ("clause", '$p.name like "A_c.d%"', '$p.name matches "^A.c[.]d"'),
        ("clause", '$p.name NOT LIKE "A%"', 'not ($p.name starts_with "A")'),
        ("clause", '$p.name ilike "A%"', 'lower($p.name) starts_with "a"'),
        ("clause", "$p.name like $n", "$p.name contains $n"),
        ("clause", "$p.name STARTS WITH 'A'", '$p.name starts_with "A"'),
        ("clause", '$p.name ends with "A"', '$p.name ends_with "A"'),
        ("clause", '$p.name CONTAINS "A"', '$p.name contains "A"'),
    ],
    "in": [
        ("clause", '$p.name in ("A", "B")', '$p.name in ["A", "B"]'),
        ("clause", "$p.name IN ('A', 'B')", '$p.name in ["A", "B"]'),
        ("clause", '$p.name IN ["A"]', '$p.name in ["A"]'),
        ("clause", "$p.age not in [1, 2]", "not ($p.age in [1, 2])"),
        ("clause", "$p.age NOT IN (1, 2)", "not ($p.age in [1, 2])"),
        ("clause", "not $p.age in [1, 2]", "not ($p.age in [1, 2])"),
        ("clause", "NOT $p.age IN [1, 2]", "not ($p.age in [1, 2])"),
        ("clause", "$p.age BETWEEN 1 AND 2", "$p.age >= 1 and $p.age <= 2"),
    ],
    "return": [
        ("return", "RETURN DISTINCT { $p.name }", "return distinct { $p.name }"),
        ("return", "RETURN DISTINCT $p.name AS n", "return distinct { $p.name as n }"),
        ("return", "return DISTINCT { $p.name }", "return distinct { $p.name }"),
        ("return", "return distinct $p.name, $p.age", "return distinct { $p.name, $p.age }"),
        ("return", "return { DISTINCT $p.name }", "return distinct { $p.name }"),
        ("return", "RETURN p.name", "return { $p.name }"),
        ("return", "return $p.name", "return { $p.name }"),
    ],
    "optional match": [
        ("after match", "OPTIONAL MATCH { $p knows $f }", "optional { $p knows $f }"),
        ("after match", "optional match { $p knows $f }", "optional { $p knows $f }"),
        ("after match", "OPTIONAL MATCH (p)-[:KNOWS]->(f)", "optional { $p knows $f }"),
        ("after match", "optional { $p knows $f }", "optional { $p knows $f }"),
        ("clause", "OPTIONAL MATCH $p knows $f", "optional { $p knows $f }"),
        ("clause", "optional match { $p knows $f }", "optional { $p knows $f }"),
        ("clause", "optional $p knows $f", "optional { $p knows $f }"),
    ],
    "count": [
        ("column", "count(*)", "count($p)"),
        ("column", "COUNT( * )", "count($p)"),
        ("column", "count()", "count($p)"),
        ("column", "COUNT(DISTINCT $p.name)", "count(distinct $p.name)"),
    ],
    "limit": [
        ("part", "LIMIT 10 OFFSET 5", "limit 10 offset 5"),
        ("part", "limit 10 OFFSET 5", "limit 10 offset 5"),
        ("part", "OFFSET 5 LIMIT 10", "limit 10 offset 5"),
        ("part", "offset 5 limit 10", "limit 10 offset 5"),
        ("part", "SKIP 5 LIMIT 10", "limit 10 offset 5"),
        ("part", "skip 5", "offset 5"),
        ("part", "limit 5, 10", "limit 10 offset 5"),
        ("part", "limit { 10 }", "limit 10"),
        ("part", "FETCH FIRST 5 ROWS ONLY", "limit 5"),
        ("part", "UNION ALL MATCH (q:Person) RETURN q.name", "union"),
        ("part", "UNION match { $q: Person } return { $q.name }", "union distinct"),
        ("part", "ORDER BY p.name DESC LIMIT 10", "order { $p.name desc }"),
        ("part", "order by $p.name", "order { $p.name }"),
        ("part", "order $p.name desc", "order { $p.name desc }"),
        ("part", "HAVING n > 3", "having { n > 3 }"),
    ],
    "set": [
        ("return", "SET $p.age = 3", "update $p set { age: 3 }"),
        ("return", "set p.name = 'A'", 'update $p set { name: "A" }'),
        ("return", "REMOVE p.age", "update $p set { age: null }"),
        ("return", "DETACH DELETE p", "delete $p"),
        ("statement", 'update Person set age = 3 where name = "A"', 'update Person set { age: 3 } where name = "A"'),
        (
            "statement",
            'update Person set { age = 3 } where name = "A"',
            'update Person set { age: 3 } where name = "A"',
        ),
        ("statement", "UPDATE person SET age = 3 WHERE name = 'A'", 'update Person set { age: 3 } where name = "A"'),
        ("statement", "INSERT INTO Person (name, age) VALUES ('A', 3)", 'insert Person { name: "A", age: 3 }'),
        ("statement", 'CREATE (p:Person {name: "A"})', 'insert Person { name: "A" }'),
        ("statement", 'create Person { name: "A" }', 'insert Person { name: "A" }'),
        ("statement", "DELETE FROM Person WHERE name = 'A'", 'delete Person where name = "A"'),
        ("braces", 'name = "A"', 'name: "A"'),
    ],
    "edge": [
        ("clause", "$p -[:KNOWS]-> $f", "$p knows $f"),
        ("clause", "($p)-[:WORKS_WITH]->($f)", "$p worksWith $f"),
        ("clause", "(p:Person)-[:KNOWS]->(f:Person {name: 'A'})", '$p: Person  $f: Person {name: "A"}  $p knows $f'),
        ("clause", "$p <-[:KNOWS]- $f", "$f knows $p"),
        ("clause", "$p -[:KNOWS]- $f", "$p <knows> $f"),
        ("clause", "$p -[k:KNOWS]-> $f", "$p $k:knows $f"),
        ("clause", "$p -[:KNOWS*1..3]-> $f", "$p knows{1,3} $f"),
        ("clause", "$p -[:KNOWS*]-> $f", "$p knows{1,} $f"),
        ("clause", "$p -[:KNOWS*2]-> ()", "$p knows{2} $_"),
        ("clause", "$p -[:KNOWS|LIKES]-> $f", "$p knows|likes $f"),
        ("clause", "$p --> $f", "$p edge $f"),
        ("clause", "$p KNOWS $f", "$p knows $f"),
        ("clause", "$p knows*1..3 $f", "$p knows{1,3} $f"),
        ("match", "MATCH (p:Person)", "match { $p: Person }"),
        ("match", "match (p:Person)-[:KNOWS]->(f)", "match { $p: Person  $p knows $f }"),
    ],
    "other": [
        ("text", "MATCH (p:Person) RETURN p.name", "query name() { match { $p: Person } return { $p.name } }"),
        ("text", "SELECT name FROM person", "query name() { match { $x: Type } return { $x.p } }"),
        ("match", "match $p: Person", "match { $p: Person }"),
        ("match", "match { p: Person }", "$p: Person"),
        ("clause", "p.age > 3", "$p.age"),
        ("clause", "$p.age = NULL", "$p.age is null"),
        ("clause", "$p.age IS NOT NULL", "$p.age is not null"),
        ("clause", "not exists { $p knows $f }", "not { $p knows $f }"),
        ("clause", "NOT EXISTS ($p knows $f)", "not { $p knows $f }"),
        ("clause", "exists ($p knows $f)", "exists { $p knows $f }"),
        ("clause", "$p.age > 3 AND $p.age < 5", "and"),
        ("column", "CASE WHEN $p.age > 3 THEN 1 ELSE 2 END", "case { $p.age > 3: 1, else: 2 }"),
        ("parameter", "n: String", "$n: String"),
        ("parameter", "$n String", "$n: String"),
        ("parameter", "$n: int", "I64"),
    ],
}
"""By habit: where it stands, the foreign text, and the form of the hint."""

FRAGMENTS: Final = frozenset({"union", "union distinct", "'!='", "!=", "and", "$p.age", "I64"})
"""Forms that are a word or a value, and no part of a query."""


@pytest.mark.parametrize("habit", HABITS)
def test_the_hint_shows_the_form_and_the_form_parses(habit: str) -> None:
    wrong: list[str] = []
    for place, text, form in HABITS[habit]:
        found = parse_query_text(Source(PLACES[place].replace("HERE", text)))
        hints = [problem.hint for problem in found] if isinstance(found, list) else ["no problem at all"]
        if hints[0] is None or f"{hints[0]} ".find(f"write {form} ") != 0:
            wrong.append(f"{text}: {hints[0]}, not {form}")
        if form not in FRAGMENTS and isinstance(parse_query_text(Source(_place(place, form))), list):
            wrong.append(f"{form} does not parse")
    assert wrong == []


def _place(place: str, form: str) -> str:
    """A query with a form where it belongs."""
    if form.startswith(("update $", "delete $")):
        place = "return"
    elif form.startswith(("update", "insert", "delete")):
        place = "statement"
    elif form.startswith("match {"):
        place = "match"
    elif form.startswith(("optional", "$p: Person", "$x.")):
        place = "parameter" if place == "parameter" else "clause"
    return PLACES[place].replace("HERE", form)


def test_a_long_line_of_foreign_text_is_answered_at_once() -> None:
    for text in ("$p -[:KNOWS]-> " * 20_000, "where " * 20_000, "in (" * 90 + "x" * 100_000, "NOT " * 20_000):
        problems = parse_query_text(Source(PLACES["clause"].replace("HERE", text)))
        assert isinstance(problems, list)
        assert max(len(problem.hint or "") for problem in problems) < 300


WORDS: Final = sorted({word for rows in HABITS.values() for _, text, _ in rows for word in text.split()})


def test_no_mixture_of_foreign_words_breaks_the_hints() -> None:
    chance = Random(29)  # noqa: S311  # a fixed seed
    for _ in range(sized(400, 20_000)):
        mixture = " ".join(chance.choices(WORDS, k=chance.randint(1, 12)))
        found = parse_query_text(Source(PLACES[chance.choice(list(PLACES))].replace("HERE", mixture)))
        if isinstance(found, list):
            assert all(problem.render() for problem in found)
