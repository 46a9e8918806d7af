"""The truth table of a merge: everything that two sides can do to one entity, for nodes and edges, on both
granularities, in one graph and against a plain model.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from tests.graphs import written
from tests.model.merge_model import By, Entity, State, merge, preferred
from tests.write.merge.social_graph import edit, knows, make, person, state

NODES: dict[str, Entity | None] = {
    "insert same": person(1, None),
    "insert different": person(2, None),
    "insert another property": person(None, "x"),
    "update same": person(10, None),
    "update different": person(20, None),
    "update another property": person(0, "x"),
    "delete": None,
}
EDGES: dict[str, Entity | None] = {
    "insert same": knows("hub", "rim", 1),
    "insert different": knows("hub", "rim", 2),
    "insert another property": knows("hub", "rim", None, "x"),
    "update same": knows("hub", "rim", 10),
    "update different": knows("hub", "rim", 20),
    "update another property": knows("hub", "rim", 0, "x"),
    "delete": None,
}
FRESH = [None, *(name for name in NODES if name.startswith("insert"))]
KNOWN = [None, *(name for name in NODES if not name.startswith("insert"))]
PAIRS = [*(("fresh", *pair) for pair in product(FRESH, FRESH)), *(("known", *pair) for pair in product(KNOWN, KNOWN))]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Merge all pairs at once."""
    return truth_graph(tmp_path_factory.mktemp("truth"))


def truth_graph(folder: Path) -> Graph:
    """Create a person and an edge for each pair, and two people at the ends of all edges."""
    names = [f"{number:02}" for number in range(len(PAIRS))]
    known = [name for name, (kind, _, _) in zip(names, PAIRS, strict=True) if kind == "known"]
    sources = {f"from-{name}": person(0) for name in names}
    graph = make(
        folder,
        {"hub": person(), "rim": person(), **sources, **{name: person(0) for name in known}},
        {name: _edge(name, knows("hub", "rim", 0)) for name in known},
    )
    graph.create_branch("dev")
    for branch, side in (("main", 1), ("dev", 2)):
        doing = {name: pair[side] for name, pair in zip(names, PAIRS, strict=True) if pair[side] is not None}
        edit(
            graph,
            branch,
            people={name: _mailed(name, NODES[str(what)]) for name, what in doing.items()},
            knows={name: _edge(name, EDGES[str(what)]) for name, what in doing.items()},
        )
    return graph


def _mailed(name: str, found: Entity | None) -> Entity | None:
    """Replace a mail by one of its own, since mails are unique."""
    return found if found is None or found["mail"] is None else {**found, "mail": name}


def _edge(name: str, found: Entity | None) -> Entity | None:
    """Give the edge a source of its own, since a node may have two edges at most."""
    return None if found is None else {**found, "from": f"from-{name}"}


def three(graph: Graph) -> tuple[State, State, State]:
    """Return the three sides."""
    base = graph.commits()[1]
    return state(graph, at=base.id), state(graph), state(graph, "dev")


@pytest.mark.parametrize("by", ["row", "property"])
def test_every_pair_gives_what_the_model_says(table: Graph, by: By) -> None:
    before = written(table)
    base, ours, theirs = three(table)
    _, conflicts = merge(base, ours, theirs, by)
    assert len(set(conflicts.values())) == 3
    tried = table.merge("dev", by=by, dry_run=True)
    assert {(found.type, found.id): found.kind for found in tried.conflicts} == conflicts
    for found in tried.conflicts:
        key = found.type, found.id
        images = [
            None if image is None else {n: image[n] for n in image if n not in ("id", "name")}
            for image in (found.base, found.ours, found.theirs)
        ]
        assert images == [base.get(key), ours.get(key), theirs.get(key)]
    with pytest.raises(MergeConflicts) as raised:
        table.merge("dev", by=by)
    assert raised.value.conflicts == tried.conflicts
    assert written(table) == before


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("by", ["row", "property"])
def test_one_side_is_preferred_wherever_both_conflict(table: Graph, by: By, side: Literal["ours", "theirs"]) -> None:
    base, ours, theirs = three(table)
    table.create_branch(f"{by}-{side}")
    result = table.merge("dev", f"{by}-{side}", by=by, prefer=side)
    assert result.outcome == "merged"
    assert state(table, f"{by}-{side}") == preferred(base, ours, theirs, by, side)
