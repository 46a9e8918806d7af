"""The social graph of ``query.py``: who follows whom, where they live and what they like, and its schemas.

By default 100,000 people, 2.4 million follows, 250,000 interests of people, 7,000 cities in three countries. All of it
is made up, from a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

from workload import Skew, edge_table, simple_edges, skewed

SEED: Final = 7
TODAY: Final = date(2025, 1, 1)
INTERESTS_PER_PERSON: Final = 2.5
PEOPLE_PER_CITY: Final = 100_000 / 7_000
STATES: Final = 150
COUNTRIES: Final = ("Arvenia", "Belmark", "Corland")
SHARES: Final = (0.5, 0.3, 0.2)
# fmt: off
INTERESTS: Final = (
    "Archery", "Astronomy", "Baking", "Basketball", "Boxing", "Camping", "Ceramics", "Chess", "Cinema", "Climbing",
    "Coding", "Cooking", "Cricket", "Cycling", "Dancing", "Drawing", "Fencing", "Fishing", "Football", "Gardening",
    "Genealogy", "Guitar", "Hiking", "Judo", "Knitting", "Magic", "Origami", "Painting", "Philately", "Photography",
    "Piano", "Poetry", "Pottery", "Rowing", "Running", "Sailing", "Singing", "Skiing", "Tennis", "Wrestling", "Yoga",
)
FIRST_NAMES: Final = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Hana", "Ivo", "Jana", "Kai", "Lea", "Max", "Nia")
LAST_NAMES: Final = ("Abel", "Brandt", "Costa", "Dahl", "Engel", "Ferro", "Grau", "Holm", "Ivers", "Jansen", "Kerr")
# fmt: on
LEAST_PEOPLE: Final = 1_000


# ------------------------------------------------------------------------------------------------ the graph


def make(people: int, follows: int) -> dict[str, pa.Table]:
    """The rows of each type."""
    random = np.random.default_rng(SEED)
    cities = max(STATES, int(people / PEOPLE_PER_CITY))
    return {
        "Person": _people(random, people),
        "City": _places("City", cities),
        "State": _places("State", STATES),
        "Country": _named(COUNTRIES),
        "Interest": _named(INTERESTS),
        "Follows": simple_edges(random, people, follows, Skew(source=1.5, destination=2.0)),
        "LivesIn": edge_table(np.arange(people), skewed(random, cities, people, 1.5)),
        "CityIn": _within(random, cities, STATES),
        "StateIn": _within(random, STATES, len(COUNTRIES), SHARES),
        "HasInterest": _interests(random, people),
    }


def _people(random: np.random.Generator, people: int) -> pa.Table:
    ages = np.clip(random.normal(40, 14, people), 16, 95).astype(np.int32)
    days_lived = (ages * 365.25 + random.integers(1, 365, people)).astype("timedelta64[D]")
    first, last = _any_of(random, FIRST_NAMES, people), _any_of(random, LAST_NAMES, people)
    return pa.Table.from_pydict(
        {
            "number": np.arange(people),
            "name": [f"{one} {other}" for one, other in zip(first, last, strict=True)],
            "gender": _any_of(random, ("female", "male"), people),
            "age": ages,
            "birthday": np.datetime64(TODAY, "D") - days_lived,
            "married": random.random(people) < ages / 100,
        }
    )


def _any_of(random: np.random.Generator, words: Sequence[str], count: int) -> list[str]:
    return [words[int(number)] for number in random.integers(0, len(words), count)]


def _named(names: Sequence[str]) -> pa.Table:
    return pa.Table.from_pydict({"number": np.arange(len(names)), "name": list(names)})


def _places(kind: str, count: int) -> pa.Table:
    return _named([f"{kind} {number}" for number in range(count)])


def _within(random: np.random.Generator, parts: int, wholes: int, shares: Sequence[float] | None = None) -> pa.Table:
    """Each part in a whole; every whole has a part, however the dice fall."""
    others = random.choice(wholes, parts - wholes, p=shares)
    return edge_table(np.arange(parts), np.append(np.arange(wholes), others))


def _interests(random: np.random.Generator, people: int) -> pa.Table:
    wanted, kinds = int(people * INTERESTS_PER_PERSON), len(INTERESTS)
    codes = np.zeros(0, np.int64)
    while len(codes) < wanted:
        more = random.integers(0, people, wanted) * kinds + skewed(random, kinds, wanted, 1.3)
        codes = np.union1d(codes, more)
    picked = random.permutation(codes)[:wanted]
    return edge_table(picked // kinds, picked % kinds)


# ------------------------------------------------------------------------------------------------ its schema

SCHEMA = """
node Person   { number: I64 @key  name: String  gender: enum(female, male)  age: I32  birthday: Date  married: Bool }
node City     { number: I64 @key  name: String }
node State    { number: I64 @key  name: String }
node Country  { number: I64 @key  name: String }
node Interest { number: I64 @key  name: String }
edge Follows:     Person -> Person
edge LivesIn:     Person -> City @card(1..1)
edge CityIn:      City -> State @card(1..1)
edge StateIn:     State -> Country @card(1..1)
edge HasInterest: Person -> Interest
"""

SQL_SCHEMA = """
CREATE TABLE Person (
  number BIGINT PRIMARY KEY, name VARCHAR, gender VARCHAR, age INTEGER, birthday DATE, married BOOLEAN
);
CREATE TABLE City (number BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE State (number BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE Country (number BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE Interest (number BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE Follows (src BIGINT, dst BIGINT);
CREATE TABLE LivesIn (src BIGINT, dst BIGINT);
CREATE TABLE CityIn (src BIGINT, dst BIGINT);
CREATE TABLE StateIn (src BIGINT, dst BIGINT);
CREATE TABLE HasInterest (src BIGINT, dst BIGINT);
"""

CYPHER_SCHEMA = """
CREATE NODE TABLE Person (
  number INT64, name STRING, gender STRING, age INT32, birthday DATE, married BOOL, PRIMARY KEY (number)
);
CREATE NODE TABLE City (number INT64, name STRING, PRIMARY KEY (number));
CREATE NODE TABLE State (number INT64, name STRING, PRIMARY KEY (number));
CREATE NODE TABLE Country (number INT64, name STRING, PRIMARY KEY (number));
CREATE NODE TABLE Interest (number INT64, name STRING, PRIMARY KEY (number));
CREATE REL TABLE Follows (FROM Person TO Person);
CREATE REL TABLE LivesIn (FROM Person TO City);
CREATE REL TABLE CityIn (FROM City TO State);
CREATE REL TABLE StateIn (FROM State TO Country);
CREATE REL TABLE HasInterest (FROM Person TO Interest);
"""
