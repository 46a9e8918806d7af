"""A policy in front of a graph: one forbidden branch and one forbidden type, tried through every route."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import cedarpy
import httpx
import pytest

import omnigraph
from omnigraph.policy import load_policy
from omnigraph.server import Role, ServedGraph, ServerSettings, create_token, dispatch, read_query_folder
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.config.config_file import read_config
from omnigraph.server.routes import ROUTES
from tests.server.client import Client, open_client
from tests.server.conftest import LIMITS

SCHEMA = """
node Person { name: String @key  age: I32? }
node Salary { name: String @key  amount: I32? }
edge Knows: Person -> Person
edge Earns: Person -> Salary
"""
RECORDS = [
    {"type": "Person", "data": {"name": "ann", "age": 4}},
    {"type": "Person", "data": {"name": "bob"}},
    {"type": "Salary", "data": {"name": "top", "amount": 987654}},
    {"edge": "Knows", "from": "ann", "to": "bob"},
    {"edge": "Earns", "from": "ann", "to": "top"},
]
POLICY = """
version: 1
groups: {staff: [act-ann], hr: [act-hr]}
protected_branches: [main]
rules:
  - {id: staff-read, allow: {actors: {group: staff}, actions: [read, export], branches: [main, "work/*"]}}
  - {id: staff-change, allow: {actors: {group: staff}, actions: [change], branches: ["work/*"]}}
  - id: staff-branch
    allow: {actors: {group: staff}, actions: [branch_create, branch_delete, branch_merge], branches: ["work/*"]}
  - {id: staff-ask, allow: {actors: {group: staff}, actions: [invoke_query], queries: [people, salaries]}}
  - {id: bot-asks, allow: {actors: {actor: act-bot}, actions: [invoke_query], queries: [salaries], grants: true}}
  - id: bot-pays
    allow: {actors: {actor: act-bot}, actions: [invoke_query], queries: [pay], grants: true, branches: ["work/*"]}
  - {id: staff-tag, allow: {actors: {group: staff}, actions: [tag]}}
  - {id: hr-all, allow: {actors: {group: hr}, actions: [read, export, change, branch_create, branch_merge, tag, admin]}}
  - id: no-salaries
    deny:
      {actors: {any: true}, except: {group: hr}, actions: [read, export, change], types: ["node:Salary", "edge:Earns"]}
"""
SALARIES = "query q() { match { $s: Salary } return { $s.amount } }"
EARNERS = "query q() { match { $p: Person  $p earns $s } return { $p.name } }"
PEOPLE = "query q() { match { $p: Person } return { $p.name } }"
STORED = """
query people() { match { $p: Person } return { $p.name } }
query salaries() { match { $s: Salary } return { $s.amount } }
query pay($n: String) { insert Salary { name: $n } }
query other() { match { $p: Person } return { $p.age } }
"""
ADD = "query add($n: String) { insert Person { name: $n } }"


@dataclass(frozen=True)
class Served:
    """A server with a policy, and a client for each actor."""

    ann: Client
    hr: Client
    eve: Client
    bot: Client
    secret: str
    """A commit of the branch that act-ann may not read."""
    folder: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, runner: asyncio.Runner) -> Generator[Served]:
    folder = tmp_path_factory.mktemp("policy")
    graph = omnigraph.init(folder / "brain.og", SCHEMA)
    graph.load(RECORDS)
    graph.create_branch("secret")
    commit = graph.mutate(ADD, params={"n": "hidden-person"}, branch="secret").commit
    assert commit is not None
    graph.create_tag("hidden-tag", "secret")
    graph.create_branch("work/1")
    graph.mutate(ADD, params={"n": "cid"}, branch="work/1")
    graph.close()
    (folder / "policy.yaml").write_text(POLICY)
    tokens = folder / "tokens.json"
    texts = {
        actor: create_token(tokens, actor, Role.ADMIN, None, None)[1]
        for actor in ("act-ann", "act-hr", "act-eve", "act-bot")
    }
    (folder / "queries").mkdir()
    (folder / "queries" / "all.gq").write_text(STORED)
    policy = load_policy(folder / "policy.yaml", "brain")
    queries = read_query_folder(folder / "queries")
    served = ServedGraph("brain", str(folder / "brain.og"), queries=queries, policy=policy)
    settings = ServerSettings((served,), tokens=tokens, limits=LIMITS, audit=folder / "audit.jsonl")
    client = open_client(settings, runner)
    ann, hr, eve, bot = (replace(client, token=text) for text in texts.values())
    yield Served(ann, hr, eve, bot, commit.id, folder)
    client.close()


def no_secret(answer: httpx.Response) -> httpx.Response:
    """Nothing of the forbidden branch and type is in an answer."""
    for word in ("987654", "hidden-person"):
        assert word not in answer.text
    return answer


# --------------------------------------------------------------------------------------------- who may do nothing


def test_who_has_no_right_gets_no_further_than_the_gate(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def work(route: Route, _call: ServerCall, _deadline: object) -> tuple[Answer, bytes, None]:
        ran.append(route.path)
        return Answer(), b"{}", None

    monkeypatch.setattr(dispatch, "_work", work)
    for route in ROUTES:
        if route.access.level != "graph":
            continue
        path = route.path
        for name in ("graph_id", "branch:path", "tag:path", "commit", "name", "id", "request_id"):
            path = path.replace(f"{{{name}}}", "brain" if name == "graph_id" else "x")
        answer = served.eve.send(route.method, path)
        assert answer.status_code in (403, 404), (route.method, path, answer.text)
        assert answer.json()["error"], path
    assert ran == []


def test_a_policy_that_cannot_decide_allows_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # Cedar leaves out a rule that fails: if that is a prohibition, what is left would allow too much.
    policies = "permit(principal, action, resource); forbid(principal, action, resource) when { context.missing };"
    failing, ask = cedarpy.PolicySet.from_str(policies), cast("Callable[..., object]", cedarpy.is_authorized)

    def fail(request: object, _: object, entities: str) -> object:
        return ask(request, failing, entities)

    monkeypatch.setattr(cedarpy, "is_authorized", fail)
    body = {"query": PEOPLE, "branch": "work/nobody-asked-about-it"}
    error = served.hr.fails(500, "POST", "/graphs/brain/query", body)
    assert (error["code"], error["type"]) == ("internal", "no_decision")


def test_graphs_and_actions_are_those_that_the_policy_leaves(served: Served) -> None:
    assert served.eve.ok("GET", "/graphs")["graphs"] == []
    assert served.eve.ok("GET", "/whoami")["graphs"] == []
    assert [each["graph_id"] for each in served.ann.ok("GET", "/graphs")["graphs"]] == ["brain"]
    actions = served.ann.ok("GET", "/whoami")["graphs"][0]["actions"]
    assert actions == [
        "read",
        "export",
        "change",
        "branch_create",
        "branch_delete",
        "branch_merge",
        "tag",
        "invoke_query",
    ]


# --------------------------------------------------------------------------------------------- a forbidden type

READS_OF_SALARIES: list[tuple[str, str, Any]] = [
    ("POST", "query", {"query": SALARIES}),
    ("POST", "read", {"query_source": SALARIES}),
    ("POST", "query", {"query": EARNERS}),
    ("POST", "explain", {"query": SALARIES}),
    ("POST", "profile", {"query": SALARIES}),
    ("POST", "query", {"query": SALARIES, "branch": "work/1"}),
    ("POST", "query", {"query": SALARIES, "at": "v2"}),
    ("GET", "rows?type=Salary", None),
    ("GET", "rows?type=Earns&entity=edge", None),
    ("GET", "entity?type=Salary&id=top", None),
    ("GET", "entity/neighbors?type=Salary&id=top", None),
    ("GET", "entity/neighbors?type=Person&id=ann&edge=Earns", None),
    ("GET", "blob?type=Salary&id=top&property=amount", None),
    ("GET", "changes?start=beginning&type=Salary", None),
    ("GET", "changes/baseline", None),
    ("GET", "changes/baseline?type=Salary", None),
    ("POST", "export", {}),
    ("POST", "export", {"type_names": ["Salary"]}),
    ("POST", "export", {"table_keys": ["edge:Earns"]}),
    ("GET", "diff?a=main&b=work/1&type=Salary", None),
]


@pytest.mark.parametrize(("method", "path", "body"), READS_OF_SALARIES)
def test_what_names_a_forbidden_type_is_refused(served: Served, method: str, path: str, body: Any) -> None:
    answer = no_secret(served.ann.send(method, path, body))
    assert answer.status_code == 403, answer.text
    assert "no-salaries" in answer.json()["error"]
    assert answer.json()["details"]["by"] == "policy"


def test_what_does_not_name_it_leaves_it_out(served: Served) -> None:
    graph = served.ann.ok("GET", "")
    assert (graph["nodes"], graph["edges"], graph["types_hidden"]) == ({"Person": 2}, {"Knows": 1}, True)
    snapshot = served.ann.ok("GET", "snapshot")
    assert {table["table_key"] for table in snapshot["tables"]} == {"node:Person", "edge:Knows"}
    assert snapshot["types_hidden"]
    entity = served.ann.ok("GET", "entity?type=Person&id=ann")
    assert {each["edge"] for each in entity["degrees"]} == {"Knows"}
    neighbors = served.ann.ok("GET", "entity/neighbors?type=Person&id=ann")
    assert [each["type"] for each in neighbors["edges"]] == ["Knows"]
    feed = served.ann.ok("GET", "changes?start=beginning")
    assert feed["types_hidden"]
    assert {each["type"] for block in feed["blocks"] for each in block["changes"]} == {"Person", "Knows"}
    assert served.ann.ok("GET", "schema?view=catalog")["nodes"][1]["name"] == "Salary"
    assert served.hr.ok("GET", "")["nodes"] == {"Person": 2, "Salary": 1}
    assert served.hr.ok("POST", "query", {"query": SALARIES})["row_count"] == 1
    assert served.ann.ok("POST", "query", {"query": PEOPLE})["row_count"] == 2
    assert no_secret(served.ann.send("POST", "export", {"type_names": ["Person"]})).status_code == 200


def test_a_forbidden_type_is_not_written_merged_or_reverted(served: Served) -> None:
    pay = 'query pay() { insert Salary { name: "new" } }'
    steps = {"steps": [{"query": ADD, "params": {"n": "x"}}, {"query": pay}], "branch": "work/1"}
    record = json.dumps({"type": "Salary", "data": {"name": "new"}})
    taken = json.dumps({"type": "Salary", "data": {"name": "top"}})
    raises = "query raise() { match { $s: Salary } update $s set { amount: 1 } }"
    for path, body in (
        ("mutate", {"query": pay, "branch": "work/1"}),
        ("mutate", {"query": raises, "branch": "work/1"}),
        ("transaction", steps),
        ("load", {"data": record, "branch": "work/1"}),
        ("load", {"data": record, "branch": "work/new", "from": "main"}),
        # What is wrong with the record would tell that there is one.
        ("load", {"data": taken, "branch": "work/1", "mode": "append"}),
    ):
        answer = no_secret(served.ann.send("POST", path, body))
        assert answer.status_code in (400, 403), (path, answer.text)
        assert "violations" not in answer.json()
    checked = no_secret(
        served.ann.send("POST", "load?branch=work/1&check=true", content=record.encode(), headers=NDJSON)
    )
    assert checked.status_code == 403
    made = served.hr.ok("POST", "branches", {"name": "work/hr", "from": "main"})
    paid = served.hr.ok("POST", "mutate", {"query": pay, "branch": "work/hr"})["commit"]
    assert made["name"] == "work/hr"
    merge = {"source": "work/hr", "target": "work/1"}
    tried = served.ann.ok("POST", "merges", {**merge, "dry_run": True})
    assert (tried["nodes"], tried["types_hidden"]) == ({}, True)
    assert served.ann.fails(403, "POST", "merges", merge)["details"]["rule"] == "no-salaries"
    assert served.ann.fails(403, "POST", "branches/merge", merge)["type"] == "forbidden"
    assert served.ann.fails(403, "POST", "reverts", {"commit": paid, "branch": "work/hr"})["type"] == "forbidden"
    diff = served.ann.ok("GET", "diff?a=main&b=work/hr&view=entities")
    assert (diff["summary"], diff["entities"], diff["types_hidden"]) == ([], [], True)
    assert served.hr.ok("GET", "diff?a=main&b=work/hr")["summary"][0]["inserted"] == 1
    assert served.ann.ok("GET", "branches/work/1")["head"] != paid


def test_stored_queries_are_those_that_the_actor_may_invoke(served: Served) -> None:
    names = [each["name"] for each in served.ann.ok("GET", "queries")["queries"]]
    assert sorted(names) == ["people", "salaries"]
    assert served.ann.ok("POST", "queries/people")["row_count"] == 2
    # It may be invoked, and still names a type that may not be read.
    assert served.ann.fails(403, "POST", "queries/salaries")["details"]["rule"] == "no-salaries"
    for method in ("GET", "POST"):
        denied, unknown = served.ann.send(method, "queries/other", {}), served.ann.send(method, "queries/none", {})
        assert to_shown(denied, "other") == to_shown(unknown, "none")
        assert denied.status_code == 404


def test_a_grant_lets_a_query_do_what_its_caller_may_not(served: Served) -> None:
    served.bot.fails(403, "POST", "query", {"query": SALARIES})
    served.bot.fails(403, "GET", "snapshot")
    assert served.bot.ok("POST", "queries/salaries")["rows"] == [{"s.amount": 987654}]
    made = served.hr.ok("POST", "branches", {"name": "work/bot", "from": "main"})
    assert served.bot.ok("POST", "queries/pay", {"params": {"n": "low"}, "branch": made["name"]})["affected_nodes"] == 1
    assert (
        served.bot.fails(403, "POST", "queries/pay", {"params": {"n": "low"}, "branch": "main"})["type"] == "forbidden"
    )
    served.bot.fails(
        403, "POST", "mutate", {"query": STORED, "name": "pay", "params": {"n": "x"}, "branch": "work/bot"}
    )


NDJSON = {"Content-Type": "application/x-ndjson"}


# --------------------------------------------------------------------------------------------- a forbidden branch


def list_reads(ref: str, at: str) -> list[tuple[str, str, Any]]:
    """Return every way to read a branch by its name, and by a reference to a commit of it."""
    return [
        ("POST", "query", {"query": PEOPLE, "branch": ref}),
        ("POST", "query", {"query": PEOPLE, "at": at}),
        ("POST", "query", {"query": PEOPLE, "branch": "main", "at": at}),
        ("POST", "read", {"query_source": PEOPLE, "snapshot": at}),
        ("POST", "explain", {"query": PEOPLE, "at": at}),
        ("POST", "profile", {"query": PEOPLE, "at": at}),
        ("POST", "lint", {"query": PEOPLE, "branch": ref}),
        ("GET", f"snapshot?branch={ref}", None),
        ("GET", f"snapshot?at={at}", None),
        ("GET", f"schema?at={at}", None),
        ("GET", f"rows?type=Person&branch={ref}", None),
        ("GET", f"rows?type=Person&at={at}", None),
        ("GET", f"entity?type=Person&id=hidden-person&at={at}", None),
        ("GET", f"entity/neighbors?type=Person&id=ann&at={at}", None),
        ("POST", "export", {"type_names": ["Person"], "branch": ref}),
        ("POST", "export", {"type_names": ["Person"], "at": at}),
        ("GET", f"blob?type=Person&id=ann&property=age&at={at}", None),
        ("GET", f"changes?branch={ref}&start=beginning", None),
        ("GET", f"changes/baseline?type=Person&at={at}", None),
        ("POST", "queries/people", {"branch": ref}),
        ("POST", "queries/people", {"at": at}),
        ("GET", f"branches/{ref}", None),
        ("GET", f"commits?branch={ref}", None),
        ("GET", f"commits/{at}", None),
        ("GET", f"ancestry?branch={ref}", None),
        ("GET", f"diff?a=main&b={ref}", None),
        ("GET", f"diff?a={ref}", None),
        ("GET", f"diff?a=main&b={at}", None),
        ("GET", f"diff?commit={at}", None),
        ("POST", "branches", {"name": "work/copy", "from": ref}),
        ("POST", "branches", {"name": "work/copy", "from": at}),
        ("POST", "merges", {"source": ref, "target": "work/1"}),
        ("POST", "merges", {"source": at, "target": "work/1"}),
        ("POST", "merges", {"source": ref, "target": "work/1", "dry_run": True}),
        ("POST", "merges", {"source": "work/1", "target": ref}),
        ("POST", "reverts", {"commit": at, "branch": "work/1"}),
        ("POST", "load", {"data": "", "branch": "work/copy", "from": ref}),
        ("POST", "load", {"data": "", "branch": ref}),
        ("POST", "mutate", {"query": ADD, "params": {"n": "x"}, "branch": ref}),
        ("POST", "tags", {"name": "mine", "ref": at}),
        ("POST", "tags", {"name": "mine", "branch": ref}),
        ("DELETE", f"branches/{ref}", None),
    ]


def to_shown(answer: httpx.Response, *words: str) -> tuple[int, str, list[tuple[str, str]]]:
    """An answer without what differs between any two requests, and without the name that was asked for."""
    body = answer.json()
    body.pop("request_id")
    text = json.dumps(body, sort_keys=True)
    for word in words:
        text = text.replace(word, "REF")
    headers = [
        (name, value) for name, value in answer.headers.items() if name not in ("x-request-id", "content-length")
    ]
    return answer.status_code, text, headers


def test_a_forbidden_branch_cannot_be_read_and_looks_like_one_that_is_not_there(served: Served) -> None:
    unknown = "01JCZ5K3V8W9X0Y1Z2A3B4C5D6"
    there, absent = list_reads("secret", served.secret), list_reads("nosuch", unknown)
    for (method, path, body), (_, other_path, other_body) in zip(there, absent, strict=True):
        answer = no_secret(served.ann.send(method, path, body))
        assert answer.status_code in (403, 404), (method, path, body, answer.text)
        other = served.ann.send(method, other_path, other_body)
        assert to_shown(answer, "secret", served.secret) == to_shown(other, "nosuch", unknown), (method, path, body)
    hidden = served.ann.send("GET", "snapshot?at=hidden-tag")
    missing = served.ann.send("GET", "snapshot?at=missing-tag")
    assert to_shown(hidden, "hidden-tag") == to_shown(missing, "missing-tag")
    assert hidden.status_code == 404


def test_lists_have_what_may_be_read(served: Served) -> None:
    assert "secret" not in served.ann.ok("GET", "branches")["branches"]
    assert "secret" not in served.ann.ok("GET", "")["branches"]
    assert served.ann.ok("GET", "tags")["tags"] == []
    ancestry = served.ann.ok("GET", "ancestry")["commits"]
    assert served.secret not in [commit["id"] for commit in ancestry]
    assert not any("secret" in commit["heads"] for commit in ancestry)
    everything = served.hr.ok("GET", "ancestry")["commits"]
    assert served.secret in [commit["id"] for commit in everything]
    assert [tag["name"] for tag in served.hr.ok("GET", "tags")["tags"]] == ["hidden-tag"]


def test_two_callers_do_not_share_what_a_cache_keeps(served: Served) -> None:
    head = served.hr.ok("GET", "branches/main")["head"]
    first = served.hr.get(f"snapshot?at={head}")
    assert first.headers["cache-control"] == "private, no-cache"
    assert first.headers["vary"] == "Authorization, Accept"
    answer = served.ann.get(f"snapshot?at={head}", If_None_Match=first.headers["etag"])
    assert (answer.status_code, answer.headers["etag"] == first.headers["etag"]) == (200, False)
    assert served.hr.get(f"snapshot?at={head}", If_None_Match=first.headers["etag"]).status_code == 304
    refused = served.eve.get(f"snapshot?at={head}", If_None_Match=first.headers["etag"])
    assert refused.status_code == 403


# --------------------------------------------------------------------------------------------- how it is told


def test_the_audit_says_which_rule_decided(served: Served) -> None:
    served.ann.get("rows?type=Salary")
    served.ann.get("rows?type=Person")
    served.eve.get("snapshot")
    lines = [json.loads(line) for line in (served.folder / "audit.jsonl").read_text().splitlines()[-3:]]
    assert [(each["actor"], each["decision"], each["rule"]) for each in lines] == [
        ("act-ann", "denied", "no-salaries"),
        ("act-ann", "allowed", "staff-read"),
        ("act-eve", "denied", None),
    ]


def test_a_decision_is_explained_to_its_actor_and_to_administrators(served: Served) -> None:
    found = served.ann.ok("GET", "policy/explain?action=read&branch=main&type=node:Salary")
    assert (found["allowed"], found["rule"]) == (False, "no-salaries")
    assert [each["allowed"] for each in found["asks"]] == [True, True, False]
    assert served.hr.ok("GET", "policy/explain?action=read&branch=secret&actor=act-ann")["allowed"] is False
    served.ann.fails(403, "GET", "policy/explain?action=read&actor=act-hr")
    assert "action" in served.ann.fails(400, "GET", "policy/explain?action=fly")["error"]


def test_an_edited_policy_holds_for_the_next_request(tmp_path: Path, served: Served, runner: asyncio.Runner) -> None:
    shutil.copytree(served.folder / "brain.og", tmp_path / "brain.og")
    (tmp_path / "policy.yaml").write_text(POLICY)
    text = create_token(tmp_path / "tokens.json", "act-ann", Role.READ, None, None)[1]
    config = tmp_path / "server.yaml"
    config.write_text("{version: 1, tokens: tokens.json, graphs: {brain: {uri: brain.og, policy: policy.yaml}}}")
    client = open_client(read_config(config, {}), runner, lambda: read_config(config, {}))
    client = replace(client, token=text)
    try:
        client.fails(403, "POST", "query", {"query": SALARIES})
        # The role of a token is a ceiling that no policy lifts.
        assert client.fails(403, "POST", "mutate", {"query": ADD, "branch": "work/1"})["details"]["by"] == "role"
        (tmp_path / "policy.yaml").write_text(POLICY.replace("no-salaries\n    deny:", "no-salaries\n    allow:"))
        client.hosting.reload()
        assert client.ok("POST", "query", {"query": SALARIES})["row_count"] == 1
        (tmp_path / "policy.yaml").write_text(POLICY.replace("actions", "axions", 1))
        client.hosting.reload()
        assert client.ok("GET", "/readyz")["config_stale"] is True
        assert client.ok("POST", "query", {"query": SALARIES})["row_count"] == 1
    finally:
        client.close()


def test_a_token_of_release_0_8_may_do_what_the_policy_says(
    served: Served, runner: asyncio.Runner, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"act-hr": "plain"}))
    tokens.chmod(0o600)
    settings = replace(served.ann.hosting.state.settings, tokens=tokens, audit=None)
    client = replace(open_client(settings, runner), token="plain")  # noqa: S106  a token of this test
    try:
        assert "admin" in client.ok("GET", "/whoami")["graphs"][0]["actions"]
    finally:
        client.close()
