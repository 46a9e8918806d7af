"""A process dies by SIGKILL before and after every durable write of each operation; the next process just works.

The matrix is complete by construction: one clean run numbers the writes, and every number is killed twice. Table
commits that a killed publish leaves beyond their pins are for recovery, which comes with the write path: after those
deaths the next write here goes to another table, so that what is tested is the fence itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, NotFound
from omnigraph.graph import Graph
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins
from omnigraph.storage.failpoints import When, WriteStep
from omnigraph.storage.location import locate
from omnigraph.storage.locks import branch_lock
from tests.crash import every_crash, fresh_copy, kill_at, record, run
from tests.manifest.fence import advance, compact, facts, read_from_nothing, send
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, manifest_of, names
from tests.selection import daily

OTHER_SCHEMA = "node Other { name: String @key }\n"


@dataclass(frozen=True, slots=True)
class Death:
    """Where in its writes an operation died."""

    steps: tuple[WriteStep, ...]
    number: int
    when: When

    def done(self, name: str, detail: str = "") -> bool:
        """Whether all writes of that kind had happened."""
        last = max(step.number for step in self.steps if step.name == name and detail in step.detail)
        return last < self.number or (last == self.number and self.when == "after")


@dataclass(frozen=True, slots=True)
class Operation:
    """What is prepared once, what is killed, and what the next process must find and be able to do."""

    prepare: Callable[[Path], None]
    operate: Callable[[str], None]
    go_on: Callable[[str, Death], None]


def read_everything(uri: str) -> Graph:
    """Open for writing and read every table of every branch, now and at each commit."""
    graph = omnigraph.open(uri)
    for branch in graph.branches():
        for at in (None, *(commit.id for commit in graph.commits(branch.name))):
            snapshot = graph.snapshot(branch.name, at)
            for table_key, pin in snapshot.pins.items():
                assert snapshot.table(table_key).count_rows() == pin.row_count
        manifest = manifest_of(graph)
        assert facts(manifest.view(branch.name, with_lineage=True)) == facts(read_from_nothing(manifest, branch.name))
    return graph


# --------------------------------------------------------------------------------------------- init


def prepare_nothing(root: Path) -> None:
    root.mkdir()


def init(uri: str) -> None:
    omnigraph.init(uri, SCHEMA)


def go_on_after_init(uri: str, death: Death) -> None:
    claimed = death.done("objects.put_if_absent", "_schema.pg")
    if death.done("table.metadata"):
        for schema in (SCHEMA, OTHER_SCHEMA):
            with pytest.raises(AlreadyExists):
                omnigraph.init(uri, schema)
    else:
        for mode in ("rw", "ro"):
            with pytest.raises(NotFound, match="is unfinished" if claimed else "there is no graph"):
                omnigraph.open(uri, mode)
        if claimed:
            with pytest.raises(ConflictError, match="has another schema"):
                omnigraph.init(uri, OTHER_SCHEMA)
        init(uri)
    graph = read_everything(uri)
    assert graph.info().format == 4
    assert manifest_of(graph).open(MAIN).version == 3
    commit_rows(graph, {"Person": ["ann"]})
    assert names(graph, "Person") == ["ann"]


# --------------------------------------------------------------------------------------------- publish


def prepare_people(root: Path) -> None:
    commit_rows(make_graph(locate(root)), {"Person": ["ann"]})


def publish_two_tables(uri: str) -> None:
    commit_rows(omnigraph.open(uri), {"Person": ["bob"], "City": ["rome"]})


def go_on_after_publish(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    landed = death.done("table.merge")
    assert names(graph, "Person") == (["ann", "bob"] if landed else ["ann"])
    assert names(graph, "City") == (["rome"] if landed else [])
    assert len(graph.commits()) == (3 if landed else 2)
    commit_rows(graph, {"Firm": ["next"]})
    assert names(read_everything(uri), "Firm") == ["next"]


# --------------------------------------------------------------------------------------------- fork on first touch


def prepare_branch(root: Path) -> None:
    graph = make_graph(locate(root))
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("dev")


def publish_on_branch(uri: str) -> None:
    commit_rows(omnigraph.open(uri), {"Person": ["bob"], "City": ["rome"]}, "dev")


def go_on_after_fork(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    landed = ["bob"] if death.done("table.merge") else []
    assert names(graph, "Person", "dev") == ["ann", *landed]
    # The same tables: a fork that was never published is made anew, with what lies beyond its pin.
    commit_rows(graph, {"Person": ["cid"], "City": ["oslo"]}, "dev")
    graph = read_everything(uri)
    assert names(graph, "Person", "dev") == ["ann", *landed, "cid"]
    assert names(graph, "Person") == ["ann"]


# --------------------------------------------------------------------------------------------- branches


def create_branch(uri: str) -> None:
    omnigraph.open(uri).create_branch("review/june")


def go_on_after_create(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    exists = "review/june" in [branch.name for branch in graph.branches()]
    assert exists == death.done("table.branch.create")
    if not exists:
        create_branch(uri)
    commit_rows(graph, {"Person": ["bob"]}, "review/june")
    assert names(read_everything(uri), "Person", "review/june") == ["ann", "bob"]


def prepare_forks(root: Path) -> None:
    """Two forks that were published, and one whose writer died before that."""
    prepare_branch(root)
    graph = omnigraph.open(root)
    commit_rows(graph, {"Person": ["bob"], "City": ["rome"]}, "dev")
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, "dev", manifest.locks) as held:
        fork_table(manifest, held, "dev", list_pins(manifest.view("dev"))["node:Firm"])


def delete_branch(uri: str) -> None:
    omnigraph.open(uri).delete_branch("dev")


def go_on_after_delete(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    exists = "dev" in [branch.name for branch in graph.branches()]
    assert exists != death.done("table.branch.delete", "__manifest")
    if exists:
        assert names(graph, "Person", "dev") == ["ann", "bob"]
        graph.delete_branch("dev")
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["cid"], "City": ["oslo"], "Firm": ["acme"]}, "dev")
    graph = read_everything(uri)
    assert names(graph, "Person", "dev") == ["ann", "cid"]
    assert names(graph, "City", "dev") == ["oslo"]


# --------------------------------------------------------------------------------------------- tags


def create_tag(uri: str) -> None:
    omnigraph.open(uri).create_tag("release/1", actor="tests")


def go_on_after_tag(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    exists = death.done("objects.put_if_absent", "__tags/release/1.json")
    assert [tag.name for tag in graph.tags()] == (["release/1"] if exists else [])
    if exists:
        with pytest.raises(AlreadyExists):
            create_tag(uri)
    else:
        create_tag(uri)
    commit_rows(graph, {"Person": ["bob"]})
    assert names(graph, "Person", at="release/1") == ["ann"]


def prepare_tag(root: Path) -> None:
    prepare_people(root)
    create_tag(str(root))


def delete_tag(uri: str) -> None:
    omnigraph.open(uri).delete_tag("release/1")


def go_on_after_untag(uri: str, death: Death) -> None:
    graph = read_everything(uri)
    gone = death.done("objects.delete", "__tags/release/1.json")
    assert [tag.name for tag in graph.tags()] == ([] if gone else ["release/1"])
    if not gone:
        delete_tag(uri)
    graph.create_branch("release/1")
    assert graph.tags() == []


# --------------------------------------------------------------------------------------------- compaction


def prepare_fragments(root: Path) -> None:
    graph = make_graph(locate(root))
    commit_rows(graph, {"Person": ["ann"]})
    for _ in range(COMPACT_AT_FRAGMENTS - 2):
        send(graph, advance(graph, {}))


def compact_main(uri: str) -> None:
    compact(omnigraph.open(uri))


def publish_and_compact(uri: str) -> None:
    commit_rows(omnigraph.open(uri), {"City": ["rome"]})


def go_on_after_compaction(uri: str, death: Death) -> None:
    assert death.steps
    graph = omnigraph.open(uri)
    before = graph.commits()
    manifest = manifest_of(graph)
    assert facts(manifest.view(MAIN)) == facts(read_from_nothing(manifest))
    assert len(before) >= COMPACT_AT_FRAGMENTS
    commit_rows(graph, {"Person": ["bob"]})
    assert graph.commits()[1:] == before
    assert len(manifest.open(MAIN).fragment_rows()) <= 3
    assert names(omnigraph.open(uri, "ro"), "Person") == ["ann", "bob"]


OPERATIONS = {
    "init": Operation(prepare_nothing, init, go_on_after_init),
    "publish": Operation(prepare_people, publish_two_tables, go_on_after_publish),
    "fork on first touch": Operation(prepare_branch, publish_on_branch, go_on_after_fork),
    "branch create": Operation(prepare_people, create_branch, go_on_after_create),
    "branch delete": Operation(prepare_forks, delete_branch, go_on_after_delete),
    "tag create": Operation(prepare_people, create_tag, go_on_after_tag),
    "tag delete": Operation(prepare_tag, delete_tag, go_on_after_untag),
    "compaction": Operation(prepare_fragments, compact_main, go_on_after_compaction),
    "publish that compacts": Operation(prepare_fragments, publish_and_compact, go_on_after_compaction),
}


def go_on_after_each(
    go_on: Callable[[str, Death], None], steps: tuple[WriteStep, ...], killed: dict[tuple[int, When], str]
) -> None:
    """What the next process does, for every death."""
    for (number, when), uri in killed.items():
        try:
            go_on(uri, Death(steps, number, when))
        except BaseException as error:
            step = steps[number - 1]
            error.add_note(f"killed {when} write {number} of {len(steps)}: {step.name} {step.detail}")
            raise


@pytest.mark.parametrize("name", daily(OPERATIONS, [name for name in OPERATIONS if name != "compaction"]))
def test_killed_at_every_write_the_next_process_goes_on(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = OPERATIONS[name]
    template = tmp_path / "graph.og"
    operation.prepare(template)
    steps = tuple(record(operation.operate, str(fresh_copy(template))))
    killed: dict[tuple[int, When], str] = {}
    for number, when in every_crash(steps):
        killed[number, when] = str(fresh_copy(template))
        kill_at(operation.operate, (killed[number, when],), number, when)
    run(go_on_after_each, operation.go_on, steps, killed)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {len(steps)} writes, {len(killed)} deaths\n")
