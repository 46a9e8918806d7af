"""What a commit costs: against the raw Lance calls that it must make, and as history grows.

    .venv/bin/python bench/publish.py [--commits 5000] [--rounds 60] [--json]

One graph gets that many commits of one row in each of three tables; a copy is kept of how it was after 100. Then both
are measured in turns, so that a busy machine slows all of them alike: a commit through the fence, and the bare Lance
calls on a second copy of the same files: three staged appends with their commits, and one update of the manifest that
writes the same rows and deletes the head row that they replace. Times are medians of the CPU time of the process, of
all its threads. Tables are compacted every 100 commits, as maintenance would; the manifest does that itself.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

import lance
import pyarrow as pa
from lance import fragment as lance_fragment
from lance.dataset import LanceDataset, LanceOperation
from ulid import ULID

import omnigraph
from omnigraph.language.schema import TableKey, table_directory
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS, COMPACTED_ROWS, DIRECTORY, Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import (
    MAIN,
    CommitRecord,
    HeadPointer,
    ManifestFile,
    TableVersion,
    encode_rows,
)
from omnigraph.manifest.snapshot import list_pins, make_entry
from omnigraph.storage import tables
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings, branch_lock
from omnigraph.storage.tables import Access, StorageCalls, open_table

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
node Firm { name: String @key }
"""
TABLE_KEYS = ("node:Person", "node:City", "node:Firm")
SHALLOW = 100
COMPACT_TABLES_EVERY = 100
READS = 15

# What the design allows.
AGAINST_BARE_CALLS = 2.0
AGAINST_SHALLOW = 1.2
COLD_OPEN_MS_PER_10_000_COMMITS = 10.0


# ------------------------------------------------------------------------------------------------ through the fence


@dataclass(frozen=True, slots=True)
class Fenced:
    """A graph that commits are published to."""

    manifest: Manifest
    schema_hash: str

    def commit(self, name: str, *, compact_tables: bool = False) -> None:
        """Append one row to each table and publish all of them as one commit."""
        manifest, commit_id = self.manifest, str(ULID())
        with branch_lock(manifest.location, MAIN, manifest.locks) as held:
            pins = list_pins(manifest.view(MAIN))
            updates: list[TableVersion] = []
            for table_key in TABLE_KEYS:
                table = fork_table(manifest, held, MAIN, pins[table_key])
                staged = tables.append(table, one_row(name, table.schema))
                assert staged is not None
                table = tables.commit(table, staged, commit_id)
                smaller = tables.compact(table) if compact_tables else None
                if smaller is not None:
                    table = tables.commit(table, smaller, commit_id)
                updates.append(make_entry(manifest, pins[table_key], table))
            request = PublishRequest(
                CommitIntent(commit_id, self.schema_hash, actor="bench"),
                updates=tuple(updates),
                expected={table_key: pins[table_key].version for table_key in TABLE_KEYS},
            )
            publish(manifest, held, MAIN, request)

    def compact_manifest(self) -> None:
        """Bring the manifest to the same place between two of its compactions, whatever its depth."""
        with branch_lock(self.manifest.location, MAIN, self.manifest.locks):
            self.manifest.compact(self.manifest.view(MAIN, with_lineage=True))


def fenced(folder: Path) -> Fenced:
    """A handle on the graph in a folder, with caches of its own."""
    manifest = Manifest(locate(folder), Access(), LockSettings())
    schema_hash = manifest.schema_hash()
    assert schema_hash is not None
    return Fenced(manifest, schema_hash)


def one_row(name: str, schema: pa.Schema) -> pa.Table:
    """A node of that name."""
    return pa.table({"id": [name], "name": [name]}, schema=schema)


# ------------------------------------------------------------------------------------------------ the bare calls


class Bare:
    """The same files without the fence: what any writer of three tables and a manifest has to ask of Lance."""

    def __init__(self, folder: Path) -> None:
        session = Access().session
        self._tables = [lance.dataset(folder / table_directory(table_key), session=session) for table_key in TABLE_KEYS]
        self._manifest = lance.dataset(folder / DIRECTORY, session=session)
        self._head = self._find_head()

    def commit(self, name: str) -> float:
        """One commit; the CPU seconds that Lance took for it."""
        rows = [one_row(name, table.schema) for table in self._tables]
        published = encode_rows(self._rows(name))
        begin = process_time()
        self._tables = [self._append(table, row) for table, row in zip(self._tables, rows, strict=True)]
        small = sum(fragment.physical_rows < COMPACTED_ROWS for fragment in self._manifest.get_fragments())
        if small >= COMPACT_AT_FRAGMENTS:
            self._manifest.optimize.compact_files(target_rows_per_fragment=COMPACTED_ROWS)
            self._head = self._find_head()
        self._publish(published)
        return process_time() - begin

    def _publish(self, rows: pa.Table) -> None:
        """Write the rows, the new head row last, and delete the old one, in one version."""
        new = lance_fragment.write_fragments(rows, self._manifest, mode="append", enable_stable_row_ids=True)
        fragment_id, offset = self._head >> 32, self._head & 0xFFFFFFFF
        holder = self._manifest.get_fragment(fragment_id)
        assert holder is not None
        left = holder.delete_rows([offset])
        emptied, shrunk = ([fragment_id], []) if left is None else ([], [left])
        update = LanceOperation.Update(emptied, shrunk, new, fields_modified=[])
        version = self._manifest.version
        self._manifest = LanceDataset.commit(self._manifest, update, read_version=version, max_retries=0)
        newest = max(fragment.fragment_id for fragment in self._manifest.get_fragments())
        self._head = (newest << 32) + len(rows) - 1

    def _find_head(self) -> int:
        """The address of the row that the next commit replaces."""
        found = self._manifest.to_table(
            columns=["object_id"], filter=f"object_id = 'graph_head:{MAIN}'", with_row_address=True
        )
        return int(found.column("_rowaddr")[0].as_py())

    def _append(self, table: LanceDataset, row: pa.Table) -> LanceDataset:
        fragments = lance_fragment.write_fragments(row, table, mode="append", enable_stable_row_ids=True)
        return LanceDataset.commit(table, LanceOperation.Append(fragments), read_version=table.version, max_retries=0)

    def _rows(self, name: str) -> list[TableVersion | CommitRecord | HeadPointer]:
        versions = [
            TableVersion(TableKey(table_key), table.version + 1, None, 1, ManifestFile(table.uri))
            for table_key, table in zip(TABLE_KEYS, self._tables, strict=True)
        ]
        return [*versions, CommitRecord(name, None, self._manifest.version + 1, 1), HeadPointer(MAIN, name, None)]


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True, slots=True)
class Cost:
    """What one depth of history costs. Times are medians in milliseconds, calls are of one publish or read."""

    commits: int
    publish_ms: float
    bare_ms: float
    publish_calls: StorageCalls
    warm_snapshot_ms: float
    warm_snapshot_calls: StorageCalls
    cold_open_ms: float
    create_branch_ms: float


@dataclass(frozen=True, slots=True)
class Promise:
    """A ceiling of the design, and what was measured."""

    what: str
    measured: float
    ceiling: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the measured value is within the ceiling."""
        return self.measured <= self.ceiling


def build(folder: Path, commits: int) -> tuple[Path, Path]:
    """A graph of that many commits, and a copy of how it was when it had few."""
    deep, shallow = folder / "deep.og", folder / "shallow.og"
    omnigraph.init(deep, SCHEMA)
    writer = fenced(deep)
    for number in range(1, commits + 1):
        writer.commit(f"history-{number}", compact_tables=number % COMPACT_TABLES_EVERY == 0)
        if number == SHALLOW:
            shutil.copytree(deep, shallow)
    return shallow, deep


def measure_commits(graphs: list[Fenced], bare: list[Bare], rounds: int) -> tuple[list[float], list[float]]:
    """Medians of a publish and of the bare calls for each graph, all taken in turns."""
    publish_ms: list[list[float]] = [[] for _ in graphs]
    bare_ms: list[list[float]] = [[] for _ in graphs]
    for number in range(rounds):
        for place, (graph, calls) in enumerate(zip(graphs, bare, strict=True)):
            publish_ms[place].append(milliseconds(lambda graph=graph, number=number: graph.commit(f"round-{number}")))
            bare_ms[place].append(calls.commit(f"round-{number}") * 1000)
    return [median(times) for times in publish_ms], [median(times) for times in bare_ms]


def measure_reads(folders: list[Path]) -> list[tuple[float, float, float]]:
    """Medians of a warm snapshot, a cold open with its first snapshot, and the creation of a branch, taken in turns."""
    graphs = [omnigraph.open(folder) for folder in folders]
    times: list[tuple[list[float], list[float], list[float]]] = [([], [], []) for _ in folders]
    for number in range(READS):
        for folder, graph, (warm, cold, branch) in zip(folders, graphs, times, strict=True):
            graph.snapshot()
            warm.append(milliseconds(graph.snapshot))
            cold.append(milliseconds(lambda folder=folder: omnigraph.open(folder).snapshot()))
            name = f"branch-{number}"
            branch.append(milliseconds(lambda graph=graph, name=name: graph.create_branch(name)))
            graph.delete_branch(name)
    return [(median(warm), median(cold), median(branch)) for warm, cold, branch in times]


def count_calls(graph: Fenced, work: Callable[[], object]) -> StorageCalls:
    """What the session of a graph asked of the storage for some work; Lance counts per session."""
    counter = open_table(graph.manifest.uri, None, None, graph.manifest.access)
    counter.storage_calls()
    work()
    return counter.storage_calls()


def milliseconds(work: Callable[[], object]) -> float:
    """The CPU time that some work takes."""
    begin = process_time()
    work()
    return (process_time() - begin) * 1000


def measure(folder: Path, commits: int, rounds: int) -> list[Cost]:
    """The costs at the two depths, the shallow one first."""
    folders = list(build(folder, commits))
    bare = [Bare(Path(shutil.copytree(graph, graph.with_suffix(".bare")))) for graph in folders]
    graphs = [fenced(graph) for graph in folders]
    publish_ms, bare_ms = measure_commits(graphs, bare, rounds)
    for graph in graphs:
        graph.compact_manifest()
    reads = measure_reads(folders)
    return [
        Cost(
            depth,
            publish_ms[place],
            bare_ms[place],
            count_calls(graphs[place], lambda place=place: graphs[place].commit("counted")),
            reads[place][0],
            count_calls(graphs[place], lambda place=place: graphs[place].manifest.view(MAIN)),
            reads[place][1],
            reads[place][2],
        )
        for place, depth in enumerate((SHALLOW, commits))
    ]


def promises(shallow: Cost, deep: Cost) -> list[Promise]:
    """The ceilings of the design, beside what was measured."""
    more_commits = max(1, deep.commits - shallow.commits)
    cold_growth = (deep.cold_open_ms - shallow.cold_open_ms) / more_commits * 10_000
    bare_calls = [
        Promise(
            f"publish / bare calls, {cost.commits:,} commits", cost.publish_ms / cost.bare_ms, AGAINST_BARE_CALLS, "x"
        )
        for cost in (shallow, deep)
    ]
    against = f"{deep.commits:,} / {shallow.commits:,} commits"
    grown = {
        "publish": deep.publish_ms / shallow.publish_ms,
        "warm snapshot": deep.warm_snapshot_ms / shallow.warm_snapshot_ms,
        "create branch": deep.create_branch_ms / shallow.create_branch_ms,
    }
    return [
        *bare_calls,
        *(Promise(f"{what}, {against}", ratio, AGAINST_SHALLOW, "x") for what, ratio in grown.items()),
        Promise("cold open, per 10,000 more commits", cold_growth, COLD_OPEN_MS_PER_10_000_COMMITS, "ms"),
    ]


# ------------------------------------------------------------------------------------------------ printing


def table(costs: list[Cost], kept: list[Promise]) -> str:
    """Everything as one text table."""
    rows: list[tuple[str, Callable[[Cost], str]]] = [
        ("publish of 3 tables, CPU ms", lambda cost: f"{cost.publish_ms:.1f}"),
        ("the bare Lance calls, CPU ms", lambda cost: f"{cost.bare_ms:.1f}"),
        ("  storage calls, reads + writes", lambda cost: _calls(cost.publish_calls)),
        ("warm snapshot, CPU ms", lambda cost: f"{cost.warm_snapshot_ms:.2f}"),
        ("  storage calls, reads + writes", lambda cost: _calls(cost.warm_snapshot_calls)),
        ("cold open and snapshot, CPU ms", lambda cost: f"{cost.cold_open_ms:.1f}"),
        ("create branch, CPU ms", lambda cost: f"{cost.create_branch_ms:.1f}"),
    ]
    lines = [f"{'commits':<44}" + "".join(f"{cost.commits:>12,}" for cost in costs)]
    lines += [f"{name:<44}" + "".join(f"{shown(cost):>12}" for cost in costs) for name, shown in rows]
    lines += ["", f"{'promise':<44}{'measured':>12}{'ceiling':>12}"]
    lines += [
        f"{promise.what:<44}{f'{promise.measured:.2f} {promise.unit}':>12}{f'{promise.ceiling:g} {promise.unit}':>12}"
        f"   {'holds' if promise.holds else 'DOES NOT HOLD'}"
        for promise in kept
    ]
    return "\n".join(lines)


def _calls(calls: StorageCalls) -> str:
    return f"{calls.reads} + {calls.writes}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what a commit costs, and how that grows with history")
    parser.add_argument("--commits", type=int, default=5000, help=f"how deep the history is; above {SHALLOW}")
    parser.add_argument("--rounds", type=int, default=60, help="how often each kind of commit is measured")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.commits <= SHALLOW or options.rounds < 1:
        parser.error(f"--commits must be above {SHALLOW}, and --rounds at least 1")
    with TemporaryDirectory() as folder:
        shallow, deep = measure(Path(folder), options.commits, options.rounds)
    kept = promises(shallow, deep)
    if options.json:
        found = {"costs": [asdict(shallow), asdict(deep)], "promises": [_json(promise) for promise in kept]}
        print(json.dumps(found, indent=2))
    else:
        print(table([shallow, deep], kept))


def _json(promise: Promise) -> dict[str, object]:
    return {**asdict(promise), "holds": promise.holds}


if __name__ == "__main__":
    main()
