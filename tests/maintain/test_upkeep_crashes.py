"""Upkeep dies by SIGKILL at every durable write; the next process finds the same rows, ends it, and writes on.

One clean run numbers the writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph.errors import HistoryGone
from omnigraph.graph import Graph
from omnigraph.maintain import cleanup as cleanups
from omnigraph.maintain.cleanup import cleanup
from omnigraph.manifest.branches import fork_table
from omnigraph.storage import tables
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import upkeep as table_upkeep
from omnigraph.write.commit.sidecars import list_sidecars
from tests.crash import fresh_copy, kill_at, record, run, some_crashes
from tests.deleting import delete_where
from tests.maintain.ports import AT_ONCE, Shown, add, fragments, make_template, shown, uri_of
from tests.write.fleet import open_unhealed

KEPT = 2


@dataclass(frozen=True, slots=True)
class Upkeep:
    """One kind of it: what makes it due, how it is done, and what is true when it is done."""

    prepare: Callable[[Graph], None]
    do: Callable[[str], None]
    check: Callable[[Graph], None]


def leave_as_it_is(graph: Graph) -> None:
    """Small commits are enough."""
    assert max(fragments(graph).values()) > 1


def optimize_at(uri: str) -> None:
    open_unhealed(uri).optimize()


def is_optimized(graph: Graph) -> None:
    # Whoever died may have left rows with and without an index, which Lance does not put together at once.
    graph.optimize()
    assert set(fragments(graph).values()) == {1}
    assert all(index.rows == 4 for index in graph.snapshot().table("Port").list_indexes().values())


def leave_indexed(graph: Graph) -> None:
    """Small commits, and indexes over them, which do not cover rows that are merged."""
    graph.ensure_indexes()


def tend_at(uri: str) -> None:
    """What a writer does after its commit; so many fragments are many here."""
    table_upkeep.MANY_SMALL_FRAGMENTS = 3  # pyright: ignore[reportConstantRedefinition]  in a process of its own
    open_unhealed(uri).do_upkeep()


def is_tended(graph: Graph) -> None:
    assert max(fragments(graph).values()) == 1
    table = graph.snapshot().table("Port")
    # Whoever died between the two commits left the indexes to the next time that fragments are merged.
    assert table.list_indexes()["id_idx"].rows in (0, table.count_rows())
    assert table.count_rows("id = 'p01'") == 1
    assert [commit for commit in graph.commits() if commit.upkeep] == []
    # What recovery rolled forward or back is upkeep too.
    assert len(graph.commits()) == 5


def leave_orphans(graph: Graph) -> None:
    """A fork of a branch that is gone, one that nobody published, and staged rows."""
    manifest, table = graph._manifest, graph.snapshot().table("Port")
    graph.create_branch("dev")
    with branch_lock(manifest.location, "dev") as held:
        fork_table(manifest, held, "dev", graph.snapshot().pins["edge:Near"])
    tables.create_table_branch(table, "gone")
    tables.write_rows(table, table.scan().read_all())


def cleanup_at(uri: str) -> None:
    """Cleanup in many turns, of two versions each."""
    cleanups._FILES_AT_ONCE, cleanups.TURN_SECONDS = 2, 0.0  # pyright: ignore[reportConstantRedefinition, reportPrivateUsage]  in a process of its own
    cleanup(open_unhealed(uri)._manifest, KEPT, confirm=True, stale_after=AT_ONCE, grace=AT_ONCE)


def is_clean(graph: Graph) -> None:
    preview = cleanup(graph._manifest, KEPT, stale_after=AT_ONCE, grace=AT_ONCE)
    assert preview.reclaimed == ()
    with pytest.raises(HistoryGone):
        shown(graph, at=graph.commits()[KEPT].id)


def leave_drift(graph: Graph) -> None:
    """A compaction by another program, and what a writer of ours left that died."""
    lance.dataset(uri_of(graph, "node:Port")).optimize.compact_files()
    table = graph.snapshot().table("Near")
    staged = delete_where(table, "src = 'p01'")
    assert staged is not None
    tables.commit(table, staged, "op-of-the-dead")


def repair_at(uri: str) -> None:
    open_unhealed(uri).repair(confirm=True)


def is_repaired(graph: Graph) -> None:
    assert graph.repair().drifts == ()
    assert fragments(graph)["node:Port"] == 1


UPKEEP = {
    "optimize": Upkeep(leave_as_it_is, optimize_at, is_optimized),
    "tail": Upkeep(leave_indexed, tend_at, is_tended),
    "cleanup": Upkeep(leave_orphans, cleanup_at, is_clean),
    "repair": Upkeep(leave_drift, repair_at, is_repaired),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("upkeep"), 4)


def prepared(template: Path, name: str) -> str:
    """A graph for which upkeep is due. A copy of one that has branches already would share their files with it."""
    uri = str(fresh_copy(template))
    UPKEEP[name].prepare(omnigraph.open(uri))
    return uri


def go_on(deaths: list[tuple[str, str]], name: str, before: dict[str, Shown]) -> None:
    """What the next process does, for every death."""
    for uri, place in deaths:
        try:
            _go_on(uri, UPKEEP[name], before)
        except BaseException as error:
            error.add_note(place)
            raise


def _go_on(uri: str, upkeep: Upkeep, before: dict[str, Shown]) -> None:
    graph = omnigraph.open(uri)
    assert {commit: shown(graph, at=commit) for commit in before} == before
    upkeep.do(uri)
    rows = shown(graph)
    assert rows == next(iter(before.values()))
    upkeep.check(graph)
    assert graph.verify().findings == ()
    add(graph, "next")
    assert shown(graph)[0] == sorted([*rows[0], "next"])
    assert list_sidecars(graph._manifest.objects) == []


def kill_everywhere(template: Path, name: str) -> int:
    upkeep = UPKEEP[name]
    uri = prepared(template, name)
    graph = omnigraph.open(uri, "ro")
    before = {commit.id: shown(graph, at=commit.id) for commit in graph.commits()[:KEPT]}
    steps = record(upkeep.do, uri)
    deaths: list[tuple[str, str]] = []
    for number, when in some_crashes(steps):
        uri, step = prepared(template, name), steps[number - 1]
        kill_at(upkeep.do, (uri,), number, when)
        deaths.append((uri, f"killed {when} write {number} of {len(steps)}: {step.name} {step.detail}"))
    for start in range(0, len(deaths), 10):
        run(go_on, deaths[start : start + 10], name, before)
    return len(deaths)


@pytest.mark.parametrize("name", UPKEEP)
def test_killed_at_every_write_the_next_process_goes_on(
    template: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deaths = kill_everywhere(template, name)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {deaths} deaths\n")
    assert deaths >= 2
