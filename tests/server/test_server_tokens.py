"""The tokens file: what is kept, who may read it, and how a running server follows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.cli import session
from omnigraph.cli.app import main
from omnigraph.errors import NotFound, OmniGraphError, ParameterError
from omnigraph.server import (
    Role,
    ServerSettings,
    create_token,
    make_graph_id,
    parse_bind,
    read_token_file,
    revoke_token,
)
from omnigraph.server.access.tokens import TokenBook, hash_token, parse_lifetime
from omnigraph.server.config.settings import ServedGraph


def test_a_token_is_kept_as_a_digest_only(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, text = create_token(path, "act-ines", Role.WRITE, "laptop", timedelta(days=90))
    assert (text[:3], len(text)) == ("og_", 46)
    assert text not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token_file(path) == [token]
    assert token.sha256 == hash_token(text)
    assert TokenBook(path).find(text) == token


def test_a_running_server_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    first, text = create_token(path, "a", Role.READ, None, None)
    book = TokenBook(path)
    other, more = create_token(path, "b", Role.READ, None, None)
    assert (book.find(text), book.find(more)) == (first, other)
    revoke_token(path, first.id)
    assert (book.find(text), book.find(more)) == (None, other)
    path.write_text("{")
    assert (book.find(more), book.is_stale) == (other, True)


def test_a_token_ends_in_time(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _, text = create_token(path, "a", Role.READ, None, timedelta(seconds=-1))
    assert TokenBook(path).find(text) is None
    assert parse_lifetime("never") is None
    assert parse_lifetime("12h") == timedelta(hours=12)
    for wrong in ("", "0d", "9", "9w", "-1d"):
        with pytest.raises(ParameterError, match="90d"):
            parse_lifetime(wrong)


def test_the_day_of_the_last_use_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, text = create_token(path, "a", Role.READ, None, None)
    book = TokenBook(path)
    book.record_use(token)
    found = book.find(text)
    assert found is not None
    assert found.last_used_on == datetime.now(UTC).date().isoformat()
    before = path.stat()
    book.record_use(found)
    assert path.stat() == before


def test_a_file_of_release_0_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"act-old": "a secret"}')
    path.chmod(0o600)
    found = TokenBook(path).find("a secret")
    assert found is not None
    assert (found.actor, found.role) == ("act-old", Role.WRITE)
    with pytest.raises(ParameterError, match=r"release 0\.8"):
        create_token(path, "x", Role.READ, None, None)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"tokens": [1]}', '{"tokens": [{"id": "x"}]}', '{"a": 1}', '{"tokens": [{"role": "king"}]}']
)
def test_a_file_that_is_no_tokens_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ParameterError, match="is not a tokens file"):
        read_token_file(path)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    create_token(path, "a", Role.READ, None, None)
    path.chmod(0o644)
    with pytest.raises(ParameterError, match="0644") as caught:
        read_token_file(path)
    assert "chmod 600" in str(caught.value)
    with pytest.raises(NotFound, match="cannot read"):
        read_token_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ServerSettings((), "0.0.0.0:80"), "no tokens file"),
        (ServerSettings((), "10.0.0.1:80", is_unauthenticated=True), "--unauthenticated on 10.0.0.1"),
        (ServerSettings((), tokens=Path("t"), is_unauthenticated=True), "exclude each other"),
        (ServerSettings((), "here"), "cannot listen at 'here'"),
        (ServerSettings((), "h:99999"), "cannot listen"),
    ],
)
def test_a_start_that_would_let_strangers_in_is_refused(settings: ServerSettings, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        settings.check()


def test_names_of_graphs_and_addresses() -> None:
    assert make_graph_id("/data/My Brain_2.og/") == "my-brain-2"
    assert make_graph_id("s3://bucket/") == "bucket"
    assert make_graph_id("/") == "default"
    assert parse_bind("[::1]:80") == ("::1", 80)
    assert ServedGraph("a", "b").read_only is False


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "tokens.json")
    assert main(["token", "create", "--actor", "act-ines", "--role", "write", "--tokens", path]) == 0
    text, err = capsys.readouterr()
    assert TokenBook(Path(path)).find(text.strip()) is not None
    assert "not shown again" in err
    assert main(["token", "list", "--tokens", path, "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["tokens"]
    assert (listed["actor"], listed["role"]) == ("act-ines", "write")
    assert "sha256" not in listed
    assert main(["token", "revoke", listed["id"], "--tokens", path]) == 0
    assert main(["token", "revoke", listed["id"], "--tokens", path]) == 1
    assert main(["token", "list", "--tokens", path]) == 0
    assert "no tokens" in capsys.readouterr().err
    assert main(["token", "create", "--actor", "", "--tokens", path]) == 1


def find_nothing(_: str) -> None:
    return None


def test_without_the_extra_the_commands_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "find_spec", find_nothing)
    for words in (["serve"], ["token", "list"], ["token", "create", "--actor", "x"], ["token", "revoke", "x"]):
        assert main(words) == 1
        assert "pip install 'omnigraph[server]'" in capsys.readouterr().err


def test_serve_refuses_a_start_that_is_not_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = str(tmp_path / "g.og")
    assert main(["serve", "-g", graph, "--bind", "0.0.0.0:80"]) == 2
    assert "omnigraph token create" in capsys.readouterr().err
    assert main(["serve", "-g", graph, "--bind", "nonsense"]) == 2
    assert main(["serve", "-g", graph]) == 1
    assert issubclass(ParameterError, OmniGraphError)
