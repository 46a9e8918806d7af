"""``omnigraph shell``: statements from a pipe and from a terminal, its commands, and what it completes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.arguments import name_body
from omnigraph.cli.render.output import TextOutput
from omnigraph.cli.shell import ShellRunner, StatementReader
from omnigraph.cli.shell.statements import split_statements
from tests.cli.conftest import BRANCH, Command, Stocked
from tests.cli.test_cli_branch import at_a_terminal

GRAPH = ("-g", "brain.og")
NAMES = "match { $p: Person } return { $p.name } order { $p.name };"


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("a;\nb;\n", ["a", "b"]),
        ("match { $p: A }\n  return { $p };\n", ["match { $p: A }\n  return { $p }"]),
        ("match { $p: A }\nreturn { $p }\n\nnext;\n", ["match { $p: A }\nreturn { $p }", "next"]),
        (
            "query q() {\n match { $p: A }\n return { $p }\n}\n.log\n",
            ["query q() {\n match { $p: A }\n return { $p }\n}", ".log"],
        ),
        ('insert A { n: "x;" };\n', ['insert A { n: "x;" }']),
        ('insert A { n: "x;\n\ny" };\n', ['insert A { n: "x;\n\ny" }']),
        ("a // b;\n;\n", ["a // b;"]),
        ("a /* ;\n\n*/ b;\n", ["a /* ;\n\n*/ b"]),
        ("\n\n;\n.help\nlast", [".help", "last"]),
        ("", []),
    ],
)
def test_where_a_statement_ends(text: str, statements: list[str]) -> None:
    assert list(split_statements(iter(text.splitlines(keepends=True)))) == statements


def test_a_body_alone_gets_a_name() -> None:
    assert name_body("query q() { }") == "query q() { }"
    assert name_body("// of friends\nquery q() { }") == "// of friends\nquery q() { }"
    assert name_body("MATCH (p:Person) RETURN p") == "MATCH (p:Person) RETURN p"
    for body in ("match { $q: Query } return { $q }", "/* a */ // b\n insert A { n: 1 }", "match { $a: A } // end"):
        assert name_body(body) == f"query statement() {{ {body}\n}}"


def test_what_was_begun_can_be_dropped() -> None:
    reader = StatementReader()
    assert reader.add("match {") is None
    assert reader.take() == "match {"
    assert reader.is_empty


@pytest.mark.usefixtures("stocked")
def test_statements_from_a_pipe(omnigraph: Command) -> None:
    typed = f"""{NAMES}
.branch {BRANCH}
.format jsonl
{NAMES}
.param who eve
query one($who: String) {{ match {{ $p: Person {{ name: $who }} }} return {{ $p.name as who }} }}
insert Person {{ name: "zoe" }}

.at {BRANCH}~1
match {{ $p: Person }} return {{ count($p) as n }};
.at now
match {{ $p: Person }} return {{ count($p) as n }};
"""
    answer = omnigraph("shell", *GRAPH, stdin=typed.encode())
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[:7] == [
        "p.name",
        "ann",
        "bob",
        *(f'{{"p.name":"{name}"}}' for name in ("ann", "bob", "eve")),
        '{"who":"eve"}',
    ]
    assert lines[7].startswith("statement: 1 node, 0 edges affected")
    assert lines[8:] == ['{"n":3}', '{"n":4}']


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (".schme", "did you mean '.schema'?"),
        (".branch nope", "no branch 'nope'"),
        (".at nope", "no commit, version, date or tag 'nope'"),
        (".format xml", "there is no format 'xml'"),
        (".timing maybe", ".timing is on or off"),
        (".param x", ".param x has no value"),
        (".schema Persn", "did you mean 'Person'?"),
        (".read nothing.gq", "nothing.gq"),
        ('.at v1\ninsert Person { name: "x" };', "the past cannot be changed"),
        ("match { $p: Person }\n return { $p.nme };", "<text>:2:"),
        ("query q() { match { $p: Persn } return { $p } }", "<text>:1:"),
        ("match {", "<text>:"),
    ],
)
def test_what_fails_is_told_and_the_shell_goes_on(omnigraph: Command, typed: str, complaint: str) -> None:
    answer = omnigraph("shell", *GRAPH, stdin=f"{typed}\n".encode())
    assert answer.code == 1
    assert complaint in answer.err
    if typed != "match {":
        assert "ann" in omnigraph("shell", *GRAPH, stdin=f"{typed}\n.at now\n.branch main\n{NAMES}\n".encode()).out


@pytest.mark.usefixtures("stocked")
def test_a_shell_that_only_reads(omnigraph: Command) -> None:
    typed = f'insert Person {{ name: "eve" }};\n{NAMES}\n'.encode()
    answer = omnigraph("shell", *GRAPH, "--read-only", stdin=typed)
    assert answer.code == 1
    assert "read-only" in answer.err
    assert "ann" in answer.out
    assert "eve" not in answer.out


def test_commands_that_show(omnigraph: Command, stocked: Stocked) -> None:
    Path("more.gq").write_text(NAMES)
    typed = [".help", ".schema", ".schema Person", ".branch", ".log", ".param a b", ".param", ".param a -", ".param"]
    typed += [".timing on", ".read more.gq", f".explain {NAMES}", ".quit", "never"]
    answer = omnigraph("shell", *GRAPH, stdin="\n".join(typed).encode())
    assert answer.code == 0, answer.err
    for part in ("node Person", "property", BRANCH, stocked.main_head, "ann", "Scan $p: Person"):
        assert part in answer.out, part
    for part in (".timing on|off", "a = b", "1 parameter", "0 parameters", " s\n"):
        assert part in answer.err, part
    assert "never" not in answer.err


def test_json_is_for_programs(omnigraph: Command, stocked: Stocked) -> None:
    assert omnigraph("shell", "--json", "-g", str(stocked.path)).code == 2


def test_words_are_completed_from_the_schema(stocked: Stocked) -> None:
    with og.open(stocked.path) as graph:
        runner = ShellRunner(graph, TextOutput())
        assert list(runner.complete("Pers")) == ["Person"]
        assert list(runner.complete("$p.na")) == ["$p.name"]
        assert list(runner.complete(".br")) == [".branch"]
        assert "match" in list(runner.complete("mat"))
        assert "knows" in list(runner.complete("kno"))


@pytest.mark.costly
@pytest.mark.usefixtures("stocked")
def test_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code, shown = at_a_terminal(["shell", *GRAPH], f"{NAMES}\n.quit\n".encode())
    assert code == 0
    assert "main> " in shown
    assert "bob" in shown
    assert NAMES in (tmp_path / "state" / "omnigraph" / "history").read_text()
