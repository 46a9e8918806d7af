"""Questions about the social graph, in each language; the frames and graphs of peers are in modules of their own."""

from __future__ import annotations

from dataclasses import replace

import frames
import walks
from scans import Parameters, Row, Tables, most_reached, reached_in_two_hops, rows_of
from social_graph import CYPHER_SCHEMA, SCHEMA, SQL_SCHEMA, make
from workload import Question, Workload


def _person(tables: Tables, parameters: Parameters) -> list[Row]:
    people = tables("node:Person")
    return rows_of(people.to_table(columns=["name", "gender", "age"], filter=f"id = '{parameters['number']}'"))


def _most_followed(tables: Tables, _: Parameters) -> list[Row]:
    return most_reached(tables, "Follows", "Person", ["number", "name"])


def _two_hops(tables: Tables, parameters: Parameters) -> list[Row]:
    return reached_in_two_hops(tables, "Follows", parameters["number"])


QUESTIONS: tuple[Question, ...] = (
    Question(
        "one person by key",
        gq="""query q($number: I64) {
  match { $p: Person { number: $number } }
  return { $p.name, $p.gender, $p.age }
}""",
        sql="SELECT name, gender, age FROM Person WHERE number = $number",
        cypher="MATCH (p:Person {number: $number}) RETURN p.name, p.gender, p.age",
        parameters={"number": 17},
        scan=_person,
        walks=False,
        polars=frames.person,
        networkx=walks.person,
    ),
    Question(
        "one or two hops from one person",
        gq="""query q($number: I64) {
  match {
    $p: Person { number: $number }
    $p follows{1,2} $q
  }
  return { count($q) as people }
}""",
        sql="""WITH near AS (SELECT dst FROM Follows WHERE src = $number)
SELECT count(*) FROM (
  SELECT dst FROM near UNION SELECT f.dst FROM near JOIN Follows f ON f.src = near.dst
) WHERE dst <> $number""",
        cypher="MATCH (:Person {number: $number})-[:Follows* SHORTEST 1..2]->(:Person) RETURN count(*)",
        parameters={"number": 17},
        scan=_two_hops,
        polars=frames.people_in_two_hops,
        networkx=walks.people_in_two_hops,
    ),
    Question(
        "the shortest path between two people",
        gq="""query q($first: I64, $last: I64) {
  match {
    $p: Person { number: $first }
    $q: Person { number: $last }
    $p $w:follows{1,} $q
  }
  return { hops($w) as hops }
}""",
        # Pairs of a person and a number of hops: DuckDB has no visited set in a recursion.
        sql="""WITH RECURSIVE walk(number, hops) AS (
  SELECT CAST($first AS BIGINT), 0
  UNION SELECT f.dst, w.hops + 1 FROM walk w JOIN Follows f ON f.src = w.number
  WHERE w.hops < 8 AND NOT EXISTS (SELECT 1 FROM walk WHERE number = $last)
)
SELECT min(hops) FROM walk WHERE number = $last""",
        # SQLite allows no second mention of the recursion, but gives rows as they come, so that the limit ends it.
        sqlite="""WITH RECURSIVE walk(number, hops) AS (
  SELECT $first, 0
  UNION SELECT f.dst, w.hops + 1 FROM walk w JOIN Follows f ON f.src = w.number WHERE w.hops < 8
  ORDER BY 2
)
SELECT hops FROM walk WHERE number = $last LIMIT 1""",
        cypher="""MATCH path = (:Person {number: $first})-[:Follows* SHORTEST 1..30]->(:Person {number: $last})
RETURN length(path)""",
        parameters={"first": 17, "last": 971},
        polars=frames.shortest_path,
        networkx=walks.shortest_path,
    ),
    Question(
        "the three most followed",
        gq="""query q() {
  match {
    $p: Person
    $follower follows $p
  }
  return { $p.number as number, $p.name as name, count($follower) as followers }
  order { followers desc, number }
  limit 3
}""",
        sql="""WITH best AS (
  SELECT dst, count(*) AS followers FROM Follows GROUP BY dst ORDER BY followers DESC, dst LIMIT 3
)
SELECT p.number, p.name, followers
FROM best JOIN Person p ON p.number = dst
ORDER BY followers DESC, p.number""",
        cypher="""MATCH (p:Person)<-[:Follows]-(:Person)
RETURN p.number AS number, p.name AS name, count(*) AS followers
ORDER BY followers DESC, number
LIMIT 3""",
        scan=_most_followed,
        polars=frames.most_followed,
        networkx=walks.most_followed,
    ),
    Question(
        "where the most followed lives",
        gq="""query q() {
  match {
    $p: Person
    $follower follows $p
    $p livesIn $c
    $c cityIn $s
    $s stateIn $n
  }
  return { $p.number as number, $c.name as city, $s.name as state, $n.name as country, count($follower) as followers }
  order { followers desc, number }
  limit 1
}""",
        sql="""WITH best AS (
  SELECT dst AS number, count(*) AS followers FROM Follows GROUP BY dst ORDER BY followers DESC, number LIMIT 1
)
SELECT best.number, c.name, s.name, n.name, best.followers
FROM best
JOIN LivesIn l ON l.src = best.number JOIN City c ON c.number = l.dst
JOIN CityIn ci ON ci.src = c.number JOIN State s ON s.number = ci.dst
JOIN StateIn si ON si.src = s.number JOIN Country n ON n.number = si.dst""",
        cypher="""MATCH (p:Person)<-[:Follows]-(:Person)
WITH p.number AS number, count(*) AS followers
ORDER BY followers DESC, number
LIMIT 1
MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(n:Country)
WHERE p.number = number
RETURN number, c.name, s.name, n.name, followers""",
        polars=frames.home_of_most_followed,
    ),
    Question(
        "the youngest cities of a country",
        gq="""query q($country: String) {
  match {
    $n: Country { name: $country }
    $s stateIn $n
    $c cityIn $s
    $p livesIn $c
  }
  return { $c.number as number, $c.name as city, avg($p.age) as age }
  order { age, number }
  limit 5
}""",
        sql="""SELECT c.number, c.name, avg(p.age) AS age
FROM Country n JOIN StateIn si ON si.dst = n.number JOIN CityIn ci ON ci.dst = si.src
JOIN City c ON c.number = ci.src JOIN LivesIn l ON l.dst = c.number JOIN Person p ON p.number = l.src
WHERE n.name = $country
GROUP BY c.number, c.name
ORDER BY age, c.number
LIMIT 5""",
        cypher="""MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(:State)-[:StateIn]->(n:Country {name: $country})
RETURN c.number AS number, c.name AS city, avg(p.age) AS age
ORDER BY age, number
LIMIT 5""",
        parameters={"country": "Belmark"},
        polars=frames.youngest_cities,
    ),
    Question(
        "people of an age, by country",
        gq="""query q($least: I32, $most: I32) {
  match {
    $p: Person
    $p.age >= $least
    $p.age <= $most
    $p livesIn $c
    $c cityIn $s
    $s stateIn $n
  }
  return { $n.name as country, count($p) as people }
  order { people desc, country }
}""",
        sql="""SELECT n.name, count(*) AS people
FROM Person p JOIN LivesIn l ON l.src = p.number JOIN CityIn ci ON ci.src = l.dst
JOIN StateIn si ON si.src = ci.dst JOIN Country n ON n.number = si.dst
WHERE p.age >= $least AND p.age <= $most
GROUP BY n.name
ORDER BY people DESC, n.name""",
        cypher="""MATCH (p:Person)-[:LivesIn]->(:City)-[:CityIn]->(:State)-[:StateIn]->(n:Country)
WHERE p.age >= $least AND p.age <= $most
RETURN n.name AS country, count(*) AS people
ORDER BY people DESC, country""",
        parameters={"least": 30, "most": 40},
        polars=frames.people_by_country,
    ),
    Question(
        "men of a city with an interest",
        gq="""query q($city: String, $interest: String) {
  match {
    $c: City { name: $city }
    $p: Person { gender: "male" }
    $i: Interest { name: $interest }
    $p livesIn $c
    $p hasInterest $i
  }
  return { count($p) as people }
}""",
        sql="""SELECT count(*)
FROM Person p JOIN LivesIn l ON l.src = p.number JOIN City c ON c.number = l.dst
JOIN HasInterest h ON h.src = p.number JOIN Interest i ON i.number = h.dst
WHERE p.gender = 'male' AND c.name = $city AND i.name = $interest""",
        cypher="""MATCH (p:Person {gender: 'male'})-[:LivesIn]->(:City {name: $city})
MATCH (p)-[:HasInterest]->(:Interest {name: $interest})
RETURN count(*)""",
        parameters={"city": "City 0", "interest": "Chess"},
        polars=frames.men_of_city,
    ),
    Question(
        "cities of most women with an interest",
        gq="""query q($interest: String) {
  match {
    $i: Interest { name: $interest }
    $p: Person { gender: "female" }
    $p hasInterest $i
    $p livesIn $c
  }
  return { $c.number as number, $c.name as city, count($p) as people }
  order { people desc, number }
  limit 5
}""",
        sql="""SELECT c.number, c.name, count(*) AS people
FROM Interest i JOIN HasInterest h ON h.dst = i.number JOIN Person p ON p.number = h.src
JOIN LivesIn l ON l.src = p.number JOIN City c ON c.number = l.dst
WHERE i.name = $interest AND p.gender = 'female'
GROUP BY c.number, c.name
ORDER BY people DESC, c.number
LIMIT 5""",
        cypher="""MATCH (:Interest {name: $interest})<-[:HasInterest]-(p:Person {gender: 'female'})-[:LivesIn]->(c:City)
RETURN c.number AS number, c.name AS city, count(*) AS people
ORDER BY people DESC, number
LIMIT 5""",
        parameters={"interest": "Sailing"},
        polars=frames.cities_of_women,
    ),
    Question(
        "the state of most young with an interest",
        gq="""query q($interest: String) {
  match {
    $i: Interest { name: $interest }
    $p hasInterest $i
    $p.age >= 23
    $p.age <= 30
    $p livesIn $c
    $c cityIn $s
    $s stateIn $n
  }
  return { $s.number as number, $s.name as state, $n.name as country, count($p) as people }
  order { people desc, number }
  limit 1
}""",
        sql="""SELECT s.number, s.name, n.name, count(*) AS people
FROM Interest i JOIN HasInterest h ON h.dst = i.number JOIN Person p ON p.number = h.src
JOIN LivesIn l ON l.src = p.number JOIN CityIn ci ON ci.src = l.dst JOIN State s ON s.number = ci.dst
JOIN StateIn si ON si.src = s.number JOIN Country n ON n.number = si.dst
WHERE i.name = $interest AND p.age BETWEEN 23 AND 30
GROUP BY s.number, s.name, n.name
ORDER BY people DESC, s.number
LIMIT 1""",
        cypher="""MATCH (:Interest {name: $interest})<-[:HasInterest]-(p:Person)
WHERE p.age >= 23 AND p.age <= 30
MATCH (p)-[:LivesIn]->(:City)-[:CityIn]->(s:State)-[:StateIn]->(n:Country)
RETURN s.number AS number, s.name AS state, n.name AS country, count(*) AS people
ORDER BY people DESC, number
LIMIT 1""",
        parameters={"interest": "Tennis"},
        polars=frames.state_of_young,
    ),
    Question(
        "paths of two follows",
        gq="""query q() {
  match {
    $a: Person
    $a follows $b
    $b follows $c
  }
  return { count($c) as paths }
}""",
        sql="SELECT count(*) FROM Follows ab JOIN Follows bc ON bc.src = ab.dst",
        cypher="MATCH (:Person)-[:Follows]->(:Person)-[:Follows]->(:Person) RETURN count(*)",
        polars=frames.two_follows,
    ),
    Question(
        "paths by people under 50 to over 25",
        gq="""query q() {
  match {
    $a: Person
    $a follows $b
    $b.age < 50
    $b follows $c
    $c.age > 25
  }
  return { count($c) as paths }
}""",
        sql="""SELECT count(*)
FROM Follows ab JOIN Person b ON b.number = ab.dst JOIN Follows bc ON bc.src = b.number
JOIN Person c ON c.number = bc.dst
WHERE b.age < 50 AND c.age > 25""",
        cypher="""MATCH (:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
WHERE b.age < 50 AND c.age > 25
RETURN count(*)""",
        polars=frames.two_follows_by_age,
    ),
)

# What an engine may find by itself, a person can write: products of degrees instead of a join of edges.
BY_HAND = (
    replace(
        QUESTIONS[-2],
        name=f"{QUESTIONS[-2].name}, by hand",
        sql="""WITH arriving AS (SELECT dst AS number, count(*) AS n FROM Follows GROUP BY dst),
leaving AS (SELECT src AS number, count(*) AS n FROM Follows GROUP BY src)
SELECT CAST(sum(arriving.n * leaving.n) AS BIGINT) FROM arriving JOIN leaving USING (number)""",
        polars=frames.two_follows_by_degrees,
        networkx=walks.two_follows_by_degrees,
    ),
    replace(
        QUESTIONS[-1],
        name=f"{QUESTIONS[-1].name}, by hand",
        sql="""WITH arriving AS (SELECT dst AS number, count(*) AS n FROM Follows GROUP BY dst),
leaving AS (
  SELECT src AS number, count(*) AS n FROM Follows JOIN Person c ON c.number = dst WHERE c.age > 25 GROUP BY src
)
SELECT CAST(sum(arriving.n * leaving.n) AS BIGINT)
FROM arriving JOIN leaving USING (number) JOIN Person b USING (number)
WHERE b.age < 50""",
        polars=frames.two_follows_by_age_and_degrees,
    ),
)

SOCIAL = Workload(
    "social",
    SCHEMA,
    SQL_SCHEMA,
    CYPHER_SCHEMA,
    nodes=("Person", "City", "State", "Country", "Interest"),
    edges=("Follows", "LivesIn", "CityIn", "StateIn", "HasInterest"),
    make=make,
    questions=QUESTIONS + BY_HAND,
)
