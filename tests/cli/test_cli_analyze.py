"""``omnigraph analyze``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.errors import Json
from tests.cli.conftest import Command, error_of

SCHEMA = """
node Port { code: String @key }
edge Leg: Port -> Port { km: F64 }
"""


@pytest.fixture
def ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    legs = [("rot", "ham", 300.0), ("ham", "osl", 500.0), ("osl", "rot", 700.0), ("rot", "7", 90.0)]
    og.init("ports.og", SCHEMA).load(
        [
            *({"type": "Port", "data": {"code": code}} for code in ("rot", "ham", "osl", "7")),
            *({"edge": "Leg", "from": a, "to": b, "data": {"km": km}} for a, b, km in legs),
        ]
    )
    monkeypatch.setenv("OMNIGRAPH_GRAPH", "ports.og")


@pytest.mark.usefixtures("ports")
def test_rows_as_a_table_and_as_csv(omnigraph: Command) -> None:
    words = ("analyze", "shortest_paths", "--node", "Port", "--edge", "Leg", "--weight", "km", "-p", "source=rot")
    assert omnigraph(*words).out.splitlines() == [
        "type  id   distance",
        "Port  7        90.0",
        "Port  ham     300.0",
        "Port  osl     800.0",
        "Port  rot       0.0",
    ]
    found = omnigraph(*words, "--top", "1", "--format", "csv")
    assert (found.code, found.out) == (0, "type,id,distance\nPort,osl,800.0\n")


@pytest.mark.usefixtures("ports")
def test_json_has_the_documented_keys(omnigraph: Command) -> None:
    found = omnigraph("analyze", "bfs", "-p", "source=7", "--direction", "both", "--json").json
    assert list(found) == [
        "algorithm",
        "parameters",
        "projection",
        "engine",
        "columns",
        "branch",
        "commit",
        "rows",
        "row_count",
    ]
    assert found["parameters"] == {"source": "7"}
    assert found["projection"] == {"nodes": ["Port"], "edges": {"Leg": "both"}, "branch": "main"}
    rows = cast("list[dict[str, Json]]", found["rows"])
    assert [(row["id"], row["distance"]) for row in rows] == [("7", 0), ("ham", 2), ("osl", 2), ("rot", 1)]


@pytest.mark.usefixtures("ports")
def test_parameters_are_json_or_text(omnigraph: Command) -> None:
    words = ("analyze", "pagerank", "-p", "iterations=3", "-p", 'personalize=["rot", "7"]', "--json")
    assert omnigraph(*words).json["parameters"] == {
        "damping": 0.85,
        "iterations": 3,
        "personalize": ["rot", "7"],
    }
    wrong = omnigraph("analyze", "pagerank", "-p", "iterations=many", "--json")
    assert (wrong.code, error_of(wrong)["message"]) == (1, "iterations is 'many'")


@pytest.mark.usefixtures("ports")
def test_filters_leave_out_nodes_and_edges(omnigraph: Command) -> None:
    words = ("analyze", "degree", "--format", "csv", "--filter", 'Leg=[["km", ">", 100], ["km", "<", 600]]')
    assert omnigraph(*words, "--filter", 'Port=[["code", "!=", "7"]]').out.splitlines() == [
        "type,id,in_degree,out_degree",
        "Port,ham,1,1",
        "Port,osl,1,0",
        "Port,rot,0,1",
    ]


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (("pagerang",), 1, "no algorithm 'pagerang'"),
        (("pagerank", "--node", "Prot"), 1, "no node type 'Prot'"),
        (("pagerank", "--direction", "up"), 1, "direction is 'up'"),
        (("bfs",), 1, "bfs needs the parameter 'source'"),
        (("bfs", "-p", "source"), 2, "-p takes NAME=VALUE"),
        (("wcc", "--json", "--format", "csv"), 2, "--json and --format csv cannot be used together"),
        (("wcc", "--filter", "Leg"), 2, "--filter takes TYPE=JSON"),
        (("wcc", "--filter", "Leg=km > 3"), 2, "not 'Leg=km > 3'"),
        (("wcc", "--filter", "Leg={}", "--filter", "Leg=[]"), 2, "--filter Leg= is given twice"),
        (("wcc", "--filter", 'Leg={"kms": 3}'), 1, "'kms'"),
        (("wcc", "--filter", 'Lge={"km": 3}'), 1, "'Lge'"),
        (("wcc", "--create"), 2, "need --write or --write-edge"),
        (("wcc", "--write", "x", "--format", "csv"), 2, "--format is for rows alone"),
        (("wcc", "--timeout", "0.000001"), 1, "not done in 1e-06 s"),
    ],
)
def test_what_is_wrong_is_said(omnigraph: Command, words: tuple[str, ...], exit_code: int, complaint: str) -> None:
    answer = omnigraph("analyze", *words)
    assert answer.code == exit_code
    assert complaint in answer.err + answer.out


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--node", "Prot"), "no node type 'Prot' in this snapshot", "did you mean 'Port'?"),
        (("--edge", "Lge"), "no edge type 'Lge' in this snapshot", "did you mean 'Leg'?"),
        (("--node", "Berth"), "the projection has no edge types", "the edge types are Leg"),
        (("--weight", "kms"), "Leg has no property 'kms'", "did you mean 'km'?"),
        (("--weight", "label"), "Leg.label is String?", "a weight is a property with numbers"),
        (("--weight", "km"), "Leg.km is no weight for 2 edges: ", "change these, or leave them out by filters"),
        (("--write", "size"), "Port.size is I32?, and rank F64", "name another property, or another column"),
        (
            ("--write", "score"),
            "Port.score has values that no analysis wrote",
            "give --overwrite to replace them, or another property",
        ),
    ],
)
def test_bad_input_is_named_with_the_way_out(
    omnigraph: Command, words: tuple[str, ...], message: str, hint: str
) -> None:
    graph = og.open("ports.og")
    graph.apply_schema(
        "node Port { code: String @key  size: I32?  score: F64? }\nnode Berth { name: String @key }\n"
        "edge Leg: Port -> Port { km: F64?  label: String? }\n"
    )
    graph.load(
        [
            {"type": "Port", "data": {"code": "lis", "score": 5.0}},
            *({"edge": "Leg", "from": "rot", "to": "lis", "data": {"km": km}} for km in (-3.0, None)),
        ]
    )
    before = graph.commits()
    answer = omnigraph("analyze", "pagerank", *words, "--json")
    error = error_of(answer)
    assert (answer.code, str(error["message"]).startswith(message)) == (1, True)
    assert str(error["hint"]).endswith(hint)
    if words == ("--weight", "km"):
        assert {text.rpartition(" has ")[2] for text in str(error["message"]).split(", ")} == {"-3.0", "null"}
    assert graph.commits() == before


@pytest.mark.usefixtures("ports")
def test_edited_values_and_missing_branches_are_told_in_options(omnigraph: Command) -> None:
    words = ("analyze", "pagerank", "--write", "rank", "--create")
    missing = omnigraph(*words, "--to", "june", "--json")
    assert error_of(missing)["hint"] == "give --from main to create it; `omnigraph branch list` shows them"
    assert omnigraph(*words).code == 0
    og.open("ports.og").load([{"type": "Port", "data": {"code": "rot", "rank": 7.0}}], mode="update")
    refused = omnigraph(*words, "--json")
    assert error_of(refused)["message"] == "Port.rank has 1 value that its newest analysis did not write: rot"
    assert error_of(refused)["hint"] == "give --overwrite to replace them, or another property"
    assert omnigraph(*words, "--overwrite").code == 0


@pytest.mark.usefixtures("ports")
def test_values_are_written_to_a_branch_and_their_state_is_told(omnigraph: Command) -> None:
    source = omnigraph("snapshot", "--json").json["commit"]
    words = ("analyze", "pagerank", "--edge", "Leg", "--write", "rank", "--to", "rank/june")
    refused = omnigraph(*words, "--from", "main")
    assert (refused.code, "Port has no property 'rank'" in refused.err) == (1, True)
    answer = omnigraph(*words, "--from", "main", "--create", "-m", "ranked", "--json", "--as", "act-ann")
    assert (answer.code, answer.json["nodes"], answer.json["branch"]) == (0, {"Port": 4}, "rank/june")
    shown = omnigraph("commit", "show", str(answer.json["commit"]), "--json").json
    assert str(shown["message"]).startswith("ranked\n\nAlgorithm: pagerank\n")
    assert shown["actor"] == "act-ann"
    (told,) = cast("list[dict[str, Json]]", shown["analyses"])
    assert told == {
        "commit": answer.json["commit"],
        "written": ["Port.rank"],
        "algorithm": "pagerank",
        "parameters": {"damping": 0.85, "iterations": 20},
        "projection": {"nodes": ["Port"], "edges": {"Leg": "out"}, "branch": "main"},
        "source": source,
        "engine": "local",
        "version": version("omnigraph"),
    }
    assert "analyses" not in omnigraph("commit", "show", str(source), "--json").json
    assert omnigraph("analyze", "status").err == "no analyses\n"
    status = omnigraph("analyze", "status", "--branch", "rank/june")
    assert [line.split()[0] for line in status.out.splitlines()] == ["written", "Port.rank"]
    assert status.out.splitlines()[1].endswith("current")
    (found,) = cast(
        "list[dict[str, Json]]", omnigraph("analyze", "status", "--branch", "rank/june", "--json").json["analyses"]
    )
    assert (found["written"], found["is_stale"], found["commit"]) == (["Port.rank"], False, answer.json["commit"])
    # The schema changed on main, so this is another source; then nothing is new.
    assert omnigraph(*words).code == 0
    again = omnigraph(*words)
    assert (again.code, "loaded before" in again.out) == (0, True)


@pytest.mark.usefixtures("ports")
def test_the_largest_values_are_shown_after_they_are_written(omnigraph: Command) -> None:
    words = ("analyze", "degree", "--write", "degree", "--column", "out_degree", "--create", "--top", "1")
    shown = omnigraph(*words)
    assert shown.code == 0
    assert shown.out.splitlines()[-2:] == ["type  id   in_degree  out_degree", "Port  rot          1           2"]
    found = omnigraph(*words, "--json").json
    assert found["rows"] == [{"type": "Port", "id": "rot", "in_degree": 1, "out_degree": 2}]
    # The schema changed on main, so this is another source.
    assert found["replayed"] is False
    vectors = omnigraph("analyze", "embed_fastrp", "-p", "dimension=2", "--write", "v", "--create", "--top", "1")
    assert (vectors.code, "have no order" in vectors.err) == (1, True)
    assert "v:" not in omnigraph("schema", "show").out


@pytest.mark.usefixtures("ports")
def test_pairs_are_written_as_edges(omnigraph: Command) -> None:
    words = ("analyze", "similarity", "--direction", "both", "--write-edge", "Alike", "--create", "--json")
    answer = omnigraph(*words)
    assert (answer.code, answer.json["edges"], answer.json["mode"]) == (0, {"Alike": 10}, "overwrite")
    pairs = (
        "analyze",
        "link_scores",
        "--edge",
        "Leg",
        "-p",
        'pairs=[["rot", "osl"]]',
        "-p",
        "metric=common_neighbours",
    )
    assert omnigraph(*pairs, "--format", "csv").out == "type,id,other_type,other_id,score\nPort,rot,Port,osl,1.0\n"


def test_the_algorithms_are_listed(omnigraph: Command) -> None:
    lines = omnigraph("analyze", "list").out.splitlines()
    assert lines[0].split() == ["algorithm", "parameters", "columns", "what"]
    assert any(line.startswith("pagerank ") and "damping, iterations" in line for line in lines)
    found = cast("list[dict[str, Json]]", omnigraph("analyze", "list", "--json").json["algorithms"])
    assert found[0] == {
        "name": "degree",
        "summary": "how many edges end and begin at each node",
        "parameters": [],
        "columns": ["in_degree", "out_degree"],
    }
