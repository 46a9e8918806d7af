"""Small writers on the graph of ``tests/manifest/publishing.py``, faults for them, and what a graph shows afterwards.

They are operations for :func:`omnigraph.write.commit.commit_operation`, with rules like those of a schema. They pickle,
so that a child process can run them and die. A manifest is opened as a writer finds it: nothing is healed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from omnigraph.errors import InputError
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import create_branch, take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.tables import Access, StagedChange, Table, open_table
from omnigraph.write.commit.audit import list_recoveries
from omnigraph.write.commit.operation import AlreadyCommitted
from omnigraph.write.commit.recovery import finish_removals
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, TableChange, WriteOperation, commit_operation
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from tests.crash import fresh_copy
from tests.deleting import delete_where
from tests.manifest.publishing import make_graph

PERSON, CITY, KNOWS = "node:Person", "node:City", "edge:Knows"
Knows: TypeAlias = tuple[str, str]
FLOCK = LockSettings()
LEASE = LockSettings("lease", ttl=600.0)
"""Longer than any test, so that no renewal comes between the numbered writes."""


# --------------------------------------------------------------------------------------------- work


@dataclass(frozen=True, slots=True)
class InsertPeople:
    """New people; a name that is taken is refused."""

    names: tuple[str, ...]
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Read who is there."""
        taken = set(self.names) & set(ids_of(snapshot, PERSON))
        if taken:
            raise InputError(f"taken: {sorted(taken)}")
        return PreparedWrite((append_nodes(PERSON, self.names),), frozenset({PERSON}), None)


@dataclass(frozen=True, slots=True)
class InsertEdge:
    """One edge; both of its ends must be there."""

    source: str
    target: str
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Read the nodes, write the edge."""
        missing = {self.source, self.target} - set(ids_of(snapshot, PERSON))
        if missing:
            raise InputError(f"missing: {sorted(missing)}")
        return PreparedWrite((append_edges([(self.source, self.target)]),), frozenset({PERSON}), None)


@dataclass(frozen=True, slots=True)
class DeletePerson:
    """One node with its edges."""

    name: str
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = True

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Both tables are read and written."""
        if self.name not in ids_of(snapshot, PERSON):
            return PreparedWrite((), frozenset({PERSON}), None)
        node = TableChange(PERSON, partial(delete_where, predicate=f"id = '{self.name}'"))
        ends = f"src = '{self.name}' OR dst = '{self.name}'"
        return PreparedWrite(
            (node, TableChange(KNOWS, partial(delete_where, predicate=ends))), frozenset({PERSON, KNOWS}), None
        )


@dataclass(frozen=True, slots=True)
class LoadAll:
    """People, cities and edges between the new people, in one commit."""

    people: tuple[str, ...]
    cities: tuple[str, ...]
    edges: tuple[Knows, ...]
    kind: WriterKind = WriterKind.LOAD
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Read the keys of both node types."""
        taken = {*ids_of(snapshot, PERSON), *ids_of(snapshot, CITY)} & {*self.people, *self.cities}
        if taken:
            raise InputError(f"taken: {sorted(taken)}")
        changes = (append_nodes(PERSON, self.people), append_nodes(CITY, self.cities), append_edges(self.edges))
        return PreparedWrite(changes, frozenset({PERSON, CITY}), None)


@dataclass(frozen=True, slots=True)
class OverwriteCities:
    """All cities replaced."""

    names: tuple[str, ...]
    kind: WriterKind = WriterKind.LOAD
    strict: bool = True

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Nothing is read."""
        del snapshot
        return PreparedWrite((TableChange(CITY, partial(_stage_overwrite, names=self.names)),), frozenset(), None)


def append_nodes(table_key: str, names: Sequence[str]) -> TableChange:
    """New nodes, whose names are their ids."""
    return TableChange(table_key, lambda table: tables.append(table, _make_nodes(table, names)))


def append_edges(edges: Iterable[Knows]) -> TableChange:
    """New edges, whose ends make their ids."""
    rows = [{"id": f"{source}-{target}", "src": source, "dst": target} for source, target in edges]
    return TableChange(KNOWS, lambda table: tables.append(table, pa.Table.from_pylist(rows, schema=table.schema)))


def _stage_overwrite(table: Table, names: Sequence[str]) -> StagedChange:
    return tables.overwrite(table, _make_nodes(table, names))


def _make_nodes(table: Table, names: Sequence[str]) -> pa.Table:
    return pa.table({"id": list(names), "name": list(names)}, schema=table.schema)


WRITERS: dict[str, WriteOperation[None]] = {
    "insert nodes": InsertPeople(("cid",)),
    "insert an edge": InsertEdge("ann", "bob"),
    "delete a node with its edges": DeletePerson("bob"),
    "load three tables": LoadAll(("cid", "dan"), ("oslo",), (("cid", "dan"),)),
    "overwrite a table": OverwriteCities(("kiel",)),
}
NEXT = LoadAll(("next",), ("next",), (("next", "next"),))
"""A write to every table that the writers touch."""
LAST = LoadAll(("last",), ("last",), (("last", "last"),))
"""Another one."""


# --------------------------------------------------------------------------------------------- faults and other writers


@dataclass(frozen=True, slots=True)
class OvertakenOperation:
    """An operation that is prepared just before somebody else writes."""

    operation: WriteOperation[None]
    others: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    @property
    def kind(self) -> WriterKind:
        """As the work's."""
        return self.operation.kind

    @property
    def strict(self) -> bool:
        """As the work's."""
        return self.operation.strict

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Once for each of the others."""
        prepared = self.operation.prepare(snapshot)
        if self.others:
            self.others.pop()()
        return prepared


@contextmanager
def run_right_after(name: str, detail: str, other: Callable[[], object]) -> Generator[None]:
    """Run ``other`` once, inside a writer's section, right after its first durable write of a kind."""
    waiting = [other]

    def act(when: When, step: WriteStep) -> None:
        if when == "after" and (step.name, detail in step.detail) == (name, True) and waiting:
            waiting.pop()()

    with _arm(act):
        yield
    assert not waiting, f"no {name} {detail} in this block"


@contextmanager
def fail_first_write(name: str, when: When, detail: str = "") -> Generator[None]:
    """Make the first durable write of a kind fail, or lose its answer."""
    failed: list[WriteStep] = []

    def act(now: When, step: WriteStep) -> None:
        if (now, step.name) == (when, name) and detail in step.detail and not failed:
            failed.append(step)
            raise OSError("injected")

    with _arm(act):
        yield
    assert failed, f"no {name} {detail} in this block"


# --------------------------------------------------------------------------------------------- graphs


@dataclass(frozen=True, slots=True)
class GraphState:
    """All ids that a branch shows."""

    people: tuple[str, ...]
    cities: tuple[str, ...]
    knows: tuple[str, ...]

    def __add__(self, other: GraphState) -> GraphState:
        return GraphState(
            tuple(sorted(self.people + other.people)),
            tuple(sorted(self.cities + other.cities)),
            tuple(sorted(self.knows + other.knows)),
        )


BY_NEXT = GraphState(("next",), ("next",), ("next-next",))
BY_LAST = GraphState(("last",), ("last",), ("last-last",))


def make_template(folder: Path) -> Path:
    """A graph with two people who know each other, and one city."""
    root = folder / "graph.og"
    make_graph(locate(root))
    write_commit(open_manifest(root), LoadAll(("ann", "bob"), ("rome",), (("bob", "ann"),)))
    return root


def copy_template(template: Path, branch: str = MAIN) -> Path:
    """A fresh graph. A copy of one that has branches already would share their files with it."""
    root = fresh_copy(template)
    if branch != MAIN:
        create_branch(open_manifest(root), branch, MAIN, finish_removals)
    return root


def open_manifest(root: Path | str, locks: LockSettings = FLOCK) -> Manifest:
    """Return a handle as a writer has it in a process that has not opened the graph before."""
    location = locate(root)
    return Manifest(location, Access(location.options()), locks)


def write_commit(
    manifest: Manifest,
    operation: WriteOperation[None],
    branch: str = MAIN,
    *,
    if_commit: str | None = None,
    txn: tuple[str, int] | None = None,
) -> CommitRecord | None:
    """Commit an operation; a repetition returns the commit that was made before."""
    terms = CommitOptions(branch, manifest.schema_hash(), "tests", if_commit=if_commit, txn=txn)
    try:
        return commit_operation(manifest, operation, terms).commit
    except AlreadyCommitted as earlier:
        return earlier.commit


def write_in_process(
    root: str, operation: WriteOperation[None], branch: str = MAIN, locks: LockSettings = FLOCK
) -> str | None:
    """Commit an operation in a fresh process; return the id of the commit."""
    made = write_commit(open_manifest(root, locks), operation, branch)
    return None if made is None else made.id


def read_state(manifest: Manifest, branch: str = MAIN) -> GraphState:
    """Read everything in one snapshot."""
    snapshot = take_snapshot(manifest, branch)
    return GraphState(ids_of(snapshot, PERSON), ids_of(snapshot, CITY), ids_of(snapshot, KNOWS))


def ids_of(snapshot: Snapshot, table_key: str) -> tuple[str, ...]:
    """The ids of a table, sorted, duplicates kept."""
    return tuple(sorted(map(str, snapshot.table(table_key).scan(["id"]).read_all()["id"].to_pylist())))


def head_id(manifest: Manifest, branch: str = MAIN) -> str:
    """The newest commit."""
    head = manifest.view(branch, with_lineage=True).history.head()
    assert head is not None
    return head.id


def read_versions(manifest: Manifest, branch: str = MAIN) -> dict[str, tuple[int, int]]:
    """The pin and the newest version of every table, each on the branch that owns it."""
    found: dict[str, tuple[int, int]] = {}
    for table_key, pin in take_snapshot(manifest, branch).pins.items():
        head = open_table(manifest.location.join(pin.location), pin.branch, None, manifest.access)
        found[table_key] = pin.version, head.version
    return found


def assert_settled(manifest: Manifest, branch: str = MAIN) -> None:
    """Nothing is left to finish: no sidecar, no drift, and no operation was audited twice."""
    assert list_sidecars(manifest.objects) == []
    assert {pin: head for pin, head in read_versions(manifest, branch).values() if pin != head} == {}
    audited = [recovery.operation_id for recovery in list_recoveries(manifest)]
    assert len(set(audited)) == len(audited)


def read_states_around(template: Path, operation: WriteOperation[None], branch: str) -> tuple[GraphState, GraphState]:
    """Return what a branch shows before and after an operation."""
    manifest = open_manifest(copy_template(template, branch))
    before = read_state(manifest, branch)
    write_commit(manifest, operation, branch)
    after = read_state(manifest, branch)
    assert before != after
    return before, after
