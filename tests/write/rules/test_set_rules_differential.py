"""Random changes of a graph, checked by the SQL and by a plain Python version of the same rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.location import locate
from omnigraph.storage.tables import row_search
from omnigraph.write.rules import check as rules
from omnigraph.write.rules import proofs
from omnigraph.write.rules.check import IncomingMode
from tests.selection import sized
from tests.write.rules.rule_graphs import Contents, Row, check_graph, make_changes, make_ship_graph

Found = Counter[tuple[str, str, str, tuple[str, ...]]]

SHIP_IDS, PORT_IDS = [f"s{n}" for n in range(5)], ["p0", "p1", "it's"]
NAMES = st.sampled_from([None, "x", "y", "it's"])

# These rows break rules already: only violations that a change adds may be reported.
COMMITTED: Contents = {
    "node:Ship": [
        {"code": "s0", "name": "x", "flag": "x", "hull": 0},
        {"code": "s1", "name": "x", "flag": "x", "hull": 1},
        {"code": "s2", "name": "y", "flag": "y"},
        {"code": "s3"},
    ],
    "node:Port": [{"code": "p0"}, {"code": "it's"}],
    "edge:CallsAt": [
        {"id": f"c{n}", "src": src, "dst": dst, "note": note}
        for n, (src, dst, note) in enumerate(
            [("s0", "p0", "x"), ("s0", "p0", None), ("s0", "it's", "y"), ("s1", "p0", None), ("s9", "p9", None)]
        )
    ],
    "edge:HomePort": [
        {"id": f"h{n}", "src": src, "dst": dst}
        for n, (src, dst) in enumerate([("s0", "p0"), ("s1", "it's"), ("s1", "p0")])
    ],
    "edge:Tows": [
        {"id": f"t{n}", "src": src, "dst": dst}
        for n, (src, dst) in enumerate([("s0", "s1"), ("s1", "s0"), ("s2", "s2")])
    ],
}


@dataclass(frozen=True)
class TableChange:
    incoming: Sequence[Row]
    removed: frozenset[str]
    arrival: IncomingMode


def _rows(table_key: str, ids: st.SearchStrategy[str]) -> st.SearchStrategy[Row]:
    fields: dict[str, st.SearchStrategy[object]] = {"id": ids}
    match table_key:
        case "node:Ship":
            fields |= {"name": NAMES, "flag": NAMES, "hull": st.sampled_from([None, 0, 1])}
        case "edge:CallsAt" | "edge:HomePort":
            fields |= {"src": st.sampled_from(SHIP_IDS), "dst": st.sampled_from(PORT_IDS)}
        case "edge:Tows":
            fields |= {"src": st.sampled_from(SHIP_IDS), "dst": st.sampled_from(SHIP_IDS)}
        case _:
            pass
    if table_key == "edge:CallsAt":
        fields["note"] = NAMES
    made = st.fixed_dictionaries(fields)
    return made.map(lambda row: {**row, "code": row["id"]} if table_key.startswith("node") else row)


@st.composite
def table_changes(draw: st.DrawFn, table_key: str) -> TableChange:
    arrival = draw(st.sampled_from(IncomingMode))
    there = [str(row.get("id", row.get("code"))) for row in COMMITTED[table_key]]
    known = {"node:Ship": SHIP_IDS, "node:Port": PORT_IDS}.get(table_key, [*there, "n0", "n1"])
    if arrival is IncomingMode.FRESH:
        known = [id_ for id_ in known if id_ not in there] + ["f0"]
    rows = draw(st.lists(_rows(table_key, st.sampled_from(known)), max_size=4))
    if arrival is IncomingMode.FRESH:
        rows = list({row["id"]: row for row in rows}.values())
    removed = draw(st.frozensets(st.sampled_from(there))) if arrival is not IncomingMode.OVERWRITE else frozenset[str]()
    return TableChange(rows, removed - {str(row["id"]) for row in rows}, arrival)


CHANGES = st.fixed_dictionaries({}, optional={key: table_changes(key) for key in COMMITTED})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return make_ship_graph(locate(tmp_path_factory.mktemp("ships") / "graph.og"), COMMITTED)


QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=sized(12, 400), suppress_health_check=QUIET)
@given(CHANGES, st.sampled_from(["looked up", "scanned", "in parts", "proven in parts"]))
def test_the_sql_says_what_plain_python_says(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, TableChange], way: str
) -> None:
    made = [
        make_changes(graph, key, each.incoming, sorted(each.removed), each.arrival) for key, each in changes.items()
    ]
    with monkeypatch.context() as patch:
        if way == "scanned":
            patch.setattr(row_search, "MAX_LISTED_VALUES", 0)
            patch.setattr(row_search, "_MAX_COMPARED_VALUES", 0)
        elif way != "looked up":
            patch.setattr(rules, "MANY_ROWS", -1)
            patch.setattr(rules, "_FEW_ROWS", -1)
            patch.setattr(rules, "_ROWS_IN_A_PART", 2)
            patch.setattr(proofs, "_EDGES_AT_ONCE", 2)
        if way == "in parts":
            # Else no part would be large enough for the SQL.
            patch.setattr(rules, "_PROVABLE_ROWS", -1)
            patch.setattr(proofs, "_MOST_NODES", -1)
        checked = check_graph(graph, *made)
    found: Found = Counter((v.type, v.rule, str(v.value), v.ids) for v in checked.violations)
    assert found == expected_violations(graph.schema.catalog, changes)


# --------------------------------------------------------------------------------------------- the plain statement


@dataclass(frozen=True)
class Parts:
    incoming: Sequence[Row]
    kept: Sequence[Row]
    gone: Sequence[Row]

    @property
    def after(self) -> list[Row]:
        return [*self.incoming, *self.kept]

    @property
    def lost(self) -> set[str]:
        return {str(row["id"]) for row in self.gone} - {str(row["id"]) for row in self.incoming}


def _parts(table_key: str, change: TableChange | None) -> Parts:
    rows = [{"id": row.get("code"), **row} for row in COMMITTED[table_key]]
    if change is None:
        return Parts([], rows, [])
    goes = set(change.removed)
    if change.arrival is IncomingMode.UPSERT:
        goes |= {str(row["id"]) for row in change.incoming}
    if change.arrival is IncomingMode.OVERWRITE:
        goes |= {str(row["id"]) for row in rows}
    return Parts(
        change.incoming, [row for row in rows if row["id"] not in goes], [row for row in rows if row["id"] in goes]
    )


def expected_violations(catalog: Catalog, changes: Mapping[str, TableChange]) -> Found:
    parts = {key: _parts(key, changes.get(key)) for key in COMMITTED}
    found: Found = Counter()
    for type_ in catalog.types():
        found += _not_unique(type_, parts[type_.table_key])
        if isinstance(type_, EdgeType):
            found += _dangling(type_, parts)
            found += _miscounted(type_, parts)
    return found


def _not_unique(type_: NodeType | EdgeType, parts: Parts) -> Found:
    found: Found = Counter()
    key = "@key(code)" if isinstance(type_, NodeType) else "id"
    for rule, columns in ((key, ("id",)), *((f"@unique({', '.join(columns)})", columns) for columns in type_.unique)):
        for value in {tuple(row.get(column) for column in columns) for row in parts.incoming}:
            holders = [row for row in parts.after if tuple(row.get(column) for column in columns) == value]
            if None not in value and len(holders) > 1:
                text = str(value[0]) if len(value) == 1 else '["' + '","'.join(str(part) for part in value) + '"]'
                found[type_.name, rule, text, tuple(sorted(str(row["id"]) for row in holders))] += 1
    return found


def _dangling(edge: EdgeType, parts: Mapping[str, Parts]) -> Found:
    found: Found = Counter()
    rule = f"edge {edge.name}: {edge.from_type} -> {edge.to_type}"
    for end, node_type in (("src", edge.from_type), ("dst", edge.to_type)):
        nodes = parts[f"node:{node_type}"]
        there = {row["id"] for row in nodes.after}
        wrong = [row for row in parts[edge.table_key].incoming if row[end] not in there]
        wrong += [row for row in parts[edge.table_key].kept if row[end] in nodes.lost]
        for (node, id_), count in Counter((str(row[end]), str(row["id"])) for row in wrong).items():
            found[edge.name, rule, node, (id_,) * count] += 1
    return found


def _miscounted(edge: EdgeType, parts: Mapping[str, Parts]) -> Found:
    found: Found = Counter()
    own, limits = parts[edge.table_key], edge.cardinality
    most = float("inf") if limits.maximum is None else limits.maximum
    touched = {str(row["src"]) for row in [*own.incoming, *own.gone]} - parts[f"node:{edge.from_type}"].lost
    for source in touched:
        ids = tuple(sorted(str(row["id"]) for row in own.after if row["src"] == source))
        if not limits.minimum <= len(ids) <= most:
            found[
                edge.name, f"@card({limits.minimum}..{'' if limits.maximum is None else limits.maximum})", source, ids
            ] += 1
    return found
