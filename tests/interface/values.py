# pyright: basic
# ruff: noqa: E501
# Lists of values read better in long lines than one by one.
"""What public calls are given in random tests: plausible values first, then wrong ones of the same kind."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from omnigraph.deadlines import Deadline

Values: TypeAlias = Sequence[object]

BEFORE = """
node Person {
  name: String @key  age: I32?  nick: String? @index  born: Date?  seen: DateTime?  score: F64?  on: Bool?
  tags: [String]?  photo: Blob?  place: Vector(3)?
}
node Slot { line: String  seq: I32  @key(line, seq) }
edge Knows: Person -> Person { since: I32? }
edge In: Person -> Slot @card(0..1)
"""
NOW = BEFORE.replace("age: I32?", 'age: I64?  flag: String @default("on")').replace("nick: String? @index", "")
HARD = NOW.replace("score: F64?", "")
LATER = NOW.replace("born: Date?", "born: Date?  note: String?")
ADD = "query add($name: String) { insert Person { name: $name } }"

# fmt: off
NAMES: Values = (
    "Person", "Slot", "Knows", "In", "node:Person", "edge:Knows", "person", "Persn", "dev", "child", "main", "kept", "new/one",
    "", " ", ".", "..", "/", "a/", "../../x", "a" * 201, "ü", "a b", "a\x00b", "\ud800", "\n", "'", '"', "a' OR '1'='1", "__x",
    "v1", "2024-01-01", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "q", "add", "x.lock", "%2F", "HEAD",
)
BRANCHES: Values = ("main", "main", "dev", "dev", "child", "child", "gone", *NAMES)
NUMBERS: Values = (0, 1, 2, 3, 10, -1, -(2**31), 2**31, 2**63 - 1, 2**63, 2**64, 2**200, -(2**200), 10**400)
NOW_TIME = datetime.now(UTC)
TIMES: Values = (
    NOW_TIME, NOW_TIME - timedelta(days=1), datetime.min, datetime.max, datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC), datetime(2024, 5, 1),
)
REFERENCES: Values = (
    "OLDEST", "COMMIT", "COMMIT", "kept", "main", "dev", "child", "v1", "v2", "v7", "v0", "v-1", "v99999999999999999999999", "2024-01-01",
    "2024-13-45", "0001-01-01", "9999-12-31T23:59:59Z", "2024-05-01T10:00+99:00", "2024-05-01T10:00Z", *NUMBERS, *TIMES, *NAMES,
)
QUERIES: Values = (
    "query q() { match { $p: Person } return { $p.name, $p.age } order { $p.name } limit 3 }",
    "query q($n: I64) { match { $p: Person { age: $n } } return { $p } }",
    "query q($n: I64) { match { $p: Person } return { $p.name } limit $n }",
    "query q($n: I32) { match { $p: Person  $p knows{1,3} $f } return { count($f) as n } limit $n }",
    "query q($d: Date, $t: DateTime, $b: Bool) { match { $p: Person  $p.born < $d  $p.seen > $t  $p.on = $b } return { $p } }",
    "query q($f: F64, $g: F32) { match { $p: Person  $p.score > $f } return { $p.name, $g } }",
    "query q($l: [I64]) { match { $p: Person  $p.age in $l } return { $p } }",
    "query q($v: Vector(3)) { match { $p: Person } return { $p.name, nearest($p.place, $v) as d } order { nearest($p.place, $v) } limit 2 }",
    "query q($w: String) { match { $p: Person  search($p.nick, $w) } return { $p.name } }",
    "query q($w: String) { match { $p: Person  search($p.name, $w) } return { $p.name } }",
    "query q($w: String) { match { $p: Person } return { $p.name, bm25($p.flag, $w) as s } order { bm25($p.flag, $w) desc } limit 2 }",
    "query q($w: String, $n: I32) { match { $p: Person  fuzzy($p.name, $w, $n) } return { $p.name } }",
    "query q($w: String?) { match { $p: Person } return { $p.flag, count($p) as n, sum($p.age) as s, avg($p.score) as a, $w } }",
    "query q() { match { $p: Person  not { $p knows $x } } return { $p } }",
    "query q() { match { $s: Slot  $p in $s } return { $p.name, $s.seq } }",
    ADD,
    'query q() { insert Person { name: "w", age: 1 } }',
    "query q($n: I64) { update Person set { age: $n } where name != \"\" }",
    'query q() { delete Person where name = "ann" }',
    "query q($n: I32, $w: String) { insert Slot { line: $w, seq: $n } }",
    "query q($w: String) { insert Knows { from: $w, to: $w } }",
    "query a() { match { $p: Person } return { $p } }\nquery b() { match { $p: Person } return { $p } }",
    "query q() {", "{", "\n", "x.gq", "query q() { match { $p: Nobody } return { $p.nope } }", "q", "\ud800 {", "query \x00 {",
    "query q() { match { $p: Person { name: \"\ud800\" } } return { $p } }", 'query q() { insert Person { name: "\ud800" } }',
    Path("x.gq"), Path("/"), Path("a\x00b"), Path(),
)
SCHEMAS: Values = (
    NOW, BEFORE, LATER, HARD, "node Person { name: String @key }", "node Other { a: I32 }", "node A {", "x.pg", Path("x.pg"), "", "\n", "{",
    "\ud800\n", NOW.replace("age: I64?", "age: I32?"), NOW.replace("name: String @key", "name: String"),
    NOW.replace("node Slot", "node Place @rename_from(\"Slot\")").replace("-> Slot", "-> Place"),
    NOW.replace("seen: DateTime?", "seen: DateTime?  @range(age, 100..)"), NOW.replace("since: I32?", "since: I32"),
)
SCALARS: Values = (
    None, True, False, *NUMBERS, 0.5, -0.0, float("nan"), float("inf"), 1e308, "", "x", "ann", "\x00", "\ud800", "2024-02-30", "2024-01-01",
    "2024-01-01T00:00:00Z", "99999-01-01", "10000-01-01T00:00:00Z", b"bytes", *TIMES, [], [1], ["a"], [None], [1.0, 2.0, 3.0],
    [float("nan")] * 3, {}, {"a": 1}, object(), [[1]], (1, 2), {1, 2}, "x" * 100_000, 1 + 2j, timedelta(1), Path("x"),
)
RECORDS: Values = (
    [], [{}], [{"type": "Person"}], [{"type": "Person", "data": {"name": "r"}}], [{"type": "Person", "data": {"name": None}}],
    [{"type": "Person", "data": {"name": "r", "age": 2**70}}], [{"type": "Person", "data": {"name": "\ud800"}}], [{"type": 5}],
    [{"type": "Person", "data": {1: 2}}], [{"type": "Person", "data": {"name": "r", "tags": [None, 1]}}], [{"edge": "Knows"}],
    [{"type": "Person", "data": {"name": "r", "place": [1, 2]}}], [{"type": "Person", "data": {"name": "r", "photo": "file:///nope"}}],
    [{"type": "Person", "data": {"name": "r", "photo": "base64:%%"}}], [{"type": "Person", "data": {"name": "r", "seen": "x"}}],
    [{"edge": "Knows", "from": "ann", "to": "nobody"}], [{"edge": "In", "from": "bob", "to": ["a", 1]}], [{"type": "Person", "data": 5}],
    [{"type": "Person", "data": {"name": "r", "score": float("nan")}}], [{"type": "Person", "data": {"name": object()}}],
    [{"type": "Slot", "data": {"line": "a", "seq": 1.5}}], [{"type": "Person", "data": {"name": "ann"}}], [5], [None], [b"x"],
    "nofile.jsonl", Path("nofile.jsonl"), Path("/"), "", "s3://", "a\x00b", "\ud800", lambda: io.BytesIO(b'{"type":"Person","data":{"name":"s"}}'),
    lambda: io.BytesIO(b"\xff\xfe"), lambda: io.StringIO("{"),
    lambda: io.BytesIO(b'{"type": "Person", "data": {"name": "\\ud800"}}'), {}, {"type": "Person"}, 5, None,
)
FRAMES: Values = (
    None, {}, {"Person": pa.table({"name": ["f"]})}, {"Person": pa.table({"name": ["f"], "age": ["x"]})}, {"Person": pa.table({"nope": [1]})},
    {"Person": pa.table({"name": [None]})}, {"Nope": pa.table({"name": ["f"]})}, {"Knows": pa.table({"from": ["ann"], "to": ["cid"]})},
    {"Person": pa.table({"name": pa.array([], pa.string())})}, {"Person": 5}, {"Person": [1]}, {"Knows": pa.table({"from": [1], "to": [None]})},
    {"Slot": pa.table({"line": ["b"], "seq": [2**40]})}, {"Person": pa.table([pa.array(["f"]), pa.array(["f"])], names=["name", "name"])},
    {"Person": pa.table({"name": ["f"], "score": [float("inf")], "seen": [NOW_TIME]})}, {"In": pa.table({"from": ["cid"], "to": [["a", "1"]]})},
)
FILTERS: Values = (
    None, {}, {"name": "ann"}, {"name": 5}, {"nope": 1}, {"age": "x"}, {"age": 2**70}, {"age": None}, [], [("age", ">", 1)], [("age", "><", 1)],
    [("age", "in", [1, None, "x"])], [("age", "in", 5)], [("age", "=")], [("score", "<", float("nan"))], [("seen", ">", "x")], [5], "age > 1", 5,
    [("name", "=", "\ud800")], [("name", "=", "\x00'")], [("photo", "=", b"x")], [("place", "=", [1])], [("tags", "=", ["a"])], [(1, 2, 3)],
    [("seen", ">", NOW_TIME)], [("born", "=", datetime.min)], [("on", "=", 1)], [("age", "=", 1.5)], [("age", "=", True)],
)
KEYS: Values = ("ann", "bob", "nobody", "", "\x00", "\ud800", 5, None, ["a", 1], ["a"], ("a", 1), {"line": "a", "seq": 1}, {"line": "a"}, {"x": 1},
        {"name": "ann"}, {"name": 5}, '["a","1"]', 1.5, object(), [object()], b"ann", {"line": "a", "seq": 2**70}, "x" * 100_000)
LISTS: Values = (None, [], ["Person"], ["Knows", "Person"], ["Nope"], ["Person", "Person"], ("Slot",),
    lambda: iter(["Person"]), lambda: iter([5]), ["name"], ["name", "age"],
         ["name", "name"], ["photo"], ["id"], ["from"], ["\ud800"], ["name; drop"], ["a\x00"])
TEXTS: Values = (None, "a message", "", "\ud800", "\x00", "x" * 100_000, "act-ann", "omnigraph:recovery", "ü\n")
PARAMETERS: Values = (
    None, {}, {"n": 1}, {"n": -1}, {"name": "new"}, {"name": ""}, {"w": "ann"}, {"w": "a", "n": 1}, {"d": "2024-01-01", "t": NOW_TIME, "b": True},
    {"f": 0.5, "g": 0.5}, {"l": [1, 2]}, {"v": [1.0, 2.0, 3.0]}, {"v": [1.0]}, {"l": [None]}, {"l": 5}, {"nope": 1}, {"n": "x"},
)
VALUES: Mapping[str, Values] = {
    "name": NAMES,
    "type_name": NAMES,
    "branch": BRANCHES,
    "into": BRANCHES,
    "from_": REFERENCES,
    "from_branch": (None, *REFERENCES),
    "ref": REFERENCES,
    "at": (None, None, *REFERENCES),
    "a": REFERENCES,
    "b": (None, *REFERENCES),
    "actor": TEXTS,
    "message": TEXTS,
    "if_commit": (None, "COMMIT", "OLDEST", *NAMES),
    "timeout": (None, None, None, 60, 600.0, 1e-9, 0, -1.0, float("nan"), float("inf"), 2**200, 10**400, "5", True, Deadline(600), Deadline),
    "retries": (0, 1, 2, -1, -(2**200)),
    "params": PARAMETERS,
    "nodes": FRAMES,
    "edges": FRAMES,
    "mode": ("append", "merge", "update", "overwrite", "upsert", ""),
    "on_error": ("fail", "quarantine", "skip"),
    "rejects": (None, "rejects.jsonl", Path("no/where.jsonl"), "/", "a\x00b", ""),
    "txn": (
        None,
        ("app", 1),
        ("app", 0),
        ("app", -1),
        ("", 1),
        ("a", 2**63),
        ("a", 2**70),
        ("\ud800", 1),
        ("a" * 1000, 2),
    ),
    "engine": ("auto", "local", "duck"),
    "indexes": ("auto", "never", "always", "some"),
    "check": (True, False),
    "allow_empty": (True, False),
    "types": LISTS,
    "columns": LISTS,
    "batch": NUMBERS,
    "commit_each": (True, False),
    "changed_since": (None, "main", "june", "2020-01-01", "nowhere", ""),
    "by": ("row", "property", "column"),
    "dry_run": (True, False),
    "prefer": (None, "ours", "theirs", "mine"),
    "resolve": (None, {}, {"a": 1}, Path("none.json"), "none.json", "{", "{}", '{"conflicts": 5}', "\ud800", Path("/")),
    "delete_branch": (True, False),
    "side": (None, *NUMBERS),
    "allow_data_loss": (True, False),
    "rewrite_ids": (True, False),
    "limit": (None, *NUMBERS),
    "since": (None, *TIMES),
    "until": (None, *TIMES),
    "start": (None, "now", "beginning", "after:v1", "after:COMMIT", "after:", "after:nope", "later", "\ud800"),
    "cursor": (None, "x", "", "CURSOR", "\ud800", "e30=", "a" * 10_000),
    "filter": FILTERS,
    "id": KEYS,
    "edge": (None, *NAMES),
    "direction": ("out", "in", "both", "up"),
    "property": ("photo", *NAMES),
    "offset": NUMBERS,
    "length": (None, *NUMBERS),
    "target": (None, "out.jsonl", Path("out"), Path("/"), "no/where/x.jsonl", "", "a\x00b", io.BytesIO, io.StringIO, 5),
    "format": ("jsonl", "parquet", "xml"),
    "keep": (None, *NUMBERS),
    "older_than": (
        None,
        "7d",
        "0s",
        "-1d",
        "x",
        "",
        "9" * 400 + "d",
        timedelta(1),
        timedelta(-1),
        timedelta.max,
        timedelta.min,
    ),
    "confirm": (True, False),
    "progress": (None, lambda: len, 5),
    "identity": (None, {}, {"Knows": ["since"]}, {"Knows": ["nope"]}, {"Nope": ["x"]}, {"Person": ["name"]}, {"Knows": "since"}, {"Knows": [5]}, {"Knows": 5}),
    "force": (True, False),
}
SOURCES: Mapping[str, Values] = {
    "load": RECORDS,
    "merge": REFERENCES,
    "plan_schema": SCHEMAS,
    "apply_schema": SCHEMAS,
    "mutate": QUERIES,
    "query": QUERIES,
    "explain": QUERIES,
    "profile": QUERIES,
}
