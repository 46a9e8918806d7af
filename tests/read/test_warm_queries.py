"""A handle that was asked before every commit answers as one that has nothing in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import HistoryGone, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.language.schema import EdgeType
from omnigraph.maintain.cleanup import cleanup
from omnigraph.read import query as queries
from omnigraph.read.follow_commits import extend_memory
from omnigraph.read.frames import ExtendedTable, QueryTables, Strategy, entity_sets, version_delta
from omnigraph.read.frames.cache import Cache
from omnigraph.read.match import scan_nodes, strategy
from omnigraph.read.query import QueryOptions, QueryRequest, explain_query, run_query
from omnigraph.read.topology import rebuild
from omnigraph.read.topology.current_topology import open_topology
from omnigraph.storage import tables
from omnigraph.storage.tables import Table
from tests.counting import counting_scans
from tests.graphs import rows_of
from tests.read.walked_graphs import SCHEMA, Links, Scans, people
from tests.selection import daily, sized

BUDGET = 2**28
NAMES = [f"p{number:02}" for number in range(30)]
WIDER = SCHEMA.replace("note: String?", "note: String?  level: I32?")

QUESTIONS = {
    "lookup": "match { $a: Person { name: $who } } return { $a.name, $a.age, $a.note }",
    "hop": "match { $a: Person { name: $who }  $a knows $b } return { $b.name, $b.age }",
    "back": "match { $a: Person { name: $who }  $b knows $a } return { $b.name, $b.age }",
    "two hops": "match { $a: Person { name: $who }  $a knows $b  $b knows $c } return { $b.name, $c.name }",
    "edges": "match { $a: Person  $a $e:knows $b } return { $a.name, $b.name, $e.since }",
    "either": "match { $a: Person  $a knows|likes $b } return { $a.name, $b.name }",
    "far": "match { $a: Person { name: $who }  $a knows{1,3} $b  not { $b likes $a } } return { $b.name, $b.note }",
    "paths": "match { $a: Person { name: $who }  $a $w:knows{1,4} $b } return { nodes($w) as n, edges($w) as e }",
    "sums": "match { $a: Person  $a knows $b } return { $b.age, count($a) as n, max($a.age) as m }",
    "cities": "match { $a: Person  $a livesIn $c  $b: Person  $b livesIn $c } return { $c.name, count($b) as n }",
    "few": "match { $a: Person  $a.age > 3  not { $a knows $_ } } return { $a.name } order { $a.age, $a.name } limit 5",
    "joined": "match { $a: Person  $b: Person  $a.age = $b.age  $a knows $b } return { $a.name, $b.name }",
}


def answer(graph: Graph, cache: Cache, text: str, who: str, branch: str, how: Strategy, at: str | None) -> list[str]:
    """The rows of an answer in a fixed order, computed with a cache of its own."""
    request = QueryRequest(f"query q($who: String) {{ {text} }}", params={"who": who})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "shared_cache", lambda: cache)
        found = run_query(graph._manifest, request, branch, at, QueryOptions(strategy=how))
        return sorted(map(str, found.to_arrow().to_pylist()))


@dataclass
class Life:
    """A graph that is written and read in turns."""

    graph: Graph
    warm: Cache = field(default_factory=lambda: Cache(BUDGET))
    number: int = 0

    def compare(self, names: Sequence[str], who: str, at: str | None = None) -> None:
        for branch in ("main",) if at else ("main", "side"):
            for name in names:
                asked = QUESTIONS[name], who, branch
                cold = answer(self.graph, Cache(BUDGET), *asked, Strategy.ARRAYS, at)
                for how in (Strategy.ARRAYS, Strategy.AUTO):
                    assert answer(self.graph, self.warm, *asked, how, at) == cold, (name, branch, how)

    def follow(self) -> None:
        """Extend what is in memory, as after a commit of this process to any table of any branch."""
        for branch in ("main", "side"):
            extend_memory(self.graph._manifest, branch, self.graph.snapshot(branch).pins, self.warm)

    def mutate_existing(self, text: str, who: str, other: str, branch: str) -> None:
        """Mutate, unless an edge would end at a node that is gone."""
        names = {str(row["name"]) for row in rows_of(self.graph, "Person", branch)}
        if "insert" not in text or {who, other} <= names:
            self.mutate(text, who, other, branch)

    def mutate(self, text: str, who: str, other: str, branch: str) -> None:
        declared = ", ".join(f"${name}: String" for name in ("who", "other", "new") if f"${name}" in text)
        self.number += 1
        given = {"who": who, "other": other, "new": f"q{self.number:02}"}
        params = {name: value for name, value in given.items() if f"${name}" in text}
        self.graph.mutate(f"query m({declared}) {{ {text} }}", params=params, branch=branch)


def forget_history(graph: Graph) -> None:
    """Delete all files that no newest commit needs."""
    at_once = timedelta(0)
    cleanup(graph._manifest, 1, confirm=True, stale_after=at_once, grace=at_once)


def revert_last(graph: Graph) -> None:
    """Take back the newest commit, if there is one that can be taken back."""
    with suppress(OmniGraphError):
        graph.revert(graph.commits(limit=1)[0].id)


def survivors(life: Life) -> list[str]:
    """The names of two people who are still there, if there are any."""
    return sorted(str(row["name"]) for row in rows_of(life.graph, "Person", "main"))[:2]


MUTATIONS = {
    "insert node": "insert Person { name: $new, age: 5 }",
    "insert both": "insert Person { name: $new, age: 5 } insert Knows { from: $new, to: $who }",
    "insert edges": "insert Knows { from: $who, to: $other, since: 3 } insert Likes { from: $other, to: $who }",
    "insert loop": "insert Knows { from: $who, to: $who }",
    "update node": 'update Person set { age: 9, note: "new" } where name = $who',
    "update edges": "match { $a: Person { name: $who }  $a $e:knows $b } update $e set { since: 8 }",
    "delete edges": "delete Knows where from = $who",
    "delete node": "delete Person where name = $who",
}
UPKEEP: dict[str, Callable[[Life], object]] = {
    "merge": lambda life: life.graph.merge("side", prefer="ours"),
    "indexes": lambda life: life.graph.ensure_indexes(),
    "optimize": lambda life: life.graph.optimize(),
    "widen": lambda life: life.graph.apply_schema(WIDER),
    "cleanup": lambda life: forget_history(life.graph),
    "narrow": lambda life: life.graph.apply_schema(SCHEMA),
    "revert": lambda life: revert_last(life.graph),
    "append": lambda life: life.graph.load(
        edges={"LivesIn": Links([(who, "here") for who in survivors(life)]).table()}
    ),
    "overwrite": lambda life: life.graph.load(edges={"Likes": Links([]).table()}, mode="overwrite"),
    "many": lambda life: life.graph.load(nodes={"Person": people([f"m{n}" for n in range(9)])}, mode="merge"),
}
EVENTS = st.tuples(
    st.sampled_from([*MUTATIONS, *MUTATIONS, *UPKEEP]),
    st.sampled_from(NAMES[:6]),
    st.sampled_from(NAMES[:6]),
    st.sampled_from(["main", "main", "side"]),
    st.lists(st.sampled_from(list(QUESTIONS)), min_size=1, max_size=4, unique=True),
)


def make_rebuilds_cheap(patch: pytest.MonkeyPatch) -> None:
    """Let every correction pay for a rebuild."""
    for price in ("_LEAST_SECONDS", "_SECONDS_PER_EDGE", "_SECONDS_PER_NODE"):
        patch.setattr(rebuild, price, 0.0)


def new_life(folder: Path) -> Life:
    graph = omnigraph.init(folder / "life.og", SCHEMA)
    pairs = [(NAMES[at], NAMES[(at * step + step) % 30]) for at in range(30) for step in (1, 2, 7)]
    graph.load(
        nodes={"Person": people(NAMES), "City": pa.table({"name": ["here", "there", "nowhere"]})},
        edges={
            "Knows": Links([*pairs, *pairs[:9], (NAMES[1], NAMES[1])]).table(),
            "Likes": Links([(end, begin) for begin, end in pairs[::3]]).table(),
            "LivesIn": Links([(name, "here" if at % 3 else "there") for at, name in enumerate(NAMES)]).table(),
        },
    )
    graph.create_branch("side")
    return Life(graph)


@pytest.mark.costly
@settings(max_examples=sized(3, 150))
@given(
    st.lists(EVENTS, min_size=2, max_size=6), st.booleans(), st.booleans(), st.sampled_from(["", "before", "beside"])
)
def test_any_life_is_answered_as_by_a_new_handle(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, str, str, str, list[str]]],
    looks_back: bool,
    rebuilds: bool,
    follows: str,
) -> None:
    life = new_life(tmp_path_factory.mktemp("life"))
    with pytest.MonkeyPatch.context() as patch:
        if rebuilds:
            make_rebuilds_cheap(patch)
        # Few rows pass the thresholds of tables, so bases are also left behind.
        patch.setattr(version_delta, "_FEW_CHANGES", 12)
        # Whoever builds indexes keeps the ends of edges on disk, for those who have nothing in memory.
        patch.setattr(tables, "LEAST_NUMBERED_ROWS", 1)
        life.compare(["hop", "edges", "paths"], NAMES[0])
        first = life.graph.commits()[0].id
        for kind, who, other, branch, asked in events:
            if kind in MUTATIONS:
                life.mutate_existing(MUTATIONS[kind], who, other, branch)
            else:
                UPKEEP[kind](life)
            follower = Thread(target=life.follow)
            if follows:
                follower.start()
            if follows == "before":
                follower.join()
            life.compare(asked, who)
            if follows == "beside":
                follower.join()
                life.compare(asked[:1], who)
            if rebuilds:
                rebuild.wait_for_rebuild()
                life.compare(asked[:1], who)
        if looks_back and all(kind != "cleanup" for kind, *_ in events):
            life.compare(["edges", "two hops"], NAMES[0], at=first)


# --------------------------------------------------------------------------------------------- what is read

SMALL = {
    "insert both": [1, 1],
    "insert edges": [1],
    "update node": [1],
    "update edges": [3],
    "delete edges": [],
    "delete node": [],
}


@pytest.mark.parametrize(
    ("branch", "kind"),
    daily(
        product(("main", "side"), SMALL),
        [("main", "insert both"), ("side", "update edges"), ("main", "delete node"), ("side", "delete edges")],
    ),
)
def test_after_a_small_commit_only_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, branch: str
) -> None:
    life, scans, asked = new_life(tmp_path), Scans(monkeypatch), ("hop", "back", "two hops", "edges", "sums")
    for _ in range(2):
        for name in asked:
            answer(life.graph, life.warm, QUESTIONS[name], NAMES[4], branch, Strategy.ARRAYS, None)
    for number in (4, 5):
        life.mutate(MUTATIONS[kind], NAMES[number], NAMES[7], branch)
        scans.taken()
        for name in asked:
            answer(life.graph, life.warm, QUESTIONS[name], NAMES[number], branch, Strategy.ARRAYS, None)
        assert sorted(scans.taken()) == SMALL[kind]
        life.compare(asked, NAMES[number])


def count_changes(life: Life, edge: str) -> int:
    """How many rows of an edge table differ from the arrays in memory."""
    snapshot = life.graph.snapshot()
    now = QueryTables(snapshot, snapshot.catalog(), life.warm)
    edges = open_topology(now.catalog.edges[edge], now).edges
    if not isinstance(edges, ExtendedTable):
        return 0
    return len(edges.delta.removed) + sum(part.num_rows for part in edges.delta.added)


def test_arrays_are_built_in_the_background_once_corrections_have_cost_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, scans, asked = new_life(tmp_path), Scans(monkeypatch), ("hop", "back", "either", "edges", "cities")
    make_rebuilds_cheap(monkeypatch)
    monkeypatch.setattr(rebuild, "_SECONDS_PER_CHANGE", 1.0)
    # Each commit is paid for three times: lists of neighbours in two directions, and of edges.
    monkeypatch.setattr(rebuild, "_LEAST_SECONDS", 18.0)

    def ask() -> None:
        for name in asked:
            answer(life.graph, life.warm, QUESTIONS[name], NAMES[3], "main", Strategy.ARRAYS, None)

    ask()
    changes: list[int] = []
    for number in range(7):
        life.mutate(MUTATIONS["insert both"], NAMES[number], "", "main")
        ask()
        rebuild.wait_for_rebuild()
        changes.append(count_changes(life, "Knows"))
    assert changes == [1, 2, 0, 1, 2, 0, 1]
    # What was built is complete: all that is read after the next commit are its rows.
    life.mutate(MUTATIONS["insert both"], NAMES[9], "", "main")
    scans.taken()
    ask()
    assert sorted(scans.taken()) == [1, 1]
    life.compare(asked, NAMES[9])


def test_after_a_commit_that_changed_too_much_edges_are_looked_up_until_arrays_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, scans = new_life(tmp_path), Scans(monkeypatch)
    answer(life.graph, life.warm, QUESTIONS["hop"], NAMES[3], "main", Strategy.ARRAYS, None)
    monkeypatch.setattr(version_delta, "_FEW_CHANGES", 3)
    monkeypatch.setattr(strategy, "_SECONDS_PER_BUILT_EDGE", 1.0)
    monkeypatch.setattr(strategy, "_LOOKUP_SECONDS", 60.0)
    life.graph.load(edges={"Knows": Links([(name, NAMES[0]) for name in NAMES[:20]]).table()})

    def count_scans() -> int:
        scans.taken()
        answer(life.graph, life.warm, QUESTIONS["hop"], NAMES[3], "main", Strategy.AUTO, None)
        return len(scans.taken())

    found = [count_scans() for _ in range(2)]
    life.mutate(MUTATIONS["insert node"], "", "", "main")
    # The second lookup pays for the arrays, also if a commit came between.
    found.append(count_scans())
    rebuild.wait_for_rebuild()
    assert all(found)
    # The arrays of the version before the commit may have been under construction; then this starts the next ones.
    count_scans()
    rebuild.wait_for_rebuild()
    assert count_scans() == 0
    life.compare(["hop", "edges", "paths"], NAMES[3])


def test_a_rebuild_of_a_version_that_is_gone_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = new_life(tmp_path)
    life.compare(["hop"], NAMES[3])
    make_rebuilds_cheap(monkeypatch)
    life.mutate(MUTATIONS["insert both"], NAMES[3], "", "main")

    def refuse(edge: EdgeType, now: QueryTables) -> None:
        raise HistoryGone(f"{edge.name} at {now.snapshot.manifest_version} was removed")

    with monkeypatch.context() as patch, caplog.at_level("INFO", "omnigraph"):
        patch.setattr(rebuild, "_rebuild", refuse)
        life.compare(["hop"], NAMES[3])
        rebuild.wait_for_rebuild()
    assert "the arrays of 'Knows' are not built" in caplog.text
    life.compare(["hop"], NAMES[3])


def test_branches_that_take_turns_do_not_share_added_rows(tmp_path: Path) -> None:
    life = new_life(tmp_path)
    life.compare(["hop", "edges"], NAMES[0])
    for number in range(3):
        for branch in ("side", "main"):
            life.mutate(MUTATIONS["insert both"], NAMES[number], NAMES[7], branch)
            life.compare(["back", "edges"], NAMES[number])


def test_bases_are_few_and_within_the_budget(tmp_path: Path) -> None:
    life = new_life(tmp_path)
    life.warm = Cache(200_000)
    for number in range(12):
        life.mutate(MUTATIONS["insert both"], NAMES[number], NAMES[7], "main")
        life.compare(["hop"], NAMES[number])
        assert life.warm.nbytes <= 200_000


def test_a_base_that_cleanup_removed_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that nobody asked for is read when the version of the base, and a fragment of it, are gone."""
    monkeypatch.setattr(entity_sets, "_FETCH_SECONDS", (1e9, 1e9))
    life, scan = new_life(tmp_path), Table.scan
    life.graph.load(nodes={"Person": people(["q1"])}, edges={"Knows": Links([("q1", "p00")]).table()})
    life.graph.delete_branch("side")
    ids = "match { $a: Person  $a $e:knows $b } return { $a, $b }"
    answer(life.graph, life.warm, ids, "", "main", Strategy.ARRAYS, None)
    life.mutate(MUTATIONS["delete node"], NAMES[5], "", "main")
    life.mutate(MUTATIONS["delete node"], "q1", "", "main")
    forget_history(life.graph)
    refused: list[Table] = []

    def refuse_removed(table: Table, *args: object, **kwargs: object) -> pa.RecordBatchReader:
        # Lance keeps small files in memory, and would go on without them.
        if table.version < table.head_version():
            refused.append(table)
            raise HistoryGone(f"version {table.version} was removed")
        return scan(table, *args, **kwargs)  # pyright: ignore[reportArgumentType]  as they came

    monkeypatch.setattr(Table, "scan", refuse_removed)
    wide = "match { $a: Person  $a $e:knows $b } return { $a.age, $b.note, $e.since }"
    found = answer(life.graph, life.warm, wide, "", "main", Strategy.ARRAYS, None)
    assert found == answer(life.graph, Cache(BUDGET), wide, "", "main", Strategy.ARRAYS, None)
    assert len(refused) == 3


def test_explain_reads_no_row_after_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life, scans = new_life(tmp_path), Scans(monkeypatch)
    answer(life.graph, life.warm, QUESTIONS["hop"], NAMES[0], "main", Strategy.ARRAYS, None)
    life.mutate(MUTATIONS["update node"], NAMES[0], "", "main")
    scans.taken()
    monkeypatch.setattr(queries, "shared_cache", lambda: life.warm)
    request = QueryRequest(f"query q($who: String) {{ {QUESTIONS['hop']} }}", params={"who": NAMES[0]})
    assert "in memory" in explain_query(life.graph._manifest, request, "main")
    assert scans.taken() == []


def test_a_branch_that_is_created_anew_does_not_rest_on_the_deleted_one(tmp_path: Path) -> None:
    """The ids of edges, which the deleted branch had not in memory, are read from the branch that is there."""
    graph = omnigraph.init(tmp_path / "ports.og", "node Port { code: String @key } edge Near: Port -> Port")
    codes = [f"p{number}" for number in range(3_000)]
    graph.load([{"type": "Port", "data": {"code": code}} for code in codes])
    graph.load([{"edge": "Near", "from": code, "to": "p0"} for code in codes])
    for column in ("$q.code", "$n.id"):
        graph.create_branch("dev")
        graph.mutate('query add() { insert Near { from: "p1", to: "p2" } }', branch="dev")
        text = f"query q() {{ match {{ $p: Port  $p $n:near $q }} return {{ $p.code, {column} as value }} }}"
        assert all(len(graph.query(text, branch="dev").rows) == 3_001 for _ in range(8))
        graph.delete_branch("dev")


# --------------------------------------------------------------------------------------------- scans that are repeated


@pytest.mark.parametrize(
    "condition", ['$a.note contains "n1"', '$a.note starts_with "n1"', '$a.note = "n1"', "$a.note is not null"]
)
def test_a_column_that_the_storage_scans_again_and_again_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    monkeypatch.setattr(scan_nodes, "_SMALL", 0)
    life, text = new_life(tmp_path), f"match {{ $a: Person  {condition} }} return {{ $a }}"
    life.mutate('update Person set { note: "n1" } where name = $who', NAMES[3], "", "main")
    with counting_scans() as rows_read:

        def count_rows_read() -> int:
            before = rows_read()
            assert answer(life.graph, life.warm, text, "", "main", Strategy.AUTO, None) == ["{'a': 'p03'}"]
            return rows_read() - before

        assert [count_rows_read() for _ in range(5)] == [1, 1, 2 * len(NAMES), 0, 0]
        # The scan of the added row reads all columns that are in memory.
        life.mutate("insert Person { name: $new, age: 1 }", "", "", "main")
        assert [count_rows_read() for _ in range(2)] == [1, 0]


def test_rows_that_an_index_finds_or_a_small_cache_cannot_hold_are_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_nodes, "_SMALL", 0)
    life = new_life(tmp_path)
    life.graph.ensure_indexes()
    with counting_scans() as rows_read:
        for _ in range(9):
            answer(life.graph, life.warm, QUESTIONS["lookup"], NAMES[4], "main", Strategy.AUTO, None)
        assert rows_read() == 9
        for _ in range(9):
            text = 'match { $a: Person  $a.name ends_with "9" } return { $a.age }'
            answer(life.graph, Cache(1_000), text, "", "main", Strategy.AUTO, None)
        assert rows_read() == 9 + 9 * 3 * 2
