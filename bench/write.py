"""What writing costs: small mutations and local loads, each against the raw Lance calls for the same rows.

    .venv/bin/python bench/write.py [--commits 2000] [--rounds 40] [--nodes 100000] [--edges 500000] [--json]

Mutations: a graph gets that many commits of one node and one edge; a copy is kept of how it was after 100. Then both
are measured in turns, so that a busy machine slows all of them alike: ``g.mutate``, and the bare calls on a second copy
of the same files (two staged appends with their commits, and an update of the manifest that replaces its head row).
Times are medians. Tables
are compacted every 100 commits, as maintenance would.

Loads: the same rows from Arrow, from JSONL, and as plain Lance datasets without any check, each in a process of its
own, without indexes. A peak includes the input where that is in memory. The design sets no ceiling for local loads, so
their ratios are printed without one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

import lance
import numpy as np
import pyarrow as pa
from lance import fragment as lance_fragment
from lance.dataset import LanceDataset, LanceOperation
from ulid import ULID

import omnigraph
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey, table_directory
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS, COMPACTED_ROWS, DIRECTORY, Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, HeadPointer, ManifestFile, TableVersion, encode_rows
from omnigraph.manifest.snapshot import list_pins, make_entry
from omnigraph.storage import tables
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings, branch_lock
from omnigraph.storage.tables import Access
from omnigraph.write.row_values import generate_ids
from publish import AGAINST_BARE_CALLS, AGAINST_SHALLOW, COMPACT_TABLES_EVERY, SHALLOW, Promise, milliseconds

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
ADD = """query add($name: String, $friend: String, $number: I64) {
  insert Person { name: $name, age: $number }
  insert Knows { from: $name, to: $friend, since: $number }
}"""
TABLE_KEYS = ("node:Person", "edge:Knows")
FIRST = "first"
SEED = 7


# ------------------------------------------------------------------------------------------------ small mutations


def add(graph: Graph, name: str) -> None:
    """One node and one edge, through the public interface."""
    graph.mutate(ADD, params={"name": name, "friend": FIRST, "number": 1})


def compact_tables(folder: Path) -> None:
    """Rewrite small fragments and publish that, as maintenance does."""
    manifest, commit_id = Manifest(locate(folder), Access(), LockSettings()), str(ULID())
    with branch_lock(manifest.location, MAIN, manifest.locks) as held:
        pins = list_pins(manifest.view(MAIN))
        updates: list[TableVersion] = []
        for table_key in TABLE_KEYS:
            table = fork_table(manifest, held, MAIN, pins[table_key])
            smaller = tables.compact(table)
            if smaller is not None:
                updates.append(make_entry(manifest, pins[table_key], tables.commit(table, smaller, commit_id)))
        expected = {table_key: pins[table_key].version for table_key in TABLE_KEYS}
        intent = CommitIntent(commit_id, manifest.schema_hash(), actor="bench")
        publish(manifest, held, MAIN, PublishRequest(intent, updates=tuple(updates), expected=expected))


def build(folder: Path, commits: int) -> tuple[Path, Path]:
    """A graph of that many mutations, and a copy of how it was when it had few."""
    deep, shallow = folder / "deep.og", folder / "shallow.og"
    graph = omnigraph.init(deep, SCHEMA)
    graph.load(nodes={"Person": pa.table({"name": [FIRST]})})
    for number in range(1, commits + 1):
        add(graph, f"history-{number}")
        if number % COMPACT_TABLES_EVERY == 0 or number == commits:
            compact_tables(deep)
        if number == SHALLOW:
            shutil.copytree(deep, shallow)
    return shallow, deep


class Bare:
    """The same files without the graph: what any writer of two tables and a manifest has to ask of Lance."""

    def __init__(self, folder: Path) -> None:
        session = Access().session
        self._tables = [lance.dataset(folder / table_directory(table_key), session=session) for table_key in TABLE_KEYS]
        self._manifest = lance.dataset(folder / DIRECTORY, session=session)
        self._head: tuple[int, int] | None = None
        """The fragment of the head row, and its place there."""

    def commit(self, name: str) -> float:
        """One node and one edge; the milliseconds that Lance took for them."""
        values: dict[str, object] = {"id": name, "name": name, "age": 1, "src": name, "dst": FIRST, "since": 1}
        rows = [pa.Table.from_pylist([values], schema=table.schema) for table in self._tables]
        merged = encode_rows(self._rows(name))
        if self._head is None or len(self._manifest.get_fragments()) >= COMPACT_AT_FRAGMENTS:
            self._compact_and_find_head()
        assert self._head is not None
        begin = perf_counter()
        self._tables = [_appended(table, row) for table, row in zip(self._tables, rows, strict=True)]
        new = lance_fragment.write_fragments(merged, self._manifest, mode="append", enable_stable_row_ids=True)
        fragment = self._manifest.get_fragment(self._head[0])
        assert fragment is not None
        left = fragment.delete_rows([self._head[1]])
        emptied, shrunk = ([self._head[0]], []) if left is None else ([], [left])
        update = LanceOperation.Update(emptied, shrunk, new, fields_modified=[])
        self._manifest = LanceDataset.commit(self._manifest, update, self._manifest.version, max_retries=0)
        taken = (perf_counter() - begin) * 1000
        newest = max(each.fragment_id for each in self._manifest.get_fragments())
        self._head = newest, merged.num_rows - 1
        return taken

    def _compact_and_find_head(self) -> None:
        """Both happen once in fifty commits; their time is not counted."""
        self._manifest.optimize.compact_files(target_rows_per_fragment=COMPACTED_ROWS)
        scanner = self._manifest.scanner(filter=f"object_id = 'graph_head:{MAIN}'", with_row_address=True)
        addresses = cast("list[int]", scanner.to_table()["_rowaddr"].to_pylist())
        self._head = divmod(addresses[0], 2**32)

    def _rows(self, name: str) -> list[TableVersion | CommitRecord | HeadPointer]:
        versions = [
            TableVersion(TableKey(table_key), table.version + 1, None, 1, ManifestFile(table.uri))
            for table_key, table in zip(TABLE_KEYS, self._tables, strict=True)
        ]
        return [*versions, CommitRecord(name, None, self._manifest.version + 1, 1), HeadPointer(MAIN, name, None)]


def _appended(table: LanceDataset, row: pa.Table) -> LanceDataset:
    fragments = lance_fragment.write_fragments(row, table, mode="append", enable_stable_row_ids=True)
    return LanceDataset.commit(table, LanceOperation.Append(fragments), read_version=table.version, max_retries=0)


@dataclass(frozen=True, slots=True)
class MutationCost:
    """Medians at one depth of history, in milliseconds."""

    commits: int
    mutation_ms: float
    bare_ms: float


def measure_mutations(folder: Path, commits: int, rounds: int) -> list[MutationCost]:
    """The costs at the two depths, the shallow one first, all taken in turns."""
    folders = build(folder, commits)
    bare = [Bare(Path(shutil.copytree(graph, graph.with_suffix(".bare")))) for graph in folders]
    graphs = [omnigraph.open(graph) for graph in folders]
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in folders]
    for number in range(-1, rounds):
        for graph, calls, (mutation_ms, bare_ms) in zip(graphs, bare, times, strict=True):
            name = f"round-{number}"
            taken = milliseconds(partial(add, graph, name)), calls.commit(name)
            # The first round warms both.
            if number >= 0:
                mutation_ms.append(taken[0])
                bare_ms.append(taken[1])
    return [
        MutationCost(depth, median(mutation_ms), median(bare_ms))
        for depth, (mutation_ms, bare_ms) in zip((SHALLOW, commits), times, strict=True)
    ]


# ------------------------------------------------------------------------------------------------ loads


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows are loaded."""

    nodes: int
    edges: int

    def people(self) -> pa.Table:
        """The nodes, as a frame."""
        names = [f"person-{number}" for number in range(self.nodes)]
        return pa.table({"name": pa.array(names), "age": pa.array(np.arange(self.nodes) % 90, pa.int64())})

    def knows(self) -> pa.Table:
        """The edges, as a frame: any two people."""
        random, names = np.random.default_rng(SEED), self.people()["name"]
        picked = [pa.array(random.integers(0, self.nodes, self.edges), pa.int64()) for _ in range(2)]
        since = pa.array(np.arange(self.edges) % 50, pa.int64())
        return pa.table([*(names.take(each) for each in picked), since], ["from", "to", "since"])


@dataclass(frozen=True, slots=True)
class LoadCost:
    """What one way to load took: seconds, and the largest resident size of its process before and after, in MB."""

    way: str
    rows: int
    seconds: float
    before_mb: int
    peak_mb: int

    @property
    def rows_per_second(self) -> float:
        """Nodes and edges alike."""
        return self.rows / self.seconds


def write_jsonl(path: Path, size: Size) -> None:
    """The same rows as graph JSONL."""
    with path.open("w") as file:
        for batch in size.people().to_batches(10_000):
            file.writelines(f'{{"type":"Person","data":{json.dumps(row)}}}\n' for row in batch.to_pylist())
        for batch in size.knows().to_batches(10_000):
            for row in batch.to_pylist():
                ends = f'"from":"{row["from"]}","to":"{row["to"]}"'
                file.write(f'{{"edge":"Knows",{ends},"data":{{"since":{row["since"]}}}}}\n')


def load_arrow(folder: Path, size: Size) -> LoadCost:
    """Through ``g.load``, from tables in memory."""
    graph, people, knows = omnigraph.init(folder / "arrow.og", SCHEMA), size.people(), size.knows()
    return _measured(
        "load, Arrow", size, lambda: graph.load(nodes={"Person": people}, edges={"Knows": knows}, indexes="never")
    )


def load_jsonl(folder: Path, size: Size) -> LoadCost:
    """Through ``g.load``, from a file."""
    graph = omnigraph.init(folder / "jsonl.og", SCHEMA)
    return _measured("load, JSONL", size, lambda: graph.load(folder / "rows.jsonl", indexes="never"))


def write_raw(folder: Path, size: Size) -> LoadCost:
    """The rows as they lie in a graph, written as two datasets that nothing checks."""
    people, knows = size.people(), size.knows()
    people = people.add_column(0, "id", people["name"])
    knows = knows.rename_columns(["src", "dst", "since"]).add_column(0, "id", generate_ids(size.edges))

    def write() -> None:
        for name, rows in (("people", people), ("knows", knows)):
            lance.write_dataset(rows, folder / name, data_storage_version="2.2", enable_stable_row_ids=True)

    return _measured("raw pylance, Arrow", size, write)


def _measured(way: str, size: Size, work: Callable[[], object]) -> LoadCost:
    before = _peak_mb()
    seconds = milliseconds(work) / 1000
    return LoadCost(way, size.nodes + size.edges, seconds, before, _peak_mb())


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure_loads(folder: Path, size: Size) -> list[LoadCost]:
    """Each way in a process of its own, so that a peak is its own too; raw first."""
    write_jsonl(folder / "rows.jsonl", size)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        return [pool.submit(way, folder, size).result() for way in (write_raw, load_arrow, load_jsonl)]


# ------------------------------------------------------------------------------------------------ printing


def promises(shallow: MutationCost, deep: MutationCost) -> list[Promise]:
    """The ceilings of the design, beside what was measured."""
    bare_calls = [
        Promise(
            f"mutation / bare calls, {cost.commits:,} commits", cost.mutation_ms / cost.bare_ms, AGAINST_BARE_CALLS, "x"
        )
        for cost in (shallow, deep)
    ]
    grown = deep.mutation_ms / shallow.mutation_ms
    return [
        *bare_calls,
        Promise(f"mutation, {deep.commits:,} / {shallow.commits:,} commits", grown, AGAINST_SHALLOW, "x"),
    ]


def table(mutations: list[MutationCost], loads: list[LoadCost], kept: list[Promise]) -> str:
    """Everything as one text table."""
    lines = [f"{'mutation of 1 node + 1 edge':<44}{'g.mutate':>12}{'bare calls':>12}"]
    lines += [
        f"{f'  after {cost.commits:,} commits, ms':<44}{cost.mutation_ms:>12.1f}{cost.bare_ms:>12.1f}"
        for cost in mutations
    ]
    raw = loads[0].rows_per_second
    title = f"{loads[0].rows:,} rows"
    lines += ["", f"{title:<44}{'rows/s':>12}{'raw / this':>12}{'RSS before':>12}{'peak RSS':>12}"]
    lines += [
        f"  {cost.way:<42}{cost.rows_per_second:>12,.0f}{f'{raw / cost.rows_per_second:.2f} x':>12}"
        f"{f'{cost.before_mb:,} MB':>12}{f'{cost.peak_mb:,} MB':>12}"
        for cost in loads
    ]
    lines += ["", f"{'promise':<44}{'measured':>12}{'ceiling':>12}"]
    lines += [
        f"{promise.what:<44}{f'{promise.measured:.2f} {promise.unit}':>12}{f'{promise.ceiling:g} {promise.unit}':>12}"
        f"   {'holds' if promise.holds else 'DOES NOT HOLD'}"
        for promise in kept
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what small mutations and local loads cost against raw Lance")
    parser.add_argument("--commits", type=int, default=2000, help=f"how deep the history is; above {SHALLOW}")
    parser.add_argument("--rounds", type=int, default=40, help="how often each kind of commit is measured")
    parser.add_argument("--nodes", type=int, default=100_000, help="how many nodes are loaded")
    parser.add_argument("--edges", type=int, default=500_000, help="how many edges are loaded")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.commits <= SHALLOW or min(options.rounds, options.nodes, options.edges) < 1:
        parser.error(f"--commits must be above {SHALLOW}, and the others at least 1")
    with TemporaryDirectory() as folder:
        loads = measure_loads(Path(folder), Size(options.nodes, options.edges))
        mutations = measure_mutations(Path(folder), options.commits, options.rounds)
    kept = promises(*mutations)
    if options.json:
        found = {
            "mutations": [asdict(cost) for cost in mutations],
            "loads": [{**asdict(cost), "rows_per_second": cost.rows_per_second} for cost in loads],
            "promises": [{**asdict(promise), "holds": promise.holds} for promise in kept],
        }
        print(json.dumps(found, indent=2))
    else:
        print(table(mutations, loads, kept))


if __name__ == "__main__":
    main()
