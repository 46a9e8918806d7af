"""What age costs: one-row commits one after another, the last against the hundredth, and what lies on the disk.

    .venv/bin/python bench/age.py [--commits 5000] [--window 64] [--off] [--json]

One graph gets that many commits of one node and one edge, with the upkeep that follows commits by itself, or without it
(``--off``). A cost is the median of a window of commits; the window at the hundredth commit and the last one are what
is compared. Beside each stands the median of an append of one row to a small Lance table right after the window, which
tells how busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import lance
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage.lance_internals.protobuf import parse_fields

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
ADD = """
query add($name: String, $to: String) {
  insert Person { name: $name, age: 30 }
  insert Knows { from: $name, to: $to }
}
"""
EARLY = 100
CEILING_MB: Final = 500
"""For 5,000 commits."""


@dataclass(frozen=True, slots=True)
class Window:
    """Some commits in a row, the last of which has this number. Times are medians, CPU is a mean, in milliseconds."""

    commit: int
    commit_ms: float
    cpu_ms: float
    """Of the whole process, so with a share of the upkeep. It depends less on what else the machine does."""
    append_ms: float
    fragments: int
    megabytes: float


def measure(graph: Graph, folder: Path, commits: int, window: int) -> list[Window]:
    """Make the commits, and look at a window at the hundredth, at each thousandth and at the last."""
    looked_at = sorted({EARLY, *range(1_000, commits, 1_000), commits})
    found: list[Window] = []
    times: list[float] = []
    cpu: list[float] = [process_time()]
    for number in range(1, commits + 1):
        start = perf_counter()
        graph.mutate(ADD, params={"name": f"p{number}", "to": f"p{number - 1}"})
        times.append(perf_counter() - start)
        cpu.append(process_time())
        if number in looked_at:
            found.append(
                Window(
                    number,
                    round(median(times[-window:]) * 1_000, 1),
                    round((cpu[-1] - cpu[-1 - window]) / window * 1_000, 1),
                    round(measure_appends(folder / f"append-{number}.lance", window) * 1_000, 1),
                    max(len(graph.snapshot().table(key).fragment_rows()) for key in graph.snapshot().pins),
                    round(sum(sizes(folder / "graph.og").values()) / 1e6, 1),
                )
            )
    return found


def measure_appends(uri: Path, count: int) -> float:
    """Append one row to a small Lance table so often; the median of the seconds."""
    row = pa.table({"name": ["p"], "age": [30]})
    lance.write_dataset(row, uri)
    times: list[float] = []
    for _ in range(count):
        start = perf_counter()
        lance.write_dataset(row, uri, mode="append")
        times.append(perf_counter() - start)
    return median(times)


def sizes(root: Path) -> Counter[str]:
    """The bytes of the graph, by what they are: versions, data and so on, of the manifest and of the tables."""
    found: Counter[str] = Counter()
    for path in root.rglob("*"):
        if path.is_file():
            place = path.relative_to(root).parts
            owner = (
                "__manifest" if place[0] == "__manifest" else "tables" if place[0] in ("nodes", "edges") else "other"
            )
            folder = next(
                (part for part in place if part in ("_versions", "_transactions", "data", "_indices")), "rest"
            )
            found[f"{owner} {folder}"] += path.stat().st_size
    return found


FRAGMENT_PARTS: Final = {
    2: "names of files",
    3: "deletion files",
    5: "row ids",
    7: "when rows were written",
    9: "when rows were created",
}
"""The fields of a fragment in Lance's message of a version that take space."""
_FRAGMENTS: Final = 2


def dissect_newest_version(folder: Path) -> Counter[str]:
    """The bytes of the newest version file of a dataset, by what they say about its fragments."""
    newest = max((folder / "_versions").glob("*.manifest"), key=lambda path: path.stat().st_mtime).read_bytes()
    begin = int.from_bytes(newest[-16:-8], "little")
    length = int.from_bytes(newest[begin : begin + 4], "little")
    found: Counter[str] = Counter(rest=len(newest))
    for part in parse_fields(newest[begin + 4 : begin + 4 + length]):
        for field in parse_fields(part.value) if part.tag == _FRAGMENTS else ():
            if field.tag in FRAGMENT_PARTS:
                found[FRAGMENT_PARTS[field.tag]] += len(field.raw)
                found["rest"] -= len(field.raw)
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--off", action="store_true", help="without upkeep")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.commits < EARLY or not 0 < options.window < EARLY:
        parser.error(f"--commits must be at least {EARLY}, and --window below {EARLY}")
    if options.off:
        os.environ["OMNIGRAPH_UPKEEP"] = "off"
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        graph = omnigraph.init(folder / "graph.og", SCHEMA)
        graph.load([{"type": "Person", "data": {"name": "p0"}}])
        windows = measure(graph, folder, options.commits, options.window)
        graph.close()
        upkeep = sum(commit.upkeep for commit in graph.commits(upkeep=True))
        bytes_of = sizes(folder / "graph.og")
        version = dissect_newest_version(next((folder / "graph.og" / "nodes").iterdir()))
    early, last = next(each for each in windows if each.commit == EARLY), windows[-1]
    ratio, cpu_ratio = round(last.commit_ms / early.commit_ms, 2), round(last.cpu_ms / early.cpu_ms, 2)
    if options.json:
        print(
            json.dumps(
                {
                    "windows": [asdict(each) for each in windows],
                    "ratio": ratio,
                    "cpu": cpu_ratio,
                    "bytes": bytes_of,
                    "version file": version,
                }
            )
        )
        return
    print("commit  commit ms  CPU ms  raw append ms  fragments       MB")
    for each in windows:
        times = f"{each.commit:>6}  {each.commit_ms:>9}  {each.cpu_ms:>6}  {each.append_ms:>13}"
        print(f"{times}  {each.fragments:>9}  {each.megabytes:>7}")
    print(f"the last against the hundredth: {ratio}x, in CPU {cpu_ratio}x (ceiling 1.2x); {upkeep} upkeep commits")
    for name, count in bytes_of.most_common():
        print(f"{name:<28} {count / 1e6:>8.1f} MB")
    total = sum(bytes_of.values()) / 1e6
    print(f"{'all':<28} {total:>8.1f} MB   ceiling {CEILING_MB} MB {'ok' if total <= CEILING_MB else 'MISSED'}")
    print(f"the newest version file of the nodes, {sum(version.values()):,} bytes:")
    for name, count in version.most_common():
        print(f"  {name:<26} {count:>8,}")


if __name__ == "__main__":
    main()
