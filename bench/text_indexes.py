"""What Lance's other indexes would bring to conditions on a column: n-gram, bitmap and zone map beside none and BTREE.

    .venv/bin/python bench/text_indexes.py [--rows 500000] [--rounds 9] [--json]

One raw Lance table for each kind of index, with the filters that our scans push down. Shown are the CPU time of the
build, the bytes on disk, and the median CPU time of a scan with each filter. Every kind must find the same rows. The
decision that rests on it is docs/decisions/0014.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final, Literal, TypeAlias

import lance
import numpy as np
import pyarrow as pa

ScalarIndex: TypeAlias = Literal["BTREE", "BITMAP", "ZONEMAP", "NGRAM"]
KINDS: Final[tuple[ScalarIndex | None, ...]] = (None, "BTREE", "BITMAP", "ZONEMAP", "NGRAM")
WORDS: Final = (
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "islet",
    "jetty",
    "karst",
    "lagoon",
)
FILTERS: Final = {
    "contains, rare": "contains(title, 'row 12345 ')",
    "contains, common": "contains(title, 'cedar')",
    "starts with": "starts_with(title, 'amber basil row 777')",
    "is null": "title IS NULL",
    "equal": "title = '{known}'",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of index: its build, and the milliseconds of each filter with the rows that it found."""

    kind: str
    build_s: float
    megabytes: float
    filters_ms: dict[str, float]
    rows: dict[str, int]


def make_titles(rows: int) -> pa.Array[pa.StringScalar]:
    """Texts of two words and a number; one in a thousand is null."""
    chance = np.random.default_rng(3)
    first, second = (chance.integers(0, len(WORDS), rows).tolist() for _ in range(2))
    texts = (
        None if number % 1000 == 0 else f"{WORDS[one]} {WORDS[two]} row {number} of the list"
        for number, (one, two) in enumerate(zip(first, second, strict=True))
    )
    return pa.array(list(texts), pa.string())


def measure(folder: Path, kind: ScalarIndex | None, titles: pa.Array[pa.StringScalar], rounds: int) -> Measured:
    """Build one table with an index of a kind, and scan it with every filter."""
    uri = folder / f"{kind}.lance"
    table = lance.write_dataset(pa.table({"number": pa.array(range(len(titles))), "title": titles}), uri)
    plain, started = _count_bytes(uri), process_time()
    if kind is not None:
        table.create_scalar_index("title", index_type=kind)
    built = process_time() - started
    known = titles[777].as_py()
    times: dict[str, float] = {}
    rows: dict[str, int] = {}
    for name, text in FILTERS.items():
        spent: list[float] = []
        for _ in range(rounds):
            begin = process_time()
            rows[name] = table.scanner(columns=["number"], filter=text.format(known=known)).to_table().num_rows
            spent.append((process_time() - begin) * 1000)
        times[name] = median(spent)
    return Measured(kind or "none", built, (_count_bytes(uri) - plain) / 1e6, times, rows)


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Measure all kinds, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    titles = make_titles(given.rows)
    with TemporaryDirectory() as folder:
        found = [measure(Path(folder), kind, titles, given.rounds) for kind in KINDS]
    assert all(each.rows == found[0].rows for each in found), [each.rows for each in found]
    if given.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    print(f"{given.rows:,} texts, CPU ms of a scan with a filter, medians of {given.rounds}")
    print(f"{'index':10}{'build s':>9}{'MB':>8}" + "".join(f"{name:>18}" for name in FILTERS))
    for each in found:
        times = "".join(f"{each.filters_ms[name]:18.2f}" for name in FILTERS)
        print(f"{each.kind:10}{each.build_s:9.2f}{each.megabytes:8.1f}{times}")


if __name__ == "__main__":
    main()
