"""A graph and its model, driven by the same random story through two handles that never tell each other anything."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ulid import ULID

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, OutcomeUnknown, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import Registration, Tombstone
from omnigraph.manifest.snapshot import Pin, list_pins, make_entry
from omnigraph.storage import tables
from omnigraph.storage.failpoints import InjectedFault, When, fail_at
from omnigraph.storage.locks import branch_lock
from omnigraph.write.commit.recovery import RECOVERY_ACTOR
from tests import crash
from tests.manifest.fence import compact
from tests.manifest.publishing import manifest_of
from tests.model.comparing import (
    assert_same_feed,
    assert_same_history,
    assert_same_past,
    assert_same_rows,
    assert_same_tags,
    rows_in,
)
from tests.model.files import traces
from tests.model.graph_model import GraphModel, ModelBranch, ModelCommit
from tests.model.graph_writes import (
    SCHEMA,
    Insert,
    Link,
    Load,
    Mode,
    Mutate,
    Refused,
    Remove,
    Resize,
    Rows,
    Unlink,
    Write,
    write_and_die,
)
from tests.selection import sized

TYPES = ("Person", "City", "Firm")
# Knows needs its ends, so only the other types are ever dropped.
DROPPED_TYPES = TYPES[1:]
BRANCHES = ("a", "x", "x/y", "x/z")
TAGS = ("t", "t/1")
MOST_STEPS = 9
"""About as many durable steps as a commit of three tables makes."""

handles = st.integers(0, 1)
branch_names = st.sampled_from(BRANCHES)
tag_names = st.sampled_from(TAGS)
type_names = st.sampled_from(TYPES)
dropped_types = st.sampled_from(DROPPED_TYPES)
names = st.sampled_from("pqrs")
sizes = st.none() | st.integers(-2, 2)
pairs = st.tuples(names, names)

inserts = st.builds(Insert, type_names, names, sizes)
changes = st.one_of(inserts, st.builds(Link, names, names), st.builds(Resize, type_names, st.integers(-1, 3), sizes))
removals = st.one_of(st.builds(Remove, type_names, names), st.builds(Unlink, names))
# A mutation changes or removes, never both.
mutations = st.one_of(
    st.lists(changes, min_size=1, max_size=3).map(lambda made: Mutate(tuple(made))),
    st.lists(removals, min_size=1, max_size=2).map(lambda made: Mutate(tuple(made))),
)
loads = st.builds(
    Load,
    cast("st.SearchStrategy[Mode]", st.sampled_from(["append", "merge", "update", "overwrite"])),
    st.dictionaries(type_names, st.dictionaries(names, sizes, max_size=3), min_size=1, max_size=2),
    st.none() | st.lists(pairs, max_size=2).map(tuple),
)
writes = st.one_of(mutations, loads)


@dataclass(frozen=True, slots=True)
class Place:
    """Before or after the durable step of that number."""

    number: int
    when: When


whens = cast("st.SearchStrategy[When]", st.sampled_from(["before", "after"]))
places = st.builds(Place, st.integers(1, MOST_STEPS), whens)


def drop_type(graph: Graph, branch: str, type_name: str) -> str:
    """Publish a tombstone for a table, as a schema apply does; the commit id."""
    manifest, table_key, commit_id = manifest_of(graph), f"node:{type_name}", str(ULID())
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        version = manifest.view(branch).tables.version_of(table_key)
        request = PublishRequest(
            CommitIntent(commit_id, graph.schema.hash),
            tombstones=(Tombstone(TableKey(table_key), version + 1),),
            expected={table_key: version},
        )
        publish(manifest, held, branch, request)
    return commit_id


def bring_back_type(graph: Graph, branch: str, type_name: str) -> str:
    """Empty a dropped table until it stands above its tombstone, and register it again; the commit id."""
    manifest, table_key, commit_id = manifest_of(graph), f"node:{type_name}", str(ULID())
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        state = manifest.view(branch).tables
        last, location = state.latest[table_key], state.locations[table_key]
        pin = Pin(TableKey(table_key), location, last.version, last.branch, last.row_count)
        table = fork_table(manifest, held, branch, pin)
        while table.version <= state.tombstones[table_key]:
            table = tables.commit(table, tables.overwrite(table, table.schema.empty_table()), commit_id)
        request = PublishRequest(
            CommitIntent(commit_id, graph.schema.hash),
            registrations=(Registration(TableKey(table_key), location),),
            updates=(make_entry(manifest, pin, table),),
            expected={table_key: state.version_of(table_key)},
        )
        publish(manifest, held, branch, request)
    return commit_id


def abandon_a_fork(graph: Graph, branch: str, type_name: str, *, with_rows: bool) -> None:
    """What a writer leaves that forked a table and died before its publish, perhaps after its table commit."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        pin = list_pins(manifest.view(branch))[f"node:{type_name}"]
        if (pin.branch or "main") == branch:
            return
        fork = fork_table(manifest, held, branch, pin)
        lost = {"id": ["lost"], "name": ["lost"], "size": [None]}
        staged = tables.append(fork, pa.table(lost, schema=fork.schema))
        if with_rows and staged is not None:
            tables.commit(fork, staged, "dead")


class GraphMachine(RuleBasedStateMachine):
    """Each rule acts through one of two handles; after each, both handles are compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.root = Path(self.folder.name) / "graph.og"
        self.turn = 0

    @initialize()
    def begin(self) -> None:
        graph = omnigraph.init(self.root, SCHEMA)
        self.graphs = [graph, omnigraph.open(self.root)]
        self.model = GraphModel(graph.commits()[0].id, TYPES)
        self.do(0, "main", Load("append", {"Person": {"p": 1, "q": None}, "City": {"p": 0}}, (("p", "q"),)))
        self.create(1, "x/y", "main")
        self.do(0, "x/y", Mutate((Insert("Person", "r", 2),)))
        self.create(1, "a", "x/y")
        self.do(0, "a", Mutate((Insert("Firm", "p", -1),)))

    def teardown(self) -> None:
        with self.folder:
            for graph in (*self.graphs, omnigraph.open(self.root, "ro")):
                assert_same_history(graph, self.model)
                assert_same_past(graph, self.model)
                assert_same_tags(graph, self.model)
            assert_same_feed(omnigraph.open(self.root, "ro"), self.model)

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches)), "branch")

    def other_branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches.keys() - {"main"})), "branch")

    def start(self, data: st.DataObject) -> str | ModelCommit:
        """Where a new branch begins: a branch, or any commit that is still shown."""
        commits = self.model.commits()
        place = data.draw(st.integers(0, len(commits) - 1) | st.sampled_from(sorted(self.model.branches)), "start")
        return place if isinstance(place, str) else commits[place]

    def shown(self, branch: str) -> ModelBranch:
        return self.model.branches[branch]

    def fits(self, branch: str, write: Write) -> bool:
        """Whether every type of a write is there; no real schema would let it be written else."""
        return write.types <= self.shown(branch).head.rows.nodes.keys()

    def change(self, branch: str, write: Write) -> Rows | None:
        """What a write makes of a branch; None when it does not fit, is refused, or changes nothing."""
        if not self.fits(branch, write):
            return None
        before = self.shown(branch).head.rows
        try:
            after = write.on(before)
        except Refused:
            return None
        return None if after is before else after

    def do(self, handle: int, branch: str, write: Write) -> None:
        """One write on both; the model says whether it is refused, changes nothing, or is one commit."""
        before = self.shown(branch).head.rows
        try:
            after = write.on(before)
        except Refused:
            with pytest.raises(ValidationError):
                write.run(self.graphs[handle], branch)
            return
        made = write.run(self.graphs[handle], branch)
        assert (made is None) == (after is before)
        if made is not None:
            self.model.commit(branch, made.id, after)

    def failed(self, handle: int, branch: str, write: Write, at: Place) -> bool:
        """Let a durable step of a write fail; whether the write was acknowledged all the same."""
        try:
            with fail_at(at.number, at.when):
                write.run(self.graphs[handle], branch)
        except (InjectedFault, OutcomeUnknown):
            return False
        return True

    def died(self, branch: str, write: Write, at: Place) -> bool:
        """Let another process die at a durable step of a write; whether the write was done before."""
        child = crash.start(write_and_die, str(self.root), write, branch, at.number, at.when)
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        return child.exitcode == 0

    def go_on(self, handle: int, branch: str, types: set[str], after: Rows, *, acknowledged: bool) -> None:
        """The next write to the same tables just works, and finds the whole write before it, or nothing of it."""
        graph, shown = self.graphs[handle], self.shown(branch)
        known = shown.head.id
        following = Mutate((*(Insert(name, "next", self.turn) for name in sorted(types)), Link("next", "next")))
        made = following.run(graph, branch)
        last, *finished = takewhile(lambda commit: commit.id != known, graph.commits(branch))
        assert made == last
        assert sum(commit.actor != RECOVERY_ACTOR for commit in finished) <= 1
        for commit in reversed(finished):
            rows = rows_in(graph.snapshot(at=commit.id))
            assert rows in (shown.head.rows, after)
            self.model.commit(branch, commit.id, rows)
        assert shown.head.rows == after or not acknowledged
        self.model.commit(branch, last.id, following.on(shown.head.rows))

    def create(self, handle: int, name: str, start: str | ModelCommit) -> None:
        reference = start if isinstance(start, str) else start.id
        refusal = self.model.why_not_create(name)
        if refusal is not None:
            with pytest.raises(refusal):
                self.graphs[handle].create_branch(name, reference)
        else:
            self.graphs[handle].create_branch(name, reference)
            self.model.create_branch(name, start)

    def delete(self, handle: int, name: str) -> None:
        if self.model.has_dependents(name):
            with pytest.raises(ConflictError, match="still depends on it"):
                self.graphs[handle].delete_branch(name)
        else:
            self.graphs[handle].delete_branch(name)
            self.model.delete_branch(name)

    @rule(data=st.data(), handle=handles, mutation=mutations)
    def mutate(self, data: st.DataObject, handle: int, mutation: Mutate) -> None:
        branch = self.branch(data)
        if self.fits(branch, mutation):
            self.do(handle, branch, mutation)

    @rule(data=st.data(), handle=handles, load=loads)
    def load(self, data: st.DataObject, handle: int, load: Load) -> None:
        branch = self.branch(data)
        if self.fits(branch, load):
            self.do(handle, branch, load)

    @rule(data=st.data(), handle=handles, write=writes, at=places)
    def write_that_fails(self, data: st.DataObject, handle: int, write: Write, at: Place) -> None:
        branch = self.branch(data)
        after = self.change(branch, write)
        if after is not None:
            acknowledged = self.failed(handle, branch, write, at)
            self.go_on(1 - handle, branch, write.types | {"Person"}, after, acknowledged=acknowledged)

    @rule(data=st.data(), handle=handles, write=writes, at=places, reopened=st.booleans())
    def write_that_dies(self, data: st.DataObject, handle: int, write: Write, at: Place, reopened: bool) -> None:
        branch = self.branch(data)
        after = self.change(branch, write)
        if after is not None:
            acknowledged = self.died(branch, write, at)
            if reopened:
                self.graphs[handle] = omnigraph.open(self.root)
            self.go_on(handle, branch, write.types | {"Person"}, after, acknowledged=acknowledged)

    @rule(data=st.data(), handle=handles, name=branch_names)
    def create_branch(self, data: st.DataObject, handle: int, name: str) -> None:
        self.create(handle, name, self.start(data))

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(data=st.data(), handle=handles)
    def delete_branch(self, data: st.DataObject, handle: int) -> None:
        self.delete(handle, self.other_branch(data))

    @precondition(lambda self: bool(self.model.leaves()))
    @rule(data=st.data(), handle=handles, write=writes)
    def make_a_branch_anew(self, data: st.DataObject, handle: int, write: Write) -> None:
        """One handle deletes and makes a branch that the other one knows from before."""
        name = data.draw(st.sampled_from(self.model.leaves()), "branch")
        parent = self.model.branches[name].parent
        self.delete(handle, name)
        self.create(handle, name, parent or "main")
        if self.fits(name, write):
            self.do(handle, name, write)

    @rule(data=st.data(), handle=handles, name=tag_names)
    def tag_or_untag(self, data: st.DataObject, handle: int, name: str) -> None:
        graph = self.graphs[handle]
        if name not in self.model.tags:
            start = self.start(data)
            tag = graph.create_tag(name, start if isinstance(start, str) else start.id)
            commit = self.shown(start).head if isinstance(start, str) else start
            assert tag.commit == commit.id
            self.model.tags[name] = commit
            with pytest.raises(AlreadyExists):
                self.graphs[1 - handle].create_tag(name)
        else:
            graph.delete_tag(name)
            del self.model.tags[name]

    @rule(data=st.data(), handle=handles, type_name=dropped_types)
    def drop_or_bring_back(self, data: st.DataObject, handle: int, type_name: str) -> None:
        branch = self.branch(data)
        if type_name in self.shown(branch).head.rows.nodes:
            commit_id = drop_type(self.graphs[handle], branch, type_name)
            self.model.drop(branch, commit_id, type_name)
        else:
            commit_id = bring_back_type(self.graphs[handle], branch, type_name)
            self.model.bring_back(branch, commit_id, type_name)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(data=st.data(), handle=handles, type_name=type_names, with_rows=st.booleans())
    def write_after_a_death(self, data: st.DataObject, handle: int, type_name: str, with_rows: bool) -> None:
        branch = self.other_branch(data)
        if type_name in self.shown(branch).head.rows.nodes:
            abandon_a_fork(self.graphs[handle], branch, type_name, with_rows=with_rows)
            self.do(1 - handle, branch, Mutate((Insert(type_name, "next", None),)))

    @rule(data=st.data(), handle=handles)
    def compact_the_manifest(self, data: st.DataObject, handle: int) -> None:
        compact(self.graphs[handle], self.branch(data))

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.graphs[handle] = omnigraph.open(self.root)

    @rule()
    def read_only(self) -> None:
        before = traces(self.root)
        reader = omnigraph.open(self.root, "ro")
        assert_same_history(reader, self.model)
        assert_same_rows(reader, self.model)
        assert traces(self.root) == before

    @invariant()
    def both_handles_agree_with_the_model(self) -> None:
        self.turn += 1
        for graph in self.graphs:
            assert_same_history(graph, self.model)
        assert_same_rows(self.graphs[self.turn % 2], self.model)


TestGraph = GraphMachine.TestCase
TestGraph.settings = settings(
    max_examples=sized(2, 100),
    stateful_step_count=sized(20, 50),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
