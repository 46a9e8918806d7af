from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import Violation
from omnigraph.graph import Graph
from omnigraph.language.values import ConstantValue, round_to_f32
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.filters import MAX_LISTED_VALUES
from omnigraph.storage.location import Location
from omnigraph.storage.tables import ROW_ADDRESS, row_search
from omnigraph.write.rules.check import IncomingMode, RowChanges, list_rule_columns
from omnigraph.write.rules.set_rules import list_set_rules
from tests.write.rules.rule_graphs import (
    Row,
    append_rows,
    check_graph,
    find_messages,
    make_changes,
    make_ship_graph,
    put_rows,
)

SHIPS: list[Row] = [
    {"code": "a", "name": "Aurora", "flag": "no", "hull": 1},
    {"code": "b", "name": "Boreas", "flag": "no", "hull": 2},
    {"code": "c", "flag": "no"},
]
PORTS: list[Row] = [{"code": "p"}, {"code": "q"}]


def edge(id_: str, src: str, dst: str, **properties: object) -> Row:
    return {"id": id_, "src": src, "dst": dst, **properties}


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_ship_graph(
        local_location,
        {
            "node:Ship": SHIPS,
            "node:Port": PORTS,
            "edge:CallsAt": [edge("c1", "a", "p", note="first"), edge("c2", "a", "q")],
            "edge:HomePort": [edge("h1", "a", "p")],
            "edge:Tows": [edge("t1", "b", "a"), edge("t2", "b", "b")],
        },
    )


# --------------------------------------------------------------------------------------------- keys


def test_an_id_is_given_once(graph: Graph) -> None:
    (twice,) = check_graph(graph, make_changes(graph, "node:Port", [{"code": "r"}, {"code": "r"}])).violations
    assert twice == Violation(
        "Port",
        "@key(code)",
        "@key(code) on Port: 'r' is given 2 times",
        id="r",
        property="code",
        value="r",
        ids=("r", "r"),
        table_key="node:Port",
    )


def test_ids_without_a_key_are_given_once_too(graph: Graph) -> None:
    doubled = make_changes(graph, "edge:Tows", [edge("x", "a", "b"), edge("x", "b", "a")], mode=IncomingMode.INSERT)
    assert find_messages(graph, doubled) == [("Tows", "id", "x", ("x", "x"))]


def test_an_insert_meets_an_id_that_exists_and_an_upsert_replaces_it(graph: Graph) -> None:
    (exists,) = check_graph(
        graph, make_changes(graph, "node:Port", [{"code": "p"}], mode=IncomingMode.INSERT)
    ).violations
    assert exists.message == "@key(code) on Port: 'p' exists already"
    assert find_messages(graph, make_changes(graph, "node:Port", [{"code": "p"}])) == []
    assert find_messages(graph, make_changes(graph, "node:Port", [{"code": "q"}], ["p"], IncomingMode.INSERT)) != []


# --------------------------------------------------------------------------------------------- unique


def test_a_value_that_another_row_holds(graph: Graph) -> None:
    (held,) = check_graph(graph, make_changes(graph, "node:Ship", [{"code": "x", "name": "Aurora"}])).violations
    assert held.message == "@unique(name) on Ship: value 'Aurora' is held by 'a' and 'x'"
    assert (held.id, held.property, held.value, held.ids) == ("x", "name", "Aurora", ("a", "x"))


def test_a_value_twice_among_incoming_rows_names_both(graph: Graph) -> None:
    incoming: list[Row] = [{"code": "x", "name": "New"}, {"code": "y", "name": "New"}, {"code": "z", "name": "New"}]
    (held,) = check_graph(graph, make_changes(graph, "node:Ship", incoming)).violations
    assert held.message == "@unique(name) on Ship: value 'New' is held by 'x' and 'z' and 1 more"
    assert held.ids == ("x", "y", "z")


def test_a_value_that_the_change_frees_may_be_used_again(graph: Graph) -> None:
    taken: Row = {"code": "x", "name": "Aurora"}
    renamed: Row = {"code": "a", "name": "Other"}
    assert find_messages(graph, make_changes(graph, "node:Ship", [taken, renamed])) == []
    assert [rule for _, rule, *_ in find_messages(graph, make_changes(graph, "node:Ship", [taken], ["a"]))] == [
        # Only the edges of the removed ship are wrong now.
        *["edge CallsAt: Ship -> Port"] * 2,
        "edge HomePort: Ship -> Port",
        "edge Tows: Ship -> Ship",
    ]
    assert find_messages(graph, make_changes(graph, "node:Ship", [{"code": "a", "name": "Aurora", "hull": 9}])) == []


def test_a_tuple_is_compared_as_a_whole_and_null_frees_it(graph: Graph) -> None:
    rows: list[Row] = [
        {"code": "u", "flag": "no", "hull": 3},
        {"code": "v", "flag": "se", "hull": 1},
        {"code": "w", "flag": "no"},
        {"code": "x", "hull": 1},
        {"code": "y", "flag": "no", "hull": 2},
    ]
    assert find_messages(graph, make_changes(graph, "node:Ship", rows)) == [
        ("Ship", "@unique(flag, hull)", '["no","2"]', ("b", "y"))
    ]


def test_what_was_wrong_before_is_not_reported_again(graph: Graph) -> None:
    put_rows(graph, {"node:Ship": [{"code": "d", "name": "Aurora"}], "edge:Tows": [edge("t9", "zz", "a")]})
    assert find_messages(graph, make_changes(graph, "node:Ship", [{"code": "x", "name": "New"}])) == []
    assert find_messages(graph, make_changes(graph, "edge:Tows", [edge("t3", "a", "b")])) == []


# --------------------------------------------------------------------------------------------- ends


def test_an_edge_needs_both_its_nodes(graph: Graph) -> None:
    (source, target) = check_graph(
        graph, make_changes(graph, "edge:CallsAt", [edge("n", "x", "a")], mode=IncomingMode.FRESH)
    ).violations
    assert source.message == "edge CallsAt: Ship -> Port: 'n' has 'x' as its src, and there is no such Ship"
    assert target.message == "edge CallsAt: Ship -> Port: 'n' has 'a' as its dst, and there is no such Port"
    assert (target.id, target.property, target.value, target.ids) == ("n", "dst", "a", ("n",))


def test_an_edge_may_come_with_its_node(graph: Graph) -> None:
    ship = make_changes(graph, "node:Ship", [{"code": "n"}])
    checked = check_graph(graph, ship, make_changes(graph, "edge:Tows", [edge("e", "n", "n")], mode=IncomingMode.FRESH))
    assert checked.violations == ()
    assert checked.reads == frozenset()


def test_an_edge_may_not_end_at_a_deleted_node(graph: Graph) -> None:
    gone = make_changes(graph, "node:Ship", removed=["c"])
    assert find_messages(graph, gone, make_changes(graph, "edge:Tows", [edge("e", "b", "c")])) == [
        ("Tows", "edge Tows: Ship -> Ship", "c", ("e",))
    ]


def test_a_node_takes_its_edges_with_it(graph: Graph) -> None:
    gone = make_changes(graph, "node:Ship", removed=["b"])
    rule = "edge Tows: Ship -> Ship"
    assert find_messages(graph, gone) == [
        ("Tows", rule, "b", ("t1",)),
        ("Tows", rule, "b", ("t2",)),
        ("Tows", rule, "b", ("t2",)),
    ]
    assert find_messages(graph, gone, make_changes(graph, "edge:Tows", removed=["t1", "t2"])) == []
    assert (
        find_messages(graph, gone, make_changes(graph, "edge:Tows", [edge("t1", "a", "a"), edge("t2", "a", "a")])) == []
    )


def test_a_replaced_edge_moves(graph: Graph) -> None:
    assert find_messages(graph, make_changes(graph, "edge:Tows", [edge("t1", "b", "x")])) == [
        ("Tows", "edge Tows: Ship -> Ship", "x", ("t1",))
    ]


# --------------------------------------------------------------------------------------------- cardinality


def test_a_source_has_too_many_edges(graph: Graph) -> None:
    (many,) = check_graph(
        graph, make_changes(graph, "edge:CallsAt", [edge("c3", "a", "p")], mode=IncomingMode.FRESH)
    ).violations
    assert many.message == "@card(0..2) on CallsAt: 'a' would have 3 edges"
    assert (many.id, many.property, many.value, many.ids) == ("c3", "src", "a", ("c1", "c2", "c3"))
    assert find_messages(graph, make_changes(graph, "edge:CallsAt", [edge("c3", "b", "p")])) == []


def test_a_touched_source_has_too_few(graph: Graph) -> None:
    (few,) = check_graph(graph, make_changes(graph, "edge:HomePort", removed=["h1"])).violations
    assert few.message == "@card(1..1) on HomePort: 'a' would have 0 edges"
    moved = make_changes(graph, "edge:HomePort", [edge("h1", "b", "p")])
    assert find_messages(graph, moved) == [("HomePort", "@card(1..1)", "a", ())]
    assert find_messages(graph, make_changes(graph, "edge:HomePort", [edge("h2", "a", "q")], ["h1"])) == []


def test_a_node_that_was_never_a_source_needs_no_edge(graph: Graph) -> None:
    assert find_messages(graph, make_changes(graph, "node:Ship", [{"code": "new"}])) == []


def test_a_deleted_source_needs_no_edges(graph: Graph) -> None:
    images = [
        make_changes(graph, "node:Ship", removed=["a"]),
        make_changes(graph, "edge:HomePort", removed=["h1"]),
        make_changes(graph, "edge:CallsAt", removed=["c1", "c2"]),
        make_changes(graph, "edge:Tows", removed=["t1"]),
    ]
    assert find_messages(graph, *images) == []


# --------------------------------------------------------------------------------------------- overwrite


def test_an_overwrite_leaves_nothing_of_the_table(graph: Graph) -> None:
    ships = make_changes(graph, "node:Ship", [{"code": "a", "name": "Boreas"}], mode=IncomingMode.OVERWRITE)
    assert find_messages(graph, ships) == [
        ("Tows", "edge Tows: Ship -> Ship", "b", (tow,)) for tow in ("t1", "t2", "t2")
    ]
    tows = make_changes(graph, "edge:Tows", [edge("t1", "a", "a")], mode=IncomingMode.OVERWRITE)
    assert find_messages(graph, ships, tows) == []
    emptied = make_changes(graph, "edge:HomePort", mode=IncomingMode.OVERWRITE)
    assert find_messages(graph, emptied) == [("HomePort", "@card(1..1)", "a", ())]


# --------------------------------------------------------------------------------------------- the runner


def test_only_what_the_rules_need_is_read(graph: Graph) -> None:
    assert check_graph(graph, make_changes(graph, "node:Port", [{"code": "new"}])).reads == frozenset()
    assert check_graph(graph, make_changes(graph, "node:Ship", [{"code": "new"}])).reads == frozenset()
    assert check_graph(graph, make_changes(graph, "node:Ship", [{"code": "new", "name": "N"}])).reads == {"node:Ship"}
    tow = make_changes(graph, "edge:Tows", [edge("n", "a", "b")], mode=IncomingMode.FRESH)
    assert check_graph(graph, tow).reads == {"node:Ship"}
    assert check_graph(graph, make_changes(graph, "node:Port", removed=["q"])).reads == {
        "edge:CallsAt",
        "edge:HomePort",
    }


def test_a_check_returns_the_addresses_of_replaced_rows(graph: Graph) -> None:
    """A check that looks for ids says where those lie that the change replaces or removes, and only those."""
    ships = make_changes(graph, "node:Ship", [{"code": "b"}, {"code": "x"}], ["c"])
    checked = check_graph(
        graph, ships, make_changes(graph, "edge:Tows", [edge("e", "x", "a")], mode=IncomingMode.FRESH)
    )
    (table_key, standing), *others = checked.locations.items()
    ship = graph.snapshot().table("Ship")
    lying = ship.scan(["id"], with_row_address=True).read_all().to_pylist()
    assert (table_key, standing.table, others) == ("node:Ship", ship, [])
    assert {row["id"] for row in lying if row[ROW_ADDRESS] in standing.addresses} == {"b", "c"}
    assert check_graph(graph, ships).locations == {}


def test_many_values_are_found_by_a_scan_as_few_are_by_a_filter(graph: Graph) -> None:
    filler: list[Row] = [
        {"code": f"s{n}", "name": f"n{n}", "flag": "xx", "hull": n} for n in range(MAX_LISTED_VALUES + 1)
    ]
    wrong: list[Row] = [{"code": "x", "name": "Aurora"}, {"code": "y", "flag": "no", "hull": 2}]
    tows = [edge(f"e{n}", f"s{n}", "nobody" if n == 7 else "a") for n in range(MAX_LISTED_VALUES + 1)]
    images = make_changes(graph, "node:Ship", [*filler, *wrong]), make_changes(graph, "edge:Tows", tows)
    assert find_messages(graph, *images) == [
        ("Ship", "@unique(flag, hull)", '["no","2"]', ("b", "y")),
        ("Ship", "@unique(name)", "Aurora", ("a", "x")),
        ("Tows", "edge Tows: Ship -> Ship", "nobody", ("e7",)),
    ]


def test_values_are_texts_whatever_they_hold(graph: Graph) -> None:
    awkward = 'it\'s "x" \\ % ` \n é'
    put_rows(graph, {"node:Ship": [{"code": awkward, "name": awkward}]})
    assert find_messages(graph, make_changes(graph, "node:Ship", [{"code": "x", "name": awkward}])) == [
        ("Ship", "@unique(name)", awkward, tuple(sorted((awkward, "x"))))
    ]
    assert find_messages(graph, make_changes(graph, "edge:Tows", [edge("e", awkward, awkward)])) == []


def scan_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is few enough to be listed."""
    monkeypatch.setattr(row_search, "MAX_LISTED_VALUES", 0)
    monkeypatch.setattr(row_search, "_MAX_COMPARED_VALUES", 0)


@pytest.mark.parametrize("by_scan", [False, True])
def test_values_of_every_type_are_found(
    local_location: Location, monkeypatch: pytest.MonkeyPatch, by_scan: bool
) -> None:
    values: dict[str, tuple[ConstantValue, ConstantValue]] = {
        "Bool": (True, False),
        "I32": (-(2**31), 5),
        "I64": (-(2**63), 2**63 - 1),
        "U64": (2**64 - 1, 0),
        "F32": (round_to_f32(0.1), 0.25),
        "F64": (-0.0, 0.1),
        "Date": (19_000, -1),
        "DateTime": (1_704_096_000_123, -1),
        "String": ("it's", ""),
    }
    properties = "  ".join(f"p{type_}: {type_}? @unique" for type_ in values)
    graph = omnigraph.init(local_location.uri, f"node T {{ code: String @key  {properties} }}")
    types = graph.schema.catalog.nodes["T"].properties

    def rows(id_: str, which: int) -> pa.Table:
        columns = {f"p{type_}": arrow_values(types[f"p{type_}"].type, [pair[which]]) for type_, pair in values.items()}
        return pa.table({"id": [id_], "code": [id_], **columns})

    append_rows(graph, {"node:T": rows("old", 0)})
    if by_scan:
        scan_only(monkeypatch)
    assert check_graph(graph, RowChanges("node:T", rows("other", 1))).violations == ()
    same = check_graph(graph, RowChanges("node:T", rows("new", 0))).violations
    assert {each.property for each in same} == {f"p{type_}" for type_ in values}
    assert {each.ids for each in same} == {("new", "old")}


@pytest.mark.parametrize("by_scan", [False, True])
def test_zero_has_no_sign(local_location: Location, monkeypatch: pytest.MonkeyPatch, by_scan: bool) -> None:
    graph = omnigraph.init(local_location.uri, "node T { code: String @key  depth: F64? @unique }")
    append_rows(graph, {"node:T": pa.table({"id": ["old"], "code": ["old"], "depth": [-0.0]})})
    if by_scan:
        scan_only(monkeypatch)
    same = pa.table({"id": ["new"], "code": ["new"], "depth": [0.0]})
    assert find_messages(graph, RowChanges("node:T", same)) == [("T", "@unique(depth)", "0", ("new", "old"))]


def test_violations_are_limited(graph: Graph) -> None:
    tows = make_changes(graph, "edge:Tows", [edge(f"e{n}", "a", "x") for n in range(10)])
    assert len(check_graph(graph, tows, limit=3).violations) == 3


def test_a_rule_names_the_columns_that_it_needs(graph: Graph) -> None:
    catalog = graph.schema.catalog
    assert list_rule_columns(catalog, "node:Ship") == ("id", "flag", "hull", "name")
    assert list_rule_columns(catalog, "edge:CallsAt") == ("id", "dst", "note", "src")
    assert [rule.rule for rule in list_set_rules(catalog, "edge:CallsAt")] == [
        "id",
        "@unique(note)",
        "edge CallsAt: Ship -> Port",
        "edge CallsAt: Ship -> Port",
        "@card(0..2)",
    ]
