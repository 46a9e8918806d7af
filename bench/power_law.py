"""A large graph for ``query.py`` whose degrees follow a power law: a few nodes are reached from very many."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

import frames
import walks
from scans import Parameters, Row, Tables, most_reached, reached_in_two_hops
from workload import Question, Skew, Workload, simple_edges

SEED: Final = 7


def make(nodes: int, edges: int) -> dict[str, pa.Table]:
    """The rows of both types. About one of a hundred edges leads to the same node when there are a million nodes."""
    links = simple_edges(np.random.default_rng(SEED), nodes, edges, Skew(source=2.0, destination=3.0))
    return {"Page": pa.Table.from_pydict({"number": np.arange(nodes)}), "Links": links}


def _most_linked(tables: Tables, _: Parameters) -> list[Row]:
    return most_reached(tables, "Links", "Page", ["number"])


def _two_hops(tables: Tables, parameters: Parameters) -> list[Row]:
    return reached_in_two_hops(tables, "Links", parameters["number"])


QUESTIONS = (
    Question(
        "the three most linked",
        gq="""query q() {
  match {
    $p: Page
    $from links $p
  }
  return { $p.number as number, count($from) as pages }
  order { pages desc, number }
  limit 3
}""",
        sql="SELECT dst AS number, count(*) AS pages FROM Links GROUP BY dst ORDER BY pages DESC, number LIMIT 3",
        cypher="""MATCH (p:Page)<-[:Links]-(:Page)
RETURN p.number AS number, count(*) AS pages
ORDER BY pages DESC, number
LIMIT 3""",
        scan=_most_linked,
        polars=frames.most_linked,
        networkx=walks.most_linked,
    ),
    Question(
        "paths of two links",
        gq="""query q() {
  match {
    $a: Page
    $a links $b
    $b links $c
  }
  return { count($c) as paths }
}""",
        sql="SELECT count(*) FROM Links ab JOIN Links bc ON bc.src = ab.dst",
        cypher="MATCH (:Page)-[:Links]->(:Page)-[:Links]->(:Page) RETURN count(*)",
        polars=frames.two_links,
    ),
    Question(
        "one or two hops from one page",
        gq="""query q($number: I64) {
  match {
    $p: Page { number: $number }
    $p links{1,2} $q
  }
  return { count($q) as pages }
}""",
        sql="""WITH near AS (SELECT dst FROM Links WHERE src = $number)
SELECT count(*) FROM (
  SELECT dst FROM near UNION SELECT l.dst FROM near JOIN Links l ON l.src = near.dst
) WHERE dst <> $number""",
        cypher="MATCH (:Page {number: $number})-[:Links* SHORTEST 1..2]->(:Page) RETURN count(*)",
        parameters={"number": 17},
        scan=_two_hops,
        polars=frames.pages_in_two_hops,
        networkx=walks.pages_in_two_hops,
    ),
    Question(
        "one to four hops from one page",
        gq="""query q($number: I64) {
  match {
    $p: Page { number: $number }
    $p links{1,4} $q
  }
  return { count($q) as pages }
}""",
        sql="""WITH RECURSIVE reached(number, hops) AS (
  SELECT CAST($number AS BIGINT), 0
  UNION
  SELECT l.dst, r.hops + 1 FROM reached r JOIN Links l ON l.src = r.number WHERE r.hops < 4
)
SELECT count(DISTINCT number) FROM reached WHERE number <> $number""",
        cypher="MATCH (:Page {number: $number})-[:Links* SHORTEST 1..4]->(:Page) RETURN count(*)",
        parameters={"number": 17},
        polars=frames.pages_in_four_hops,
        networkx=walks.pages_in_four_hops,
    ),
)

POWER_LAW = Workload(
    "power law",
    schema="node Page { number: I64 @key }\nedge Links: Page -> Page\n",
    sql_schema="CREATE TABLE Page (number BIGINT PRIMARY KEY); CREATE TABLE Links (src BIGINT, dst BIGINT);",
    cypher_schema=(
        "CREATE NODE TABLE Page (number INT64, PRIMARY KEY (number)); CREATE REL TABLE Links (FROM Page TO Page);"
    ),
    nodes=("Page",),
    edges=("Links",),
    make=make,
    questions=QUESTIONS,
)
