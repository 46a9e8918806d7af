"""Searches of types whose properties have the names of the columns that Lance adds to what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.search import scores

LANCE_NAMES: Final = ("_score", "_distance")
OTHER_NAMES: Final = ("points", "miles")
SEARCHES: Final = {
    "words": 'match { $x: Note  search($x.text, "fox") } return { SHOWN } order { $x.code }',
    "typing errors": 'match { $x: Note  fuzzy($x.text, "foks", 2) } return { SHOWN } order { $x.code }',
    "best words": 'match { $x: Note } return { SHOWN, bm25($x.text, "fox owl") as s } '
    'order { bm25($x.text, "fox owl") desc } limit 4',
    "nearest": "match { $x: Note } return { SHOWN, nearest($x.place, [6.2, 0.0]) as s } "
    "order { nearest($x.place, [6.2, 0.0]) } limit 4",
    "nearest of some": "match { $x: Note  $x.NAME > 103 } return { SHOWN } "
    "order { nearest($x.place, [6.2, 0.0]) } limit 4",
    "fused": 'match { $x: Note } return { SHOWN } order { rrf(nearest($x.place, [6.2, 0.0]), bm25($x.text, "fox")) } '
    "limit 4",
}


def make_notes(folder: Path, names: tuple[str, str], kind: str, *, indexed: bool) -> Graph:
    """Return a graph of notes, two properties of which have these names; their values are 100 and 200 plus a number."""
    one, two = names
    index = "@index(text)  @index(place)" if indexed else ""
    graph = omnigraph.init(
        folder / f"{one}.og",
        f"node Note {{ code: String @key  text: String  place: Vector(2)  {one}: {kind}  {two}: {kind}  {index} }}",
    )
    words = ("fox", "owl fox", "cat", "fox fox owl", "dog", "owl")
    rows = [
        {"code": f"n{n}", "text": words[n % 6], "place": [float(n), 0.0], one: 100 + n, two: 200 + n} for n in range(12)
    ]
    graph.load([{"type": "Note", "data": row} for row in rows])
    graph.optimize()
    return graph


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("kind", ["I64", "F32"])
def test_properties_may_have_the_names_of_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, indexed: bool
) -> None:
    """Every search finds what it finds in a graph whose properties have other names, and shows the properties."""
    monkeypatch.setattr(scores, "_FEW", 0)
    graph = make_notes(tmp_path, LANCE_NAMES, kind, indexed=indexed)
    twin = make_notes(tmp_path, OTHER_NAMES, kind, indexed=indexed)
    for search in SEARCHES.values():
        found = run(graph, search, LANCE_NAMES)
        assert found
        assert found == run(twin, search, OTHER_NAMES)
        for row in found:
            number = int(cast(str, row["code"]).removeprefix("n"))
            assert (row["one"], row["two"]) == (100 + number, 200 + number)


def run(graph: Graph, search: str, names: tuple[str, str]) -> list[Mapping[str, object]]:
    one, two = names
    shown = f"$x.code as code, $x.{one} as one, $x.{two} as two"
    text = search.replace("SHOWN", shown).replace("NAME", one)
    return list(graph.query(f"query q() {{ {text} }}").rows)
