"""Signing in by the link that the server prints: a code that is good once, and a page that may be left out."""

from __future__ import annotations

import threading
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import orjson
import pytest

from omnigraph.server.access.sessions import SessionStore
from omnigraph.server.access.tokens import Role, hash_token, make_token
from tests.server.live import LiveServer, start_server

pytestmark = pytest.mark.costly


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(graph_path: Path, state: Path) -> Generator[LiveServer]:
    with start_server("--as", "act-me", "--state", str(state), graph=graph_path) as server:
        yield server


def test_a_code_gives_a_token_once(server: LiveServer, state: Path) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        wrong = http.post("/session", json={"code": "guessed"})
        answer = http.post("/session", json={"code": server.code})
        assert answer.status_code == 200, answer.text
        session = answer.json()
        assert (session["actor"], session["role"]) == ("act-me", "admin")
        left = datetime.fromisoformat(session["expires_at"]) - datetime.now(UTC)
        assert timedelta(hours=11) < left <= timedelta(hours=12)
        me = http.get("/whoami", headers={"Authorization": f"Bearer {session['token']}"}).json()
        assert (me["actor"], me["token"]["expires_at"]) == ("act-me", session["expires_at"])
        again = http.post("/session", json={"code": server.code})
        # Who guesses learns nothing from a code that was once good.
        for refused in (wrong, again):
            assert refused.status_code == 401
            assert {**refused.json(), "request_id": ""} == {**wrong.json(), "request_id": ""}
    for file in state.rglob("*"):
        if file.is_file():
            assert file.stat().st_mode & 0o077 == 0
            content = file.read_text("utf-8", "replace") + file.name
            assert not any(secret in content for secret in (server.code, server.token, session["token"]))


def test_a_session_needs_a_code_and_nothing_else(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/session", json={}).status_code == 400
        assert http.post("/session", json={"code": "x", "actor": "act-other"}).status_code == 400
        assert http.post("/session", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
        assert http.get("/session").status_code == 405
        for _ in range(10):
            http.post("/session", json={"code": "guessed"})
        assert http.post("/session", json={"code": "guessed"}).status_code == 429


def test_of_many_that_bring_one_code_one_gets_in(tmp_path: Path) -> None:
    token, _ = make_token("act-me", Role.ADMIN)
    store = SessionStore(tmp_path, "a run")
    code = store.make_code(token)
    # Other workers of the same run have a store of their own.
    stores = [SessionStore(tmp_path, store.run) for _ in range(8)]
    begin = threading.Barrier(len(stores))
    taken: list[str] = []

    def take(own: SessionStore) -> None:
        begin.wait()
        found = own.exchange(code)
        taken.extend([] if found is None else [found[1]])

    threads = [threading.Thread(target=take, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    assert all(each.find(hash_token(taken[0])) is not None for each in stores)


def test_codes_and_sessions_end_with_their_time_and_their_run(tmp_path: Path) -> None:
    token, _ = make_token("act-me", Role.ADMIN)
    store = SessionStore(tmp_path, "a run")
    other = SessionStore(tmp_path, "the next run")
    code = store.make_code(token)
    assert other.exchange(code) is None
    found = store.exchange(code)
    assert found is not None
    assert other.find(found[0].sha256) is None
    late = store.make_code(token)
    file = tmp_path / "codes" / hash_token(late)
    entry = orjson.loads(file.read_bytes())
    file.write_bytes(orjson.dumps({**entry, "expires_at": "2020-01-01T00:00:00+00:00"}))
    assert store.exchange(late) is None
    assert not list((tmp_path / "codes").iterdir())


def test_a_server_without_a_page(graph_path: Path, server: LiveServer) -> None:
    assert httpx.get(server.url, timeout=60).headers["content-type"].startswith("text/html")
    with start_server("--no-ui", graph=graph_path) as other, other.client() as http:
        for path in ("/", "/ui/brain", "/assets/icon.svg"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["type"]) == (404, "not_found")
            assert http.get(path, headers={"Authorization": ""}).status_code == 401
        assert http.get("/graphs/brain").status_code == 200
        assert not any(line.startswith("open ") for line in other.lines)
