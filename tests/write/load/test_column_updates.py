"""Updates that write columns: for everybody who reads the graph they are the same as updates that replace rows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import record_writes
from omnigraph.storage.location import Location
from omnigraph.write.load.matching import column_updates
from omnigraph.write.load.run import LoadResult
from tests import crash
from tests.graphs import rows_of
from tests.selection import sized
from tests.write.mutation.interleaving import meanwhile

SCHEMA = """
node Port {
  code: String @key
  name: String? @index
  rank: F64?
  group: I64?
  tags: [String]?
  spot: Vector(2)?
  kind: enum(sea, river) @default("sea")
}
edge Leg: Port -> Port { km: F64?  note: String? }
"""
WIDER = SCHEMA.replace("  rank: F64?", '  rank: F64?\n  depth: F64?\n  state: String? @default("open")')
FEW = 12
OPERATIONS = ("rank", "rank", "some", "leg", "insert", "delete", "branch", "merge", "optimize", "schema")


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows be written as columns, as if they were many."""
    monkeypatch.setattr(column_updates, "LEAST_ROWS", 1)


def fill(graph: Graph) -> Graph:
    """Fragments of four ports each; one port is deleted."""
    codes = [f"p{number:02}" for number in range(FEW)]
    for first in range(0, FEW, 4):
        ports = [{"type": "Port", "data": {"code": code, "name": f"of {code}"}} for code in codes[first : first + 4]]
        graph.load(ports)
    pairs = pairwise(codes)
    graph.load([{"edge": "Leg", "from": a, "to": b, "data": {"id": f"{a}-{b}", "km": 1.0}} for a, b in pairs])
    graph.mutate('query q() { delete Port where code = "p05" }')
    return graph


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ports") / "ports.og"
    fill(omnigraph.init(folder, SCHEMA))
    return folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    return omnigraph.open(shutil.copytree(template, tmp_path / "ports.og"))


def rank(graph: Graph, branch: str = "main", times: float = 1.0, **more: object) -> LoadResult:
    """Give every port a rank, in the order of their codes."""
    codes = sorted(str(row["code"]) for row in rows_of(graph, "Port", branch))
    ranks = pa.table({"code": codes, "rank": [times * number for number in range(len(codes))]})
    return graph.load(nodes={"Port": ranks}, mode="update", branch=branch, **more)  # pyright: ignore[reportArgumentType]


def ranks(graph: Graph, branch: str = "main") -> dict[str, object]:
    return {str(row["code"]): row["rank"] for row in rows_of(graph, "Port", branch)}


def count_files(graph: Graph, branch: str = "main", name: str = "Port") -> list[int]:
    """Return how many data files each fragment of a table has."""
    return [len(each.metadata.files) for each in graph.snapshot(branch).table(name).dataset.get_fragments()]


# --------------------------------------------------------------------------------------------- when


def test_many_rows_are_written_as_a_column(tmp_path: Path) -> None:
    """With the limits of real life: rows in another order than the table's, and some that stay as they are."""
    graph = omnigraph.init(tmp_path / "many.og", SCHEMA)
    codes = [f"p{number:05}" for number in range(3_000)]
    graph.load(nodes={"Port": pa.table({"code": codes, "name": [f"of {code}" for code in codes]})})
    before = graph.snapshot().table("Port")
    shuffled = random.Random(7).sample(codes, 2_000)  # noqa: S311  no secret
    given = pa.table({"code": shuffled, "rank": [float(code[1:]) for code in shuffled]})
    with record_writes() as steps:
        assert graph.load(nodes={"Port": given}, mode="update").nodes == {"Port": 2_000}
    assert [step.name for step in steps].count("table.stage") == 1
    assert count_files(graph) == [2]
    after = graph.snapshot().table("Port")
    (new,) = after.list_files() - before.list_files()
    # Eight bytes for each row of the fragment, and what a file needs.
    assert Path(after.uri, new).stat().st_size < 9 * 3_000
    assert ranks(graph) == {code: float(code[1:]) if code in set(shuffled) else None for code in codes}
    assert graph.diff(graph.commits()[1].id).summary()[0].updated == 2_000
    assert after.scan(["id"], with_row_id=True).read_all() == before.scan(["id"], with_row_id=True).read_all()


@pytest.mark.usefixtures("columns")
@pytest.mark.parametrize(
    ("change", "files"),
    [
        ({"rank": 1.0}, [2, 2, 2]),
        ({"group": 7, "tags": ["x"], "spot": [1.0, 2.0]}, [2, 2, 2]),
        ({"kind": "river"}, [2, 2, 2]),
        # Its index knows what a row said before.
        ({"name": "other"}, [1]),
        ({"name": "other", "rank": 1.0}, [1]),
    ],
)
def test_columns_without_an_index(graph: Graph, change: dict[str, object], files: list[int]) -> None:
    graph.ensure_indexes()
    records = [{"type": "Port", "data": {"code": code, **change}} for code in ranks(graph)]
    graph.load(records, mode="update")
    assert count_files(graph) == files
    for row in rows_of(graph, "Port"):
        assert {name: row[name] for name in change} == change
    query = "query q($n: String) { match { $p: Port { name: $n } } return { count($p) as n } }"
    assert graph.query(query, params={"n": "of p00"}).rows == [{"n": 0 if "name" in change else 1}]


@pytest.mark.usefixtures("columns")
def test_few_of_many_rows_are_replaced(graph: Graph) -> None:
    graph.optimize()
    graph.load([{"type": "Port", "data": {"code": code, "rank": 2.0}} for code in ("p00", "p11")], mode="update")
    assert count_files(graph) == [1, 1]
    # More than a quarter of the rows of the fragments that have them.
    graph.load(
        [{"type": "Port", "data": {"code": f"p{number:02}", "rank": 3.0}} for number in (1, 2, 3)], mode="update"
    )
    assert count_files(graph) == [2, 1]


@pytest.mark.usefixtures("columns")
def test_rows_that_mention_different_columns(graph: Graph) -> None:
    rank(graph)
    before = {str(row["code"]): row for row in rows_of(graph, "Port")}
    graph.load(
        [
            {"type": "Port", "data": {"code": "p00", "rank": 50.0}},
            {"type": "Port", "data": {"code": "p01", "group": 1}},
            {"type": "Port", "data": {"code": "p02", "rank": None, "group": 2}},
            {"type": "Port", "data": {"code": "p03", "rank": 3.0}},
        ],
        mode="update",
    )
    changed = {"p00": {"rank": 50.0}, "p01": {"group": 1}, "p02": {"rank": None, "group": 2}}
    expected = {code: {**row, **changed.get(code, {})} for code, row in before.items()}
    assert {str(row["code"]): row for row in rows_of(graph, "Port")} == expected
    # The fourth has its rank already.
    assert sorted(each.id for each in graph.diff(graph.commits()[1].id).entities()) == ["p00", "p01", "p02"]


@pytest.mark.usefixtures("columns")
def test_rules_and_repeated_rows(graph: Graph) -> None:
    twice = [{"type": "Port", "data": {"code": code, "rank": 1.0}} for code in ("p00", "p01", "p01")]
    with pytest.raises(ValidationError) as caught:
        graph.load(twice, mode="update")
    assert {each.id for each in caught.value.violations} == {"p01"}
    with pytest.raises(ValidationError, match="p99"):
        graph.load([{"type": "Port", "data": {"code": "p99", "rank": 1.0}}], mode="update")
    assert set(ranks(graph).values()) == {None}


# --------------------------------------------------------------------------------------------- the same to all readers


def live(graph: Graph, seed: int) -> Iterator[None]:
    """Do what people do to a graph, by chance, the same for the same seed; stop after each commit."""
    chance = random.Random(seed)  # noqa: S311  no secret
    branches, serial = ["main"], 0
    for step in range(sized(6, 20)):
        branch = chance.choice(branches)
        codes = sorted(ranks(graph, branch))
        match "rank" if step == 0 else chance.choice(OPERATIONS):
            case "rank":
                rank(graph, branch, float(step))
            case "some":
                chosen = chance.sample(codes, max(1, len(codes) // 2))
                records = [
                    {"type": "Port", "data": {"code": code, chance.choice(["group", "rank"]): step}} for code in chosen
                ]
                graph.load(records, mode="update", branch=branch)
            case "leg":
                legs = [str(row["id"]) for row in rows_of(graph, "Leg", branch)]
                records = [{"edge": "Leg", "data": {"id": leg, "km": float(step)}} for leg in legs]
                graph.load(records, mode="update", branch=branch) if legs else None
            case "insert":
                serial += 1
                new = [{"type": "Port", "data": {"code": f"n{serial}{at}", "rank": 0.5}} for at in "abc"]
                graph.load(new, branch=branch)
            case "delete":
                graph.mutate(f'query q() {{ delete Port where code = "{chance.choice(codes)}" }}', branch=branch)
            case "branch" if len(branches) < 3:
                branches.append(f"b{step}")
                graph.create_branch(branches[-1], branch)
            case "merge" if branch != "main":
                graph.merge(branch, prefer=chance.choice(["theirs", "ours"]))
            case "optimize":
                graph.optimize()
            case "schema":
                graph.apply_schema(WIDER)
            case _:
                continue
        yield


def describe(graph: Graph) -> dict[str, object]:
    """Everything that can be read of a graph, without ids and times of commits."""
    found: dict[str, object] = {}
    for branch in sorted(each.name for each in graph.branches()):
        commits = graph.commits(branch)
        found[f"{branch} rows"] = [
            # Rows that are replaced come last in their table.
            sorted(rows_of(graph, name, branch), key=lambda row: str(row["id"]))
            for name in ("Port", "Leg")
        ]
        found[f"{branch} against main"] = [repr(entity) for entity in graph.diff("main", branch).entities()]
        found[f"{branch} since"] = [
            sorted(repr(entity) for entity in graph.diff(commit.id, branch).entities()) for commit in commits
        ]
        found[f"{branch} feed"] = [
            sorted(repr(entity) for entity in block.entities()) for block in graph.changes("beginning", branch=branch)
        ]
        found[f"{branch} history"] = [
            (repr(revision.change), len(commits))
            for code in ("p00", "p07")
            for revision in graph.history("Port", code, branch=branch)
        ]
    query = "query q() { match { $p: Port  $p leg $q } return { $p.code as a, $q.rank as r } order { a, r } }"
    found["query"] = graph.query(query).rows
    return found


@pytest.mark.parametrize("seed", range(sized(1, 8)))
def test_it_is_the_same_as_rows_that_are_replaced(
    template: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = [omnigraph.open(shutil.copytree(template, tmp_path / name)) for name in ("columns.og", "rows.og")]
    lives = [live(each, seed) for each in graphs]
    most = 1
    for step in range(1_000):
        ended = []
        for one, least in zip(lives, (1, 1_000_000), strict=True):
            monkeypatch.setattr(column_updates, "LEAST_ROWS", least)
            ended.append(next(one, StopIteration))
        if StopIteration in ended:
            break
        most = max([most, *count_files(graphs[0])])
        if step % 8 == 7:
            assert describe(graphs[0]) == describe(graphs[1])
    assert most > 1, "no column was written"
    assert describe(graphs[0]) == describe(graphs[1])
    for each in graphs:
        each.ensure_indexes()
        assert each.verify().is_sound
    assert describe(graphs[0]) == describe(graphs[1])


# --------------------------------------------------------------------------------------------- others at the same time


@pytest.mark.usefixtures("columns")
@pytest.mark.parametrize("upkeep", ["compaction", "index"])
def test_upkeep_that_comes_first_moves_nothing_under_it(graph: Graph, upkeep: str) -> None:
    def tidy() -> None:
        graph.optimize() if upkeep == "compaction" else graph.ensure_indexes()

    with meanwhile(tidy, "table.stage"):
        rank(graph)
    assert ranks(graph) == {code: float(number) for number, code in enumerate(sorted(ranks(graph)))}
    assert graph.verify().is_sound


@pytest.mark.usefixtures("columns")
def test_a_row_that_another_changes_meanwhile_keeps_both(graph: Graph) -> None:
    with meanwhile(
        lambda: graph.mutate('query q() { update Port set { group: 9 } where code = "p03" }'), "table.stage"
    ):
        rank(graph, times=2.0)
    row = next(row for row in rows_of(graph, "Port") if row["code"] == "p03")
    assert (row["group"], row["rank"]) == (9, 6.0)


@pytest.mark.usefixtures("columns")
def test_an_index_of_the_column_that_was_begun_before_finds_no_old_value(tmp_path: Path) -> None:
    graph = fill(omnigraph.init(tmp_path / "indexed.og", SCHEMA.replace("rank: F64?", "rank: F64? @index")))
    rank(graph)
    with meanwhile(lambda: rank(graph, times=10.0), "table.stage"):
        graph.ensure_indexes()
    graph.ensure_indexes()
    query = "query q($r: F64) { match { $p: Port { rank: $r } } return { $p.code as code } }"
    assert graph.query(query, params={"r": 3.0}).rows == []
    assert graph.query(query, params={"r": 30.0}).rows == [{"code": "p03"}]


# --------------------------------------------------------------------------------------------- killed


def rank_and_die(uri: str, branch: str) -> None:
    """Write two columns, in a process that may die."""
    column_updates.LEAST_ROWS = 1  # pyright: ignore[reportAttributeAccessIssue]  the process is made for this call
    graph = omnigraph.open(uri)
    codes = sorted(str(row["code"]) for row in rows_of(graph, "Port", branch))
    given = pa.table({"code": codes, "rank": [1.5] * len(codes), "group": [4] * len(codes)})
    km = pa.table({"id": [str(row["id"]) for row in rows_of(graph, "Leg", branch)]})
    km = km.append_column("km", pa.array([9.0] * km.num_rows))
    graph.load(nodes={"Port": given}, edges={"Leg": km}, mode="update", branch=branch, txn=("rank", 1))


def values_of(graph: Graph, branch: str) -> set[str]:
    ports, legs = (rows_of(graph, name, branch) for name in ("Port", "Leg"))
    return {*(f"{row['rank']} {row['group']}" for row in ports), *(str(row["km"]) for row in legs)}


@pytest.mark.parametrize("branch", ["main", pytest.param("june", marks=pytest.mark.slow)])
def test_killed_anywhere_all_columns_are_written_or_none(graph: Graph, branch: str) -> None:
    if branch != "main":
        graph.create_branch(branch)
    template = Path(graph.uri)
    clean = crash.fresh_copy(template)
    steps = crash.record(rank_and_die, str(clean), branch)
    assert max(count_files(omnigraph.open(clean), branch)) == 2
    for number, when in crash.some_crashes(steps):
        uri = str(crash.fresh_copy(template))
        crash.kill_at(rank_and_die, (uri, branch), number, when)
        seen = omnigraph.open(uri, mode="ro")
        values = values_of(seen, branch)
        assert values in ({"None None", "1.0"}, {"1.5 4", "9.0"}), (when, steps[number - 1])
        crash.run(rank_and_die, uri, branch)
        found = omnigraph.open(uri)
        assert values_of(found, branch) == {"1.5 4", "9.0"}
        assert [each.txn for each in found.commits(branch)].count(("rank", 1)) == 1


# --------------------------------------------------------------------------------------------- object stores


@pytest.mark.usefixtures("columns")
@pytest.mark.parametrize("store", ["s3_location", pytest.param("ddb_location", marks=pytest.mark.slow)])
def test_on_an_object_store(store: str, request: pytest.FixtureRequest) -> None:
    location: Location = request.getfixturevalue(store)
    graph = fill(omnigraph.init(location.uri, SCHEMA, storage_options=dict(location.storage_options)))
    graph.create_branch("june")
    rank(graph, "june")
    rank(graph, "june", 2.0)
    assert count_files(graph, "june") == [2, 2, 2]
    assert graph.diff("june").summary()[0].updated == FEW - 1
    graph.merge("june")
    again = omnigraph.open(location.uri, storage_options=dict(location.storage_options))
    assert ranks(again) == ranks(again, "june") == {code: 2.0 * n for n, code in enumerate(sorted(ranks(again)))}
