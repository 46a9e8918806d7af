"""Copies of a graph that are made beside its writers, by the script of the documentation; and one in a wrong order."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.verify import FindingKind
from omnigraph.manifest.rows import MAIN
from tests.crash import Pipe, pipe, start
from tests.maintain.ports import SCHEMA, add, shown

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"
COPIES = 2


def write_until_stopped(end: Pipe, uri: str) -> None:
    """Ports, branches and tags come, and tables are optimized, until somebody says that it is enough."""
    try:
        graph, number = omnigraph.open(uri), 0
        while not end.poll():
            number += 1
            branch = (MAIN, "dev", "child")[number % 3]
            add(graph, f"w{number:04}", branch)
            if number % 10 == 0:
                graph.create_branch(f"b{number}", "dev")
                add(graph, "own", f"b{number}")
                graph.create_tag(f"t{number}", branch)
            if number % 7 == 0:
                graph.optimize(branch)
            if number == 5:
                end.send(None)
        end.send(number)
    except BaseException as error:  # noqa: BLE001  the parent raises it
        end.send(error)


def answer(end: Pipe) -> object:
    assert end.poll(60)
    said = end.recv()
    if isinstance(said, BaseException):
        raise said
    return said


def test_a_copy_that_is_made_beside_a_writer_is_whole(tmp_path: Path) -> None:
    found = re.search(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    script = tmp_path / "backup.sh"
    script.write_text(found[1], "utf-8")
    graph = omnigraph.init(tmp_path / "live.og", SCHEMA)
    add(graph, "first")
    graph.create_branch("dev")
    add(graph, "second", "dev")
    graph.create_branch("child", "dev")
    ours, theirs = pipe()
    writer = start(write_until_stopped, theirs, graph.uri)
    answer(ours)
    copies = [tmp_path / f"copy{number}.og" for number in range(COPIES)]
    for copy in copies:
        subprocess.run(["sh", str(script), graph.uri, str(copy)], check=True, capture_output=True)
    ours.send(None)
    assert isinstance(answer(ours), int)
    writer.join()
    sizes = [_is_whole(graph, omnigraph.open(copy)) for copy in copies]
    assert sizes == sorted(sizes)


def _is_whole(graph: Graph, copy: Graph) -> int:
    """Whatever the copy has is what the original had; it is sound, and can be written."""
    copy.repair(confirm=True)
    assert copy.verify().findings == ()
    for branch in copy.branches():
        assert branch.head is not None
        for commit in copy.commits(branch.name)[:3]:
            # What was unfinished in the copy ends there in a commit of its own.
            if not (commit.actor or "").startswith("omnigraph:"):
                assert shown(copy, at=commit.id) == shown(graph, at=commit.id)
        add(copy, "afterwards", branch.name)
    assert copy.verify().findings == ()
    return len(copy.commits())


def test_a_copy_in_a_wrong_order_is_found_out(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "live.og", SCHEMA)
    add(graph, "first")
    copy = tmp_path / "copy.og"
    for part in ("nodes", "edges"):
        shutil.copytree(tmp_path / "live.og" / part, copy / part)
    add(graph, "second")
    shutil.copytree(tmp_path / "live.og", copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("nodes", "edges"))
    kinds = {finding.kind for finding in omnigraph.open(copy, "ro").verify().findings}
    assert FindingKind.UNREADABLE in kinds
