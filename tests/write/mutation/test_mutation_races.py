"""Threads and processes that write to one graph: no rule is broken, and no acknowledged commit is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

import omnigraph
from omnigraph.errors import ConflictError, ValidationError
from omnigraph.graph import Graph
from tests import crash
from tests.graphs import rows_of

SCHEMA = """
node Place { code: String @key  name: String? @unique }
edge Road: Place -> Place @card(0..4)
"""
CODES = [f"c{number}" for number in range(5)]
NAMES = [f"n{number}" for number in range(4)]
# Any two of them can break a rule together: keys, unique names, ends or the number of roads.
WRITES = {
    "add": "query add($code: String, $name: String) { insert Place { code: $code, name: $name } }",
    "name": "query name($code: String, $name: String) { update Place set { name: $name } where code = $code }",
    "road": "query road($code: String, $other: String) { insert Road { from: $code, to: $other } }",
    "drop": "query drop($code: String) { delete Place where code = $code }",
}
PARAMETERS = {"add": ("code", "name"), "name": ("code", "name"), "road": ("code", "other"), "drop": ("code",)}
COMMITS = 20


def write_at_random(uri: str, seed: int) -> list[tuple[str, str]]:
    """Write until so many commits are acknowledged; return the kind and id of each. Refused writes are not retried."""
    graph, random = omnigraph.open(uri), Random(seed)  # noqa: S311  no secret
    values: dict[str, Callable[[], str]] = {
        "code": lambda: random.choice(CODES),
        "other": lambda: random.choice(CODES),
        "name": lambda: random.choice(NAMES),
    }
    told: list[tuple[str, str]] = []
    while len(told) < COMMITS:
        kind = random.choice(["add", "add", "road", "road", "name", "drop"])
        try:
            done = graph.mutate(WRITES[kind], params={name: values[name]() for name in PARAMETERS[kind]})
        except (ConflictError, ValidationError):
            continue
        if done.commit is not None:
            told.append((kind, done.commit.id))
    return told


def in_threads(uri: str, seed: int) -> list[tuple[str, str]]:
    return write_at_random(uri, seed)


def in_processes(uri: str, seed: int) -> list[tuple[str, str]]:
    return crash.run(write_at_random, uri, seed)


@pytest.mark.parametrize("writer", [pytest.param(in_threads, marks=pytest.mark.slow), in_processes])
def test_writers_break_no_rule(tmp_path: Path, writer: Callable[[str, int], list[tuple[str, str]]]) -> None:
    graph = omnigraph.init(tmp_path / "places.og", SCHEMA)
    with ThreadPoolExecutor(2) as pool:
        told = [each for done in pool.map(partial(writer, graph.uri), [1, 2]) for each in done]
    assert_rules_hold(graph)
    *made, _ = (commit.id for commit in graph.commits())
    assert sorted(made) == sorted(commit_id for _, commit_id in told)
    assert {kind for kind, _ in told} == set(WRITES)
    assert list(graph._manifest.objects.list("__recovery")) == []


def assert_rules_hold(graph: Graph) -> None:
    places = rows_of(graph, "Place")
    codes, names = [str(row["code"]) for row in places], [str(row["name"]) for row in places]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
    roads = [(str(row["src"]), str(row["dst"])) for row in rows_of(graph, "Road")]
    assert {end for road in roads for end in road} <= set(codes)
    assert all(count <= 4 for count in Counter(source for source, _ in roads).values())


def test_threads_may_share_a_graph(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "places.og", SCHEMA)
    codes = [f"s{number}" for number in range(12)]

    def add(code: str) -> None:
        graph.mutate(WRITES["add"], params={"code": code, "name": code})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add, codes))
    assert sorted(str(row["code"]) for row in rows_of(graph, "Place")) == sorted(codes)
