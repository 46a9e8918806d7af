"""One entity, its edges and its blobs: found by id, by key, by index, at any moment."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import NotFound, OmniGraphError, ParameterError
from omnigraph.graph import Graph
from omnigraph.read.rows.neighbors import Direction

SCHEMA = """
node Doc { name: String @key  at: DateTime?  body: Blob?  cover: Blob? }
node Leg { line: String  seq: I32  @key(seq, line) }
node Mark { level: F64 @key }
node Free { text: String }
edge Cites: Doc -> Doc { page: I32?  at: DateTime?  proof: Blob? }
edge Covers: Doc -> Leg
edge Doc: Leg -> Doc
"""
MOMENT = datetime(2024, 5, 1, 10, 30, tzinfo=UTC)
SIZES = {"none": None, "empty": 0, "small": 10, "large": 200_000, "huge": 5_000_000}


def content(size: int) -> bytes:
    return bytes(range(256)) * (size // 256) + bytes(range(size % 256))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("one")


@pytest.fixture(scope="module")
def docs(folder: Path) -> Graph:
    """A document of each size and one that lies elsewhere; some edges, one of them a loop."""
    (folder / "outside.bin").write_bytes(b"elsewhere")
    bodies = {
        name: None if size is None else "base64:" + base64.b64encode(content(size)).decode()
        for name, size in SIZES.items()
    }
    graph = omnigraph.init(folder / "docs.og", SCHEMA)
    graph.load(
        [
            *({"type": "Doc", "data": {"name": name, "body": body}} for name, body in bodies.items()),
            {"type": "Doc", "data": {"name": "outside", "at": MOMENT, "body": (folder / "outside.bin").as_uri()}},
            {"type": "Leg", "data": {"line": "N1", "seq": 7}},
            {"type": "Mark", "data": {"level": 1e21}},
            {"type": "Free", "data": {"id": "f1", "text": "x"}},
            {"edge": "Cites", "from": "small", "to": "large", "data": {"id": "c1", "page": 3, "at": MOMENT}},
            {"edge": "Cites", "from": "huge", "to": "small", "data": {"id": "c2"}},
            {"edge": "Cites", "from": "small", "to": "small", "data": {"id": "c3", "proof": "base64:eA=="}},
            {"edge": "Covers", "from": "small", "to": {"line": "N1", "seq": 7}, "data": {"id": "v1"}},
            {"edge": "Doc", "from": '["N1","7"]', "to": "small", "data": {"id": "d1"}},
        ]
    )
    return graph


# --------------------------------------------------------------------------------------------- get


def test_a_node_by_its_id(docs: Graph) -> None:
    assert docs.get("Doc", "outside") == {"id": "outside", "at": MOMENT, "name": "outside"}
    assert docs.get("Doc", "nothing") is None
    assert docs.get("Doc", "' OR 'a' = 'a") is None
    assert docs.get("Free", "f1", ["text"]) == {"text": "x"}


def test_an_edge_by_its_id(docs: Graph) -> None:
    expected = {"id": "c1", "from": "small", "to": "large", "at": MOMENT, "page": 3}
    assert docs.get("Cites", "c1") == docs.get("cites", "c1") == expected


def test_a_name_of_both_kinds_means_the_node_type_unless_it_says_otherwise(docs: Graph) -> None:
    assert docs.get("Doc", "d1") is None
    assert docs.get("edge:Doc", "d1") == {"id": "d1", "from": '["N1","7"]', "to": "small"}
    assert docs.get("node:Doc", "small") is not None


@pytest.mark.parametrize("key", ['["N1","7"]', {"line": "N1", "seq": 7}, {"seq": 7, "line": "N1"}])
def test_a_key_of_several_properties(docs: Graph, key: object) -> None:
    assert docs.get("Leg", key) == {"id": '["N1","7"]', "line": "N1", "seq": 7}


@pytest.mark.parametrize("key", [1e21, 10**21, "1000000000000000000000", {"level": 1e21}])
def test_a_key_of_one_property(docs: Graph, key: object) -> None:
    assert docs.get("Mark", key) == {"id": "1000000000000000000000", "level": 1e21}


@pytest.mark.parametrize(
    ("name", "key", "complaint"),
    [
        ("Leg", {"line": "N1"}, "not a key of Leg: 'seq' is missing"),
        ("Leg", {"line": "N1", "sec": 7}, "not a key of Leg: 'sec' is not part of it (did you mean 'seq'?)"),
        ("Leg", {"line": "N1", "seq": "x"}, "'seq': expected I32, found a string"),
        ("Leg", ("N1", 7), "give {'line': ..., 'seq': ...}, or its id"),
        ("Leg", 7, "7 is not a key of Leg"),
        ("Free", 7, "7 is not an id of Free"),
        ("Free", {"text": "x"}, "is not an id of Free"),
        ("Cites", {"from": "small"}, "is not an id of Cites"),
        ("Mark", None, "'level': expected F64, found null"),
        ("Dok", "x", "no type 'Dok' in this snapshot (did you mean 'Doc'?)"),
    ],
)
def test_what_is_no_key_is_refused(docs: Graph, name: str, key: object, complaint: str) -> None:
    with pytest.raises(OmniGraphError) as caught:
        docs.get(name, key)
    assert complaint in str(caught.value)


def indexed(folder: Path, size: int) -> Graph:
    graph = omnigraph.init(folder / f"{size}.og", "node P { code: String @key  n: I32 }\nedge K: P -> P")
    codes = [f"p{number}" for number in range(size)]
    people, edges = pa.table({"code": codes, "n": range(size)}), pa.table({"from": codes, "to": codes[::-1]})
    graph.load(nodes={"P": people}, edges={"K": edges}, indexes="always")
    return omnigraph.open(folder / f"{size}.og", "ro")


def test_an_entity_and_its_edges_cost_the_same_in_a_table_of_any_size(tmp_path: Path) -> None:
    costs: list[list[int]] = []
    for size in (30_000, 120_000):
        graph = indexed(tmp_path, size)
        counter = graph.snapshot().table("P")
        reads: list[int] = []
        for number in (5, 10_000):
            counter.storage_calls()
            assert graph.get("P", f"p{number}") == {"id": f"p{number}", "code": f"p{number}", "n": number}
            reads.append(counter.storage_calls().reads)
            assert graph.neighbors("P", f"p{number}", direction="both").num_rows == 2
            found = counter.storage_calls()
            reads.append(found.reads)
            assert found.read_bytes < 300_000
        costs.append(reads)
    small, large = costs
    assert all(reads > 0 for reads in small)
    assert all(many <= few + 1 for few, many in zip(small, large, strict=True)), costs


# --------------------------------------------------------------------------------------------- neighbors


def seen(table: pa.Table) -> list[tuple[object, ...]]:
    rows = cast("list[dict[str, object]]", table.to_pylist())
    return [(row["edge"], row["id"], row["direction"], row["neighbor"], row["neighbor_type"]) for row in rows]


OUT = [
    ("Cites", "c1", "out", "large", "Doc"),
    ("Cites", "c3", "out", "small", "Doc"),
    ("Covers", "v1", "out", '["N1","7"]', "Leg"),
]


def test_the_edges_of_all_types_that_leave_a_node(docs: Graph) -> None:
    found = docs.neighbors("Doc", "small")
    assert found.column_names == ["edge", "id", "from", "to", "direction", "neighbor", "neighbor_type"]
    assert seen(found) == OUT
    assert set(found["from"].to_pylist()) == {"small"}


def test_the_edges_that_come_to_a_node(docs: Graph) -> None:
    assert seen(docs.neighbors("Doc", "small", direction="in")) == [
        ("Cites", "c2", "in", "huge", "Doc"),
        ("Cites", "c3", "in", "small", "Doc"),
        ("Doc", "d1", "in", '["N1","7"]', "Leg"),
    ]


def test_both_ways_have_a_loop_once(docs: Graph) -> None:
    assert seen(docs.neighbors("Doc", "small", direction="both")) == [
        OUT[0],
        ("Cites", "c2", "in", "huge", "Doc"),
        *OUT[1:],
        ("Doc", "d1", "in", '["N1","7"]', "Leg"),
    ]


def test_one_edge_type_brings_its_properties(docs: Graph) -> None:
    found = docs.neighbors("Doc", "small", "cites")
    assert found.column_names[7:] == ["at", "page"]
    assert found["page"].to_pylist() == [3, None]
    assert found["at"].to_pylist() == [MOMENT, None]


def test_a_node_by_its_key_and_a_node_without_edges(docs: Graph) -> None:
    assert seen(docs.neighbors("Leg", {"line": "N1", "seq": 7})) == [("Doc", "d1", "out", "small", "Doc")]
    assert docs.neighbors("Doc", "nothing").num_rows == 0
    assert docs.neighbors("Free", "f1").num_rows == 0


@pytest.mark.parametrize(
    ("name", "edge", "direction", "complaint"),
    [
        ("Doc", "Sites", "out", "no edge type 'Sites' in this snapshot (did you mean 'Cites'?)"),
        ("Leg", "Covers", "out", "no Covers begins at a Leg (Covers goes from Doc to Leg)"),
        ("Free", "Cites", "both", "no Cites begins or ends at a Free"),
        ("Doc", None, "up", "direction is 'up' (use out, in, both)"),
        ("Cites", None, "out", "no node type 'Cites'"),
    ],
)
def test_what_cannot_be_a_neighbor_is_refused(
    docs: Graph, name: str, edge: str | None, direction: Direction, complaint: str
) -> None:
    with pytest.raises(OmniGraphError) as caught:
        docs.neighbors(name, "x", edge, direction)
    assert complaint in str(caught.value)


def test_a_part_of_the_neighbors(docs: Graph) -> None:
    assert seen(docs.neighbors("Doc", "small", limit=2)) == OUT[:2]
    assert seen(docs.neighbors("Doc", "small", limit=2, offset=1)) == OUT[1:]
    assert docs.neighbors("Doc", "small", offset=10**30).num_rows == 0
    with pytest.raises(OmniGraphError, match="limit is -1"):
        docs.neighbors("Doc", "small", limit=-1)


def test_degrees_count_the_neighbors_of_each_direction(docs: Graph) -> None:
    degrees = docs.degrees("Doc", "small")
    assert degrees == {
        ("Cites", "out"): 2,
        ("Cites", "in"): 2,
        ("Covers", "out"): 1,
        ("Doc", "in"): 1,
    }
    for (edge, direction), count in degrees.items():
        assert docs.neighbors("Doc", "small", edge, direction).num_rows == count
    assert docs.degrees("Free", "f1") == {}
    assert set(docs.degrees("Doc", "nothing").values()) == {0}


def test_neighbors_at_another_moment(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Doc", "data": {"name": "a"}}, {"edge": "Cites", "from": "a", "to": "a", "data": {"id": "1"}}])
    first = graph.commits()[0].id
    graph.load([{"edge": "Cites", "from": "a", "to": "a", "data": {"id": "2"}}])
    assert graph.neighbors("Doc", "a", at=first)["id"].to_pylist() == ["1"]
    assert graph.neighbors("Doc", "a")["id"].to_pylist() == ["1", "2"]


# --------------------------------------------------------------------------------------------- blobs


@pytest.mark.parametrize("name", SIZES)
def test_a_blob_whole_and_in_parts(docs: Graph, name: str) -> None:
    size = SIZES[name]
    if size is None:
        assert docs.blob("Doc", name, "body") is None
        return
    whole = content(size)
    assert docs.blob("Doc", name, "body") == whole
    for offset, length in (
        (0, 4),
        (3, None),
        (size // 2, 100),
        (max(0, size - 2), 50),
        (size, None),
        (size + 9, 3),
        (2, 0),
    ):
        end = None if length is None else offset + length
        assert docs.blob("Doc", name, "body", offset, length) == whole[offset:end], (offset, length)


def test_a_blob_that_lies_elsewhere_and_one_of_an_edge(docs: Graph) -> None:
    assert docs.blob("Doc", "outside", "body", offset=4) == b"where"
    assert docs.blob("Doc", "outside", "cover") is None
    assert docs.blob("Cites", "c3", "proof") == b"x"


def test_an_object_that_is_gone_is_an_error_that_names_it(folder: Path, tmp_path: Path) -> None:
    assert folder != tmp_path
    gone = tmp_path / "gone.bin"
    gone.write_bytes(b"x")
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Doc", "data": {"name": "a", "body": gone.as_uri()}}])
    gone.unlink()
    with pytest.raises(OmniGraphError, match=r"gone\.bin"):
        graph.blob("Doc", "a", "body")


def test_blobs_at_another_moment(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    graph.load([{"type": "Doc", "data": {"name": "a", "body": "base64:b2xk"}}])
    first = graph.commits()[0].id
    graph.load([{"type": "Doc", "data": {"name": "a", "body": "base64:bmV3"}}], mode="merge")
    assert [graph.blob("Doc", "a", "body", at=at) for at in (first, None)] == [b"old", b"new"]


def test_what_is_no_blob_is_refused(docs: Graph) -> None:
    for property_, complaint in (("bodi", "did you mean 'body'"), ("name", "the blobs of Doc are body, cover")):
        with pytest.raises(ParameterError, match=complaint):
            docs.blob("Doc", "small", property_)
    with pytest.raises(ParameterError, match="there are no blobs of Free"):
        docs.blob("Free", "f1", "text")
    with pytest.raises(ParameterError, match="neither may be negative"):
        docs.blob("Doc", "small", "body", offset=-1)
    with pytest.raises(NotFound, match="no Doc 'nothing'"):
        docs.blob("Doc", "nothing", "body")
