"""Quarantine: records that break a rule are written to a file with the reason, and the rest is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.location import Location
from tests.graphs import rows_of, written

LINES = [
    '{"type": "Vessel", "data": {"code": "a", "name": "Alba", "kind": "tug"}}',
    '{"type": "Vessel", "data": {"code": "b", "name": "Bora", "kind": "boat", "tonnage": "x"}}',
    '{"edge": "Tows", "from": "a", "to": "b"}',
    '{"edge": "Tows", "from": "a", "to": "v1"}',
    "not json at all",
    '{"type": "Vessel", "data": {"code": "c", "name": "Cato", "kind": "tug", "launched": "2001-05-04"}}',
    '{"type": "Vessel", "data": {"code": "c", "name": "Cora", "kind": "tug"}}',
    '{"edge": "CallsAt", "from": "c", "to": "p1", "data": {"at": "2024-01-01T08:00:00Z", "id": "call"}}',
    '{"type": "Vessel", "data": {"code": "v1", "name": "taken", "kind": "tug"}}',
]

# Once with the rows in memory, once with rows that were staged before they were rejected.
pytestmark = pytest.mark.usefixtures("staged_at")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(LINES))
    return path


def rejects(path: str | None) -> dict[int, dict[str, object]]:
    assert path is not None
    rows = [cast("dict[str, object]", json.loads(line)) for line in Path(path).read_text().splitlines()]
    assert all(list(row) == ["record", "file", "line", "type", "id", "rule", "message", "table_key"] for row in rows)
    assert len({row["line"] for row in rows}) == len(rows)
    return {cast(int, row["line"]): row for row in rows}


def test_the_rest_is_loaded_and_the_reasons_are_kept(fleet: Graph, source: Path) -> None:
    result = fleet.load(source, on_error="quarantine")
    assert (result.nodes, result.edges, result.rejected) == ({"Vessel": 1}, {"CallsAt": 0, "Tows": 1}, 7)
    found = rejects(result.rejects_path)
    assert sorted(found) == [2, 3, 5, 6, 7, 8, 9]
    assert [found[line]["rule"] for line in (2, 3, 5, 6, 8, 9)] == [
        "I32?",
        "edge Tows: Vessel -> Vessel",
        "record",
        "@key(code)",
        "edge CallsAt: Vessel -> Port",
        "@key(code)",
    ]
    assert found[2]["record"] == LINES[1]
    assert "enum(ferry, tanker, tug)" in cast(str, found[2]["message"])
    assert found[5]["record"] == LINES[4]
    assert {found[line]["file"] for line in found} == {str(source)}
    assert Path(cast(str, result.rejects_path)).parent == Path(f"{fleet.uri}.rejects")


def test_the_file_is_parquet_where_its_name_says_so(fleet: Graph, source: Path, tmp_path: Path) -> None:
    other = omnigraph.open(shutil.copytree(fleet.uri, tmp_path / "other.og"))
    result = fleet.load(source, on_error="quarantine", rejects=tmp_path / "wrong.parquet")
    told = rejects(other.load(source, on_error="quarantine", rejects=tmp_path / "wrong.ndjson").rejects_path)
    rows = pq.read_table(cast(str, result.rejects_path))
    assert [str(type_) for type_ in rows.schema.types] == ["string", "string", "int64", *["string"] * 5]
    assert rows.column_names == list(told[2])
    # Messages have generated ids.
    names = ("record", "file", "line", "type", "rule")
    assert rows.select(names).to_pylist() == [{name: row[name] for name in names} for row in told.values()]


def test_corrected_records_can_be_loaded_from_what_was_kept(fleet: Graph, source: Path) -> None:
    found = rejects(fleet.load(source, on_error="quarantine").rejects_path)
    assert json.loads(cast(str, found[6]["record"])) == json.loads(LINES[5])
    again = [json.loads(cast(str, found[line]["record"])) for line in (6, 8)]
    result = fleet.load(again)
    assert (result.nodes, result.edges) == ({"Vessel": 1}, {"CallsAt": 1})
    assert ("call", "2024-01-01T08:00:00+00:00") in {(row["id"], row["at"]) for row in rows_of(fleet, "CallsAt")}


def test_nothing_rejected_makes_no_file(fleet: Graph, tmp_path: Path) -> None:
    target = tmp_path / "rejects.jsonl"
    result = fleet.load([json.loads(LINES[0])], on_error="quarantine", rejects=target)
    assert (result.rejected, result.rejects_path) == (0, None)
    assert not target.exists()


def test_everything_rejected_makes_a_file_and_no_commit(fleet: Graph, tmp_path: Path) -> None:
    before = written(fleet)
    result = fleet.load([json.loads(LINES[8])], on_error="quarantine", rejects=tmp_path / "sub" / "r.jsonl")
    assert (result.commit, result.rejected) == (None, 1)
    assert sorted(rejects(result.rejects_path)) == [1]
    assert written(fleet) == before


def test_a_trial_counts_and_writes_nothing(fleet: Graph, source: Path) -> None:
    before = written(fleet)
    result = fleet.load(source, on_error="quarantine", check=True)
    assert (result.commit, result.rejected, result.rejects_path, result.nodes) == (None, 7, None, {"Vessel": 1})
    assert not Path(f"{fleet.uri}.rejects").exists()
    assert written(fleet) == before


def test_a_value_that_two_rows_claim_is_given_to_none(tmp_path: Path) -> None:
    graph = omnigraph.init(
        tmp_path / "g.og", "node City { code: String @key  name: String @unique }\nedge Near: City -> City @card(0..1)"
    )
    cities = [{"type": "City", "data": {"code": code, "name": name}} for code, name in ("aO", "bO", "cP")]
    edges = [{"edge": "Near", "from": one, "to": other} for one, other in ("cc", "cc", "ca")]
    result = graph.load([*cities, *edges], on_error="quarantine")
    assert (result.nodes, result.edges, result.rejected) == ({"City": 1}, {"Near": 0}, 5)
    assert [row["code"] for row in rows_of(graph, "City")] == ["c"]


def test_a_record_with_two_reasons_is_rejected_once(fleet: Graph) -> None:
    result = fleet.load([{"edge": "Tows", "from": "x", "to": "y"}], on_error="quarantine")
    assert (result.edges, result.rejected) == ({"Tows": 0}, 1)
    (found,) = rejects(result.rejects_path).values()
    assert "as its src" in cast(str, found["message"])
    assert "as its dst" in cast(str, found["message"])


def test_what_no_rejection_can_mend_fails(fleet: Graph) -> None:
    before = written(fleet)
    with pytest.raises(ValidationError, match="no such Vessel"):
        # The existing tow and call would lose their vessels.
        fleet.load([json.loads(LINES[0])], mode="overwrite", on_error="quarantine")
    assert written(fleet) == before


def test_where_the_file_may_not_be(fleet: Graph, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="inside the graph"):
        fleet.load([], on_error="quarantine", rejects=Path(fleet.uri) / "rejects.jsonl")
    (tmp_path / "there.jsonl").touch()
    with pytest.raises(AlreadyExists):
        fleet.load([], on_error="quarantine", rejects=tmp_path / "there.jsonl")
    with pytest.raises(ParameterError, match="rejects is given"):
        fleet.load([], rejects=tmp_path / "other.jsonl")


def test_rejected_records_of_a_graph_on_s3_lie_next_to_it(s3_location: Location) -> None:
    graph = omnigraph.init(
        s3_location.uri, "node City { code: String @key }", storage_options=dict(s3_location.storage_options)
    )
    result = graph.load([{"type": "City", "data": {"code": "a"}}, {"type": "Town"}], on_error="quarantine")
    assert result.nodes == {"City": 1}
    assert result.rejects_path is not None
    assert result.rejects_path.startswith(f"{s3_location.uri}.rejects/")
    assert graph._manifest.objects.list("rejects") == []
