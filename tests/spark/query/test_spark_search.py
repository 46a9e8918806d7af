"""Searches on Spark find what they find without it: words, scores, vectors of texts, and two rankings as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.search import scores
from omnigraph.spark.source import SparkSnapshot
from omnigraph.storage.filters import Condition, ValueIn
from tests.case_files import Row
from tests.executors import rows_as_json
from tests.selection import daily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Note { code: String @key  text: String? @index  at: Vector(4)? @embed("text") @index }
edge About: Note -> Note
"""
TEXTS = ("a fox and a hen", "hens", "fox fox fox", None, "the owl saw a fox", "owls")
ABOUT = ("ab", "ac", "ae", "bc", "ce", "da")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Six notes, five of them with a text and its vector. No test changes it."""
    made = omnigraph.init(tmp_path_factory.mktemp("notes") / "notes.og", SCHEMA)
    notes: list[dict[str, object]] = [
        {"type": "Note", "data": {"code": code, "text": text}} for code, text in zip("abcdef", TEXTS, strict=True)
    ]
    made.load([*notes, *({"edge": "About", "from": begin, "to": end} for begin, end in ABOUT)])
    found = omnigraph.open(made.uri, embed={"provider": "mock"})
    found.embed("Note")
    found.ensure_indexes()
    return found


SEARCHES: Final = {
    # A negation, a text that may be null, and a score of what was not looked for.
    "words": """match { $n: Note $n about $m search($n.text, $word) not { $m about $o match_text($o.text, "owl") } }
        return { $n, $m, search($m.text, $none) as unknown, bm25($m.text, "hen") as score }""",
    # The vector of a text, of a variable that is reached.
    "embedded": """match { $n: Note $n about $m } return { $n, $m, nearest($m.at, "owls") as away }
        order { away } limit 3""",
    # Two rankings, of two variables: an entity counts by the best of its rows.
    "two variables": """match { $n: Note $n about $m } return { $n, $m }
        order { rrf(bm25($n.text, "hen fox"), nearest($m.at, "fox"), 3) } limit 4""",
    # Fused scores that nothing is ordered by are those among all notes.
    "unordered": """match { $n: Note $n about $m }
        return { $n, $m, rrf(bm25($n.text, "owl"), nearest($m.at, "fox"), 3) as s } order { $n.code, $m.code }""",
}


@pytest.mark.parametrize("name", daily(SEARCHES, ["words"]))
def test_a_search_finds_the_same_on_spark(graph: Graph, spark: SparkSession, name: str) -> None:
    asked = SEARCHES[name]
    text = f"query q($word: String, $none: String?) {{ {asked} }}"
    params = {"word": "foxes", "none": None}
    here = graph.query(text, params=params)
    shown = cast("list[Row]", here.to_json()["rows"])
    found = rows_as_json(graph.spark(spark).query(text, params=params, engine="spark"), here.schema)
    assert shown, "a search that finds nothing shows nothing"
    if "order" in asked:
        assert found == shown
    else:
        assert sorted(map(str, found)) == sorted(map(str, shown))


@pytest.mark.parametrize("ranking", daily(["bm25", "nearest"], ["bm25"]))
def test_only_the_best_are_read_on_spark(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, ranking: str
) -> None:
    monkeypatch.setattr(scores, "_FEW", 0)
    asked: list[int] = []
    read = SparkSnapshot.rows

    def noting(self: SparkSnapshot, *given: object, conditions: Sequence[Condition] = ()) -> object:
        asked.extend(len(each.values) for each in conditions if isinstance(each, ValueIn))
        return read(self, *given, conditions=conditions)  # pyright: ignore[reportArgumentType]  passed on

    monkeypatch.setattr(SparkSnapshot, "rows", noting)
    key = {"bm25": 'bm25($n.text, "fox")', "nearest": 'nearest($n.at, "fox")'}[ranking]
    text = f"query q() {{ match {{ $n: Note }} return {{ $n, {key} as score }} order {{ {key} }} limit 2 }}"
    here = graph.query(text)
    found = rows_as_json(graph.spark(spark).query(text, engine="spark"), here.schema)
    assert found == cast("list[Row]", here.to_json()["rows"])
    assert len(found) == 2
    assert asked, "the ids of the best are a condition of the scan"
    assert max(asked) < 6
