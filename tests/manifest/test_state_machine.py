"""A graph and its model, driven by the same random story through two handles that never tell each other anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ulid import ULID

import omnigraph
from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import Registration, Tombstone
from omnigraph.manifest.snapshot import Pin, entry_of, pins_of
from omnigraph.storage import table as tables
from omnigraph.storage.location import locate
from omnigraph.storage.locks import branch_lock
from tests.manifest.fence import compact
from tests.manifest.publishing import commit_rows, make_graph, manifest_of
from tests.model.comparing import assert_same_history, assert_same_past, assert_same_rows
from tests.model.files import traces
from tests.model.graph_model import GraphModel, ModelCommit

TYPES = ("Person", "City", "Firm")
NAMES = ("a", "x", "x/y", "x/z")
LARGE = os.environ.get("OMNIGRAPH_FUZZ") == "large"

handles = st.integers(0, 1)
branch_names = st.sampled_from(NAMES)
type_names = st.sampled_from(TYPES)


def drop_type(graph: Graph, branch: str, type_name: str) -> str:
    """Publish a tombstone for a table, as a schema apply does; the commit id."""
    manifest, table_key, commit_id = manifest_of(graph), f"node:{type_name}", str(ULID())
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        version = manifest.view(branch).tables.version_of(table_key)
        request = PublishRequest(
            CommitIntent(commit_id, graph.schema.hash),
            tombstones=(Tombstone(table_key, version + 1),),
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
        pin = Pin(table_key, location, last.version, last.branch, last.row_count)
        table = fork_table(manifest, held, branch, pin)
        while table.version <= state.tombstones[table_key]:
            table = tables.commit(table, tables.overwrite(table, table.schema.empty_table()), commit_id)
        request = PublishRequest(
            CommitIntent(commit_id, graph.schema.hash),
            registrations=(Registration(table_key, location),),
            updates=(entry_of(manifest, pin, table),),
            expected={table_key: state.version_of(table_key)},
        )
        publish(manifest, held, branch, request)
    return commit_id


def abandon_a_fork(graph: Graph, branch: str, type_name: str, *, with_rows: bool) -> None:
    """What a writer leaves that forked a table and died before its publish, perhaps after its table commit."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        pin = pins_of(manifest.view(branch))[f"node:{type_name}"]
        if (pin.branch or "main") == branch:
            return
        fork = fork_table(manifest, held, branch, pin)
        staged = tables.append(fork, pa.table({"id": ["lost"], "name": ["lost"]}, schema=fork.schema))
        if with_rows and staged is not None:
            tables.commit(fork, staged, "dead")


class GraphMachine(RuleBasedStateMachine):
    """Each rule acts through one of two handles; after each, both handles are compared with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.root = Path(self.folder.name) / "graph.og"
        self.made = 0

    @initialize()
    def begin(self) -> None:
        graph = make_graph(locate(self.root))
        self.graphs = [graph, omnigraph.open(self.root)]
        self.model = GraphModel(graph.commits()[0].id, TYPES)
        self.add(0, "main", {"Person": 2, "City": 1})
        self.create(1, "x/y", "main")
        self.add(0, "x/y", {"Person": 1})
        self.create(1, "a", "x/y")
        self.add(0, "a", {"Firm": 1})

    def teardown(self) -> None:
        with self.folder:
            for graph in (*self.graphs, omnigraph.open(self.root, "ro")):
                assert_same_history(graph, self.model)
                assert_same_past(graph, self.model)

    def branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches)), "branch")

    def other_branch(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.branches.keys() - {"main"})), "branch")

    def start(self, data: st.DataObject) -> str | ModelCommit:
        """Where a new branch begins: a branch, or any commit that is still shown."""
        commits = self.model.commits()
        place = data.draw(st.integers(0, len(commits) - 1) | st.sampled_from(sorted(self.model.branches)), "start")
        return place if isinstance(place, str) else commits[place]

    def add(self, handle: int, branch: str, counts: Mapping[str, int]) -> None:
        added: dict[str, list[str]] = {}
        for type_name in counts.keys() & self.model.branches[branch].head.rows.keys():
            added[type_name] = [f"n{self.made + number}" for number in range(counts[type_name])]
            self.made += counts[type_name]
        if added:
            published = commit_rows(self.graphs[handle], added, branch)
            self.model.add(branch, published.commit.id, added)

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

    @rule(data=st.data(), handle=handles, counts=st.dictionaries(type_names, st.integers(1, 3), min_size=1))
    def publish(self, data: st.DataObject, handle: int, counts: dict[str, int]) -> None:
        self.add(handle, self.branch(data), counts)

    @rule(data=st.data(), handle=handles, name=branch_names)
    def create_branch(self, data: st.DataObject, handle: int, name: str) -> None:
        self.create(handle, name, self.start(data))

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(data=st.data(), handle=handles)
    def delete_branch(self, data: st.DataObject, handle: int) -> None:
        self.delete(handle, self.other_branch(data))

    @precondition(lambda self: bool(self.model.leaves()))
    @rule(data=st.data(), handle=handles, counts=st.dictionaries(type_names, st.just(1), min_size=1))
    def make_a_branch_anew(self, data: st.DataObject, handle: int, counts: dict[str, int]) -> None:
        """One handle deletes and makes a branch that the other one knows from before."""
        name = data.draw(st.sampled_from(self.model.leaves()), "branch")
        parent = self.model.branches[name].parent
        self.delete(handle, name)
        self.create(handle, name, parent or "main")
        self.add(handle, name, counts)

    @rule(data=st.data(), handle=handles, type_name=type_names)
    def drop_or_bring_back(self, data: st.DataObject, handle: int, type_name: str) -> None:
        branch = self.branch(data)
        if type_name in self.model.branches[branch].head.rows:
            commit_id = drop_type(self.graphs[handle], branch, type_name)
            self.model.drop(branch, commit_id, type_name)
        else:
            commit_id = bring_back_type(self.graphs[handle], branch, type_name)
            self.model.bring_back(branch, commit_id, type_name)

    @precondition(lambda self: len(self.model.branches) > 1)
    @rule(data=st.data(), handle=handles, type_name=type_names, with_rows=st.booleans())
    def write_after_a_death(self, data: st.DataObject, handle: int, type_name: str, with_rows: bool) -> None:
        branch = self.other_branch(data)
        if type_name in self.model.branches[branch].head.rows:
            abandon_a_fork(self.graphs[handle], branch, type_name, with_rows=with_rows)
            self.add(1 - handle, branch, {type_name: 1})

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
        for graph in self.graphs:
            assert_same_history(graph, self.model)
        assert_same_rows(self.graphs[self.made % 2], self.model)


TestGraph = GraphMachine.TestCase
TestGraph.settings = settings(
    max_examples=500 if LARGE else 15,
    stateful_step_count=60 if LARGE else 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
