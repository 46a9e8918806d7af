"""Pipeline files by themselves: every problem at its place, variables never shown, paths beside the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import NotFound, PipelineError
from omnigraph.pipeline.codes import PROBLEM_CODES
from omnigraph.pipeline.file import PipelineFile, read_pipeline
from omnigraph.pipeline.yaml_reader import Redactor, TemplateText
from tests.pipeline.pipelines import GOOD, changed, places, write_pipeline

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pipelines.md"
SMALL = """
version: 1
graph: brain.og
sources:
  people: {format: csv, path: people.csv}
nodes:
  Person: {view: people, columns: {name: full_name}}
"""


def read(folder: Path, text: str, **environment: str) -> PipelineFile:
    return read_pipeline(write_pipeline(folder, text), environment)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    assert file.problems == ()
    assert (file.load.mode, file.load.branch.value, file.load.on_error) == ("merge", "load/june", "fail")
    assert [each.name for each in file.sources] == ["people", "links"]
    assert {name: option.value for name, option in file.sources[0].options.items()} == {"header": "true"}
    assert [view.sql.value for view in file.views] == ["SELECT * FROM people WHERE cast(age AS int) >= 18"]
    person, knows = file.mappings
    assert (person.kind, [column.name for column in person.columns]) == ("node", ["name", "age"])
    assert [(end.name, end.form) for end in knows.ends] == [("from", "one"), ("to", "one")]
    assert file.checks[0].params == {"limit": 18}


@pytest.mark.parametrize(
    ("old", "new", "expected", "said"),
    [
        ("version: 1", "version: 2", ("P105", 1, 10), "use version 1"),
        ("version: 1\n", "", ("P102", 1, 1), "needs 'version'"),
        ("graph: brain.og", "grahp: brain.og", ("P101", 2, 1), "did you mean 'graph'?"),
        ("format: csv", "fromat: csv", ("P101", 4, 12), "did you mean 'format'?"),
        ("format: csv, ", "", ("P102", 4, 3), "needs 'format' or 'sql'"),
        (", path: people.csv", "", ("P102", 4, 3), "needs 'path'"),
        ("path: people.csv", "path: [a, b]", ("P104", 4, 31), "must be a text"),
        ("path: people.csv", "path: 7", ("P104", 4, 31), "write it in quotes"),
        ("path: people.csv", 'path: ""', ("P105", 4, 31), "is empty"),
        ("{format: csv, path: people.csv}", "{sql: SELECT 1, path: x}", ("P105", 4, 33), "'sql' cannot be combined"),
        ("people: {", "2people: {", ("P107", 4, 3), "cannot be the name of a source"),
        ("nodes:", "views: {People: SELECT 1}\nnodes:", ("P107", 5, 9), "has the name of source 'people'"),
        ("nodes:", "load: {mode: upsert}\nnodes:", ("P105", 5, 14), "use append, merge, update, overwrite"),
        ("nodes:", "load: {mode: mrge}\nnodes:", ("P105", 5, 14), "did you mean 'merge'?"),
        ("nodes:", "load: {allow_empty: maybe}\nnodes:", ("P105", 5, 21), "use true or false"),
        ("nodes:", "load: {allow_missing_blobs: 1}\nnodes:", ("P105", 5, 29), "use true or false"),
        ("nodes:", "load: merge\nnodes:", ("P104", 5, 7), "it must be a mapping"),
        ("name: full_name", "name: 2024-05-01", ("P104", 6, 42), "date '2024-05-01'"),
        ("name: full_name", "name: null", ("P104", 6, 42), "must be a text"),
        ("name: full_name", "name: concat(a, b)", ("P104", 6, 54), "a text with a comma must be in quotes"),
        ("name: full_name", "name: a, name: b", ("P103", 6, 45), "is given twice"),
        ("view: people, ", "", ("P102", 6, 11), "needs 'view'"),
        ("view: people, ", "view: people, from: a, ", ("P101", 6, 26), "has no key 'from'"),
        ("path: people.csv", "path: '${RAW}/p.csv'", ("P106", 4, 31), "the variable RAW is not set"),
        ("version: 1", "version: 1\nchecks: {file: a.gq}", ("P104", 2, 9), "it must be a list"),
        ("version: 1", "version: 1\nchecks: [{name: a}]", ("P102", 2, 10), "needs 'file'"),
    ],
)
def test_each_problem_has_its_place(
    tmp_path: Path, old: str, new: str, expected: tuple[str, int, int], said: str
) -> None:
    problems = list(read(tmp_path, changed(old, new, SMALL)).problems)
    assert expected in places(problems)
    problem = problems[places(problems).index(expected)]
    assert said in f"{problem.message} {problem.hint}"
    assert problem.position.file == str(tmp_path / "june.pipeline.yaml")


def test_all_problems_are_reported_together_and_in_order(tmp_path: Path) -> None:
    text = """
    version: 3
    graf: x
    sources: {a: {format: csv}, a: {format: csv, path: x}}
    views: [SELECT 1]
    edges: {Knows: {view: a, from: x, columns: {w: [1]}}}
    """
    assert places(list(read(tmp_path, text).problems)) == [
        ("P102", 1, 1),
        ("P105", 1, 10),
        ("P101", 2, 1),
        ("P102", 3, 11),
        ("P103", 3, 29),
        ("P104", 4, 8),
        ("P102", 5, 16),
        ("P104", 5, 48),
    ]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("version: 1\nnodes: {a: [}", (2, 13), ""),
        ("version: 1\n\tgraph: x", (2, 1), ""),
        ("a: &x 1\nb: *x\n", (2, 4), "alias"),
        ("a: 1\n---\nb: 2\n", (2, 1), ""),
        ("a: \x07", (1, 4), "U+0007"),
        ("", (1, 1), "empty"),
        ("# nothing\n", (1, 1), "empty"),
        ("[" * 150, (1, 101), "nested"),
        ("- " * 3000 + "x", (1, 1), "nested too deep"),
    ],
)
def test_what_is_no_yaml_is_told_at_its_place(tmp_path: Path, text: str, place: tuple[int, int], said: str) -> None:
    path = tmp_path / "x.pipeline.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError) as failed:
        read_pipeline(path, {})
    (problem,) = failed.value.problems
    assert (problem.code, problem.position.line, problem.position.column) == ("P000", *place)
    assert said in problem.message


def test_bytes_that_are_no_text_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.pipeline.yaml"
    path.write_bytes(b"version: 1\ngraph: \xff")
    with pytest.raises(PipelineError, match="invalid UTF-8") as failed:
        read_pipeline(path, {})
    assert places(list(failed.value.problems)) == [("P000", 2, 8)]
    with pytest.raises(NotFound, match="no such file"):
        read_pipeline(tmp_path / "none.pipeline.yaml", {})


def test_words_that_yaml_takes_for_something_else_stay_names(tmp_path: Path) -> None:
    file = read(tmp_path, changed("{name: full_name}", "{on: x, no: y, 7: 1, yes: true}", SMALL))
    assert file.problems == ()
    assert [(column.name, column.expression.value) for column in file.mappings[0].columns] == [
        ("on", "x"),
        ("no", "y"),
        ("7", "1"),
        ("yes", "true"),
    ]


def test_variables_are_filled_in_and_never_shown(tmp_path: Path) -> None:
    text = changed("path: people.csv", "path: '${RAW}/p.csv', options: {password: '${PASSWORD}'}", SMALL)
    file = read(tmp_path, text, RAW="/data/raw", PASSWORD="xyzzy")  # noqa: S106  nobody has it
    (source,) = file.sources
    assert source.path is not None
    assert (source.path.value, source.path.written) == ("/data/raw/p.csv", "${RAW}/p.csv")
    assert source.options["password"].value == "xyzzy"
    assert "xyzzy" not in repr(file)
    assert "/data/raw" not in repr(file)
    assert file.redactor.redact("no access with xyzzy to /data/raw") == "no access with ${PASSWORD} to ${RAW}"


def test_a_value_that_is_part_of_another_hides_neither() -> None:
    secrets = Redactor({"SHORT": "abc", "LONG": "abcdef", "EMPTY": ""})
    assert secrets.redact("abcdef abc") == "${LONG} ${SHORT}"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "a b [1]"
    folder.mkdir()
    file = read(folder, SMALL)
    assert file.spark_path(TemplateText("x/*.csv", "x/*.csv")) == f"file://{tmp_path}/a b \\[1\\]/x/*.csv"
    assert file.spark_path(TemplateText("/x.csv", "/x.csv")) == "/x.csv"
    assert file.spark_path(TemplateText("s3a://b/x", "s3a://b/x")) == "s3a://b/x"
    assert file.graph_uri() == str(folder / "brain.og")


def test_the_page_lists_every_code() -> None:
    page = PAGE.read_text("utf-8")
    for code, meaning in PROBLEM_CODES.items():
        assert f"| `{code}` | {meaning} |" in page
