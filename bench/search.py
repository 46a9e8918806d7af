"""What search costs: the best k texts and vectors, and conditions on texts, against Lance called directly in one run.

    .venv/bin/python bench/search.py [--rows 100000] [--dimension 64] [--rounds 15] [--json]

Both read the same table of the same graph, warm, in turns, so that a busy machine slows both alike. The raw call is
one Lance search or scan with the same limit and the same columns. Its rows may differ where scores tie: Lance breaks
ties in any order, a query by id, for which it has to look a little further. Times are medians in milliseconds.

Seconds, on small data: ``--rows 5000 --rounds 3``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

import numpy as np
import pyarrow as pa
from lance.dataset import LanceDataset
from lance.query import MatchQuery

import omnigraph
from omnigraph.graph import Graph

SCHEMA = """
node Doc {
  code: String @key
  name: String @index
  body: String @index
  shelf: I32 @index
  gist: Vector(%d) @index
}
"""
WORDS = 5_000
CEILING = 2.0
"""What the design allows a search for the best k, in calls of Lance."""

BEST = """query q($w: String) {
  match { $d: Doc }
  return { $d.code, $d.name, bm25($d.body, $w) as score } order { bm25($d.body, $w) } limit 10
}"""
MATCHING = """query q($w: String) {
  match { $d: Doc search($d.body, $w) }
  return { $d.code, $d.name } order { bm25($d.body, $w) } limit 10
}"""
SHELF = """query q($w: String) {
  match { $d: Doc { shelf: 3 } }
  return { $d.code, $d.name } order { bm25($d.body, $w) } limit 10
}"""
NEAREST = """query q($v: Vector(%d)) {
  match { $d: Doc }
  return { $d.code, $d.name, nearest($d.gist, $v) as away } order { nearest($d.gist, $v) } limit 10
}"""
NEAREST_ON_SHELF = """query q($v: Vector(%d)) {
  match { $d: Doc { shelf: 3 } }
  return { $d.code, $d.name } order { nearest($d.gist, $v) } limit 10
}"""
CONTAINS = 'query q() { match { $d: Doc  $d.name contains "w17 w3" } return { $d.code, $d.name } }'
STARTS = 'query q() { match { $d: Doc  $d.name starts_with "w170 w" } return { $d.code, $d.name } }'
IS_NAMED = "query q($n: String) { match { $d: Doc { name: $n } } return { $d.code, $d.name } }"


@dataclass(frozen=True, slots=True)
class Line:
    """One search: our milliseconds, those of the raw call, and the ceiling of their ratio, if there is one."""

    what: str
    ours_ms: float
    raw_ms: float
    ceiling: float | None

    @property
    def ratio(self) -> float:
        """Our time by that of Lance."""
        return self.ours_ms / self.raw_ms

    def __str__(self) -> str:
        ceiling = "" if self.ceiling is None else f"   ceiling {self.ceiling:.1f}x {'ok' if self.holds else 'MISSED'}"
        return f"{self.what:46} {self.ours_ms:9.2f} {self.raw_ms:9.2f} {self.ratio:7.2f}x{ceiling}"

    @property
    def holds(self) -> bool:
        """Whether the ratio is within the ceiling."""
        return self.ceiling is None or self.ratio <= self.ceiling


@dataclass(frozen=True, slots=True)
class Search:
    """A query with its parameters, and the arguments of the raw call that answers it."""

    what: str
    query: str
    params: Mapping[str, object]
    raw: Mapping[str, object]
    is_top_k: bool = True


def make_docs(rows: int, dimension: int) -> pa.Table:
    """Make documents of words whose frequencies fall like those of a language."""
    random = np.random.default_rng(7)
    chances = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"w{number}" for number in range(WORDS)])
    lengths = random.integers(5, 40, rows)
    bodies = np.split(words[random.choice(WORDS, lengths.sum(), p=chances / chances.sum())], np.cumsum(lengths)[:-1])
    names = words[random.integers(0, WORDS, (rows, 3))]
    vectors = pa.array(random.normal(size=rows * dimension).astype(np.float32))
    return pa.table(
        {
            "code": [f"doc{number:07}" for number in range(rows)],
            "name": [" ".join(each) for each in names],
            "body": [" ".join(each) for each in bodies],
            "shelf": pa.array(random.integers(0, 10, rows), pa.int32()),
            "gist": cast("pa.Array[pa.Scalar[pa.DataType]]", pa.FixedSizeListArray.from_arrays(vectors, dimension)),
        }
    )


def list_searches(docs: pa.Table, dimension: int) -> list[Search]:
    """List what is measured."""
    vector = np.random.default_rng(8).normal(size=dimension).astype(np.float32)
    near = {"column": "gist", "q": vector, "k": 10, "metric": "l2"}
    name = docs["name"][len(docs) // 2].as_py()

    def words(text: str) -> dict[str, object]:
        return {"full_text_query": MatchQuery(text, "body", max_expansions=2**31), "limit": 10}

    shelf = {"filter": "shelf = 3", "prefilter": True}
    given = {"v": vector.tolist()}
    return [
        Search("best 10 of a common word, with scores", BEST, {"w": "w0"}, words("w0")),
        Search("best 10 of two words, with scores", BEST, {"w": "w3 w40"}, words("w3 w40")),
        Search("best 10 of a rare word, with scores", BEST, {"w": "w4900"}, words("w4900")),
        Search("best 10 that match a common word", MATCHING, {"w": "w0"}, words("w0")),
        Search("best 10 of a common word on a shelf", SHELF, {"w": "w0"}, {**words("w0"), **shelf}),
        Search("nearest 10, with distances", NEAREST % dimension, given, {"nearest": near}),
        Search("nearest 10 on a shelf", NEAREST_ON_SHELF % dimension, given, {"nearest": near, **shelf}),
        Search("name contains", CONTAINS, {}, {"filter": "contains(name, 'w17 w3')"}, is_top_k=False),
        Search("name starts with", STARTS, {}, {"filter": "starts_with(name, 'w170 w')"}, is_top_k=False),
        Search("name is", IS_NAMED, {"n": name}, {"filter": f"name = '{name}'"}, is_top_k=False),
    ]


def measure(graph: Graph, table: LanceDataset, search: Search, rounds: int) -> Line:
    """Time a query and the raw call in turns, after each ran once."""
    ways: Sequence[Callable[[], int]] = (partial(ask, graph, search), partial(ask_lance, table, search))
    times: list[list[float]] = [[], []]
    found = [way() for way in ways]
    if found[0] != found[1]:
        raise SystemExit(f"{search.what}: {found[0]} rows, and {found[1]} from Lance")
    for _ in range(rounds):
        for way, taken in zip(ways, times, strict=True):
            started = perf_counter()
            way()
            taken.append((perf_counter() - started) * 1000)
    return Line(search.what, median(times[0]), median(times[1]), CEILING if search.is_top_k else None)


def ask(graph: Graph, search: Search) -> int:
    """Run a query and count its rows."""
    return graph.query(search.query, params=search.params).to_arrow().num_rows


def ask_lance(table: LanceDataset, search: Search) -> int:
    """Run the raw call and count its rows."""
    columns = ["id", "code", "name"]
    columns += ["_score"] if "full_text_query" in search.raw else []
    columns += ["_distance"] if "nearest" in search.raw else []
    return table.scanner(columns=columns, **search.raw).to_table().num_rows  # pyright: ignore


def main() -> None:
    """Build the graph, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        docs = make_docs(given.rows, given.dimension)
        graph = omnigraph.init(Path(folder) / "docs.og", SCHEMA % given.dimension)
        graph.load(nodes={"Doc": docs})
        graph.ensure_indexes()
        table = graph.snapshot().table("node:Doc").dataset
        lines = [measure(graph, table, each, given.rounds) for each in list_searches(docs, given.dimension)]
    if given.json:
        print(json.dumps([{**asdict(line), "ratio": line.ratio} for line in lines], indent=2))
        return
    print(f"{given.rows:,} documents, vectors of {given.dimension}, medians of {given.rounds}")
    print(f"{'':46} {'ours ms':>9} {'Lance ms':>9} {'ratio':>8}")
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
