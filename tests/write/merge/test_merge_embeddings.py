"""An embedding and its text come from the same side of a merge, whatever both sides did to them."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias, cast

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.merge import PreferredSide

SCHEMA = """
node Doc {
  slug: String @key
  title: String?
  vec: Vector(2)? @embed(title)
  pages: I32?
}
"""
BASE: dict[str, object] = {"title": "base", "vec": [0.0, 1.0], "pages": 1}
EDITS = ("nothing", "title", "vec", "title and vec", "pages", "everything")
VECTORS = {"ours": [1.0, 0.0], "theirs": [1.0, 1.0]}
Pair: TypeAlias = "tuple[object, object]"


def changed(edit: str, side: str) -> dict[str, object]:
    """Return the values that a side gives."""
    names = {"title", "vec", "pages"} if edit == "everything" else set(edit.split(" and "))
    values = {"title": side, "vec": VECTORS[side], "pages": 2 if side == "ours" else 3}
    return {name: value for name, value in values.items() if name in names}


def slug(ours: str, theirs: str) -> str:
    return f"{ours} | {theirs}"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A document for each pair of edits."""
    graph = omnigraph.init(tmp_path_factory.mktemp("embeddings") / "g.og", SCHEMA)
    edits = {slug(*pair): pair for pair in product(EDITS, EDITS)}
    graph.load([{"type": "Doc", "data": {"slug": name, **BASE}} for name in edits])
    graph.create_branch("dev")
    for branch, at in (("main", 0), ("dev", 1)):
        side = "ours" if branch == "main" else "theirs"
        rows = [{"slug": name, **BASE, **changed(pair[at], side)} for name, pair in edits.items()]
        graph.load([{"type": "Doc", "data": row} for row in rows], mode="merge", branch=branch)
    return graph


def pairs(graph: Graph, branch: str) -> dict[str, Pair]:
    """Return the text and the embedding of each document."""
    rows = graph.nodes("Doc", branch=branch).to_arrow().to_pylist()
    return {cast("str", row["slug"]): (row["title"], tuple(cast("list[float]", row["vec"]))) for row in rows}


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_both_come_from_one_side(graph: Graph, side: PreferredSide) -> None:
    ours, theirs = pairs(graph, "main"), pairs(graph, "dev")
    branch = f"prefer-{side}"
    graph.create_branch(branch)
    graph.merge("dev", branch, by="property", prefer=side)
    for name, pair in pairs(graph, branch).items():
        assert pair in (ours[name], theirs[name]), name
        if theirs[name][0] != "base" and ours[name][0] == "base":
            assert pair == theirs[name], f"{name}: only theirs changed the text"
        if ours[name][0] != "base" and theirs[name][0] == "base":
            assert pair == ours[name], f"{name}: only ours changed the text"


def test_only_the_text_conflicts_where_both_sides_changed_it(graph: Graph) -> None:
    conflicts = {each.id: set(each.properties) for each in graph.merge("dev", by="property", dry_run=True).conflicts}
    for ours, theirs in product(EDITS, EDITS):
        texts = {edit for edit in (ours, theirs) if "title" in edit or edit == "everything"}
        vectors = {edit for edit in (ours, theirs) if "vec" in edit or edit == "everything"}
        expected: set[str] = set()
        if all(edit in texts for edit in (ours, theirs)):
            expected = {"title"}
        elif not texts and all(edit in vectors for edit in (ours, theirs)):
            expected = {"vec"}
        if all(edit in ("pages", "everything") for edit in (ours, theirs)):
            expected = expected | {"pages"}
        assert conflicts.get(slug(ours, theirs), set()) == expected, (ours, theirs)
