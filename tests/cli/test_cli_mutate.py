"""``omnigraph mutate``: its text, its parameters, both forms of its answer, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.arguments import read_parameters
from omnigraph.errors import ParameterError
from omnigraph.language.types import Scalar, ValueType
from tests.cli.conftest import BRANCH, Answer, Command, Stocked, error_of
from tests.graphs import rows_of

GRAPH = ("-g", "brain.og")
ADD = "query add($name: String) { insert Person { name: $name } }"
MEET = "query meet($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
DROP = "query drop($name: String) { delete Person where name = $name }"


def people(branch: str = "main") -> list[str]:
    return sorted(str(row["name"]) for row in rows_of(og.open("brain.og", "ro"), "Person", branch))


@pytest.fixture
def queries(stocked: Stocked) -> Path:
    """A file of three mutations beside the graph."""
    path = stocked.path.parent / "people.gq"
    path.write_text(f"{ADD}\n{MEET}\n{DROP}\n")
    return path


@pytest.mark.usefixtures("stocked")
def test_a_mutation_is_one_commit_and_the_target_is_said_first(omnigraph: Command) -> None:
    answer = omnigraph("mutate", "-e", ADD, "-p", "name=42", "-m", "one more", "--as", "act-ann", *GRAPH)
    made = og.open("brain.og", "ro").commits()[0]
    assert answer == Answer(
        0, f"add: 1 node, 0 edges affected, commit {made.id}\n", "changing branch main in brain.og\n"
    )
    assert (made.actor, made.message) == ("act-ann", "one more")
    assert people() == ["42", "ann", "bob"]


RENAME = "query rename() { match { $p: Person } insert Person { name: upper($p.name) } }"


@pytest.mark.usefixtures("stocked")
def test_a_match_drives_a_mutation_and_its_plan_is_shown(omnigraph: Command) -> None:
    plan = omnigraph("query", "-e", RENAME, "--explain", *GRAPH)
    assert plan.out.startswith("Mutation rename\n├─ Insert Person { name: upper($p.name) }\n└─ Project upper($p.name)")
    assert people() == ["ann", "bob"]
    answer = omnigraph("mutate", "-e", RENAME, *GRAPH)
    assert answer.out.startswith("rename: 2 nodes, 0 edges affected, commit ")
    assert people() == ["ANN", "BOB", "ann", "bob"]


@pytest.mark.usefixtures("queries")
def test_json_has_the_documented_keys(omnigraph: Command) -> None:
    words = ("mutate", "people.gq", "--name", "meet", "--params", '{"a": "ann"}', "-p", "b=eve", "--branch", BRANCH)
    answer = omnigraph(*words, "--as", "act-ann", "--json", *GRAPH)
    assert (answer.code, answer.err) == (0, "")
    assert answer.json == {
        "query_name": "meet",
        "branch": BRANCH,
        "commit": og.open("brain.og", "ro").commits(BRANCH)[0].id,
        "actor": "act-ann",
        "affected_nodes": 0,
        "affected_edges": 1,
        "rounded": [],
    }
    keys = ["query_name", "branch", "commit", "actor", "affected_nodes", "affected_edges", "rounded"]
    assert list(answer.json) == keys


def test_what_matches_nothing_makes_no_commit(omnigraph: Command, stocked: Stocked) -> None:
    words = ("mutate", "-e", DROP, "-p", "name=nobody", *GRAPH)
    assert omnigraph(*words).out == "drop: 0 nodes, 0 edges affected, no commit\n"
    found = omnigraph(*words, "--json").json
    assert (found["commit"], found["actor"], found["affected_nodes"]) == (None, None, 0)
    assert og.open("brain.og", "ro").commits()[0].id == stocked.main_head


@pytest.mark.usefixtures("stocked")
def test_the_text_or_the_parameters_may_come_from_stdin(omnigraph: Command) -> None:
    assert omnigraph("mutate", "-", "-p", "name=eve", *GRAPH, stdin=ADD.encode()).code == 0
    assert omnigraph("mutate", "-e", ADD, "--params-file", "-", *GRAPH, stdin=b'{"name": "dan"}').code == 0
    assert people() == ["ann", "bob", "dan", "eve"]
    twice = omnigraph("mutate", "-", "--params-file", "-", *GRAPH, stdin=ADD.encode())
    assert twice.code == 2
    assert "can be read only once" in twice.err


def test_a_precondition_that_fails_exits_with_4(omnigraph: Command, stocked: Stocked) -> None:
    words = ("mutate", "-e", ADD, "-p", "name=eve", *GRAPH)
    stale = omnigraph(*words, "--if-commit", stocked.genesis, "--json")
    assert stale.code == 4
    assert error_of(stale)["code"] == "precondition_failed"
    assert people() == ["ann", "bob"]
    assert omnigraph(*words, "--if-commit", stocked.main_head).code == 0


@pytest.mark.usefixtures("stocked")
def test_every_rule_that_is_broken_is_one_line(omnigraph: Command) -> None:
    text = 'query q() { insert Knows { from: "ann", to: "x" }  insert Knows { from: "y", to: "bob" } }'
    answer = omnigraph("mutate", "-e", text, "--quiet", *GRAPH)
    first, second, error = answer.err.splitlines()
    assert (answer.code, answer.out, error) == (1, "", "error: 2 violations")
    assert {line.partition("  ")[0] for line in (first, second)} == {"edge Knows: Person -> Person"}
    assert "'x'" in first + second
    assert "'y'" in first + second
    found = error_of(omnigraph("mutate", "-e", text, "--json", *GRAPH))
    assert (found["code"], found["details"]) == ("validation_error", {"count": 2})


@pytest.mark.usefixtures("stocked")
def test_a_mistake_in_the_text_is_shown_with_its_place(omnigraph: Command) -> None:
    answer = omnigraph("mutate", "-", *GRAPH, stdin=b"query q() {\n  insert Persn { name: 3 } }")
    assert answer.code == 1
    assert "<stdin>:2:10  T" in answer.err
    assert "did you mean 'Person'?" in answer.err
    assert error_of(omnigraph("mutate", "-e", "query q() {", "--json", *GRAPH))["code"] == "query_error"


@pytest.mark.usefixtures("queries")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        ([], 2, "'mutate' takes either a FILE or -e SRC"),
        (["people.gq", "-e", ADD], 2, "'mutate' takes either a FILE or -e SRC"),
        (["nothing.gq"], 1, "no such file: nothing.gq"),
        (["people.gq"], 1, "the text has several queries: add, meet, drop"),
        (["people.gq", "--name", "ad"], 1, "did you mean 'add'?"),
        (["-e", "query q() { match { $p: Person } return { $p.name } }"], 1, "'q' is a read and changes nothing"),
        (["-e", ADD, "-p", "name=x", "--branch", "nope"], 1, "no branch 'nope'"),
        (["-e", ADD], 1, "param 'name': missing"),
        (["-e", ADD, "-p", "name"], 2, "-p takes NAME=VALUE, not 'name'"),
        (["-e", ADD, "-p", "=x"], 2, "-p takes NAME=VALUE, not '=x'"),
        (["-e", ADD, "-p", "name=x", "-p", "name=y"], 2, "parameter 'name' is given twice"),
        (["-e", ADD, "-p", "name=x", "--params", '{"name": 1}'], 2, "parameter 'name' is given twice"),
        (["-e", ADD, "--params", "{}", "--params-file", "p.json"], 2, "cannot be used together"),
        (["-e", ADD, "--params", "{name: 1}"], 1, "--params is not JSON"),
        (["-e", ADD, "--params", "[1]"], 1, "--params is not a JSON object"),
        (["-e", ADD, "--params", '{"name": "a", "name": "b"}'], 1, "'name' occurs twice in one object"),
        (["-e", ADD, "--params", '{"name": NaN}'], 1, "NaN is not a JSON number"),
        (["-e", ADD, "--params", '{"name": 3}'], 1, "param 'name': expected String"),
        (["-e", ADD, "--params-file", "nothing.json"], 1, "no such file: nothing.json"),
    ],
    ids=str,
)
def test_bad_input_changes_nothing_and_is_said(
    omnigraph: Command, words: list[str], exit_code: int, complaint: str
) -> None:
    answer = omnigraph("mutate", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert people() == ["ann", "bob"]


def test_a_parameter_file_with_unknown_names_is_an_error_that_lists_them(omnigraph: Command, stocked: Stocked) -> None:
    file = stocked.path.parent / "p.json"
    file.write_text('{"name": "eve", "nam": 1, "age": 2}')
    answer = omnigraph("mutate", "-e", ADD, "--params-file", "p.json", *GRAPH)
    assert answer.code == 1
    assert "param 'nam': the query declares no such parameter; param 'age':" in answer.err
    assert "hint: did you mean 'name'?" in answer.err
    file.write_bytes(b'{"name": "\xff"}')
    assert (
        "p.json:1:11: invalid UTF-8 byte 0xff" in omnigraph("mutate", "-e", ADD, "--params-file", "p.json", *GRAPH).err
    )
    assert people() == ["ann", "bob"]


def test_a_text_is_json_unless_the_type_is_string() -> None:
    given = read_parameters(["n=3", "name=3", "day=2024-05-01", "tags=[1, 2]", "other=3"], '{"flag": true}', None)
    types = {
        "n": ValueType(Scalar.I32),
        "name": ValueType(Scalar.STRING),
        "day": ValueType(Scalar.DATE),
        "tags": ValueType(Scalar.I32, is_list=True),
    }
    assert given.for_types(types) == {
        "flag": True,
        "n": 3,
        "name": "3",
        "day": "2024-05-01",
        "tags": [1, 2],
        "other": "3",
    }


def test_all_texts_that_are_no_json_are_reported() -> None:
    types = {"n": ValueType(Scalar.I32), "ok": ValueType(Scalar.BOOL)}
    with pytest.raises(ParameterError, match=r"param 'n': .*found 'a'; param 'ok': .*found 'yes'") as caught:
        read_parameters(["n=a", "ok=yes"], None, None).for_types(types)
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 2
