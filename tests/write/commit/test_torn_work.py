"""What a power cut left torn: readers step over it, the next writer discards it and says so, and nothing is wedged."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import OutcomeUnknown, StorageError
from omnigraph.graph import Graph
from omnigraph.storage import durability
from omnigraph.worker_threads import WorkerThreads
from omnigraph.write.commit.audit import RecoveryKind
from tests import crash

SCHEMA = "node Port { code: String @key  name: String? @index }"


def add(graph: Graph, code: str, branch: str = "main") -> None:
    graph.load([{"type": "Port", "data": {"code": code}}], branch=branch)


def codes(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(row["code"] for row in graph.nodes("Port", branch=branch).to_arrow().to_pylist())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    for code in ("ams", "bcn", "cph"):
        add(graph, code)
    return tmp_path / "graph.og"


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def lose(file: Path) -> None:
    file.unlink()


VERSIONS = "_versions/*.manifest"


@pytest.mark.parametrize(
    ("pattern", "tear"),
    [
        *((VERSIONS, tear) for tear in (empty, halve, zero)),
        *((pattern, tear) for pattern in ("data/*.lance", "_deletions/*") for tear in (empty, halve, zero, lose)),
    ],
)
def test_a_torn_publish_is_stepped_over_and_recorded(root: Path, pattern: str, tear: Callable[[Path], None]) -> None:
    tear(newest(root / "__manifest", pattern))
    assert codes(omnigraph.open(root, "ro")) == ["ams", "bcn"]
    graph = omnigraph.open(root)
    assert codes(graph) == ["ams", "bcn"]
    add(graph, "dub")
    add(graph, "ede")
    assert codes(graph) == codes(omnigraph.open(root, "ro")) == ["ams", "bcn", "dub", "ede"]
    torn = [found for found in graph.recoveries() if found.kind is RecoveryKind.TORN_DISCARDED]
    assert [[(each.table_key, each.from_version, each.to_version) for each in found.outcomes] for found in torn] == [
        [("__manifest", 6, 5)]
    ]
    assert graph.verify().is_sound


def test_a_reader_that_stepped_over_sees_what_is_written_in_its_place(root: Path) -> None:
    empty(newest(root / "__manifest", VERSIONS))
    reader = omnigraph.open(root, "ro")
    assert codes(reader) == ["ams", "bcn"]
    add(omnigraph.open(root), "dub")
    assert codes(reader) == ["ams", "bcn", "dub"]


def test_a_version_after_a_missing_one_is_never_shown(root: Path) -> None:
    versions = sorted((root / "__manifest" / "_versions").glob("*.manifest"))
    versions[1].unlink()
    (root / "__manifest" / "_versions" / "latest_version_hint.json").write_text('{"version":4}')
    graph = omnigraph.open(root)
    assert codes(graph) == ["ams"]
    for code in ("dub", "ede", "fra"):
        add(graph, code)
    assert codes(omnigraph.open(root)) == ["ams", "dub", "ede", "fra"]
    assert graph.verify().is_sound


def test_damage_below_the_newest_version_is_no_power_cut(root: Path) -> None:
    first, *_ = sorted((root / "__manifest" / "data").glob("*.lance"), key=lambda file: file.stat().st_mtime_ns)
    empty(first)
    with pytest.raises(omnigraph.errors.StorageError):
        omnigraph.open(root)


def test_a_torn_sidecar_is_discarded_and_recorded(root: Path) -> None:
    sidecar = root / "__recovery" / "01X.json"
    sidecar.parent.mkdir(exist_ok=True)
    sidecar.write_bytes(b"")
    graph = omnigraph.open(root)
    add(graph, "dub")
    assert not sidecar.exists()
    assert [found.operation_id for found in graph.recoveries()] == ["__recovery/01X.json"]


def test_a_torn_version_of_the_audit_is_replaced(root: Path) -> None:
    for name in ("01X", "01Y"):
        sidecar = root / "__recovery" / f"{name}.json"
        sidecar.parent.mkdir(exist_ok=True)
        sidecar.write_bytes(b"")
        add(omnigraph.open(root), name)
        empty(newest(root / "_graph_commit_recoveries.lance", VERSIONS))
        assert omnigraph.open(root, "ro").recoveries() == []


def test_a_branch_whose_creation_was_torn_is_gone_and_can_be_made_again(root: Path) -> None:
    omnigraph.open(root).create_branch("dev")
    empty(newest(root / "__manifest" / "tree" / "dev", VERSIONS))
    graph = omnigraph.open(root)
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.create_branch("dev")
    add(graph, "dub", "dev")
    assert codes(graph, "dev") == ["ams", "bcn", "cph", "dub"]


# --------------------------------------------------------------------------------------------- a disk that fails


@contextmanager
def failing_disk(pattern: str) -> Generator[list[str]]:
    """A disk that cannot sync the files whose path contains the pattern; yield the paths that it refused."""
    sync, refused = os.fsync, list[str]()

    def fail(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if re.search(pattern, path):
            refused.append(path)
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(durability.os, "fsync", fail)
        yield refused


@pytest.fixture
def synced(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph.og", SCHEMA, durability="power")


def opened(graph: Graph) -> Graph:
    """Another handle, as another process has it."""
    return omnigraph.open(graph.uri, durability="power")


@pytest.mark.parametrize("pattern", [r"nodes/.*\.lance$", "__recovery"])
def test_a_write_whose_files_cannot_be_synced_changes_nothing(synced: Graph, pattern: str) -> None:
    with failing_disk(pattern) as refused, pytest.raises(StorageError, match="cannot sync") as failed:
        add(synced, "ams")
    assert failed.value.details["path"] in refused
    assert codes(opened(synced)) == []
    add(synced, "bcn")
    assert codes(opened(synced)) == ["bcn"]
    assert synced.verify().is_sound


def test_the_next_writer_does_not_publish_a_file_that_never_reached_the_disk(synced: Graph) -> None:
    with failing_disk("graph.og/(nodes|__recovery)") as _, pytest.raises(StorageError):
        add(synced, "ams")
    with failing_disk("graph.og/nodes") as _, pytest.raises(OutcomeUnknown, match="could not be rolled back"):
        add(synced, "bcn")
    add(opened(synced), "cph")
    assert codes(opened(synced)) == ["cph"]
    assert synced.verify().is_sound


def die_before_publish(uri: str) -> None:
    add(omnigraph.open(uri, durability="power"), "ams")


def test_recovery_does_not_publish_a_file_that_it_cannot_sync(synced: Graph) -> None:
    steps = crash.record(die_before_publish, str(crash.fresh_copy(Path(synced.uri))))
    publish = next(step.number for step in steps if step.name == "table.merge" and "__manifest" in step.detail)
    crash.kill_at(die_before_publish, (synced.uri,), publish, "before")
    with failing_disk(r"nodes/.*\.lance$") as refused:
        opened(synced)
    assert refused
    add(opened(synced), "cph")
    assert codes(opened(synced)) == ["cph"]
    assert [recovery.kind for recovery in synced.recoveries()] == [RecoveryKind.ROLLED_BACK]


def test_a_handle_whose_publish_cannot_be_synced_writes_no_more(synced: Graph) -> None:
    add(synced, "aar")
    with failing_disk("graph.og/__manifest") as _, pytest.raises(OutcomeUnknown, match="may not be on the disk"):
        add(synced, "ams")
    for write in (partial(add, synced, "bcn"), partial(synced.create_branch, "dev"), synced.optimize):
        with pytest.raises(StorageError, match="writes no more"):
            write()
    add(opened(synced), "cph")
    assert "cph" in codes(synced)
    assert synced.verify().is_sound


@pytest.mark.parametrize("in_pool", [False, True])
def test_a_failed_sync_is_told_to_each_thread_whose_files_it_had(tmp_path: Path, *, in_pool: bool) -> None:
    barrier = durability.WriteBarrier(str(tmp_path))
    noted, waited = threading.Event(), threading.Event()

    def note_then_wait() -> None:
        (tmp_path / "lost").write_bytes(b"rows")
        if in_pool:
            with WorkerThreads(1) as stagers:
                stagers.submit(barrier.note_files, [tmp_path / "lost"]).result()
        else:
            barrier.note_files([tmp_path / "lost"])
        noted.set()
        assert waited.wait(60)
        barrier.wait()

    with failing_disk("lost") as _, ThreadPoolExecutor(1) as pool:
        writer = pool.submit(note_then_wait)
        assert noted.wait(60)
        with pytest.raises(durability.SyncFailed):
            barrier.wait()
        waited.set()
        with pytest.raises(durability.SyncFailed):
            writer.result()
    barrier.wait()
