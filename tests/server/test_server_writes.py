"""What a server writes: under the actor of the token, as one commit or not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.server import Limits, Role
from omnigraph.server.upload_folders import UploadFolder
from tests.server.client import Client, error_of
from tests.server.conftest import SCHEMA, Serve

ADD = "query add($name: String) { insert Person { name: $name } }"
KNOWS = 'query knows($name: String) { insert Knows { from: "ann", to: $name } }'
UPDATE = 'query age($age: I32) { update Person set { age: $age } where name = "bob" }'
LINES = '{"type": "Person", "data": {"name": "%s"}}\n{"type": "City", "data": {"name": "%s"}}\n'


def names_on(client: Client, branch: str) -> set[str]:
    return {row["name"] for row in client.ok("GET", f"rows?type=Person&columns=name&branch={branch}")["rows"]}


@pytest.fixture
def branch(client: Client, request: pytest.FixtureRequest) -> str:
    """A branch of this test alone."""
    name = f"t/{request.node.name.partition('[')[0]}-{abs(hash(request.node.name)) % 10_000}"
    client.ok("POST", "branches", {"name": name, "from": "main"})
    return name


def test_a_mutation_is_a_commit_of_the_actor_of_the_token(client: Client, branch: str) -> None:
    other = client.with_role(Role.WRITE, "act-ines")
    body = {"query": ADD, "params": {"name": "eve"}, "branch": branch, "message": "eve comes"}
    done = other.ok("POST", "mutate", body)
    assert (done["affected_nodes"], done["affected_edges"], done["query_name"]) == (1, 0, "add")
    assert (done["actor_id"], done["branch"], done["replayed"]) == ("act-ines", branch, False)
    commit = client.ok("GET", f"commits/{done['commit']}")
    assert (commit["actor_id"], commit["message"], commit["manifest_branch"]) == ("act-ines", "eve comes", branch)
    assert commit["analyses"] == []
    assert names_on(client, branch) == {"ann", "bob", "cid", "eve"}
    old = client.send(
        "POST", "change", {"query_source": ADD, "query_name": "add", "params": {"name": "x"}, "branch": branch}
    )
    assert (old.status_code, old.headers["deprecation"]) == (200, "true")
    nothing = client.ok(
        "POST", "mutate", {"query": 'query d() { delete Person where name = "nobody" }', "branch": branch}
    )
    assert nothing["commit"] is None


def test_a_commit_tells_the_analysis_that_its_message_tells(client: Client, branch: str) -> None:
    lines = (
        "Algorithm: pagerank",
        'Parameters: {"iterations":5}',
        'Projection: {"nodes":["Person"]}',
        "Source: 01X",
        "Engine: local",
        "Version: 1.0",
        "Written: Person.rank, Person.age",
    )
    message = "ranked\n\n" + "\n".join(lines)
    body = {"query": ADD, "params": {"name": "eve"}, "branch": branch, "message": message}
    made = client.ok("POST", "mutate", body)["commit"]
    assert client.ok("GET", f"commits/{made}")["analyses"] == [
        {
            "commit": made,
            "written": ["Person.rank", "Person.age"],
            "algorithm": "pagerank",
            "parameters": {"iterations": 5},
            "projection": {"nodes": ["Person"]},
            "source": "01X",
            "engine": "local",
            "version": "1.0",
        }
    ]


def test_nobody_writes_under_another_name(client: Client, branch: str) -> None:
    for name in ("actor", "actor_id", "as"):
        error = client.fails(
            400, "POST", "mutate", {"query": ADD, "params": {"name": "z"}, "branch": branch, name: "x"}
        )
        assert "the actor is that of the token" in error["error"]
    assert "z" not in names_on(client, branch)


def test_a_precondition_and_a_rule_that_do_not_hold(client: Client, branch: str) -> None:
    head = client.ok("GET", f"snapshot?branch={branch}")["commit"]
    body = {"query": ADD, "params": {"name": "one"}, "branch": branch, "if_commit": head}
    made = client.ok("POST", "mutate", body)["commit"]
    error = client.fails(412, "POST", "mutate", {**body, "params": {"name": "two"}})
    assert (error["code"], error["type"]) == ("conflict", "precondition_failed")
    assert (error["details"]["expected"], error["details"]["actual"]) == (head, made)
    dangling = client.fails(422, "POST", "mutate", {"query": KNOWS, "params": {"name": "nobody"}, "branch": branch})
    assert dangling["violations"][0]["type"] == "Knows"
    assert names_on(client, branch) == {"ann", "bob", "cid", "one"}


def test_a_transaction_is_one_commit_or_none(client: Client, branch: str) -> None:
    steps = [{"query": ADD, "params": {"name": name}} for name in ("t1", "t2")]
    done = client.ok("POST", "transaction", {"steps": steps, "branch": branch})
    assert done["affected_nodes"] == 2
    assert done["steps"] == [{"query_name": "add", "affected_nodes": 1, "affected_edges": 0}] * 2
    assert client.ok("GET", f"commits?branch={branch}&limit=1")["commits"][0]["id"] == done["commit"]
    bad = [{"query": query, "params": {"name": "t3"}} for query in (ADD, KNOWS.replace("$name }", '"nobody" }'))]
    client.fails(422, "POST", "transaction", {"steps": bad, "branch": branch})
    assert names_on(client, branch) == {"ann", "bob", "cid", "t1", "t2"}
    client.fails(400, "POST", "transaction", {"steps": []})


def test_a_load_as_release_0_8_sends_it(client: Client) -> None:
    body = {"data": LINES % ("l1", "rome"), "branch": "loads/old", "from": "main", "mode": "merge"}
    done = client.ok("POST", "load", body)
    assert (done["uri"], done["branch"], done["base_branch"]) == ("/graphs/brain", "loads/old", "main")
    assert (done["branch_created"], done["mode"], done["actor_id"]) == (True, "merge", "act-test")
    assert {each["table_key"]: each["rows_loaded"] for each in done["tables"]} == {"node:Person": 1, "node:City": 1}
    again = client.send("POST", "ingest", body)
    assert (again.json()["branch_created"], again.json()["commit"]) == (False, None)
    assert again.headers["link"] == '<load>; rel="successor-version"'


@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
def test_a_load_of_lines(client: Client, branch: str, codec: str | None) -> None:
    lines = (LINES % (f"u-{codec}", "oslo")).encode()
    body = lines if codec is None else gzip.compress(lines) if codec == "gzip" else zstd(lines)
    answer = client.send(
        "POST",
        f"load?branch={branch}&mode=append&txn=night:{3}",
        content=body,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert answer.status_code == 200, answer.text
    assert (answer.json()["nodes"], answer.json()["rejected"]) == ({"Person": 1, "City": 1}, 0)
    again = client.send(
        "POST",
        f"load?branch={branch}&mode=append&txn=night:3",
        content=body,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert (again.json()["replayed"], again.json()["commit"]) == (True, answer.json()["commit"])
    assert list(client.hosting.uploads.path.iterdir()) == []


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def test_uploads_of_a_process_that_died_are_removed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    lives = UploadFolder(state)
    dead = state / "uploads-01ARZ3NDEKTSV4RRFFQ69G5FAV"
    dead.mkdir()
    (dead / "body").write_bytes(b"x")
    dead.with_suffix(".lock").touch()
    (lives.path / "body").write_bytes(b"y")
    started = UploadFolder(state)
    assert sorted(each for each in state.iterdir() if each.is_dir()) == sorted([lives.path, started.path])
    assert (lives.path / "body").read_bytes() == b"y"
    assert (state.stat().st_mode & 0o777, lives.path.stat().st_mode & 0o777) == (0o700, 0o700)
    for each in (lives, started):
        each.remove()
    assert list(state.iterdir()) == []


def test_records_that_are_wrong_fail_a_load_or_come_back(client: Client, branch: str) -> None:
    lines = LINES % ("good", "bonn") + '{"type": "Person", "data": {"name": "bad", "age": "old"}}\n'
    error = client.fails(422, "POST", "load", {"data": lines, "branch": branch})
    assert (error["violations"][0]["line"], error["violations"][0]["property"]) == (3, "age")
    done = client.ok("POST", "load", {"data": lines, "branch": branch, "on_error": "quarantine"})
    assert (done["rejected"], done["rejects_truncated"]) == (1, False)
    assert "bad" in json.dumps(done["rejects"][0])
    checked = client.ok("POST", "load", {"data": LINES % ("c", "d"), "branch": branch, "check": True})
    assert (checked["commit"], checked["nodes"]) == (None, {"Person": 1, "City": 1})
    assert names_on(client, branch) == {"ann", "bob", "cid", "good"}


def test_a_load_reads_nothing_but_its_body(client: Client, branch: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody may see this")
    record = json.dumps({"type": "Person", "data": {"name": "spy", "photo": f"file://{secret}"}})
    error = client.fails(422, "POST", "load", {"data": record, "branch": branch})
    assert "only bytes are taken here" in error["violations"][0]["message"]
    query = 'query add($p: Blob) { insert Person { name: "spy", photo: $p } }'
    client.fails(400, "POST", "mutate", {"query": query, "params": {"p": f"file://{secret}"}, "branch": branch})
    assert client.ok("POST", "mutate", {"query": query, "params": {"p": "base64:aGk="}, "branch": branch})["commit"]


def test_bodies_have_limits(serve: Serve) -> None:
    small = serve(Limits(body_bytes=2_000, load_bytes=2_000, json_depth=8, load_ratio=10))
    assert small.fails(413, "POST", "mutate", {"query": "x" * 3_000})["type"] == "body_too_large"
    ndjson = {"Content-Type": "application/x-ndjson"}
    assert error_of(small.send("POST", "load", content=b"\n" * 3_000, headers=ndjson))["type"] == "body_too_large"
    bomb = gzip.compress(b"\n" * (16 << 20))[:2_000]
    whole = gzip.compress(b"\n" * (1 << 20))
    assert small.send("POST", "load", content=bomb, headers=ndjson).status_code in (400, 413)
    assert len(whole) < 2_000
    broken = error_of(small.send("POST", "load", content=whole[:-20], headers=ndjson))
    assert broken["type"] in ("bad_body", "body_too_large")
    deep = b'{"query": ' + b"[" * 50 + b"]" * 50 + b"}"
    nested = small.send("POST", "query", content=deep, headers={"Content-Type": "application/json"})
    assert "deeper than 8" in error_of(nested)["error"]
    assert list(small.hosting.uploads.path.iterdir()) == []


def test_branches_with_slashes_and_a_branch_called_merge(client: Client) -> None:
    for name in ("merge", "review/june"):
        made = client.ok("POST", "branches", {"name": name, "from": "main"})
        assert (made["uri"], made["name"], made["from"]) == ("/graphs/brain", name, "main")
    for path in ("branches/review/june", "branches/review%2Fjune"):
        assert client.ok("GET", path)["name"] == "review/june"
    assert client.fails(409, "POST", "branches", {"name": "merge"})["type"] == "already_exists"
    assert {"main", "merge", "review/june"} <= set(client.ok("GET", "branches")["branches"])
    assert client.ok("DELETE", "branches/merge")["name"] == "merge"
    assert client.fails(404, "GET", "branches/merge")["code"] == "not_found"
    client.ok("DELETE", "branches/review%2Fjune")


def test_numbers_that_javascript_would_round_come_as_texts_wherever_values_are_shown(client: Client) -> None:
    exact = 2**53 + 1
    client.ok("POST", "branches", {"name": "numbers"})
    update = 'query u($n: I64) { update Person set { big: $n } where name = "ann" }'
    for branch, value in (("main", exact), ("numbers", exact + 2)):
        made = client.ok("POST", "mutate", {"query": update, "params": {"n": value}, "branch": branch})
    safe = client.ok("GET", f"diff?commit={made['commit']}&view=entities&numbers=safe")["entities"][0]
    assert (safe["before"]["big"], safe["after"]["big"]) == (str(2**60), str(exact + 2))
    native = client.ok("GET", f"diff?commit={made['commit']}&view=entities")["entities"][0]
    assert native["after"]["big"] == exact + 2
    history = client.ok("GET", "entity/history?type=Person&id=ann&limit=1&numbers=safe")["entries"]
    assert history[0]["after"]["big"] == str(exact)
    merge = {"source": "numbers", "target": "main", "numbers": "safe"}
    [conflict] = client.ok("POST", "merges", {**merge, "dry_run": True})["conflicts"]
    assert (conflict["ours"]["big"], conflict["theirs"]["big"]) == (str(exact), str(exact + 2))
    # A text that came is a value that may be sent.
    chosen = {"kind": "DivergentUpdate", "type": "Person", "id": "ann", "choose": {"big": conflict["theirs"]["big"]}}
    client.ok("POST", "merges", {**merge, "resolve": {"conflicts": [chosen]}, "delete_branch": True})
    assert client.ok("GET", "entity?type=Person&id=ann")["properties"]["big"] == exact + 2


def test_a_merge_and_its_conflicts(client: Client, reader: Client) -> None:
    for name in ("m/a", "m/b"):
        client.ok("POST", "branches", {"name": name, "from": "main"})
    for name, age in (("m/a", 1), ("m/b", 2)):
        client.ok("POST", "mutate", {"query": UPDATE, "params": {"age": age}, "branch": name})
    done = client.ok("POST", "branches/merge", {"source": "m/a", "target": "m/b", "prefer": "theirs", "dry_run": True})
    assert done["commit"] is None
    tried = reader.ok("POST", "merges", {"source": "m/a", "target": "m/b", "dry_run": True})
    assert tried["outcome"] == "conflicts"
    assert tried["conflicts"][0]["row_id"] == "bob"
    assert reader.fails(403, "POST", "merges", {"source": "m/a", "target": "m/b"})["code"] == "forbidden"
    error = client.fails(409, "POST", "merges", {"source": "m/a", "target": "m/b"})
    assert error["type"] == "merge_conflicts"
    (conflict,) = error["merge_conflicts"]
    assert (conflict["kind"], conflict["row_id"], conflict["ours"]["age"]) == ("divergent_update", "bob", 2)
    assert conflict["table_key"] == "node:Person"
    merged = client.ok("POST", "merges", {"source": "m/a", "target": "m/b", "prefer": "theirs", "delete_branch": True})
    assert (merged["source"], merged["target"], merged["branch_deleted"]) == ("m/a", "m/b", True)
    assert merged["outcome"] == "merged"
    undone = client.ok("POST", "reverts", {"commit": merged["commit"], "branch": "m/b", "side": 1})
    assert undone["nodes"]["Person"]["updated"] == 1


def test_tags(client: Client) -> None:
    head = client.ok("GET", "")["head"]["id"]
    assert client.ok("POST", "tags", {"name": "june/1"})["commit"] == head
    assert client.ok("GET", "tags")["tags"][0]["actor"] == "act-test"
    assert client.ok("GET", "snapshot?at=june/1")["commit"] == head
    assert client.ok("DELETE", "tags/june/1")["tag"] == "june/1"
    assert client.ok("GET", "tags")["tags"] == []


def test_a_schema_change(client: Client) -> None:
    source = SCHEMA + "node Later { a: String @key }"
    applied = client.ok("POST", "schema/apply", {"schema_source": source, "message": "later"})
    assert (applied["uri"], applied["supported"], applied["applied"]) == ("/graphs/brain", True, True)
    assert (applied["step_count"], applied["steps"][0]["kind"]) == (1, "add_type")
    assert isinstance(applied["manifest_version"], int)
    assert client.ok("GET", f"commits/{applied['commit']}")["actor"] == "act-test"
    again = client.ok("POST", "schema/apply", {"schema_source": source})
    assert (again["applied"], again["commit"]) == (False, None)
    writer = client.with_role(Role.WRITE)
    assert "admin" in writer.fails(403, "POST", "schema/apply", {"schema_source": source})["hint"]
    assert client.fails(400, "POST", "schema/apply", {"schema_source": "node {"})["type"] == "schema_error"


def test_a_graph_served_read_only(serve: Serve) -> None:
    kept = serve(read_only=True)
    error = kept.fails(403, "POST", "mutate", {"query": ADD, "params": {"name": "no"}})
    assert (error["code"], error["type"]) == ("forbidden", "read_only")
    assert kept.ok("GET", "/graphs")["graphs"][0]["read_only"] is True
