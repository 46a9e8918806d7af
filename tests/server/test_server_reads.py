"""What a server answers to those who read: the fields of release 0.8 with their types, and ours."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, cast

import pyarrow as pa
import pytest

from omnigraph.server import Limits
from omnigraph.server.routes import ROUTES
from tests.server.client import Client
from tests.server.conftest import Serve
from tests.server.described_routes import FILE

PEOPLE = "query people() { match { $p: Person } return { $p.name as name, $p.big as big } order { $p.name } }"
NAMED = "query one($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "query", {"query": PEOPLE}),
        ("POST", "export", {"type_names": ["Person"]}),
        ("GET", "rows?type=Person", None),
        ("GET", "changes/baseline?type=Person", None),
    ],
)
def test_lines_tell_their_end_if_a_client_asks(client: Client, method: str, path: str, body: object) -> None:
    """Who asks for it can tell a stream that was cut from a whole one."""
    plain, ended = (
        client.send(method, path, body, headers={"Accept": f"application/x-ndjson{end}"}).text.splitlines()
        for end in ("", "; end=1")
    )
    last = json.loads(ended[-1])["end"]
    assert last["commit"] == client.ok("GET", "snapshot")["commit"]
    if "baseline" in path:
        assert (plain, set(last)) == (ended, {"commit", "cursor"})
    else:
        assert (ended[:-1], last["rows"]) == (plain, len(plain))


def test_health_needs_no_token_and_says_which_wire_it_speaks(client: Client) -> None:
    answer = client.send("GET", "/healthz", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 200
    assert answer.json()["version"] == "0.8.0"
    assert answer.json()["internal_schema_version"] == client.hosting.state.graphs["brain"].format
    ready = client.ok("GET", "/readyz")
    assert (ready["ready"], ready["status"]) == (True, "serving")
    assert ready["graphs"] == {"serving": 1, "quarantined": 0}


def test_who_am_i_and_what_is_there(client: Client, reader: Client) -> None:
    me = reader.ok("GET", "/whoami")
    assert (me["actor"], me["role"]) == ("act-other", "read")
    assert me["graphs"] == [{"graph_id": "brain", "actions": ["read", "export", "invoke_query", "graph_list"]}]
    assert client.ok("GET", "/graphs")["graphs"] == [
        {"graph_id": "brain", "uri": "/graphs/brain", "state": "serving", "read_only": False}
    ]
    graph = client.ok("GET", "")
    assert (graph["graph_id"], graph["uri"], graph["branches"]) == ("brain", "/graphs/brain", ["main"])
    assert graph["nodes"] == {"City": 1, "Person": 3}
    assert client.ok("GET", "/graphs/default")["head"] == graph["head"]


def test_a_snapshot_lists_the_tables_as_release_0_8_does(client: Client) -> None:
    found = client.ok("GET", "snapshot")
    assert {"manifest_version", "internal_schema_version", "tables", "branch", "commit"} <= set(found)
    table = found["tables"][1]
    assert (table["table_key"], table["row_count"], table["table_branch"]) == ("node:Person", 3, None)
    assert table["table_path"].startswith("nodes/")
    assert isinstance(table["table_version"], int)


def test_a_query_answers_with_the_fields_of_release_0_8_and_ours(client: Client) -> None:
    found = client.ok("POST", "query", {"query": PEOPLE})
    assert found["query_name"] == "people"
    assert found["target"] == {"branch": "main", "snapshot": None}
    assert (found["row_count"], found["columns"]) == (3, ["name", "big"])
    assert found["rows"][0] == {"name": "ann", "big": 2**60}
    assert found["types"] == {"name": "String", "big": "I64"}
    assert found["next"] is None
    old = client.send("POST", "read", {"query_source": PEOPLE, "query_name": "people", "params": None})
    assert old.json()["rows"] == found["rows"]
    assert (old.headers["deprecation"], old.headers["link"]) == ("true", '<query>; rel="successor-version"')


def test_parameters_a_commit_and_safe_numbers(client: Client) -> None:
    assert client.ok("POST", "query", {"query": NAMED, "params": {"n": "bob"}})["rows"] == [{"age": 7}]
    genesis = client.ok("GET", "commits")["commits"][-1]["id"]
    for place in ({"at": genesis}, {"snapshot": genesis}, {"at": "v1"}):
        assert client.ok("POST", "query", {"query": PEOPLE, **place})["row_count"] == 0
    safe = client.ok("POST", "query", {"query": PEOPLE, "numbers": "safe"})
    assert safe["rows"][0]["big"] == str(2**60)


def test_pages_are_of_one_commit_and_nothing_is_cut_in_silence(client: Client, serve: Serve) -> None:
    page = client.ok("POST", "query", {"query": PEOPLE, "limit": 2})
    assert [row["name"] for row in page["rows"]] == ["ann", "bob"]
    assert page["next"] == {"at": page["commit"], "offset": 2}
    rest = client.ok("POST", "query", {"query": PEOPLE, "limit": 2, **page["next"]})
    assert ([row["name"] for row in rest["rows"]], rest["next"]) == (["cid"], None)
    small = serve(Limits(rows=2))
    error = small.fails(413, "POST", "query", {"query": PEOPLE})
    assert error["type"] == "result_too_large"
    assert "limit" in error["hint"]
    assert small.ok("POST", "query", {"query": PEOPLE, "limit": 50})["next"]["offset"] == 2
    tiny = serve(Limits(result_bytes=100))
    assert tiny.fails(413, "POST", "query", {"query": PEOPLE})["type"] == "result_too_large"


def test_rows_in_every_format(client: Client) -> None:
    lines = client.post("query", {"query": PEOPLE}, accept="application/x-ndjson")
    assert [json.loads(line)["name"] for line in lines.text.splitlines()] == ["ann", "bob", "cid"]
    table = client.post("query", {"query": PEOPLE}, accept="text/csv")
    assert list(csv.reader(io.StringIO(table.text)))[:2] == [["name", "big"], ["ann", str(2**60)]]
    arrow = client.post("query", {"query": PEOPLE}, accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(arrow.content).read_all()["big"].to_pylist() == [2**60, None, None]
    for answer in (lines, table, arrow):
        assert answer.headers["omnigraph-commit"] == client.ok("GET", "")["head"]["id"]
    weighted = client.post("query", {"query": PEOPLE}, accept="text/csv;q=0.1, application/json")
    assert weighted.headers["content-type"] == "application/json"
    assert client.post("query", {"query": PEOPLE}, accept="image/png").status_code == 406


def test_explain_profile_and_lint(client: Client) -> None:
    assert "Person" in client.ok("POST", "explain", {"query": PEOPLE})["plan"]
    assert client.ok("POST", "profile", {"query": PEOPLE})["row_count"] == 3
    report = client.ok("POST", "lint", {"query": "query q() { match { $p: Persn } return { $p } }"})
    assert (report["status"], report["errors"]) == ("error", 1)


def test_rows_entities_and_neighbors_without_a_query(client: Client) -> None:
    rows = client.ok("GET", 'rows?type=Person&filter=[["age",">",5]]&columns=name,age')
    assert rows["rows"] == [{"name": "bob", "age": 7}]
    assert client.ok("GET", "rows?entity=edge&type=Knows&limit=1")["next"]["offset"] == 1
    ann = client.ok("GET", "entity?type=Person&id=ann&numbers=safe")
    assert ann["properties"]["big"] == str(2**60)
    assert {(each["edge"], each["direction"], each["count"]) for each in ann["degrees"]} == {
        ("Knows", "out", 2),
        ("Knows", "in", 0),
        ("LivesIn", "out", 1),
    }
    around = client.ok("GET", "entity/neighbors?type=Person&id=ann&edge=Knows&limit=1")
    (edge,) = around["edges"]
    assert (edge["type"], edge["from"], edge["direction"]) == ("Knows", "ann", "out")
    assert around["nodes"] == [{"type": "Person", "id": edge["to"], "label": edge["to"]}]
    assert around["next"] == {"at": around["commit"], "offset": 1}
    assert client.fails(404, "GET", "entity?type=Person&id=nobody")["type"] == "not_found"
    assert client.fails(404, "GET", "rows?type=Persn")["hint"] == "did you mean 'Person'?"


def test_an_export_is_the_lines_that_load_back(client: Client) -> None:
    whole = client.post("export", {})
    assert whole.headers["content-type"] == "application/x-ndjson"
    records = [cast("dict[str, Any]", json.loads(line)) for line in whole.text.splitlines()]
    assert len(records) == 7
    some = client.post("export", {"type_names": ["City"]})
    assert [json.loads(line)["data"]["name"] for line in some.text.splitlines()] == ["ulm"]
    keyed = client.post("export", {"table_keys": ["edge:LivesIn"]})
    assert len(keyed.text.splitlines()) == 1
    arrow = client.post("export", {"type_names": ["Person"]}, accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(arrow.content).read_all().num_rows == 3


def test_the_schema_as_text_and_as_types(client: Client) -> None:
    text = client.ok("GET", "schema")
    assert "node Person" in text["schema_source"]
    types = client.ok("GET", "schema?view=catalog&at=v1")
    assert [each["name"] for each in types["nodes"]] == ["City", "Person"]
    assert types["nodes"][1]["key"] == ["name"]
    plan = client.ok("POST", "schema/plan", {"schema_source": text["schema_source"] + "\nnode New { a: I32 }"})
    assert (plan["supported"], plan["steps"][0]["kind"]) == (True, "add_type")


def test_what_was_read_is_not_sent_again(client: Client) -> None:
    first = client.get("rows?type=City")
    tag = first.headers["etag"]
    assert tag.startswith(f'"{first.json()["commit"]}-')
    assert first.headers["cache-control"] == "private, no-cache"
    assert first.headers["vary"] == "Authorization, Accept"
    again = client.send("GET", "rows?type=City", headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.send("GET", "rows?type=Person", headers={"If-None-Match": tag}).status_code == 200
    fixed = client.get(f"rows?type=City&at={first.json()['commit']}")
    assert fixed.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/healthz", "rows?type=City", "nothing", "rows?type=None"])
def test_every_answer_has_an_id_and_the_headers_of_caution(client: Client, path: str) -> None:
    answer = client.get(path, x_request_id="my.id-7")
    assert answer.headers["x-request-id"] == "my.id-7"
    assert answer.json()["request_id"] == "my.id-7"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert len(client.get(path, x_request_id="not an id").headers["x-request-id"]) == 26


def test_commits_ancestry_and_diffs(client: Client) -> None:
    commits = client.ok("GET", "commits")["commits"]
    newest, genesis = commits
    assert newest["graph_commit_id"] == newest["id"]
    assert newest["parent_commit_id"] == genesis["id"]
    assert (newest["manifest_branch"], newest["actor_id"], newest["message"]) == (None, "act-ann", "the first records")
    assert isinstance(newest["created_at"], int)
    page = client.ok("GET", "commits?limit=1")
    assert (page["commits"], page["next"]) == ([newest], newest["id"])
    assert client.ok("GET", f"commits?limit=1&before={page['next']}")["commits"] == [genesis]
    assert client.ok("GET", "commits?actor=act-nobody")["commits"] == []
    assert client.ok("GET", f"commits/{newest['id']}")["id"] == newest["id"]
    assert client.ok("GET", "ancestry")["commits"][0]["heads"] == ["main"]
    diff = client.ok("GET", f"diff?commit={newest['id']}&view=entities&type=City")
    assert diff["summary"] == [{"kind": "node", "type": "City", "inserted": 1, "updated": 0, "deleted": 0}]
    assert [each["id"] for each in diff["entities"]] == ["ulm"]
    people = client.ok("GET", f"diff?a={genesis['id']}&b=main&view=entities&type=Person&limit=2")
    assert ([each["id"] for each in people["entities"]], people["next"]) == (["ann", "bob"], 2)
    rest = client.ok("GET", f"diff?a={genesis['id']}&b=main&view=entities&type=Person&limit=2&cursor=2")
    assert ([each["id"] for each in rest["entities"]], rest["next"]) == (["cid"], None)
    lines = client.get(f"diff?a={genesis['id']}&b=main&op=inserted", accept="application/x-ndjson")
    assert len(lines.text.splitlines()) == 7


def test_the_description_of_the_routes_is_the_one_in_the_documentation(client: Client) -> None:
    served = client.send("GET", "/openapi.json", headers={"Authorization": "none"})
    assert served.status_code == 200
    assert served.json() == json.loads(FILE.read_bytes()), "`make openapi` writes it anew"
    described = {(path, method) for path, methods in served.json()["paths"].items() for method in methods}
    for route in ROUTES:
        assert (route.path.replace(":path", ""), route.method.lower()) in described
