"""Cleanup beside branches, tags and merges: nothing begins at what is gone, nothing that began loses its ground."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import HistoryGone
from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from tests.maintain.ports import add, cleanup_now, shown

# --------------------------------------------------------------------------------------------- where a branch begins


@pytest.mark.parametrize("kind", ["commit", "version", "time", "commit of a branch"])
def test_no_branch_begins_at_a_commit_that_is_gone(ports: Graph, kind: str) -> None:
    ports.create_branch("dev")
    first = add(ports, "d1", "dev")
    add(ports, "d2", "dev")
    old = ports.commits()[8]
    references: dict[str, Reference] = {
        "commit": old.id,
        "version": old.manifest_version,
        "time": old.created_at,
        "commit of a branch": first,
    }
    ports.create_tag("kept", ports.commits()[10].id)
    cleanup_now(ports, 1)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.create_branch("late", references[kind])
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.create_tag("late", references[kind])
    assert {branch.name for branch in ports.branches()} == {"main", "dev"}
    ports.create_branch("late", "kept")
    assert len(shown(ports, "late")[0]) == 2
    add(ports, "l1", "late")
    assert ports.verify().findings == ()


def test_no_load_makes_a_branch_of_a_commit_that_is_gone(ports: Graph) -> None:
    old = ports.commits()[8].id
    ports.create_tag("kept", ports.commits()[10].id)
    cleanup_now(ports, 1)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.load(nodes={"Port": pa.table({"code": ["x"]})}, branch="late", from_branch=old)
    assert [branch.name for branch in ports.branches()] == ["main"]
