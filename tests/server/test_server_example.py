"""The example of a server with a policy is in order, as ``serve --check`` sees it."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import main
from omnigraph.server import Role, check_server, create_token, read_config
from tests.server.client import open_client

EXAMPLE = Path(__file__).parents[2] / "examples" / "server"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "server")
    omnigraph.init(tmp_path / "server" / "brain.og", EXAMPLE / "schema.pg").load(EXAMPLE / "people.jsonl")
    create_token(tmp_path / "server" / "tokens.json", "act-ines", Role.WRITE, None, None)
    return tmp_path / "server"


def test_the_example_is_in_order_and_a_case_that_fails_is_named(folder: Path) -> None:
    settings = read_config(folder / "server.yaml", {})
    found = check_server(settings)
    assert found.problems == ()
    assert "policy.policy-test.yaml: all cases hold" in found.lines
    assert any(line.startswith("  act-ines (write): read, export, change") for line in found.lines)
    cases = folder / "policy.policy-test.yaml"
    cases.write_text(cases.read_text().replace("branch: main, expect: deny}", "branch: main, expect: allow}", 1))
    assert ["curators do not write on main" in each for each in check_server(settings).problems] == [True]


def test_the_commands_say_what_a_policy_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = str(folder / "policy.yaml")

    def run(*words: str) -> tuple[int, str]:
        return main(["policy", *words]), capsys.readouterr().out

    assert "12 rules" in run("validate", "--policy", policy)[1]
    asked = ["--actor", "act-lena", "--action", "read", "--branch", "main", "--type", "node:Salary"]
    told = run("explain", "--config", str(folder / "server.yaml"), "--for", "brain", *asked)
    assert (told[0], "denied: 'act-lena' may not read" in told[1]) == (0, True)
    cases = folder / "policy.policy-test.yaml"
    words = ["test", "--policy", policy, "--tests", str(cases)]
    assert "11 of 11 cases hold" in run(*words)[1]
    cases.write_text(cases.read_text().replace("expect: deny", "expect: allow", 1))
    failed = run(*words)
    assert (failed[0], "FAILED curators do not write on main" in failed[1]) == (1, True)
    assert run("validate")[0] == 2


WALK = "query far() { match { $a: Person  $a knows{1,%d} $b } return { count($b) as n } }"
PAIRS = "query pairs() { match { $a: Person  $b: Person } return { count($a) as n } }"


def test_the_limits_of_the_example_hold(folder: Path) -> None:
    _, token = create_token(folder / "tokens.json", "act-tomas", Role.READ, None, None)
    settings = read_config(folder / "server.yaml", {})
    with asyncio.Runner() as runner:
        client = replace(open_client(settings, runner), token=token)
        assert client.ok("POST", "query", {"query": WALK % 3})["rows"]
        refused = client.fails(400, "POST", "query", {"query": WALK % 4})
        assert (refused["type"], refused["details"]["limit"]) == ("query_too_costly", 3)
        assert client.ok("POST", "query", {"query": PAIRS})["rows"]
        found = client.ok("GET", "")["limits"]
        client.close()
    assert {name: found[name] for name in ("hops", "read_seconds", "estimate_rows")} == {
        "hops": 3,
        "read_seconds": 10,
        "estimate_rows": 1_000_000,
    }
    assert settings.limits.hops == 6


def test_a_policy_without_tokens_is_no_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-g", str(folder / "brain.og"), "serve", "--policy", str(folder / "policy.yaml"), "--unauthenticated"]
    assert main(words) == 2
    assert "no tokens file" in capsys.readouterr().err
