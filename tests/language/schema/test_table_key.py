"""A table key has two parts and stays a string: on disk, in JSON and as a key of a mapping."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import orjson
import pytest

import omnigraph
from omnigraph.language.schema import TableKey, parse_schema, split_by_kind, table_directory

SOURCES = Path(omnigraph.__file__).parent
HOME = SOURCES / "language/schema/identity.py"

SURGERY = re.compile(
    r'''\.r?(?:partition|split)\(":"|f["'](?:node|edge|\{[\w.]*kind\}):\{|["'](?:node|edge):["']|\.replace\(":"'''
)
OTHER_THINGS = {
    "arguments.py": "app, _, number",  # a txn
    "__init__.py": "module, _, inner_name",  # where a public name is at home
    "errors.py": "return self.table_key.partition",  # errors cannot import the language
    "language/schema/identity.py": "_fnv1a(f",
    "language/schema/migration.py": "entity = f",  # a type or a property, interfaces too
    "pipeline/imports/neo4j_files.py": 'found["types"]',  # labels of a node
    "server/calls.py": "part[1:-1].partition",  # a parameter of a path
    "server/openapi.py": "for part in route.path",
    "server/access/origins.py": "authority.partition",  # a host and a port
    "server/config/settings.py": "host, colon, port",
    "storage/failpoints.py": "match text.split",
    "write/evolve/refusals.py": "entity.partition",
}
"""Lines that are about something else than a table key."""


def test_a_key_has_two_parts() -> None:
    key = TableKey.of_edge("Knows")
    assert (key, key.kind, key.type_name) == ("edge:Knows", "edge", "Knows")
    assert TableKey.of_node("Person") == TableKey.parse("node:Person") == TableKey.of("node", "Person")
    assert [*TableKey.candidates("A")] == ["A", "node:A", "edge:A"]


@pytest.mark.parametrize("text", ["", "Person", "node", "node:", ":Person", "interface:Person", "Node:Person"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a table key"):
        TableKey.parse(text)


def test_a_key_is_a_string_everywhere() -> None:
    key = TableKey("node:Person")
    by_key: dict[str, int] = {key: 1}
    assert by_key["node:Person"] == 1
    assert json.dumps({key: key}) == '{"node:Person": "node:Person"}'
    assert orjson.dumps([key]) == b'["node:Person"]'
    assert pickle.loads(pickle.dumps(key)).type_name == "Person"  # noqa: S301  our own bytes
    assert repr(key) == "'node:Person'"


def test_the_types_of_a_catalog_have_keys() -> None:
    catalog = parse_schema("node B { n: String @key } node A { n: String @key } edge E: A -> B").catalog
    keys = [type_.table_key for type_ in catalog.types()]
    assert sorted(keys, key=lambda key: key.nodes_first) == ["node:A", "node:B", "edge:E"]
    assert sorted(keys) == ["edge:E", "node:A", "node:B"], "on disk they are ordered as texts"
    assert [catalog.find_type(key) for key in keys] == [*catalog.types()]
    assert catalog.find_type("node:E") is None
    assert split_by_kind({key: key.type_name for key in keys}) == ({"A": "A", "B": "B"}, {"E": "E"})
    assert table_directory("node:Person") == "nodes/40d76f1f51639ec0"


def test_nothing_else_takes_table_keys_apart() -> None:
    found = [
        (str(path.relative_to(SOURCES)), line.strip())
        for path in sorted(SOURCES.rglob("*.py"))
        for line in path.read_text().splitlines()
        if SURGERY.search(line) and path != HOME
    ]
    assert [each for each in found if OTHER_THINGS.get(each[0], "\0") not in each[1]] == []
