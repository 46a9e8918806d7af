"""Loads: each mode on main and on a branch, concurrent loads, retries after a crash, and checks that load nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import (
    ExpectedVersionMismatch,
    KeyConflict,
    NotFound,
    ParameterError,
    ReadOnly,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.write.load import LoadMode
from omnigraph.write.load import load_operation as load_work
from omnigraph.write.load.run import LoadResult
from tests import crash
from tests.graphs import rows_of, written
from tests.write.mutation.interleaving import meanwhile


def vessel(code: str, name: str = "n", **more: object) -> Mapping[str, object]:
    return {"type": "Vessel", "data": {"code": code, "name": name, "kind": "tug", **more}}


def tow(source: str, target: str, **data: object) -> Mapping[str, object]:
    return {"edge": "Tows", "from": source, "to": target, "data": data}


def names(graph: Graph, branch: str = "main") -> dict[str, str]:
    rows = cast("list[dict[str, str]]", rows_of(graph, "Vessel", branch))
    assert len({row["id"] for row in rows}) == len(rows), "an id is there twice"
    return {row["code"]: row["name"] for row in rows}


# Every load runs twice: with its rows in memory, and staged while they are read.
pytestmark = pytest.mark.usefixtures("staged_at")

FLEET = {"v1": "Aurora", "v2": "Boreas", "v3": "Cetus"}


@pytest.fixture(params=["main", "owned", "inherited"])
def branch(request: pytest.FixtureRequest, fleet: Graph) -> str:
    """Main, a branch with its own version of the table, and one without."""
    name: str = request.param
    if name != "main":
        fleet.create_branch(name)
    if name == "owned":
        fleet.load([vessel("v0", "own")], branch=name)
    return name


# --------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("append", {**FLEET, "v8": "eight", "v9": "nine"}),
        ("merge", {**FLEET, "v2": "new", "v8": "eight"}),
        ("overwrite", {"v2": "new", "v8": "eight"}),
    ],
)
def test_each_mode_on_each_branch(fleet: Graph, branch: str, mode: LoadMode, expected: dict[str, str]) -> None:
    other = "v9" if mode == "append" else "v2"
    records = [vessel("v8", "eight"), vessel(other, "nine" if mode == "append" else "new")]
    if mode == "overwrite":
        # Rows that refer to the old vessels must be replaced with them.
        records += [tow("v8", "v2"), {"edge": "CallsAt", "from": "v8", "to": "p1"}]
    own = {"v0": "own"} if branch == "owned" and mode != "overwrite" else {}
    before = written(fleet)
    result = fleet.load(records, mode=mode, branch=branch, message="why", actor="act-ann")
    assert names(fleet, branch) == {**expected, **own}
    assert result.commit == fleet.commits(branch)[0]
    assert (result.branch, result.mode, result.engine, result.replayed) == (branch, mode, "local", False)
    assert result.nodes == {"Vessel": 2}
    assert result.commit is not None
    assert (result.commit.message, result.commit.actor) == ("why", "act-ann")
    if branch != "main":
        assert written(fleet) == before


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("{nodes}, {edges}", "2 nodes, 1 edge"),
        ("{node} {} {nodes}{nodes}", "{node} {} 2 nodes2 nodes"),
        ("plain", "plain"),
        (None, None),
    ],
)
def test_counts_in_a_message(fleet: Graph, message: str | None, kept: str | None) -> None:
    result = fleet.load([vessel("v8"), vessel("v1", "new"), tow("v8", "v1", id="t9")], mode="merge", message=message)
    assert result.commit is not None
    assert result.commit.message == kept


def test_append_is_strict(fleet: Graph) -> None:
    before = written(fleet)
    with pytest.raises(KeyConflict) as caught:
        fleet.load([vessel("v7"), vessel("v2"), vessel("v1")])
    assert [(each.line, each.id, each.rule) for each in caught.value.violations] == [
        (2, "v2", "@key(code)"),
        (3, "v1", "@key(code)"),
    ]
    assert written(fleet) == before


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_key_twice_in_one_load_is_an_error_that_names_both(fleet: Graph, mode: LoadMode) -> None:
    before = written(fleet)
    with pytest.raises(ValidationError) as caught:
        fleet.load([vessel("v7"), vessel("v8"), vessel("v7")], mode=mode)
    assert caught.value.code == "validation_error"
    (found,) = [each for each in caught.value.violations if each.rule == "@key(code)"]
    assert found.line == 3
    assert "first in record:1" in found.message
    assert written(fleet) == before


def test_merge_replaces_whole_rows_and_edges_by_their_ids(fleet: Graph) -> None:
    fleet.load([tow("v1", "v2", id="e1")])
    result = fleet.load([vessel("v1", "short"), tow("v1", "v3", id="e1"), tow("v3", "v1")], mode="merge")
    assert result.nodes == {"Vessel": 1}
    assert result.edges == {"Tows": 2}
    assert [row["tonnage"] for row in rows_of(fleet, "Vessel") if row["code"] == "v1"] == [None]
    tows = {(row["src"], row["dst"]) for row in rows_of(fleet, "Tows")}
    assert tows == {("v2", "v1"), ("v1", "v3"), ("v3", "v1")}


def test_merging_more_rows_than_can_be_listed(fleet: Graph) -> None:
    many = [vessel(f"m{number}", "old") for number in range(3_000)]
    fleet.load(many)
    fleet.load([vessel(f"m{number}", "new") for number in range(2_500)] + [vessel("m9999")], mode="merge")
    found = list(names(fleet).values())
    assert (len(found), found.count("new"), found.count("old")) == (3_004, 2_500, 500)


def test_overwrite_keeps_the_tables_that_are_not_mentioned(fleet: Graph) -> None:
    fleet.load([{"edge": "Tows", "from": "v3", "to": "v1"}], mode="overwrite")
    assert [(row["src"], row["dst"]) for row in rows_of(fleet, "Tows")] == [("v3", "v1")]
    assert names(fleet) == FLEET
    with pytest.raises(ValidationError, match="no such Vessel"):
        fleet.load([vessel("v9")], mode="overwrite")


def test_edges_may_come_before_their_nodes(fleet: Graph) -> None:
    assert fleet.load([tow("a", "b"), vessel("b"), vessel("a")]).edges == {"Tows": 1}


# --------------------------------------------------------------------------------------------- branches


def test_from_branch_forks_a_missing_target_first(fleet: Graph) -> None:
    before = written(fleet)
    fleet.load([vessel("v9")], branch="june", from_branch="main")
    fleet.load([vessel("v8")], branch="june", from_branch="main")
    assert names(fleet, "june") == {**FLEET, "v9": "n", "v8": "n"}
    assert written(fleet) == before


def test_a_load_into_a_new_branch_checks_its_rows_once(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    check = load_work.LocalLoadEngine.check

    def note(self: load_work.LocalLoadEngine, *given: object) -> object:
        checked.append(1)
        return check(self, *given)  # pyright: ignore[reportArgumentType]  as they came

    monkeypatch.setattr(load_work.LocalLoadEngine, "check", note)
    fleet.load([vessel("v9"), tow("v9", "v1")], branch="june", from_branch="main")
    assert len(checked) == 1
    assert names(fleet, "june") == {**FLEET, "v9": "n"}


def test_a_load_that_fails_leaves_no_branch_behind(fleet: Graph) -> None:
    for bad in ([tow("v1", "nobody")], [vessel("v9", name=3)]):  # pyright: ignore[reportArgumentType]  wrong on purpose
        with pytest.raises(ValidationError):
            fleet.load(bad, branch="june", from_branch="main")
    fleet.load([vessel("v9")], branch="june", from_branch="main", check=True)
    assert [each.name for each in fleet.branches()] == ["main"]


def test_a_missing_branch_without_a_base_is_not_found(fleet: Graph) -> None:
    for options in ({}, {"check": True}, {"txn": ("import", 1)}, {"mode": "merge"}):
        with pytest.raises(NotFound, match="no branch 'june'") as raised:
            fleet.load([vessel("v9")], branch="june", **options)  # pyright: ignore[reportArgumentType]  as given
        assert raised.value.hint == 'give from_branch="main" to create it; `omnigraph branch list` shows them'
    with pytest.raises(NotFound, match="no file"):
        fleet.load("nothing.jsonl", branch="june", check=True)
    with pytest.raises(NotFound, match="no branch, commit, version, date or tag 'july'"):
        fleet.load([vessel("v9")], branch="june", from_branch="july")


# --------------------------------------------------------------------------------------------- check


def test_check_reports_and_writes_nothing(fleet: Graph) -> None:
    before = written(fleet)
    result = fleet.load([vessel("v9"), tow("v9", "v1")], check=True)
    assert (result.commit, result.nodes, result.edges) == (None, {"Vessel": 1}, {"Tows": 1})
    with pytest.raises(ValidationError) as caught:
        fleet.load([tow("v1", f"x{number}") for number in range(150)], check=True)
    assert len(caught.value.violations) == 150
    assert written(fleet) == before
    reader = omnigraph.open(fleet.uri, mode="ro")
    assert reader.load([vessel("v9")], check=True).commit is None
    with pytest.raises(ReadOnly):
        reader.load([vessel("v9")])


def test_what_is_asked_for_wrongly(fleet: Graph) -> None:
    for wrong in ({"mode": "upsert"}, {"on_error": "skip"}, {"indexes": "some"}, {"engine": "duck"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            fleet.load([], **wrong)  # pyright: ignore[reportArgumentType]  that is the point
    for txn in (("app",), ("", 1), ("app", -1), ("app", "1"), ("app", True)):
        with pytest.raises(ParameterError, match="txn is"):
            fleet.load([], txn=txn)  # pyright: ignore[reportArgumentType]  that is the point
    with pytest.raises(ParameterError, match="only from files"):
        fleet.load([vessel("v9")], engine="spark")


# --------------------------------------------------------------------------------------------- txn


def test_a_txn_is_loaded_once_whatever_the_data(fleet: Graph) -> None:
    first = fleet.load([vessel("v9")], txn=("import", 7))
    head = fleet.commits()[0]
    for number, source in ((7, [vessel("v9")]), (3, [vessel("other")]), (7, "not-there.jsonl")):
        again = fleet.load(source, txn=("import", number))
        assert (again.commit, again.replayed, again.nodes) == (first.commit, True, {})
    assert fleet.commits()[0] == head
    assert not fleet.load([vessel("v10")], txn=("import", 8)).replayed
    assert not fleet.load([vessel("v11")], txn=("export", 1)).replayed


@pytest.mark.parametrize("source", [[], [vessel("v9", kind="none")]], ids=["no rows", "all rejected"])
@pytest.mark.parametrize("branch", [MAIN, "june"])
def test_a_load_without_rows_keeps_its_txn(fleet: Graph, branch: str, source: list[Mapping[str, object]]) -> None:
    def load(records: list[Mapping[str, object]], number: int) -> LoadResult:
        return fleet.load(records, branch=branch, from_branch=MAIN, on_error="quarantine", txn=("import", number))

    before = written(fleet)
    first = load(source, 7)
    assert (first.replayed, first.rejected, sum(first.nodes.values())) == (False, len(source), 0)
    assert first.commit == fleet.commits(branch)[0]
    assert fleet.commits(branch)[0].txn == ("import", 7)
    again = load([vessel("v9")], 7)
    assert (again.replayed, again.commit) == (True, first.commit)
    assert not load([vessel("v9")], 8).replayed
    assert fleet.load([]).commit is None, "without a txn there is nothing to keep"
    assert branch == MAIN or written(fleet) == before


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_two_retries_at_once_load_once(fleet: Graph, mode: LoadMode, staged_at: str) -> None:
    records = [vessel("v1", "x"), vessel("v2"), vessel("v3")] if mode != "append" else [vessel("v9", "x")]

    def load() -> LoadResult:
        return fleet.load(records, mode=mode, txn=("import", 1))

    with meanwhile(load, staged_at):
        second = load()
    assert second.replayed
    assert list(names(fleet).values()).count("x") == 1
    assert [commit.txn for commit in fleet.commits()].count(("import", 1)) == 1


def test_a_retry_that_comes_through_while_the_other_still_reads(fleet: Graph) -> None:
    def read_slowly() -> Iterator[Mapping[str, object]]:
        fleet.load([vessel("v9")], txn=("import", 1))
        yield vessel("v9")

    second = fleet.load(read_slowly(), txn=("import", 1))
    assert (second.replayed, second.commit) == (True, fleet.commits()[0])


def test_threads_with_one_txn_load_once(fleet: Graph) -> None:
    def load(_: int) -> LoadResult:
        return fleet.load([vessel("v9")], txn=("import", 1))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(load, range(4)))
    assert [result.replayed for result in results].count(False) == 1
    assert len({result.commit.id for result in results if result.commit}) == 1


# --------------------------------------------------------------------------------------------- beside others


def test_an_append_beside_an_append_is_checked_again(fleet: Graph, staged_at: str) -> None:
    with meanwhile(lambda: fleet.load([vessel("v8")]), staged_at):
        fleet.load([vessel("v9")])
    assert names(fleet) == {**FLEET, "v8": "n", "v9": "n"}
    with pytest.raises(KeyConflict), meanwhile(lambda: fleet.load([vessel("v7", "first")]), staged_at):
        fleet.load([vessel("v7", "second")])
    assert names(fleet)["v7"] == "first"


def test_a_merge_beside_a_delete_brings_nothing_back(fleet: Graph, staged_at: str) -> None:
    fleet.load([vessel("old"), vessel("gone")])
    delete = 'query q() { delete Vessel where code = "gone" }'
    with meanwhile(lambda: fleet.mutate(delete), staged_at):
        fleet.load([vessel("old", "new")], mode="merge")
    assert names(fleet) == {**FLEET, "old": "new"}


def test_a_merge_beside_a_merge_of_the_same_rows(fleet: Graph, staged_at: str) -> None:
    with meanwhile(lambda: fleet.load([vessel("v1", "first"), vessel("v9", "first")], mode="merge"), staged_at):
        fleet.load([vessel("v1", "second"), vessel("v9", "second")], mode="merge")
    assert names(fleet) == {**FLEET, "v1": "second", "v9": "second"}


def test_an_edge_whose_end_is_deleted_meanwhile(fleet: Graph, staged_at: str) -> None:
    delete = 'query q() { delete Vessel where code = "v3" }'
    with pytest.raises(ValidationError, match="no such Vessel"), meanwhile(lambda: fleet.mutate(delete), staged_at):
        fleet.load([tow("v1", "v3")])
    assert [(row["src"], row["dst"]) for row in rows_of(fleet, "Tows")] == [("v2", "v1")]


def test_an_overwrite_of_what_moved_is_a_conflict(fleet: Graph, staged_at: str) -> None:
    with pytest.raises(ExpectedVersionMismatch), meanwhile(lambda: fleet.load([tow("v1", "v3")]), staged_at):
        fleet.load([tow("v3", "v1")], mode="overwrite")
    assert len(rows_of(fleet, "Tows")) == 2


def _load_many(uri: str, writer: int) -> int:
    graph = omnigraph.open(uri)
    for number in range(5):
        graph.load([vessel(f"w{writer}x{number}"), vessel("shared", f"by {writer}")], mode="merge")
    return writer


def test_processes_that_merge_at_once_lose_nothing(fleet: Graph) -> None:
    before = len(fleet.commits())

    def in_a_process(writer: int) -> int:
        return crash.run(_load_many, fleet.uri, writer)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(in_a_process, range(3))) == [0, 1, 2]
    assert len(names(fleet)) == 3 + 15 + 1
    assert len(fleet.commits()) == before + 15


def test_no_row_of_a_load_that_fails_stays_in_the_graph(fleet: Graph, staged_at: str) -> None:
    before = _files(fleet)
    with pytest.raises(ValidationError):
        fleet.load([vessel("v9"), tow("v9", "nobody")])
    left = {path.parent.name for path in _files(fleet) - before}
    # The detached version that rules read through stays for cleanup; the rows do not.
    assert left == (set() if staged_at == "table.stage" else {"_versions", "_transactions"})


def _files(graph: Graph) -> set[Path]:
    return {path for path in Path(graph.uri).rglob("*") if path.is_file() and "__locks" not in path.parts}


def test_fresh_rows_are_appended_without_looking_for_others(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing can be replaced")

    monkeypatch.setattr(load_work, "_find_replaced", never)
    fleet.load([tow("v1", "v3"), tow("v1", "v3")], mode="merge")
    assert len(rows_of(fleet, "Tows")) == 3


def _import_once(uri: str) -> LoadResult:
    return omnigraph.open(uri).load(
        [vessel("v9"), tow("v9", "v1"), vessel("v2", "new")], mode="merge", txn=("import", 1)
    )


def test_a_txn_that_died_anywhere_is_loaded_once_by_its_retry(fleet: Graph) -> None:
    template = Path(fleet.uri)
    steps = crash.record(_import_once, str(crash.fresh_copy(template)))
    assert len(steps) > 4
    for number, when in crash.some_crashes(steps):
        uri = str(crash.fresh_copy(template))
        crash.kill_at(_import_once, (uri,), number, when)
        crash.run(_import_once, uri)
        graph = omnigraph.open(uri)
        assert names(graph) == {**FLEET, "v2": "new", "v9": "n"}, (when, steps[number - 1])
        assert {(row["src"], row["dst"]) for row in rows_of(graph, "Tows")} == {("v2", "v1"), ("v9", "v1")}
        assert [each.txn for each in graph.commits()].count(("import", 1)) == 1
