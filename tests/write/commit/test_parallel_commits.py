"""Phase B commits tables side by side on object stores: any subset of them may be there when the writer dies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.failpoints import When
from omnigraph.storage.location import Location
from omnigraph.write.commit import WriteOperation, phases
from tests.crash import kill_after_subset, record, run
from tests.s3 import S3Server
from tests.s3_proxy import Act, Proxy
from tests.selection import daily
from tests.write.commit.test_crashes import Death, go_on
from tests.write.writers import (
    BY_NEXT,
    NEXT,
    WRITERS,
    assert_settled,
    copy_template,
    fail_first_write,
    make_template,
    open_manifest,
    read_state,
    read_states_around,
    write_commit,
    write_in_process,
)

LOAD = WRITERS["load three tables"]
PATIENCE = 120.0
SUBSETS = [chosen for size in range(4) for chosen in combinations(range(3), size)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("parallel"))


def write_in_threads(root: str, work: WriteOperation[None], branch: str) -> None:
    """Write in a process of its own, on a local disk as on an object store."""
    phases.LOCAL_THREADS = 3  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  in a child only
    write_in_process(root, work, branch)


@pytest.mark.parametrize(
    ("subset", "branch"),
    daily(
        [(subset, branch) for subset in SUBSETS for branch in (MAIN, "dev")],
        [((), MAIN), ((1,), "dev"), ((0, 2), MAIN), ((0, 1, 2), "dev")],
    ),
)
def test_killed_with_any_tables_committed_the_next_writer_goes_on(
    template: Path, subset: tuple[int, ...], branch: str
) -> None:
    states = read_states_around(template, LOAD, branch)
    recorded = str(copy_template(template, branch))
    subjects = sorted(
        step.detail.removeprefix(recorded)
        for step in record(write_in_process, recorded, LOAD, branch)
        if step.name == "table.commit"
    )
    assert len(subjects) == 3
    root = str(copy_template(template, branch))
    chosen = [root + subjects[place] for place in subset]
    kill_after_subset(write_in_threads, (root, LOAD, branch), "table.commit", chosen)
    complete = len(subset) == len(subjects)
    run(go_on, Death(root, LOAD, branch, 0, "after", states, complete, f"killed with {chosen} committed"))


THREE = """
node A { name: String @key }
node B { name: String @key }
node C { name: String @key }
"""
ADD = 'query add() { insert A { name: "x" } insert B { name: "x" } insert C { name: "x" } }'


def test_on_an_object_store_all_commits_are_on_their_way_at_once(s3_location: Location, s3_proxy: Proxy) -> None:
    options = S3Server(s3_proxy.endpoint).options
    graph = omnigraph.init(s3_location.uri, THREE, storage_options=options)
    folders = [pin.location for pin in graph.snapshot().pins.values()]
    with ExitStack() as held, ThreadPoolExecutor(1) as pool:
        faults = [
            held.enter_context(s3_proxy.fault("PUT", f"{folder}/_versions/", Act.HOLD_REQUEST)) for folder in folders
        ]
        writing = pool.submit(graph.mutate, ADD)
        assert all(fault.on_its_way.wait(PATIENCE) for fault in faults)
        for fault in faults:
            fault.released.set()
        assert writing.result().affected_nodes == len(folders)


@pytest.mark.parametrize("when", ["before", "after"])
def test_if_one_commit_fails_the_others_are_rolled_back(
    template: Path, monkeypatch: pytest.MonkeyPatch, when: When
) -> None:
    monkeypatch.setattr(phases, "LOCAL_THREADS", 3)
    manifest = open_manifest(str(copy_template(template, MAIN)))
    before = read_state(manifest, MAIN)
    with fail_first_write("table.commit", when), pytest.raises(StorageError):
        write_commit(manifest, LOAD, MAIN)
    assert read_state(manifest, MAIN) == before
    write_commit(manifest, NEXT, MAIN)
    assert read_state(manifest, MAIN) == before + BY_NEXT
    assert_settled(manifest, MAIN)
