"""``omnigraph optimize | cleanup | repair | verify``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.render.upkeep import size_text
from omnigraph.graph import Graph
from tests.cli.conftest import Command, error_of
from tests.maintain.ports import append_by_another_program, make_template


@pytest.fixture(scope="module")
def ports_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("ports"), 3)


@pytest.fixture
def ports(ports_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv("OMNIGRAPH_GRAPH", str(shutil.copytree(ports_template, tmp_path / "ports.og")))
    return og.open(tmp_path / "ports.og")


def test_optimize(omnigraph: Command, ports: Graph) -> None:
    answer = omnigraph("optimize", "--as", "act-ann")
    header, port, near, last = answer.out.splitlines()
    assert header.split() == ["table", "fragments", "now", "indexed", "left"]
    assert port.split() == ["node:Port", "3", "1", "id,", "name,", "code"]
    assert near.split() == ["edge:Near", "3", "1", "id,", "src,", "dst"]
    assert last == f"optimized main: {ports.commits(upkeep=True)[1].id}, {ports.commits(upkeep=True)[0].id}"
    assert ports.commits(upkeep=True)[0].actor == "act-ann"
    assert (answer.code, "the manifest was compacted too" in answer.err) == (0, True)
    again = omnigraph("optimize", "--type", "Port", "--json").json
    assert (again["branch"], again["commits"], again["manifest_compacted"]) == ("main", [], False)
    assert again["tables"] == [
        {"table": "node:Port", "fragments_before": 1, "fragments": 1, "indexed": [], "deferred": [], "skipped": None}
    ]
    assert omnigraph("optimize").out == "nothing to do on main\n"
    assert omnigraph("optimize", "--type", "Pot").code == 1
    assert omnigraph("optimize", "--branch", "nope").code == 1


def test_cleanup_is_a_preview_until_it_is_confirmed(omnigraph: Command, ports: Graph) -> None:
    ports.optimize()
    preview = omnigraph("cleanup", "--keep", "1", "--older-than", "7d")
    assert preview.code == 0
    assert re.search(r"^would reclaim [\d.]+ \w+; 6 commits can be read, 0 not$", preview.out, re.MULTILINE), (
        preview.out
    )
    assert "--yes does it" not in preview.err  # there is nothing to do
    done = omnigraph("cleanup", "--yes", "--json").json
    assert list(done) == ["confirmed", "commits_kept", "commits_gone", "bytes", "reclaimed"]
    assert (done["confirmed"], done["commits_kept"]) == (True, 6)
    assert "reclaimed 0 bytes" in omnigraph("cleanup", "--yes").out


@pytest.mark.parametrize(("words", "code"), [(("--keep", "0"), 2), (("--older-than", "soon"), 1)])
def test_cleanup_that_makes_no_sense(omnigraph: Command, ports: Graph, words: tuple[str, ...], code: int) -> None:
    head = ports.commits()[0]
    answer = omnigraph("cleanup", *words, "--yes", "--json")
    assert (answer.code, error_of(answer)["code"]) == (code, "parameter_error")
    assert ports.commits()[0] == head


def test_repair(omnigraph: Command, ports: Graph) -> None:
    assert omnigraph("repair").out == "no drift\n"
    append_by_another_program(ports, "x")
    preview = omnigraph("repair", "--force")
    header, drift = preview.out.splitlines()
    assert header.split() == ["branch", "table", "kind", "shown", "head", "operations", "would", "be"]
    assert drift.split() == ["main", "node:Port", "suspicious", "4", "5", "Append", "published"]
    assert (preview.code, "nothing was changed" in preview.err) == (0, True)
    done = omnigraph("repair", "--force", "--yes", "--json").json
    assert (done["confirmed"], done["commits"]) == (True, [ports.commits()[0].id])
    assert "repaired: nothing" not in omnigraph("repair", "--yes").out


def test_repair_of_a_graph_that_was_moved(omnigraph: Command, ports: Graph, tmp_path: Path) -> None:
    ports.create_branch("dev")
    moved = str(shutil.move(tmp_path / "ports.og", tmp_path / "moved.og"))
    asked = omnigraph("commit", "list", "--branch", "dev", "-g", moved, "--json")
    assert (asked.code, error_of(asked)["code"]) == (1, "graph_moved")
    preview = omnigraph("repair", "-g", moved)
    assert preview.out == "1 file of a branch names the folder that the graph was moved from\n"
    assert "--yes does it" in preview.err
    assert omnigraph("repair", "-g", moved, "--yes", "--json").json["moved"] == 1
    assert omnigraph("repair", "-g", moved).out == "no drift\n"
    assert len(og.open(moved).commits("dev")) == 4


def test_verify(omnigraph: Command, ports: Graph) -> None:
    sound = omnigraph("verify")
    assert (sound.code, sound.out) == (0, "sound: nothing is wrong\n")
    assert "read 6 rows, 1 branch, 4 commits, 0 tags" in sound.err
    append_by_another_program(ports, "x", "y")
    omnigraph("repair", "--force", "--yes")
    answer = omnigraph("verify")
    assert answer.code == 1
    finding, remedy, count = answer.out.splitlines()
    assert finding == "rule  main: Port x  @key on Port: 'x' has the key of 'y'"
    assert (remedy, count) == ("    correct or delete the row", "1 finding")
    found = omnigraph("verify", "--json")
    assert (found.code, found.json["sound"], found.json["rows"]) == (1, False, 7)


def test_sizes_as_a_person_says_them() -> None:
    assert [size_text(count) for count in (0, 999, 1000, 1_234_567, 5 * 10**15)] == [
        "0 bytes",
        "999 bytes",
        "1.0 KB",
        "1.2 MB",
        "5000.0 TB",
    ]
