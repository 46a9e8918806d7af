"""Wrong requests: every one has a flat JSON body, a status that fits, and no word about where the graph lies."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import httpx
import pytest

from omnigraph.deadlines import Deadline, check_deadline
from omnigraph.errors import Cancelled, LimitError, StorageError, TooManyRequests
from omnigraph.graph import Graph
from omnigraph.server import Limits, Role, dispatch
from omnigraph.server.access.gate import ROLE_ACTIONS
from omnigraph.server.admission import Admission
from omnigraph.server.errors import find_status
from omnigraph.server.routes import ROUTES
from omnigraph.server.work_threads import has_left, run_in_thread, run_watched
from tests.server.client import Client, error_of
from tests.server.conftest import LIMITS, Serve

ALL = "query q() { match { $p: Person } return { $p.name } }"


@pytest.mark.parametrize("kind", LimitError.__subclasses__(), ids=lambda kind: kind.__name__)
def test_a_limit_is_never_a_defect_of_the_server(kind: type[LimitError]) -> None:
    assert find_status(kind.__new__(kind)) != 500


def be_defective(*_: object) -> NoReturn:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("path", "body", "status", "type_", "word"),
    [
        ("query", {"qery": ALL}, 400, "parameter_error", "did you mean 'query'?"),
        ("query", {"query": ALL, "limit": -1, "numbers": "big"}, 400, "parameter_error", "'numbers'"),
        ("query", {"query": "query q() { match { $p: Persn } return { $p } }"}, 400, "query_error", "'Person'"),
        ("query", {"query": "query {"}, 400, "query_error", "problems"),
        ("query", {"query": "secret.gq"}, 400, "query_error", "problems"),
        ("query", {"query": 'query q() { delete Person where name = "x" }'}, 400, "parameter_error", "mutation"),
        ("query", {"query": ALL, "params": {"x": 1}}, 400, "parameter_error", "x"),
        ("query", {"query": ALL, "branch": "nowhere"}, 404, "not_found", "nowhere"),
        ("query", {"query": ALL, "branch": "main", "snapshot": "x"}, 400, "parameter_error", "give one of them"),
        ("query", {"query": ALL, "at": "2020-01-01"}, 404, "not_found", ""),
        ("mutate", {"query": ALL}, 400, "parameter_error", "query"),
        ("merges", {"source": "main", "resolve": "/etc/passwd"}, 400, "parameter_error", "'resolve'"),
        ("branches", {"name": "../x"}, 400, "parameter_error", ""),
        ("diff", None, 405, "method_not_allowed", ""),
    ],
)
def test_what_is_wrong_is_said(
    client: Client, path: str, body: dict[str, Any] | None, status: int, type_: str, word: str
) -> None:
    answer = client.post(path, body)
    assert answer.status_code == status, answer.text
    found = error_of(answer)
    assert found["type"] == type_
    assert word in json.dumps(found, ensure_ascii=False)


def test_all_problems_of_a_request_are_told_at_once(client: Client) -> None:
    found = client.fails(400, "POST", "query", {"limit": "x", "ofset": 1})
    assert {each["field"] for each in found["problems"]} == {"query", "limit", "ofset"}
    assert client.fails(400, "GET", "rows?type=Person&limt=3")["hint"] == "did you mean 'limit'?"


@pytest.mark.parametrize("data", [b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"query": "\\ud800"}'])
def test_bodies_that_are_not_json_objects(client: Client, data: bytes) -> None:
    answer = client.send("POST", "query", content=data, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert error_of(answer)["code"] == "bad_request"


def test_a_wrong_content_type_method_and_path(client: Client) -> None:
    answer = client.send("POST", "query", content=b"x", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, error_of(answer)["type"]) == (415, "unsupported_media_type")
    wrong = client.send("PATCH", "branches/main")
    assert wrong.status_code == 405
    assert {"GET", "HEAD", "DELETE"} <= set(wrong.headers["allow"].split(", "))
    assert error_of(client.get("/no/such/path"))["code"] == "not_found"
    assert client.send("HEAD", "/healthz").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Host": "localhost:8080"}, 200),
    ],
)
def test_other_names_and_origins_are_refused(client: Client, headers: dict[str, str], status: int) -> None:
    for path in ("/healthz", "snapshot"):
        answer = client.send("GET", path, headers=headers)
        assert answer.status_code == status
        if status != 200:
            error_of(answer)


HOSTILE = ["..", "../..", "../", "a\0b", "a\nb", "'", '"', "x" * 4_096, "🦉", "node:Person", "/etc/passwd"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_escape(client: Client, name: str, graph_path: Path) -> None:
    # Encoded with its dots: otherwise the client itself would follow them.
    name = quote(name, safe="").replace(".", "%2E")
    for path in (f"/graphs/{name}/snapshot", f"branches/{name}", f"commits/{name}", f"snapshot?at={name}"):
        answer = client.get(path)
        assert answer.status_code in (400, 404), (path, answer.text)
        assert str(graph_path.parent) not in answer.text
    for path in (f"rows?type={name}", f"entity?type=Person&id={name}", f"snapshot?branch={name}"):
        assert client.get(path).status_code in (400, 404)


def test_no_body_names_the_place_of_the_graph(
    client: Client, serve: Serve, graph_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = serve(read_only=True)
    answers = [
        kept.post("mutate", {"query": 'query q() { insert City { name: "x" } }'}),
        client.get("commits/01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        client.get("snapshot?at=v999"),
    ]

    def fail(*_: object, **__: object) -> None:
        raise StorageError(f"cannot read {graph_path}/nodes")

    monkeypatch.setattr(Graph, "commits", fail)
    answers.append(client.get("commits"))
    monkeypatch.setattr(Graph, "tags", be_defective)
    answers.append(client.get("tags"))
    for answer in answers:
        assert answer.status_code >= 400
        assert "secret-place" not in answer.text
        error_of(answer)
    storage, defect = answers[-2:]
    assert (storage.status_code, storage.json()["type"]) == (500, "storage_error")
    assert storage.headers["x-request-id"] in storage.json()["error"]
    assert (defect.status_code, "division" in defect.text) == (500, False)


# --------------------------------------------------------------------------------------------- rights

PATHS = {route: route.path.replace("{graph_id}", "brain").replace(":path", "") for route in ROUTES}


def test_no_route_answers_before_it_knows_who_asks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_work", be_defective)
    stranger = client.__class__(client.hosting, client.http, client.runner, None)
    for route, path in PATHS.items():
        if route.is_public:
            continue
        for header in ({}, {"Authorization": "Bearer og_wrong"}, {"Authorization": "Basic abc"}):
            answer = stranger.send(route.method, path, headers=header)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
    assert stranger.get("/no/such/path").status_code == 401


@pytest.mark.parametrize("role", list(Role))
def test_a_role_is_a_ceiling(client: Client, role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_work", be_defective)
    holder = client.with_role(role, f"act-{role}")
    for route, path in PATHS.items():
        asked = {ask.action for ask in route.access.asks if not ask.is_conditional}
        if asked <= ROLE_ACTIONS[role]:
            continue
        answer = holder.send(route.method, path, {})
        assert answer.status_code == 403, path
        assert f"act-{role}" in error_of(answer)["error"]


def test_the_scheme_of_a_token_may_be_written_in_any_case(client: Client) -> None:
    assert client.send("GET", "/whoami", headers={"Authorization": f"bEaReR {client.token}"}).status_code == 200


def test_who_guesses_tokens_has_to_wait(serve: Serve) -> None:
    server = serve(Limits(failed_logins=3))
    for _ in range(3):
        assert server.send("GET", "/whoami", headers={"Authorization": "Bearer x"}).status_code == 401
    answer = server.get("/whoami")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 60


def test_nobody_else_names_an_address(serve: Serve, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    server = serve(Limits(failed_logins=1), audit=audit)
    forged = {"X-Forwarded-For": "203.0.113.7"}
    assert server.send("GET", "/whoami", headers={"Authorization": "Bearer x", **forged}).status_code == 401
    # Another name does not help: the limit is that of the connection.
    assert server.send("GET", "/whoami", headers={"X-Forwarded-For": "203.0.113.8"}).status_code == 429
    assert "203.0.113" not in audit.read_text()


# --------------------------------------------------------------------------------------------- time and turns


def test_a_deadline_ends_a_read_and_a_write(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: object, **__: object) -> None:
        while True:
            check_deadline()

    monkeypatch.setattr(Graph, "query", wait)
    monkeypatch.setattr(Graph, "mutate", wait)
    error = client.fails(504, "POST", "query", {"query": ALL, "timeout_ms": 5})
    assert (error["type"], error["details"]["seconds"]) == ("deadline_exceeded", 0.005)
    late = client.post("mutate", {"query": ALL}, omnigraph_timeout_ms="5")
    assert (late.status_code, error_of(late)["code"]) == (504, "internal")
    assert client.post("query", {"query": ALL}, omnigraph_timeout_ms="soon").status_code == 400


def test_a_client_that_goes_away_cancels_its_work(runner: asyncio.Runner) -> None:
    deadline = Deadline(60)

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    def work() -> None:
        with deadline:
            while True:
                check_deadline()

    with pytest.raises(Cancelled):
        runner.run(run_watched(receive, deadline, work))


def test_whether_a_client_has_left_is_known_at_once(runner: asyncio.Runner) -> None:
    async def receive_nothing() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def receive_the_end() -> dict[str, object]:
        return {"type": "http.disconnect"}

    assert not runner.run(has_left(receive_nothing))
    assert runner.run(has_left(receive_the_end))


def test_who_is_cancelled_still_waits_for_the_work(runner: asyncio.Runner) -> None:
    """The work uses what its caller holds: an upload, a turn."""
    goes_on, order = threading.Event(), list[str]()

    def work() -> None:
        goes_on.wait()
        order.append("worked")

    async def scenario() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        order.append("left")
        # Errors come back, and so do values, also from more threads than are kept.
        assert await asyncio.gather(*(run_in_thread(lambda n=n: n) for n in range(40))) == list(range(40))
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 // 0)

    runner.run(scenario())
    assert order == ["worked", "left"]


def test_one_actor_cannot_take_all_turns(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        admission = Admission(Limits(actor_reads=1, read_threads=1, read_wait_ms=1, branch_writers=1, write_wait_ms=1))
        async with admission.admit_read("ann"):
            with pytest.raises(TooManyRequests, match="'ann' are under way"):
                async with admission.admit_read("ann"):
                    pass
            with pytest.raises(TooManyRequests, match="busy"):
                async with admission.admit_read("bob"):
                    pass
        async with admission.admit_read("bob"):
            pass
        async with admission.admit_write("ann", "brain", "main", 60):
            with pytest.raises(TooManyRequests, match="busy with other writes"):
                async with admission.admit_write("bob", "brain", "main", 60):
                    pass
            async with admission.admit_write("bob", "brain", "dev", 60):
                pass

    runner.run(scenario())


def test_slow_reads_of_one_actor_leave_threads_to_others(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        admission = Admission(Limits(read_threads=4, read_wait_ms=1))
        async with AsyncExitStack() as running:
            for _ in range(3):
                await running.enter_async_context(admission.admit_read("ann"))
            with pytest.raises(TooManyRequests, match="busy with other reads"):
                async with admission.admit_read("ann"):
                    pass
            async with admission.admit_read("bob"):
                pass
        async with admission.admit_read("ann"):
            pass

    runner.run(scenario())


def test_a_server_that_drains_takes_nothing_new(serve: Serve) -> None:
    server = serve()
    server.hosting.is_draining = True
    answer = server.get("snapshot")
    assert answer.status_code == 503
    assert (answer.headers["connection"], int(answer.headers["retry-after"]) > 0) == ("close", True)
    ready = server.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "draining")
    assert server.get("/healthz").status_code == 200
    assert server.hosting.traffic.requests == 0


def test_many_requests_at_the_same_time(client: Client) -> None:
    async def ask() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {client.token}"}
        return await asyncio.gather(
            *(client.http.post("/graphs/brain/query", json={"query": ALL}, headers=headers) for _ in range(12))
        )

    answers = client.runner.run(ask())
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["x-request-id"] for answer in answers}) == 12
    assert (client.hosting.traffic.requests, client.hosting.running) == (0, {})
    assert LIMITS.actor_reads >= 12
