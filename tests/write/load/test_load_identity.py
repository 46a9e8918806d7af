"""Merges: the graph has what the input has, whatever identifies a record; a second load changes nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import record_writes
from omnigraph.write.load.matching import match_candidates
from omnigraph.write.load.run import LoadResult
from tests.counting import counting_scans
from tests.graphs import rows_of, written
from tests.selection import daily
from tests.write.mutation.interleaving import meanwhile

SCHEMA = """
node Ship { code: String @key  name: String? }
node Note { text: String  weight: F64?  tags: [String]?  shape: Vector(2)?  photo: Blob?  at: DateTime? }
node Badge { number: I64?  owner: String?  @unique(number) }
node Seal { number: I64  owner: String  grade: I32?  @unique(number)  @unique(owner) }
edge Meets: Ship -> Ship { at: DateTime?  place: String?  score: F64? }
edge Owns: Ship -> Badge { since: I32?  @unique(src) }
"""
Record = Mapping[str, object]

# Every test runs with its rows in memory, staged while they are read, and divided into many parts.
pytestmark = pytest.mark.usefixtures("size")


@pytest.fixture(params=daily(["held", "staged", "divided"], ["divided"]))
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "held":
        request.getfixturevalue("staged_at_once")
    if request.param == "divided":
        monkeypatch.setattr(match_candidates, "ROWS_IN_A_PART", 1)
    return request.param


@pytest.fixture
def staged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write.load.inputs import sources
    from omnigraph.write.load.rows import row_buffer

    monkeypatch.setattr(row_buffer, "MAX_BUFFERED_BYTES", 0)
    monkeypatch.setattr(sources, "BLOCK_RECORDS", 2)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    graph = omnigraph.init(folder, SCHEMA)
    graph.load([ship(code) for code in "abcd"])
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ships.og"))


def ship(code: str, name: str | None = None) -> Record:
    return {"type": "Ship", "data": {"code": code, "name": name}}


def meet(source: str, target: str, **data: object) -> Record:
    return {"edge": "Meets", "from": source, "to": target, "data": data}


def note(text: str, **data: object) -> Record:
    return {"type": "Note", "data": {"text": text, **data}}


def badge(number: int | None, owner: str | None = None, **data: object) -> Record:
    return {"type": "Badge", "data": {"number": number, "owner": owner, **data}}


def merge(graph: Graph, records: Sequence[Record], **more: object) -> LoadResult:
    return graph.load(records, mode="merge", **more)  # pyright: ignore[reportArgumentType]  the options of a load


def data_files(graph: Graph) -> set[Path]:
    """The files with rows, whether a version shows them or not."""
    return {path for path in Path(graph.uri).rglob("*.lance") if path.parent.name == "data" and "__" not in str(path)}


def bag(graph: Graph, name: str, *columns: str) -> Counter[tuple[object, ...]]:
    """How often each combination of values is there."""
    return Counter(tuple(row[column] for column in columns) for row in rows_of(graph, name))


def ids(graph: Graph, name: str) -> list[str]:
    return sorted(cast("list[str]", [row["id"] for row in rows_of(graph, name)]))


DAY = "2024-01-01T00:00:00Z"
OUTSIDE = Path(__file__).as_uri()
"""A blob that is a file outside of the graph."""
EVERYTHING: Sequence[Record] = (
    ship("a", "Anna"),
    ship("e"),
    meet("a", "b", at=DAY, score=0.5),
    meet("a", "b", at=DAY, score=0.5),
    meet("b", "c"),
    meet("c", "d", id="given", place="Oslo"),
    note("one", weight=-0.0, tags=["x", "y,z"], shape=[0.0, -0.0], photo="base64:aGVsbG8="),
    note("one", weight=1.5, tags=[], photo="base64:aGVsbG8h"),
    note("two", photo=OUTSIDE, at=DAY),
    badge(1, "Ann"),
    badge(None, "Bob"),
    badge(None, "Bob"),
    {"edge": "Owns", "from": "a", "to": "1" * 26, "data": {}},
)[:-1]


# --------------------------------------------------------------------------------------------- again


def test_a_second_load_changes_nothing_and_makes_no_commit(graph: Graph) -> None:
    first = merge(graph, EVERYTHING)
    assert first.commit is not None
    before = written(graph)
    with record_writes() as steps:
        again = merge(graph, EVERYTHING)
    assert again.commit is None
    assert (again.nodes, again.edges, again.rejected) == (first.nodes, first.edges, 0)
    assert written(graph) == before
    assert [step.name for step in steps if graph.uri in step.detail] == []


def test_a_second_load_with_a_txn_keeps_the_txn(graph: Graph) -> None:
    merge(graph, EVERYTHING, txn=("nightly", 1))
    pins = dict(graph.snapshot().pins)
    result = merge(graph, EVERYTHING, txn=("nightly", 2))
    assert result.commit is not None
    assert result.commit.txn == ("nightly", 2)
    assert {key: pin.version for key, pin in graph.snapshot().pins.items()} == {
        key: pin.version for key, pin in pins.items()
    }
    assert merge(graph, EVERYTHING, txn=("nightly", 2)).replayed


def test_only_what_differs_is_written(graph: Graph) -> None:
    merge(graph, EVERYTHING)
    changed = [ship("a", "Alma"), *EVERYTHING[1:]]
    before = graph.snapshot().pins
    result = merge(graph, changed)
    after = graph.snapshot().pins
    assert [key for key in after if after[key].version != before[key].version] == ["node:Ship"]
    assert result.commit is not None
    (updated,) = graph.diff(result.commit.parents[0], result.commit.id).entities()
    assert (updated.id, updated.op) == ("a", "updated")


def test_frames_and_records_are_the_same(graph: Graph) -> None:
    calls = pa.table({"from": ["a", "a", "b"], "to": ["b", "b", "c"], "place": ["Oslo", "Oslo", None]})
    graph.load(edges={"Meets": calls}, mode="merge")
    assert graph.load(edges={"Meets": calls}, mode="merge").commit is None
    assert merge(graph, [meet("b", "c"), meet("a", "b", place="Oslo")]).commit is None
    assert bag(graph, "Meets", "src", "dst", "place") == {("a", "b", "Oslo"): 2, ("b", "c", None): 1}


def test_append_inserts_edges_again(graph: Graph) -> None:
    graph.load([meet("a", "b")])
    graph.load([meet("a", "b")])
    assert bag(graph, "Meets", "src", "dst") == {("a", "b"): 2}


# --------------------------------------------------------------------------------------------- bags


def test_equal_records_are_a_bag_that_ends_with_the_larger_side(graph: Graph) -> None:
    graph.load([meet("a", "b"), meet("a", "b"), meet("b", "c")])
    kept = ids(graph, "Meets")
    assert merge(graph, [meet("a", "b")]).commit is None
    assert merge(graph, [meet("b", "c")] * 3).commit is not None
    assert bag(graph, "Meets", "src", "dst") == {("a", "b"): 2, ("b", "c"): 3}
    assert set(kept) < set(ids(graph, "Meets"))
    assert merge(graph, [meet("b", "c")] * 3).commit is None


def test_values_are_compared_as_distinct_compares_them(graph: Graph) -> None:
    graph.load([meet("a", "b", score=0.0), note("n", weight=0.0, shape=[0.0, 1.0], tags=["a,b"])])
    assert (
        merge(graph, [meet("a", "b", score=-0.0), note("n", weight=-0.0, shape=[-0.0, 1.0], tags=["a,b"])]).commit
        is None
    )
    assert merge(graph, [note("n", weight=0.0, shape=[0.0, 1.0], tags=["a", "b"])]).commit is not None
    assert len(rows_of(graph, "Note")) == 2


def test_blobs_are_compared_by_their_bytes(graph: Graph) -> None:
    graph.load([note("n", photo="base64:aGVsbG8="), note("n", photo=OUTSIDE)])
    assert merge(graph, [note("n", photo="base64:aGVsbG8=")]).commit is None
    assert merge(graph, [note("n", photo=OUTSIDE)]).commit is None
    # As long as the other, and different.
    assert merge(graph, [note("n", photo="base64:aGVsbGE=")]).commit is not None
    assert len(rows_of(graph, "Note")) == 3


def test_a_record_with_an_id_is_not_free_for_another(graph: Graph) -> None:
    graph.load([meet("a", "b", id="one")])
    records = [meet("a", "b"), meet("a", "b", id="one")]
    merge(graph, records)
    assert bag(graph, "Meets", "src", "dst") == {("a", "b"): 2}
    assert merge(graph, records).commit is None
    # Stored ids never matter for a record without one.
    assert merge(graph, [meet("a", "b")] * 2).commit is None


# --------------------------------------------------------------------------------------------- identity=


def test_what_lies_outside_the_identity_is_updated(graph: Graph) -> None:
    by_time = {"Meets": ["from", "at"]}
    graph.load([meet("a", "b", at=DAY, place="Oslo"), meet("b", "c", at=DAY)])
    kept = ids(graph, "Meets")
    records = [meet("a", "d", at=DAY, place="Kiel"), meet("b", "c", at=DAY), meet("c", "d")]
    assert merge(graph, records, identity=by_time).edges == {"Meets": 3}
    assert bag(graph, "Meets", "src", "dst", "place") == {
        ("a", "d", "Kiel"): 1,
        ("b", "c", None): 1,
        ("c", "d", None): 1,
    }
    assert set(kept) < set(ids(graph, "Meets"))
    assert merge(graph, records, identity=by_time).commit is None


def test_bags_of_an_identity_keep_what_is_equal_and_update_the_others(graph: Graph) -> None:
    pair = {"Meets": ["from", "to"]}
    graph.load([meet("a", "b", place=place) for place in ("Kiel", "Oslo", "Riga")])
    merge(graph, [meet("a", "b", place="Riga"), meet("a", "b", place="Turku")], identity=pair)
    found = bag(graph, "Meets", "place")
    assert found.total() == 3
    assert found[("Riga",)] == found[("Turku",)] == 1
    assert merge(graph, [meet("a", "b", place="Riga"), meet("a", "b", place="Turku")], identity=pair).commit is None


def test_nulls_of_an_identity_are_equal(graph: Graph) -> None:
    graph.load([meet("a", "b", place="Oslo")])
    merge(graph, [meet("a", "b", place="Kiel")], identity={"Meets": ["from", "to", "at"]})
    assert bag(graph, "Meets", "place") == {("Kiel",): 1}


def test_an_identity_without_ends(graph: Graph) -> None:
    graph.load([meet("a", "b", place="Oslo"), meet("b", "c", place="Kiel")])
    merge(graph, [meet("c", "d", place="Oslo")], identity={"meets": ["place"]})
    assert bag(graph, "Meets", "src", "dst", "place") == {("c", "d", "Oslo"): 1, ("b", "c", "Kiel"): 1}


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        ({"Meets": ["form"]}, "there is no property 'form', did you mean 'from'"),
        ({"Meets": ["src"]}, "there is no property 'src', did you mean 'from'"),
        ({"Meats": ["from"]}, "there is no such type, did you mean 'Meets'"),
        ({"Meets": []}, "it has no columns"),
        ({"Meets": "from"}, "'from' is not a list of columns"),
        ({"Meets": ["at", "at"]}, "'at' occurs twice"),
        ({"Meets": ["id"]}, "records with an id are found by it already"),
        ({"Ship": ["name"]}, r"its key \(code\) identifies it"),
        ({"Note": ["photo"]}, "'photo' is a blob"),
        (["Meets"], "give a mapping with texts as keys"),
    ],
)
def test_what_cannot_be_an_identity(graph: Graph, identity: object, says: str) -> None:
    before = written(graph)
    with pytest.raises(ParameterError, match=says):
        merge(graph, [meet("a", "b")], identity=identity)
    assert written(graph) == before


def test_all_wrong_identities_are_told_together(graph: Graph) -> None:
    with pytest.raises(ParameterError) as caught:
        merge(graph, [], identity={"Meets": ["form", "xx"], "Ship": ["name"]})
    assert len(cast("list[str]", caught.value.details["problems"])) == 3


def test_an_identity_is_for_merges(graph: Graph) -> None:
    with pytest.raises(ParameterError, match='mode "append" looks for no stored rows'):
        graph.load([meet("a", "b")], identity={"Meets": ["from"]})


# --------------------------------------------------------------------------------------------- @unique


def test_the_only_unique_set_identifies_records_that_have_it(graph: Graph) -> None:
    graph.load([badge(1, "Ann"), badge(None, "Bob")])
    merge(graph, [badge(1, "Eve"), badge(2, "Kim"), badge(None, "Bob"), badge(None, "Lee")])
    assert bag(graph, "Badge", "number", "owner") == {
        (1, "Eve"): 1,
        (None, "Bob"): 1,
        (2, "Kim"): 1,
        (None, "Lee"): 1,
    }


def test_a_unique_end_of_an_edge_moves_it(graph: Graph) -> None:
    graph.load([badge(1, id="one"), badge(2, id="two")])
    owns = [{"edge": "Owns", "from": "a", "to": "one"}, {"edge": "Owns", "from": "b", "to": "two"}]
    graph.load(owns)
    kept = ids(graph, "Owns")
    merge(graph, [{"edge": "Owns", "from": "a", "to": "two", "data": {"since": 3}}, owns[1]])
    assert bag(graph, "Owns", "src", "dst", "since") == {("a", "two", 3): 1, ("b", "two", None): 1}
    assert ids(graph, "Owns") == kept


def test_two_records_of_one_input_with_one_unique_value_are_an_error(graph: Graph) -> None:
    graph.load([badge(1, "Ann")])
    before = written(graph)
    for records in ([badge(1, "Ann"), badge(1, "Eve")], [badge(1, "Ann")] * 2, [badge(5), badge(5)]):
        with pytest.raises(ValidationError) as caught:
            merge(graph, records)
        assert [each.rule for each in caught.value.violations] == ["@unique(number)"]
    assert written(graph) == before


def test_two_records_of_one_key_are_an_error_even_if_one_is_there(graph: Graph) -> None:
    with pytest.raises(ValidationError, match="is given 2 times"):
        merge(graph, [ship("a"), ship("a", "Anna")])
    with pytest.raises(ValidationError, match="is given 2 times"):
        merge(graph, [ship("a"), ship("a")])


def test_several_unique_sets_must_be_told_apart(graph: Graph) -> None:
    seal = {"type": "Seal", "data": {"number": 1, "owner": "Ann"}}
    for records in ([seal], [ship("z"), seal]):
        with pytest.raises(ParameterError) as caught:
            merge(graph, records)
        assert "@unique(number), @unique(owner)" in caught.value.message
        assert 'identity={"Seal": ["number"]}' in (caught.value.hint or "")
    by_number = {"Seal": ["number"]}
    merge(graph, [seal], identity=by_number)
    assert merge(graph, [{"type": "Seal", "data": {"number": 1, "owner": "Eve"}}], identity=by_number).commit
    assert bag(graph, "Seal", "number", "owner") == {(1, "Eve"): 1}
    # Records with an id need no identity.
    merge(graph, [{"type": "Seal", "data": {"id": "s", "number": 2, "owner": "Kim"}}])


# --------------------------------------------------------------------------------------------- rules and rejects


def test_a_merge_that_breaks_a_rule_names_the_record_and_changes_nothing(graph: Graph) -> None:
    graph.load([badge(1, "Ann", id="one")])
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        merge(graph, [meet("a", "b"), meet("a", "nobody"), badge(2, "x")])
    assert [(each.line, each.property) for each in caught.value.violations] == [(2, "dst")]
    assert written(graph) == before


def test_the_quarantine_takes_what_breaks_a_rule(graph: Graph, tmp_path: Path) -> None:
    graph.load([badge(1, "Ann")])
    records = [badge(1, "Eve"), badge(3), badge(3), meet("a", "nobody"), meet("a", "b")]
    result = merge(graph, records, on_error="quarantine", rejects=tmp_path / "rejects.jsonl")
    assert (result.rejected, result.nodes, result.edges) == (3, {"Badge": 1}, {"Meets": 1})
    assert bag(graph, "Badge", "number", "owner") == {(1, "Eve"): 1}
    again = merge(graph, records, on_error="quarantine", rejects=tmp_path / "again.jsonl")
    assert (again.commit, again.rejected) == (None, 3)


def test_check_tells_and_writes_nothing(graph: Graph) -> None:
    before = written(graph)
    assert merge(graph, EVERYTHING, check=True).commit is None
    assert written(graph) == before


# --------------------------------------------------------------------------------------------- branches and others


@pytest.mark.parametrize("owned", [False, True])
def test_a_branch_is_merged_into_by_its_own_rows(graph: Graph, *, owned: bool) -> None:
    graph.load([meet("a", "b", place="Oslo"), note("n")])
    graph.create_branch("june")
    if owned:
        graph.load([meet("b", "c"), note("m")], branch="june")
    main = written(graph)
    records = [meet("a", "b", place="Oslo"), note("n"), meet("b", "c"), note("m")]
    assert (merge(graph, records, branch="june").commit is None) == owned
    assert merge(graph, records, branch="june").commit is None
    assert len(rows_of(graph, "Meets", "june")) == len(rows_of(graph, "Note", "june")) == 2
    assert written(graph) == main
    assert merge(graph, records[:2], branch="july", from_branch="june").commit is None
    assert rows_of(graph, "Note", "july") == rows_of(graph, "Note", "june")


def test_a_branch_that_lags_is_compared_as_the_schema_has_it(graph: Graph) -> None:
    graph.load([meet("a", "b"), note("n")])
    graph.create_branch("june")
    graph.apply_schema(SCHEMA.replace("place: String?", "place: String?  rate: I64 @default(7)"))
    records = [meet("a", "b", rate=7), note("n")]
    assert merge(graph, records, branch="july", from_branch="june").commit is None
    merge(graph, [*records, meet("a", "b", rate=8)], branch="june")
    assert len(rows_of(graph, "Meets", "june")) == 2


def test_rows_that_others_insert_meanwhile_are_found(graph: Graph, size: str) -> None:
    step = "table.stage"
    with meanwhile(lambda: graph.load([meet("a", "b")]), step):
        result = merge(graph, [meet("a", "b"), meet("b", "c")])
    assert result.commit is not None
    assert bag(graph, "Meets", "src", "dst") == {("a", "b"): 1, ("b", "c"): 1}, size


def test_rows_are_staged_once_though_others_write_meanwhile(graph: Graph, size: str) -> None:
    graph.load([meet("a", "b", place="Oslo")])
    before = data_files(graph)
    with meanwhile(lambda: graph.load([meet("c", "d")]), "table.stage" if size == "held" else "table.audit"):
        merge(graph, [meet("a", "b", place="Kiel"), meet("b", "c")], identity={"Meets": ["from"]})
    assert bag(graph, "Meets", "src", "place") == {("a", "Kiel"): 1, ("b", None): 1, ("c", None): 1}
    assert len(data_files(graph) - before) == 2


def test_of_two_merges_at_once_the_second_finds_nothing_to_do(graph: Graph) -> None:
    records = [meet("a", "b"), note("n"), ship("z")]
    with meanwhile(lambda: merge(graph, records)):
        assert merge(graph, records).commit is None
    assert len(graph.commits()) == 3
    assert len(rows_of(graph, "Meets")) == len(rows_of(graph, "Note")) == 1


# --------------------------------------------------------------------------------------------- costs


@pytest.fixture
def large(graph: Graph) -> Graph:
    """A graph with many edges and notes, and indexes on the ends."""
    many = 5_000
    graph.load(nodes={"Ship": pa.table({"code": [f"s{number}" for number in range(many)]})})
    graph.load(
        nodes={"Note": pa.table({"text": [f"t{number}" for number in range(many)]})},
        edges={
            "Meets": pa.table(
                {
                    "from": [f"s{number}" for number in range(many)],
                    "to": [f"s{number // 2}" for number in range(many)],
                    "place": ["Oslo"] * many,
                }
            )
        },
        indexes="always",
    )
    return graph


def test_a_small_merge_does_not_read_the_type(large: Graph) -> None:
    for records, identity in (
        ([meet("s7", "s3", place="Oslo"), meet("s9", "s1")], None),
        ([meet("s7", "s3", place="Kiel")], {"Meets": ["from", "to"]}),
        ([note("t7"), note("new")], None),
        ([ship("s7", "Anna"), ship("s8")], None),
    ):
        with counting_scans() as count:
            merge(large, records, identity=identity)
        assert count() < 50, records
