"""A write that declares its property is two commits: killed anywhere, the same call has the values in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.failpoints import When
from tests.crash import every_fault, fresh_copy, kill_at, record, run
from tests.selection import sized

SCHEMA = "node Port { code: String @key }\nedge Leg: Port -> Port"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    made = og.init(tmp_path / "ports.og", SCHEMA)
    made.load(
        [
            *({"type": "Port", "data": {"code": code}} for code in "abc"),
            {"edge": "Leg", "from": "a", "to": "b"},
        ]
    )
    return tmp_path / "ports.og"


def write(root: Path) -> None:
    ports = og.open(root).analytics.project(["Port"], ["Leg"])
    ports.degree().write("hops", create=True)


def assert_goes_on(template: Path, number: int, when: When) -> None:
    root = fresh_copy(template)
    kill_at(write, (root,), number, when)
    run(write, root)
    found = og.open(root, mode="ro")
    text = "query q() { match { $p: Port } return { $p.code as code, $p.hops as hops } order { code } }"
    assert [row["hops"] for row in found.query(text).rows] == [0, 1, 0]
    assert [each.written for each in found.analyses()] == [("Port.hops",)]


def test_killed_anywhere_the_same_call_has_the_values(template: Path) -> None:
    steps = record(write, fresh_copy(template))
    faults = list(every_fault(steps))
    # By day the first and one in the middle, between the two commits.
    for number, when in faults[:: sized(max(1, len(faults) // 2), 1)]:
        assert_goes_on(template, number, when)
