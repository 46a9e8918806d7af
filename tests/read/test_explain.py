"""Plans as ``explain`` and ``profile`` show them: estimates, access paths, rows and times, also of long plans."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from omnigraph.graph import Graph
from omnigraph.read.estimate import sum_powers
from omnigraph.read.frames import Strategy
from omnigraph.read.frames.cache import shared_cache
from omnigraph.read.profile import Profile
from omnigraph.read.query import QueryOptions, QueryRequest, profile_query
from tests.read.profiles import find_operator, list_operators
from tests.read.walked_graphs import Links, new_graph, people

NAMES = [f"p{number}" for number in range(30)]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Thirty people, each of whom knows the next four."""
    graph = new_graph(tmp_path)
    pairs = [(name, NAMES[(place + step) % 30]) for place, name in enumerate(NAMES) for step in (1, 2, 3, 4)]
    graph.load(nodes={"Person": people(NAMES)}, edges={"Knows": Links(pairs).table()})
    shared_cache().clear()
    return graph


def count(match: str) -> str:
    return f"query q() {{ match {{ {match} }} return {{ count($a) as n }} }}"


# --------------------------------------------------------------------------------------------- estimates


@pytest.mark.parametrize("base", [0.0, 0.3, 1.0, 1.5, 7.0])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 4), (3, 9), (2, 1)])
def test_powers_are_summed_by_a_formula(base: float, first: int, last: int) -> None:
    plain = sum(base**power for power in range(first, last + 1))
    assert sum_powers(base, first, last, most=1_000) == pytest.approx(min(plain, 1_000))
    assert sum_powers(base, first, last, most=0) == 0


@pytest.mark.parametrize("base", [0.5, 1.0, 3.0, 1e6])
def test_many_powers_neither_overflow_nor_take_long(base: float) -> None:
    assert 0 < sum_powers(base, 1, 10**15, most=30) <= 30
    assert sum_powers(base, 10**15, 10**18, most=30) == (0 if base < 1 else 30)


@pytest.mark.parametrize("hops", ["1,600", "600,600", "1,2000000000"])
def test_far_walks_are_estimated(graph: Graph, hops: str) -> None:
    assert "~900 rows" in graph.explain(count(f"$a: Person $a knows{{{hops}}} $b"))


# --------------------------------------------------------------------------------------------- profiles


@pytest.mark.parametrize("order", ["", "order { $a.name }"])
def test_a_limit_has_rows_and_time(graph: Graph, order: str) -> None:
    profile = graph.profile(f"query q() {{ match {{ $a: Person }} return {{ $a.name }} {order} limit 7 }}")
    assert find_operator(profile, "Limit")["rows"] == 7
    assert cast(float, find_operator(profile, "Limit")["milliseconds"]) >= 0
    assert profile.row_count == 7
    assert "not run" not in str(profile)


def test_a_limit_of_groups_and_a_limit_of_nothing(graph: Graph) -> None:
    groups = graph.profile("query q() { match { $a: Person } return { $a.name, count($a) as n } order { n } limit 4 }")
    assert find_operator(groups, "Limit")["rows"] == 4
    assert "not run" not in str(groups)
    nothing = graph.profile("query q() { match { $a: Person } return { $a.name } limit 0 }")
    assert find_operator(nothing, "Limit")["rows"] == 0
    assert "Limit 0  " in str(nothing)
    assert "not run" not in next(line for line in str(nothing).splitlines() if "Limit" in line)


def test_the_rows_of_a_limit_that_cuts_weighted_rows(graph: Graph) -> None:
    profile = graph.profile("query q() { match { $a: Person $a knows $b } return { $a.name } limit 5 }")
    assert find_operator(profile, "Limit")["rows"] == 5
    assert find_operator(profile, "Project")["rows"] == 5


def run(graph: Graph, text: str, strategy: Strategy = Strategy.AUTO) -> Profile:
    return profile_query(graph._manifest, QueryRequest(text), "main", options=QueryOptions(strategy=strategy))


@pytest.mark.parametrize(
    ("step", "operator"),
    [
        ("$a knows $b", "Expand"),
        ("$a knows{1,3} $b $b.age > 1", "Expand"),
        ("$a $e:knows $b", "ExpandEdges"),
        ("$a knows $b $b knows $a", "Connect"),
        ("$a knows $b $b $e:knows $a", "ConnectEdges"),
    ],
)
@pytest.mark.parametrize("strategy", [Strategy.ARRAYS, Strategy.INDEX])
def test_edges_say_how_they_were_found(graph: Graph, step: str, operator: str, strategy: Strategy) -> None:
    profile = run(graph, count(f"$a: Person {step}"), strategy)
    assert find_operator(profile, operator)["way"] == strategy
    assert f"ms, {strategy}" in str(profile)


def test_scans_say_how_they_were_read(graph: Graph) -> None:
    text = 'query q() { match { $a: Person $a.name = "p3" } return { $a.name } }'
    assert find_operator(run(graph, text, Strategy.INDEX), "Scan")["way"] == "by id"
    assert (
        find_operator(run(graph, text.replace('name = "p3"', "age != 3"), Strategy.INDEX), "Scan")["way"]
        == "filtered by the storage"
    )
    assert find_operator(graph.profile(text), "Scan")["way"] == "read whole"
    assert find_operator(graph.profile(text), "Scan")["way"] == "in memory"
    assert "in memory" in graph.explain(text)


@pytest.mark.parametrize("operator", ["=", "<"])
def test_a_join_is_told_at_both_of_its_operators(graph: Graph, operator: str) -> None:
    profile = graph.profile(count(f"$a: Person $b: Person $a.name {operator} $b.name"))
    joined = 30 if operator == "=" else 30 * 29 // 2
    assert find_operator(profile, "Cross")["rows"] == find_operator(profile, "Select")["rows"] == joined
    assert "not run" not in str(profile)


# --------------------------------------------------------------------------------------------- long plans


def test_a_match_of_many_steps_is_explained_and_profiled(tmp_path: Path) -> None:
    graph, steps = new_graph(tmp_path), 1_200
    graph.load(nodes={"Person": people(["p0", "p1"])}, edges={"Knows": Links([("p0", "p1"), ("p1", "p0")]).table()})
    text = count("$a: Person $a knows $v0 " + " ".join(f"$v{n} knows $v{n + 1}" for n in range(steps - 1)))
    assert graph.explain(text).count("Expand") == steps
    profile = graph.profile(text)
    assert str(profile).count("Expand") == steps
    assert sum(str(each["operator"]).startswith("Expand") for each in list_operators(profile)) == steps


# --------------------------------------------------------------------------------------------- unions


UNITED = """
query q() {
  match { $a: Person { name: "p3" }  $a knows $b } return { $b.name as n }
  union match { $a: Person } return { $a.name as n }
  order { n }
  limit 5 offset 2
}
"""


def test_a_union_is_explained_as_the_sum_of_its_branches(graph: Graph) -> None:
    lines = graph.explain(UNITED).splitlines()
    united = next(line for line in lines if "Union" in line)
    branches = [line for line in lines if "Project" in line]
    assert len(branches) == 2
    counted = [int(line.partition("~")[2].partition(" rows")[0]) for line in (united, *branches)]
    assert counted[0] == sum(counted[1:])


def test_a_branch_gives_no_more_rows_than_the_limit_shows_and_skips(graph: Graph) -> None:
    profile = graph.profile(UNITED)
    cut = [each["rows"] for each in list_operators(profile) if str(each["operator"]).startswith("TopRows")]
    assert cut == [4, 7]
    assert [find_operator(profile, name)["rows"] for name in ("Limit", "Sort", "Union")] == [5, 7, 11]


def test_branches_beyond_a_limit_are_not_run(graph: Graph) -> None:
    text = UNITED.replace("order { n }", "").replace("offset 2", "").replace("limit 5", "limit 3")
    profile = graph.profile(text)
    scans = [line for line in str(profile).splitlines() if "Scan" in line]
    assert ["not run" in line for line in scans] == [False, True]
