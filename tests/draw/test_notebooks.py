"""What a notebook shows of a graph, its schema, commits and diffs: pictures and tables without scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

import omnigraph as og
from omnigraph.draw import DRAWN_ENTITIES
from omnigraph.errors import ParameterError

SCHEMA = """
node Person { name: String @key  age: I64? }
node City { name: String @key }
edge LivesIn: Person -> City { since: I64? }
"""


class Shown(Protocol):
    """What IPython looks for."""

    def _repr_html_(self) -> str: ...


def html_of(shown: Shown) -> str:
    found = shown._repr_html_()
    assert "<script" not in found
    assert "href" not in found
    return found


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Two people in a city on main; on a branch one goes, one gets older and one comes."""
    found = og.init(tmp_path_factory.mktemp("shown") / "people.og", SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "age": 40}} for name in ("ann", "<b>bob</b>")]
    city = {"type": "City", "data": {"name": "ulm"}}
    lives = [{"edge": "LivesIn", "from": name, "to": "ulm"} for name in ("ann", "<b>bob</b>")]
    found.load([*people, city, *lives], message="people")
    found.create_branch("review")
    found.mutate('query a() { update Person set { age: 41 } where name = "ann" }', branch="review")
    found.mutate('query b() { delete Person where name = "<b>bob</b>" }', branch="review")
    found.mutate('query c() { insert Person { name: "eve" } }', branch="review", message="eve comes")
    return found


def test_a_graph_shows_its_types_with_their_rows(graph: og.Graph) -> None:
    shown = html_of(graph)
    assert "Person" in shown
    assert "LivesIn 2" in shown
    assert "LivesIn 2" not in html_of(graph.schema)


def test_commits_show_as_lanes(graph: og.Graph) -> None:
    commits = graph.commits("review")
    assert isinstance(commits, list)
    shown = html_of(commits)
    assert shown.count("<circle") == len(commits)
    assert "eve comes" in shown
    assert commits[0].id in html_of(graph.ancestry())


def test_a_diff_shows_counts_and_the_graph(graph: og.Graph) -> None:
    shown = html_of(graph.diff("review"))
    assert "<td>Person</td><td>node</td><td>+1</td><td>~1</td><td>-1</td>" in shown
    for title in ("came: Person eve", "changed: Person ann\nage: 40 -&gt; 41", "unchanged: City ulm"):
        assert title in shown
    assert "went: Person &lt;b&gt;bob&lt;/b&gt;" in shown
    assert "<b>" not in shown


def test_no_changes_show_as_such(graph: og.Graph) -> None:
    assert html_of(graph.diff("main", "main")) == "<p>no changes</p>"


def test_a_large_diff_is_counted_and_not_drawn(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "many.og", SCHEMA)
    graph.load([{"type": "City", "data": {"name": f"c{n}"}} for n in range(DRAWN_ENTITIES + 1)])
    diff = graph.diff(graph.commits()[-1].id)
    assert "<svg" not in html_of(diff)
    assert f"+{DRAWN_ENTITIES + 1}" in html_of(diff)
    assert f"{DRAWN_ENTITIES + 1} entities changed; at most {DRAWN_ENTITIES} are drawn." in html_of(diff)
    with pytest.raises(ParameterError, match="more than 200 entities"):
        diff.to_svg()
