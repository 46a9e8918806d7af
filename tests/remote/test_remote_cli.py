"""``-g URL`` gives every command a graph on a server; ``login`` and ``logout`` keep its token."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from omnigraph.cli.app import main
from tests.remote.conftest import ADD
from tests.remote.served import ServerProcess


@pytest.fixture
def url(server: ServerProcess, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OMNIGRAPH_TOKEN", raising=False)
    return server.add(folder)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = main(["--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_login_then_commands_then_logout(
    url: str, server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, refused = run(capsys, "-g", url, "info")
    assert code == 1
    assert refused["error"]["code"] == "unauthorized"  # type: ignore[index]
    monkeypatch.setattr("sys.stdin", StringIO("wrong\n"))
    assert run(capsys, "login", url)[0] == 1
    monkeypatch.setattr("sys.stdin", StringIO(f"{server.token}\n"))
    code, found = run(capsys, "login", url)
    assert (code, found["actor"], found["role"]) == (0, "act-test", "admin")
    assert server.token not in json.dumps(found)
    assert run(capsys, "-g", url, "info")[1]["nodes"] == {"Person": 2, "Slot": 1}
    code, made = run(capsys, "-g", url, "mutate", "-e", ADD, "-p", "name=cli", "-m", "by hand")
    assert (code, made["affected_nodes"], made["actor"]) == (0, 1, "act-test")
    code, listed = run(capsys, "-g", url, "commit", "list")
    assert listed["commits"][0]["id"] == made["commit"]  # type: ignore[index]
    for words in (
        ("query", "-e", "query q() { match { $p: Person } return { $p.name } }"),
        ("branch", "list"),
        ("tag", "list"),
        ("snapshot",),
        ("schema", "show"),
        ("diff", "start/here"),
        ("changes", "poll", "--start", "beginning"),
        ("merge", "dev/a", "--dry-run"),
    ):
        code, _ = run(capsys, "-g", url, *words)
        assert code == 0, words
    assert main(["-g", url, "export"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["-g", url, "--as", "me", "info"]) == 2
    capsys.readouterr()
    assert run(capsys, "logout", url) == (0, {"origin": server.origin, "removed": True})
    assert run(capsys, "-g", url, "info")[0] == 1
