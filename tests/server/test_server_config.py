"""``server.yaml``: many graphs, followed while the server runs; one bad graph or one bad edit harms no other."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.cli.app import main
from omnigraph.errors import ConfigError
from omnigraph.server import Limits, Role, create_token, make_graph_id, read_config
from omnigraph.server.hosting import UnopenedGraph
from tests.server.client import Client, error_of, open_client

CONFIG = """\
version: 1
bind: 127.0.0.1:9090
public_url: https://graphs.example.org:8443/x
hosts: [Inner.example.org]
tokens: tokens.json
limits: {rows: 2, read_seconds: 1.5}
audit: {file: audit.jsonl}
graphs:
  one: {uri: one.og}
  two:
    uri: "${PLACE}/two.og"
    read_only: true
    storage_options: {region: eu, retries: 3}
    embed: {provider: openai-compatible, url: "https://models.example.org/v1", model: m, api_key: "${KEY}", batch: 16}
    limits: {rows: 50, load_bytes: 1000}
"""


def write(folder: Path, text: str = CONFIG) -> Path:
    path = folder / "server.yaml"
    path.write_text(text)
    return path


def test_every_key_of_the_file_is_read(tmp_path: Path) -> None:
    environment = {"PLACE": "/data", "KEY": "a secret", "XDG_STATE_HOME": str(tmp_path / "states")}
    settings = read_config(write(tmp_path), environment, "act-op")
    assert settings.address == ("127.0.0.1", 9090)
    assert settings.hosts == ("inner.example.org", "graphs.example.org")
    assert (settings.tokens, settings.actor) == (tmp_path / "tokens.json", "act-op")
    assert settings.limits == Limits(rows=2, read_seconds=1.5)
    assert settings.audit == tmp_path / "audit.jsonl"
    one, two = settings.graphs
    assert (one.id, one.uri, one.read_only) == ("one", str(tmp_path / "one.og"), False)
    assert (two.uri, two.read_only, two.storage_options) == ("/data/two.og", True, {"region": "eu", "retries": "3"})
    assert one.limits is None
    assert two.limits == Limits(rows=50, read_seconds=1.5, load_bytes=1000)
    assert one.embed is None
    assert two.embed is not None
    assert (two.embed.api_key, two.embed.batch) == ("a secret", 16)
    assert "a secret" not in repr(settings)


def test_the_state_is_kept_where_its_user_keeps_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "version: 1\ngraphs: {one: {uri: one.og}}\n"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    first, again, other = (
        read_config(write(folder, text), environment).state
        for folder, environment in (
            (tmp_path, {"XDG_STATE_HOME": str(tmp_path / "states")}),
            (tmp_path, {"XDG_STATE_HOME": str(tmp_path / "states")}),
            (tmp_path, {}),
        )
    )
    assert first is not None
    assert first == again, "the same after a restart"
    assert first.parent == tmp_path / "states" / "omnigraph"
    assert other == tmp_path / "home" / ".local" / "state" / "omnigraph" / first.name
    assert not (tmp_path / "states").exists(), "reading the file makes nothing"
    (tmp_path / "more").mkdir()
    moved = read_config(write(tmp_path / "more", text), {"XDG_STATE_HOME": str(tmp_path / "states")}).state
    assert moved != first
    given = read_config(write(tmp_path, text + "state: here\n"), {}).state
    assert given == tmp_path / "here"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", (1, 1), "the file is empty"),
        (
            "version: 1\ngraphs: {a: {uri: x}}\ntoken: t\n",
            (3, 1),
            "the file has no key 'token' | did you mean 'tokens'?",
        ),
        ("version: 2\ngraphs: {a: {uri: x}}\n", (1, 10), "version must be 1"),
        ("version: 1\ngraphs: {}\n", (2, 9), "no graph is named"),
        ("version: 1\n", (1, 1), "the file needs 'graphs'"),
        ("version: 1\ngraphs:\n  a b: {uri: x}\n", (3, 3), "'a b' is no id of a graph"),
        ("version: 1\ngraphs:\n  a: {url: x}\n", (3, 7), "graph 'a' has no key 'url' | did you mean 'uri'?"),
        ("version: 1\ngraphs:\n  a: {uri: '${NOPE}'}\n", (3, 12), "the variable NOPE is not set"),
        ("version: 1\nbind: here\ngraphs: {a: {uri: x}}\n", (2, 7), "cannot listen at 'here'"),
        ("version: 1\nlimits: {rows: -1}\ngraphs: {a: {uri: x}}\n", (2, 16), "'rows' must be a number above 0"),
        (
            "version: 1\ngraphs:\n  a: {uri: x, limits: {drain_seconds: 1}}\n",
            (3, 24),
            "limits of graph 'a' has no key 'drain_seconds' | ",
        ),
        ("version: 1\ngraphs:\n  a: {uri: x, limits: {rows: many}}\n", (3, 30), "'rows' must be a number above 0"),
        ("version: 1\ngraphs:\n  a: {uri: x, embed: {url: x}}\n", (3, 22), "embed of graph 'a' needs 'provider'"),
        ("version: 1\ngraphs:\n  a: {uri: x, embed: {provider: x}}\n", (3, 22), "the embedding provider is 'x' | use"),
        (
            "version: 1\ngraphs:\n  a: {uri: x, embed: {provider: mock, batch: 0}}\n",
            (3, 22),
            "batch",
        ),
        ("version: 1\npublic_url: x\ngraphs: {a: {uri: x}}\n", (2, 13), "public_url is no URL"),
        ("version: 1\ngraphs: {a: {uri: x, read_only: 1}}\n", (2, 33), "read_only of graph 'a' must be true or false"),
        ("a: [", (1, 4), ""),
    ],
)
def test_a_problem_has_its_line_and_a_hint(tmp_path: Path, text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(write(tmp_path, text), {})
    found = [
        (problem.position.line, problem.position.column, f"{problem.message} | {problem.hint}")
        for problem in caught.value.problems
    ]
    assert any((line, column) == place and message in told for line, column, told in found), found


def test_the_command_shows_all_problems_and_takes_no_second_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "version: 3\nbnd: x\ngraphs: {a: {uri: x}}\n")
    assert main(["serve", "--config", str(path)]) == 1
    told = capsys.readouterr().err
    assert "server.yaml:1:10" in told
    assert "did you mean 'bind'?" in told
    assert main(["serve", "--config", str(path), "--read-only"]) == 2
    assert main(["serve", "--config", str(write(tmp_path, CONFIG.replace("127.0.0.1", "0.0.0.0")))]) == 1  # noqa: S104


# --------------------------------------------------------------------------------------------- a running server


@pytest.fixture
def follow(
    tmp_path: Path, graph_template: Path, runner: asyncio.Runner
) -> Generator[Callable[[str], tuple[Client, Path]]]:
    """Serve a file whose graph ``one`` exists and whose graph ``two`` does not yet."""
    shutil.copytree(graph_template, tmp_path / "one.og")
    clients: list[Client] = []

    def start(text: str) -> tuple[Client, Path]:
        path = write(tmp_path, text)
        clients.append(open_client(read_config(path, os.environ), runner, lambda: read_config(path, os.environ)))
        return clients[-1], path

    yield start
    for client in clients:
        client.close()


TWO = "version: 1\ngraphs:\n  one: {uri: one.og}\n  two: {uri: two.og}\n"


def test_a_graph_that_cannot_be_opened_is_quarantined_alone_and_heals(
    follow: Callable[[str], tuple[Client, Path]], graph_template: Path
) -> None:
    client, path = follow(TWO)
    assert [each["state"] for each in client.ok("GET", "/graphs")["graphs"]] == ["serving", "quarantined"]
    assert client.ok("GET", "/readyz")["graphs"] == {"serving": 1, "quarantined": 1}
    answer = client.get("/graphs/two/snapshot")
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
    assert error_of(answer)["type"] == "graph_unavailable"
    assert str(path.parent) not in answer.text
    assert client.get("/graphs/one/snapshot").status_code == 200
    assert client.get("/graphs/default/snapshot").status_code == 404
    set_next_try(client, math.inf)
    client.hosting.retry_quarantined()
    assert pause_of(client) == 1, "its turn has not come"
    for pause in (2, 4):
        set_next_try(client, 0)
        client.hosting.retry_quarantined()
        assert pause_of(client) == pause
    shutil.copytree(graph_template, path.parent / "two.og")
    set_next_try(client, 0)
    client.hosting.retry_quarantined()
    assert client.get("/graphs/two/snapshot").status_code == 200
    assert client.ok("GET", "/readyz")["graphs"] == {"serving": 2, "quarantined": 0}


def pause_of(client: Client) -> int:
    return client.hosting.state.quarantined["two"].pause


def set_next_try(client: Client, moment: float) -> None:
    state = client.hosting.state
    due: dict[str, UnopenedGraph] = {name: replace(each, next_try=moment) for name, each in state.quarantined.items()}
    client.hosting.state = replace(state, quarantined=due)


def test_an_edit_holds_for_the_next_request_and_a_wrong_one_changes_nothing(
    follow: Callable[[str], tuple[Client, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    client, path = follow("version: 1\ngraphs:\n  one: {uri: one.og}\n")
    before = client.hosting.state.graphs["one"]
    client.hosting.reload()
    assert client.hosting.state.graphs["one"] is before
    write(
        path.parent,
        "version: 1\nlimits: {rows: 1}\ngraphs:\n  one: {uri: one.og}\n  again: {uri: one.og, read_only: true}\n",
    )
    client.hosting.reload()
    assert client.hosting.state.graphs["one"] is before, "a graph that did not change stays open"
    assert client.ok("GET", "/graphs/again")["limits"]["rows"] == 1
    assert client.send("GET", "/graphs/one/rows?type=Person").status_code == 413
    write(path.parent, "version: 1\ngraphs: {one: {uri: one.og}\n")
    client.hosting.reload()
    assert client.ok("GET", "/readyz")["config_stale"] is True
    assert client.ok("GET", "/graphs/again")["read_only"] is True
    path.unlink()
    client.hosting.reload()
    assert client.ok("GET", "/graphs/one")["graph_id"] == "one"
    write(path.parent, "version: 1\nbind: 127.0.0.1:1\ngraphs:\n  one: {uri: one.og}\n")
    client.hosting.reload()
    assert client.ok("GET", "/readyz")["config_stale"] is False
    client.hosting.reload()
    assert [record.getMessage() for record in caplog.records if "needs a restart" in record.getMessage()] == [
        "'bind' changed to 127.0.0.1:1: it needs a restart"
    ], "told once, not every second"
    assert client.get("/graphs/again").status_code == 404
    assert client.hosting.state.settings.bind == "127.0.0.1:8080", "it needs a restart"


def test_a_graph_has_limits_of_its_own_and_keeps_what_it_has_open(
    follow: Callable[[str], tuple[Client, Path]],
) -> None:
    text = "version: 1\nlimits: {rows: 2}\ngraphs:\n  one: {uri: one.og}\n  again: {uri: one.og, limits: {rows: 3}}\n"
    client, path = follow(text)
    assert client.send("GET", "/graphs/one/rows?type=Person").status_code == 413
    assert client.send("GET", "/graphs/again/rows?type=Person").status_code == 200
    assert [client.ok("GET", f"/graphs/{name}")["limits"]["rows"] for name in ("one", "again")] == [2, 3]
    before = client.hosting.state.graphs["again"].graph
    write(path.parent, text.replace("rows: 3", "rows: 1, body_bytes: 10"))
    client.hosting.reload()
    assert client.hosting.state.graphs["again"].graph is before
    assert client.send("GET", "/graphs/again/rows?type=Person").status_code == 413
    assert client.send("POST", "/graphs/again/lint", {"query": "query q() {}"}).status_code == 413
    assert client.send("POST", "/graphs/one/lint", {"query": "query q() {}"}).status_code == 200


def test_a_graph_embeds_with_its_own_provider(follow: Callable[[str], tuple[Client, Path]]) -> None:
    client, _ = follow("version: 1\ngraphs:\n  one: {uri: one.og, embed: {provider: mock}}\n  two: {uri: one.og}\n")
    schema = "node Note { text: String @key  place: Vector(4)? @embed(text) }"
    applied = {"schema_source": f"{client.ok('GET', '/graphs/one/schema')['schema_source']}\n{schema}"}
    client.ok("POST", "/graphs/one/schema/apply", applied)
    near = 'query near() { match { $n: Note } return { $n.text } order { nearest($n.place, "a ship") } limit 1 }'
    assert client.ok("POST", "/graphs/one/query", {"query": near})["row_count"] == 0
    assert client.fails(502, "POST", "/graphs/two/query", {"query": near})["type"] == "embedding_error"


def test_a_new_tokens_file_holds_and_one_that_others_can_read_does_not(
    follow: Callable[[str], tuple[Client, Path]],
) -> None:
    client, path = follow("version: 1\ngraphs:\n  one: {uri: one.og}\n")
    tokens = path.parent / "tokens.json"
    _, text = create_token(tokens, "act-ines", Role.READ, None, None)
    tokens.chmod(0o644)
    write(path.parent, "version: 1\ntokens: tokens.json\ngraphs:\n  one: {uri: one.og}\n")
    client.hosting.reload()
    assert client.get("/whoami").status_code == 200
    tokens.chmod(0o600)
    client.hosting.reload()
    assert client.get("/whoami").status_code == 401
    assert replace(client, token=text).ok("GET", "/whoami")["actor"] == "act-ines"


@pytest.mark.parametrize(
    ("uri", "graph_id"),
    [
        ("./Brain Two.og", "brain-two"),
        ("s3://bucket/trials/", "trials"),
        ("/data/" + "x" * 80, "x" * 64),
        ("/data/policies.og", "default"),
        ("/data/___", "default"),
    ],
)
def test_a_graph_without_an_id_gets_the_name_of_its_folder(uri: str, graph_id: str) -> None:
    assert make_graph_id(uri) == graph_id
