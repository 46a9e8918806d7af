"""Limits of one request: what a query may cost before it runs, how long a line of a load may be, upkeep at once."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace

import orjson
import pytest

from tests.server.client import Client
from tests.server.conftest import LIMITS, Serve

FAR = "query far() { match { $a: Person  $a knows{1,%s} $b } return { count($b) as n } }"
ALL_PAIRS = "query pairs() { match { $a: Person  $b: Person  $c: Person } return { count($a) as n } }"
JOIN = "query same() { match { $a: Person  $b: Person  $a.age = $b.age } return { count($a) as n } }"
ONE = "query one() { match { $a: Person } return { $a.name } }"
LINE = '{"type": "City", "data": {"name": "%s"}}\n'


@pytest.fixture(scope="module")
def strict(serve: Serve) -> Client:
    return serve(replace(LIMITS, hops=3, estimate_rows=20, line_bytes=200))


def refuse(client: Client, route: str, query: str) -> dict[str, object]:
    error = client.fails(400, "POST", route, {"query": query})
    assert (error["type"], error["code"]) == ("query_too_costly", "bad_request")
    return error["details"]


@pytest.mark.parametrize(("last", "hops"), [("4", 4), ("", None)])
def test_a_walk_of_too_many_hops_is_refused(strict: Client, last: str, hops: int | None) -> None:
    assert refuse(strict, "query", FAR % last) == {"what": "hops", "estimate": hops, "limit": 3}
    assert strict.ok("POST", "query", {"query": FAR % "3"})["rows"] == [{"n": 2}]


def test_a_query_that_would_make_too_many_rows_is_refused(strict: Client) -> None:
    # Three people: 27 rows.
    assert refuse(strict, "query", ALL_PAIRS) == {"what": "rows", "estimate": 27, "limit": 20}
    assert refuse(strict, "profile", ALL_PAIRS)["what"] == "rows"
    assert strict.ok("POST", "query", {"query": JOIN})["row_count"] == 1


def test_the_match_of_a_mutation_is_a_query_too(strict: Client) -> None:
    add = "query add() { match { $a: Person  $b: Person  $c: Person } insert City { name: $a.name } }"
    head = strict.ok("GET", "snapshot")["commit"]
    refuse(strict, "mutate", add)
    assert strict.ok("GET", "snapshot")["commit"] == head


def test_a_plan_is_shown_with_its_estimate_whatever_it_costs(strict: Client, client: Client) -> None:
    found = strict.ok("POST", "explain", {"query": ALL_PAIRS})
    assert found["estimate"] == {"rows": 27, "hops": 0, "read_rows": 9, "read_bytes": found["estimate"]["read_bytes"]}
    assert found["estimate"]["read_bytes"] > 0
    walk = client.ok("POST", "explain", {"query": FAR % ""})
    assert walk["estimate"]["hops"] is None


def test_reading_a_type_does_not_count(serve: Serve) -> None:
    least = serve(replace(LIMITS, estimate_rows=1))
    assert least.ok("POST", "query", {"query": ONE})["row_count"] == 3


def test_zero_is_no_limit(serve: Serve) -> None:
    free = serve(replace(LIMITS, hops=0, estimate_rows=0))
    assert free.ok("POST", "query", {"query": FAR % ""})["rows"] == [{"n": 2}]
    assert free.ok("POST", "query", {"query": ALL_PAIRS})["rows"] == [{"n": 27}]


def test_one_line_of_a_load_has_its_length(strict: Client) -> None:
    long = LINE % "ulm" + LINE % ("x" * 300)
    head = strict.ok("GET", "snapshot")["commit"]
    bodies = (
        strict.send("POST", "load", {"data": long}),
        strict.send("POST", "load", content=long.encode(), headers={"Content-Type": "application/x-ndjson"}),
        strict.send("POST", "load", content=_archive(long), headers={"Content-Type": "application/x-tar"}),
    )
    for answer in bodies:
        error = orjson.loads(answer.content)
        assert (answer.status_code, error["type"]) == (400, "line_too_long"), error
        assert error["details"] == {"line": 2, "limit": 200}
    assert strict.ok("GET", "snapshot")["commit"] == head
    # The end of a line is no part of it, and the last one may have none.
    first, last = (LINE % (letter * (201 - len(LINE % ""))) for letter in "yz")
    assert len(first) == 201
    assert strict.ok("POST", "load", {"data": first + last.rstrip("\n")})["commit"]


def _archive(lines: str) -> bytes:
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        members = {"load.json": orjson.dumps({"source": [{"member": "a"}]}), "a": lines.encode()}
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return found.getvalue()


def test_operations_of_upkeep_that_run_at_once(serve: Serve) -> None:
    for most, status in ((1, 409), (2, 202)):
        server = serve(replace(LIMITS, upkeep_threads=most))
        running = server.hosting.operations.begin("brain", "verify", "act-other", None, None)
        answer = server.send("POST", "operations", {"kind": "verify"})
        assert answer.status_code == status, answer.text
        running.end("succeeded")
        if status == 409:
            assert answer.json()["details"] == {"operation": running.operation.id}
            continue
        while server.ok("GET", answer.headers["location"])["operation"]["state"] == "running":
            pass
