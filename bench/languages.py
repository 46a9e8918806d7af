"""How fast the languages are: queries parsed, checked and planned per second, and the time to read a schema.

    .venv/bin/python bench/languages.py [--queries 1000] [--seed 7]

The schemas have 200 and 10,000 types, half of them edge types. The queries are a seeded mix of lookups, walks,
negations, aggregates, rankings and mutations over the smaller one. Everything runs in one process, once, after a
small warm-up.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

from omnigraph.errors import QueryError
from omnigraph.language.query.ast import QueryDocument
from omnigraph.language.query.check.queries import check_query
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.query.plan.operators import ReadPlan
from omnigraph.language.query.plan.planner import plan_read
from omnigraph.language.query.typed_statements import TypedMutation, TypedQuery
from omnigraph.language.schema import parse_schema
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.source import Source

QUERY_SCHEMA_TYPES = 200
LARGE_SCHEMA_TYPES = 10_000
WARM_UP_QUERIES = 20

Result = TypeVar("Result")


# ------------------------------------------------------------------------------------------------ what is measured


def schema_text(types: int) -> str:
    """A schema of ``types`` types: half of them are node types, each with an edge type to the next one."""
    nodes = types // 2
    return "\n".join(_pair_text(number, nodes) for number in range(nodes))


def _pair_text(number: int, nodes: int) -> str:
    return f"""\
node Type{number} {{
  code: String @key
  title: String @index
  size: I64?
  state: enum(draft, open, closed)
  since: Date?
  place: Vector(4)?
}}
edge Next{number}: Type{number} -> Type{(number + 1) % nodes} {{ weight: F64? }}
"""


def query_text(number: int, rng: random.Random, types: int) -> str:
    """One query of the mix."""
    nodes = types // 2
    kind = rng.randrange(nodes)
    shape = rng.choice(QUERY_SHAPES)
    return shape.format(number=number, kind=kind, after=(kind + 1) % nodes, size=rng.randrange(1000))


QUERY_SHAPES = (
    """query q{number}($code: String) {{
  match {{ $a: Type{kind} {{ code: $code }} }}
  return {{ $a.title, $a.size, $a.since as day }}
}}
""",
    """query q{number}($code: String) {{
  match {{
    $a: Type{kind} {{ code: $code }}
    $a $e:next{kind} $b
    $b next{after} $c
    $c.size > {size}
    $e.weight >= 0.5
  }}
  return {{ $b.title, $c.title, $e.weight }}
  order {{ $c.title desc, $b.title }}
  limit 20
}}
""",
    """query q{number}() {{
  match {{
    $a: Type{kind} {{ state: "open" }}
    $b: Type{after}
    $a next{kind} $b
    not {{ $b next{after} $c  $c.size > {size} }}
  }}
  return {{ $a.state, count($b) as n, max($b.size) as biggest }}
  order {{ n desc }}
}}
""",
    """query q{number}($near: Vector(4), $words: String) {{
  match {{ $a: Type{kind}  search($a.title, $words)  $a.since > date("2020-02-29") }}
  return {{ $a.code, nearest($a.place, $near) as distance }}
  order {{ nearest($a.place, $near) }}
  limit 10
}}
""",
    """query q{number}($code: String, $title: String) {{
  insert Type{kind} {{ code: $code, title: $title, state: "draft", size: {size} }}
  insert Next{kind} {{ from: $code, to: "x{number}", weight: 0.25 }}
}}
""",
    """query q{number}($code: String) {{
  update Type{kind} set {{ state: "closed", size: {size} }} where code = $code
}}
""",
)


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True, slots=True)
class Measure:
    """A step, how many things it worked on, and how long it took."""

    step: str
    things: int
    unit: str
    seconds: float

    def row(self) -> str:
        """One line of the table."""
        rate = self.things / self.seconds
        return f"{self.step:<24}{self.things:>8,} {self.unit:<8}{self.seconds:>9.3f} s{rate:>12,.0f} {self.unit}/s"


def timed(step: str, things: int, unit: str, work: Callable[[], Result]) -> tuple[Measure, Result]:
    """Do the work once and say how long it took."""
    begin = perf_counter()
    result = work()
    return Measure(step, things, unit, perf_counter() - begin), result


def measure_queries(source: Source, catalog: Catalog, queries: int) -> list[Measure]:
    """Parse, check and plan a text of the mix, each step for the whole text."""
    parsing, file = timed("parse", queries, "queries", lambda: parsed(source))
    checking, typed = timed("check", queries, "queries", lambda: checked(file, catalog, source))
    planning, _ = timed("plan", queries, "queries", lambda: planned(typed))
    together = parsing.seconds + checking.seconds + planning.seconds
    return [parsing, checking, planning, Measure("parse + check + plan", queries, "queries", together)]


def parsed(source: Source) -> QueryDocument:
    """The queries as written."""
    file = parse_query_text(source)
    if isinstance(file, list):
        raise QueryError(file)
    return file


def checked(file: QueryDocument, catalog: Catalog, source: Source) -> list[TypedQuery]:
    """The queries as understood; the mix has no mistakes."""
    typed: list[TypedQuery] = []
    for query in file.queries:
        outcome = check_query(query, catalog, source)
        if isinstance(outcome, list):
            raise QueryError(outcome)
        typed.append(outcome)
    return typed


def planned(queries: list[TypedQuery]) -> list[ReadPlan]:
    """The plans of the reads; a mutation is its own plan."""
    return [plan_read(query) for query in queries if not isinstance(query, TypedMutation)]


def mix(queries: int, seed: int) -> Source:
    """A text with that many queries."""
    rng = random.Random(seed)  # noqa: S311 -- a seeded mix, not a secret
    return Source("\n".join(query_text(number, rng, QUERY_SCHEMA_TYPES) for number in range(queries)), "mix.gq")


def measure(queries: int, seed: int) -> list[Measure]:
    """Everything, in the order of the table."""
    small, large = Source(schema_text(QUERY_SCHEMA_TYPES)), Source(schema_text(LARGE_SCHEMA_TYPES))
    catalog = parse_schema(small).catalog
    measure_queries(mix(WARM_UP_QUERIES, seed), catalog, WARM_UP_QUERIES)
    return [
        timed("schema", QUERY_SCHEMA_TYPES, "types", lambda: parse_schema(small))[0],
        timed("schema", LARGE_SCHEMA_TYPES, "types", lambda: parse_schema(large))[0],
        *measure_queries(mix(queries, seed), catalog, queries),
    ]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="how fast the two languages are")
    parser.add_argument("--queries", type=int, default=1000, help="how many queries the mix has")
    parser.add_argument("--seed", type=int, default=7, help="which mix")
    options = parser.parse_args()
    for result in measure(options.queries, options.seed):
        print(result.row())


if __name__ == "__main__":
    main()
