"""Paths through graphs of an extreme shape: a long chain, a hub, parallel edges; and what explain shows of them."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.match import bound_pairs

LENGTH = 400
HUB = 300
NAMES = [f"n{number:03d}" for number in range(LENGTH)]
ROUTE = """query q($a: String, $b: String) {
  match { $x: N { k: $a }  $y: N { k: $b }  $x $w:next{1,} $y }
  return { hops($w) as hops, nodes($w) as nodes, edges($w) as edges }
}"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A chain, whose first hop has many parallel edges, and jumps from its first node to most others and itself."""
    made = omnigraph.init(
        tmp_path_factory.mktemp("chain") / "chain.og", "node N { k: String @key }  edge Next: N -> N  edge Jump: N -> N"
    )
    hops = [*pairwise(NAMES), *[(NAMES[0], NAMES[1])] * 20]
    ids = [f"e{number:03d}" for number in reversed(range(len(hops)))]
    chain = pa.table({"id": ids, "from": [begin for begin, _ in hops], "to": [end for _, end in hops]})
    jumps = pa.table({"from": [NAMES[0]] * HUB, "to": NAMES[:HUB]})
    made.load(nodes={"N": pa.table({"k": NAMES})}, edges={"Next": chain, "Jump": jumps})
    return made


@pytest.fixture(params=[50_000, 0], ids=["one walk", "walks that meet"])
def walks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_pairs, "_MANY_EDGES", request.param)


@pytest.mark.usefixtures("walks")
@pytest.mark.parametrize("hops", ["{1,}", "{0,4294967295}", f"{{{LENGTH - 1}}}"])
def test_a_long_chain_is_one_path(graph: Graph, hops: str) -> None:
    (row,) = graph.query(ROUTE.replace("{1,}", hops), params={"a": NAMES[0], "b": NAMES[-1]}).rows
    assert row["hops"] == LENGTH - 1
    assert row["nodes"] == NAMES
    # Of the parallel edges the one with the smallest id, which was loaded last.
    assert row["edges"] == ["e000", *(f"e{number:03d}" for number in range(LENGTH + 17, 19, -1))]


@pytest.mark.usefixtures("walks")
def test_a_hub_is_a_short_cut_and_a_walk_has_its_bounds(graph: Graph) -> None:
    over_hub = ROUTE.replace("next{1,}", "next|jump{1,}")
    (row,) = graph.query(over_hub, params={"a": NAMES[0], "b": NAMES[-1]}).rows
    assert row["nodes"] == [NAMES[0], *NAMES[HUB - 1 :]]
    assert graph.query(over_hub.replace("{1,}", "{1,99}"), params={"a": NAMES[0], "b": NAMES[-1]}).rows == []
    assert graph.query(ROUTE, params={"a": NAMES[-1], "b": NAMES[0]}).rows == []
    loop = over_hub.replace("{1,}", "{1}")
    assert graph.query(loop, params={"a": NAMES[0], "b": NAMES[0]}).rows[0]["nodes"] == [NAMES[0]] * 2


def test_explain_shows_the_path_and_both_ends(graph: Graph) -> None:
    shown = graph.explain(ROUTE.replace("next{1,}", "next|jump{1,}"), params={"a": "n000", "b": "n001"})
    assert "Connect $y <-[path $w: Next|Jump{1,}]- $x" in shown
    assert "Cross" in shown
