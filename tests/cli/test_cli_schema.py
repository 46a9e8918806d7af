"""``omnigraph schema``: check, diff, plan, apply and show."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from omnigraph.errors import Json
from omnigraph.language.schema import parse_schema
from tests.cli.conftest import Command

OLD = """
node Person { name: String @key  age: I32?  city: String  level: enum(low, high) }
node Team { name: String @key }
edge Member: Person -> Team @card(0..3)
"""
NEW = """
node Person {
  name: String @key
  years: I32? @rename_from("age")
  city: String?
  level: enum(low, high, top)
  active: Bool @default("true")
  @range(years, 0..150)
}
node Project { code: I64 @key }
edge Member: Person -> Project @card(0..2)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two schemas and a broken one."""
    monkeypatch.chdir(tmp_path)
    Path("old.pg").write_text(OLD)
    Path("new.pg").write_text(NEW)
    Path("broken.pg").write_text("node Person { id: String  name: Strin }\nedge Knows: Person -> Nobody\n")
    Path("unknown.pg").write_text("node Person { id: String }\nedge Knows: Person -> Nobody\n")
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_good_schema_is_counted(omnigraph: Command) -> None:
    answer = omnigraph("schema", "check", "old.pg", "new.pg")
    assert answer.code == 0
    assert answer.out == "old.pg: 2 nodes, 1 edge, 0 interfaces\nnew.pg: 2 nodes, 1 edge, 0 interfaces\n"
    assert answer.err == "2 files: 0 errors\n"


@pytest.mark.usefixtures("here")
def test_every_problem_of_every_schema_is_shown(omnigraph: Command) -> None:
    answer = omnigraph("schema", "check", "unknown.pg", "broken.pg", "old.pg")
    assert answer.code == 1
    places = [line.split("  ")[0] for line in answer.out.splitlines() if line.startswith(("unknown", "broken"))]
    assert places == ["unknown.pg:1:15", "unknown.pg:2:23", "broken.pg:1:33"]
    assert "old.pg: 2 nodes" in answer.out


@pytest.mark.usefixtures("here")
def test_json_of_check_has_every_file(omnigraph: Command) -> None:
    found = omnigraph("schema", "check", "old.pg", "unknown.pg", "--json").json
    assert (found["status"], found["errors"]) == ("error", 2)
    files = found["files"]
    assert isinstance(files, list)
    good, bad = files
    expected_hash = parse_schema(OLD).hash
    assert good == {"path": "old.pg", "status": "ok", "hash": expected_hash, "nodes": 2, "edges": 1, "interfaces": 0}
    assert isinstance(bad, dict)
    assert (bad["path"], bad["status"]) == ("unknown.pg", "error")


@pytest.mark.usefixtures("here")
def test_a_schema_may_come_from_stdin(omnigraph: Command) -> None:
    assert omnigraph("schema", "check", "-", stdin=OLD.encode()).out.startswith("-: 2 nodes")
    assert omnigraph("schema", "diff", "-", "old.pg", stdin=OLD.encode()).code == 0


@pytest.mark.usefixtures("here")
def test_diff_says_each_step_in_words_with_its_tier(omnigraph: Command) -> None:
    answer = omnigraph("schema", "diff", "old.pg", "new.pg")
    assert answer.code == 0
    lines = answer.out.splitlines()
    for line in (
        "rewrite      add Person.active: Bool, filled with true",
        "metadata     rename Person.age to years",
        "metadata     allow null in Person.city",
        "metadata     allow top in Person.level",
        "validated    add @range(years, 0..150) to Person",
        "metadata     add node Project",
        "metadata     drop node Team (soft)",
        "validated    change @card of Member from 0..3 to 0..2",
    ):
        assert line in lines
    assert [line for line in lines if line.startswith("unsupported  edge:Member")]
    assert "1 not supported" in answer.err


@pytest.mark.usefixtures("here")
def test_json_of_diff_is_the_plan(omnigraph: Command) -> None:
    found = omnigraph("schema", "diff", "old.pg", "new.pg", "--json").json
    assert found["supported"] is False
    steps = found["steps"]
    assert isinstance(steps, list)
    assert {"kind": "add_type", "type_kind": "node", "name": "Project", "tier": "metadata"} in steps
    assert {"kind": "drop_type", "type_kind": "node", "name": "Team", "mode": "soft", "tier": "metadata"} in steps


@pytest.mark.usefixtures("here")
def test_allowed_data_loss_makes_drops_hard(omnigraph: Command) -> None:
    answer = omnigraph("schema", "diff", "old.pg", "new.pg", "--allow-data-loss")
    assert "destructive  drop node Team (hard)" in answer.out


@pytest.mark.usefixtures("here")
def test_the_same_schema_needs_no_step(omnigraph: Command) -> None:
    answer = omnigraph("schema", "diff", "old.pg", "old.pg")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "no steps: the schemas mean the same\n"
    nothing: dict[str, Json] = {"supported": True, "steps": [], "hints": []}
    assert omnigraph("schema", "diff", "old.pg", "old.pg", "--json").json == nothing


@pytest.mark.usefixtures("here")
def test_a_property_that_takes_the_place_of_one_of_its_type_may_be_a_rename(omnigraph: Command) -> None:
    Path("title.pg").write_text("node Person { code: String @key  title: String?  age: I32? }")
    Path("position.pg").write_text("node Person { code: String @key  position: String?  years: F64? }")
    hint = (
        "Person.title is dropped and Person.position is added: to keep the values, "
        'declare position with @rename_from("title")'
    )
    assert omnigraph("schema", "diff", "title.pg", "position.pg", "--json").json["hints"] == [hint]
    assert hint in omnigraph("schema", "diff", "title.pg", "position.pg").err


QUERIES = """
query adults($least: I32) { match { $p: Person  $p.age >= $least } return { $p.name } }
query teams() { match { $p: Person  $p member $t  $t: Team } return { $t.name } }
query cities() { match { $p: Person } return { $p.city } }
query never() { match { $p: Persona } return { $p.name } }
"""


@pytest.mark.usefixtures("here")
def test_diff_names_the_queries_that_would_break(omnigraph: Command) -> None:
    Path("questions.gq").write_text(QUERIES)
    answer = omnigraph("schema", "diff", "old.pg", "new.pg", "--queries", "questions.gq")
    assert answer.code == 1
    assert "questions.gq:2:52" in answer.out
    assert "2 queries would break: adults, teams\n" in answer.err
    assert "1 query did not fit before either: never\n" in answer.err


@pytest.mark.usefixtures("here")
def test_json_of_diff_lists_the_broken_queries(omnigraph: Command) -> None:
    Path("questions.gq").write_text(QUERIES)
    answer = omnigraph("schema", "diff", "old.pg", "new.pg", "--queries", "questions.gq", "--json")
    breaks = cast("list[dict[str, Json]]", answer.json["breaks"])
    assert [(each["name"], each["new"]) for each in breaks] == [("adults", True), ("teams", True), ("never", False)]
    assert all(each["file"] == "questions.gq" for each in breaks)
    assert all(each["problems"] for each in breaks)


@pytest.mark.usefixtures("here")
def test_queries_that_fit_both_schemas_do_not_fail_a_diff(omnigraph: Command) -> None:
    Path("cities.gq").write_text("query cities() { match { $p: Person } return { $p.city } }")
    answer = omnigraph("schema", "diff", "old.pg", "new.pg", "--queries", "cities.gq")
    assert (answer.code, answer.err.splitlines()[-1]) == (0, "0 queries would break")


@pytest.mark.usefixtures("here")
def test_queries_that_cannot_be_parsed_fail_a_diff(omnigraph: Command) -> None:
    Path("one.gq").write_text("query one() { match }")
    Path("two.gq").write_text("quer two() {}")
    answer = omnigraph("schema", "diff", "old.pg", "new.pg", "--queries", "one.gq", "--queries", "two.gq")
    assert answer.code == 1
    assert "one.gq:1:21" in answer.err
    assert "two.gq:1:1" in answer.err


@pytest.mark.usefixtures("here")
def test_diff_reports_the_problems_of_both_schemas(omnigraph: Command) -> None:
    answer = omnigraph("schema", "diff", "broken.pg", "unknown.pg")
    assert (answer.code, answer.out) == (1, "")
    assert "broken.pg:1:33" in answer.err
    assert "unknown.pg:2:23" in answer.err
    assert omnigraph("schema", "diff", "broken.pg", "unknown.pg", "--json").out.count('"error": {') == 1


# --------------------------------------------------------------------------------------------- the schema of a graph

GRAPH = ("-g", "people.og")
LATER = OLD.replace("city: String ", "city: String?").replace("age: I32?", "age: I64?")


@pytest.fixture
def people(here: Path, omnigraph: Command) -> Path:
    """A graph with the older schema, and one that it can get."""
    assert omnigraph("init", "people.og", "--schema", "old.pg", "--quiet").code == 0
    Path("later.pg").write_text(LATER)
    return here


@pytest.mark.usefixtures("people")
def test_plan_shows_the_steps_and_changes_nothing(omnigraph: Command) -> None:
    answer = omnigraph("schema", "plan", "later.pg", *GRAPH)
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == ["rewrite", "metadata"]
    assert omnigraph("schema", "show", *GRAPH).out.strip() == OLD.strip()


@pytest.mark.usefixtures("people")
def test_plan_names_the_queries_that_would_break(omnigraph: Command) -> None:
    Path("questions.gq").write_text(QUERIES)
    answer = omnigraph("schema", "plan", "new.pg", "--queries", "questions.gq", *GRAPH)
    assert answer.code == 1
    assert "2 queries would break: adults, teams\n" in answer.err


@pytest.mark.usefixtures("people")
def test_apply_says_what_it_did_and_show_tells_the_past(omnigraph: Command) -> None:
    applied = omnigraph("schema", "apply", "later.pg", "--json", "-m", "wider", *GRAPH).json
    assert (applied["applied"], len(cast("list[Json]", applied["steps"]))) == (True, 2)
    again = omnigraph("schema", "apply", "later.pg", *GRAPH)
    assert (again.code, again.out) == (0, "the graph has this schema already\n")
    assert again.err == "changing the schema of people.og\n"
    shown = omnigraph("schema", "show", "--json", *GRAPH).json
    assert shown == {"hash": parse_schema(LATER).hash, "schema": LATER}
    assert omnigraph("schema", "show", "--at", "v1", *GRAPH).out.strip() == OLD.strip()


@pytest.mark.usefixtures("people")
def test_an_unsupported_schema_is_refused_with_its_places(omnigraph: Command) -> None:
    answer = omnigraph("schema", "apply", "new.pg", *GRAPH)
    assert answer.code == 1
    assert "the endpoints of an edge cannot change" in answer.err + answer.out
    assert omnigraph("schema", "show", *GRAPH).out.strip() == OLD.strip()


@pytest.mark.usefixtures("people")
def test_a_hard_drop(omnigraph: Command) -> None:
    Path("less.pg").write_text(OLD.replace("age: I32?", ""))
    assert omnigraph("schema", "apply", "less.pg", "--allow-data-loss", "--yes", *GRAPH).code == 0


@pytest.mark.usefixtures("people")
def test_rows_that_are_in_the_way_are_named(omnigraph: Command) -> None:
    Path("rows.jsonl").write_text('{"type": "Person", "data": {"name": "ann", "city": "oslo", "level": "low"}}\n')
    assert omnigraph("load", "rows.jsonl", "--quiet", *GRAPH).code == 0
    Path("strict.pg").write_text(OLD.replace("age: I32?", "age: I32"))
    answer = omnigraph("schema", "apply", "strict.pg", *GRAPH)
    assert answer.code == 1
    assert "in the row 'ann'" in answer.err


@pytest.mark.usefixtures("people")
def test_a_hard_drop_says_who_holds_the_rows_and_the_way_out(omnigraph: Command) -> None:
    for name in ("red", "blue"):
        Path("rows.jsonl").write_text(f'{{"type": "Team", "data": {{"name": "{name}"}}}}\n')
        assert omnigraph("load", "rows.jsonl", "--quiet", *GRAPH).code == 0
    Path("less.pg").write_text(OLD.split("node Team", maxsplit=1)[0])
    answer = omnigraph("schema", "apply", "less.pg", "--allow-data-loss", "--yes", *GRAPH)
    assert answer.code == 3
    assert "shows it" in answer.err
    assert "omnigraph cleanup --keep 1 --yes" in answer.err
    assert omnigraph("schema", "apply", "less.pg", *GRAPH).code == 0


def test_a_schema_is_inferred_from_tables(omnigraph: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("name;age\nann;4\n")
    words = ("schema", "infer", "people.csv", "--option", "sep=;")
    shown = omnigraph(*words)
    assert (shown.code, "  age: I64" in shown.out) == (0, True)
    written = omnigraph(*words, "-o", "people.pg")
    assert (written.code, written.out) == (0, "people.pg: check it before you use it\n")
    assert Path("people.pg").read_text() == shown.out
    assert omnigraph("schema", "check", "people.pg").code == 0
    assert omnigraph(*words, "-o", "people.pg").code == 1
    assert omnigraph(*words, "--json").json == {"file": None, "schema": shown.out}
    assert omnigraph("init", "people.og", "--schema", "people.pg").code == 0
    proposed = ("pipeline", "init", "people.csv", "--option", "sep=;", "--schema", "people.pg", "-g", "people.og")
    assert omnigraph(*proposed, "-o", "people.pipeline.yaml").code == 0
    assert omnigraph("pipeline", "plan", "people.pipeline.yaml").code == 0
