"""Runs every case file: what a case states must be what happens, to the letter."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import pytest

import omnigraph
from omnigraph.errors import Json, OmniGraphError, Position, Problem, QueryError, SchemaError, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.query import CompiledQuery, Severity, compile_query, explain, lint_queries
from omnigraph.language.query.typed import TypedRead
from omnigraph.language.schema import Schema, ir_json, parse_schema, plan_migration
from omnigraph.write.load_work import Mode as LoadMode

from .case_files import CASES, Case, Section, Step, find_cases, read_case
from .graphs import insert, rows_of, written


class Mismatch(Exception):
    """What happened is not what a section of the case states."""

    def __init__(self, section: Section, message: str) -> None:
        super().__init__(message)
        self.section = section


@dataclass(frozen=True, slots=True)
class State:
    """What the steps of a case have built so far; a graph is made when a step first needs one."""

    folder: Path
    schema: Schema | None = None
    graph: Graph | None = None


Runner: TypeAlias = Callable[[State, Step], State]


@pytest.mark.parametrize("path", find_cases(), ids=lambda path: str(cast(Path, path).relative_to(CASES)))
def test_case(path: Path) -> None:
    case = read_case(path)
    failure = None
    try:
        run(case)
    except Mismatch as mismatch:
        failure = f"{case.title}\n{path}:{mismatch.section.line}: {mismatch}"
    # Outside of the handler, so that the report is the difference and not a chain of exceptions.
    if failure:
        pytest.fail(failure, pytrace=False)


def run(case: Case) -> None:
    """Run the steps of a case, in order."""
    with TemporaryDirectory() as folder:
        state = State(Path(folder))
        for step in case.steps:
            words = (step.action.word, *step.action.arguments)
            if words not in RUNNERS:
                raise Mismatch(step.action, f"there is no step '{' '.join(words)}'")
            runner, outcomes = RUNNERS[words]
            for outcome in step.outcomes:
                if outcome.word not in outcomes:
                    raise Mismatch(outcome, f"'{outcome.word}' says nothing about '{' '.join(words)}'")
            state = runner(state, step)


# ------------------------------------------------------------------------------------------------ steps


def run_schema(state: State, step: Step) -> State:
    schema = _parsed(step)
    if schema is None:
        return state
    for outcome in step.outcomes:
        if outcome.word == "ir":
            _expect_subset(outcome, json.loads(ir_json(schema.ir)))
        else:
            _expect_text(outcome, schema.hash)
    return replace(state, schema=schema)


def run_evolution(state: State, step: Step) -> State:
    new = _parsed(step)
    if new is None:
        return state
    hard = step.action.options.get("allow_data_loss") == "true"
    plan = plan_migration(_schema(state, step).ir, new.ir, allow_data_loss=hard)
    for outcome in step.outcomes:
        expected = [cast(Json, json.loads(line)) for line in outcome.body.splitlines() if line.strip()]
        _expect_lines(outcome, map(_line, expected), (_line(found.to_json()) for found in plan.steps))
        _expect_lines(outcome, [outcome.options.get("supported", "true")], [_line(plan.supported)])
    return replace(state, schema=new)


def run_query(state: State, step: Step) -> State:
    schema = _schema(state, step)
    text = _text(step.action)
    # Lint output states the problems itself; a case need not state them twice.
    if step.errors or all(outcome.word != "lint" for outcome in step.outcomes):
        _expect_problems(step, _query_problems(text, schema))
    for outcome in step.outcomes:
        if outcome.word == "lint":
            _expect_subset(outcome, lint_queries(text, schema.catalog, "case.pg").to_json())
        elif outcome.word == "plan":
            _expect_text(outcome, explain(_compiled(step, text, schema)))
        elif outcome.word == "columns":
            _expect_text(outcome, _columns(outcome, _compiled(step, text, schema)))
    return state


def run_data(state: State, step: Step) -> State:
    graph = _graph(state, step)
    with graph.transaction() as tx:
        for line in filter(str.strip, step.action.body.splitlines()):
            insert(tx, graph.schema, cast("dict[str, object]", json.loads(line)))
    return replace(state, graph=graph)


def run_mutation(state: State, step: Step) -> State:
    graph = _graph(state, step)
    options, before = step.action.options, written(graph)
    params = cast("dict[str, object]", json.loads(options.get("params", "{}")))
    result, problems = None, list[Problem]()
    try:
        result = graph.mutate(_text(step.action), options.get("name"), params)
    except OmniGraphError as error:
        problems = _problems(error)
    _expect_problems(step, problems)
    if (result is None or result.commit is None) and written(graph) != before:
        raise Mismatch(step.action, "the mutation made no commit, and yet something was written")
    for outcome in step.outcomes:
        if outcome.word == "affected":
            assert result is not None
            found = {"nodes": result.affected_nodes, "edges": result.affected_edges}
            stated = {name: int(outcome.options.get(name, "0")) for name in found}
            _expect_lines(outcome, [_line(stated)], [_line(found)])
        elif outcome.word == "table":
            _expect_rows(outcome, graph)
    return replace(state, graph=graph)


def run_load(state: State, step: Step) -> State:
    graph = _graph(state, step)
    options, before = step.action.options, written(graph)
    mode = cast(LoadMode, options.get("mode", "append"))
    result, problems = None, list[Problem]()
    try:
        result = graph.load(io.StringIO(step.action.body), mode=mode)
    except OmniGraphError as error:
        problems = _problems(error)
    _expect_problems(step, problems)
    if result is None and written(graph) != before:
        raise Mismatch(step.action, "the load failed, and yet something was written")
    for outcome in step.outcomes:
        if outcome.word == "table":
            _expect_rows(outcome, graph)
    return replace(state, graph=graph)


RUNNERS: Mapping[tuple[str, ...], tuple[Runner, frozenset[str]]] = {
    ("schema",): (run_schema, frozenset({"error", "ir", "hash"})),
    ("schema", "evolve"): (run_evolution, frozenset({"error", "steps"})),
    ("query",): (run_query, frozenset({"error", "lint", "plan", "columns"})),
    ("data",): (run_data, frozenset()),
    ("load",): (run_load, frozenset({"error", "table"})),
    ("mutate",): (run_mutation, frozenset({"error", "affected", "table"})),
}


def _text(section: Section) -> str:
    file = section.options.get("file")
    # The line feed makes it a text in the eyes of the public functions, which also take paths.
    return (CASES / file).read_text("utf-8") if file else section.body + "\n"


def _schema(state: State, step: Step) -> Schema:
    if state.schema is None:
        raise Mismatch(step.action, "there is no schema before this")
    return state.schema


def _graph(state: State, step: Step) -> Graph:
    return state.graph or omnigraph.init(state.folder / "case.og", _schema(state, step).text)


def _parsed(step: Step) -> Schema | None:
    """The schema of a step, or nothing if the case expects its problems."""
    schema, problems = None, list[Problem]()
    try:
        schema = parse_schema(_text(step.action))
    except OmniGraphError as error:
        problems = _problems(error)
    _expect_problems(step, problems)
    return schema


def _query_problems(text: str, schema: Schema) -> list[Problem]:
    try:
        report = lint_queries(text, schema.catalog, "case.pg")
    except OmniGraphError as error:
        return _problems(error)
    return [problem for severity, problem in report.problems if severity is Severity.ERROR]


def _compiled(step: Step, text: str, schema: Schema) -> CompiledQuery:
    return compile_query(text, schema.catalog, step.action.options.get("name"))


def _columns(section: Section, compiled: CompiledQuery) -> str:
    if not isinstance(compiled.typed, TypedRead):
        raise Mismatch(section, "a mutation has no columns")
    return "\n".join(f"{column.name}: {column.expression.type}" for column in compiled.typed.columns)


def _problems(error: OmniGraphError) -> list[Problem]:
    """The problems of an error; one that is not about a place in a text counts as one problem at its beginning."""
    nowhere = Position(None, 1, 1, 2, "")
    if isinstance(error, SchemaError | QueryError):
        return list(error.problems)
    if isinstance(error, ValidationError):
        return [
            Problem(error.code, each.message, replace(nowhere, line=each.line or nowhere.line))
            for each in error.violations
        ]
    return [Problem(error.code, error.message, nowhere, error.hint)]


# ------------------------------------------------------------------------------------------------ expectations


def _expect_problems(step: Step, found: Sequence[Problem]) -> None:
    expected = step.errors
    shown = "\n".join(problem.render() for problem in found) or "no problem"
    stated = [_stated(section) for section in expected]
    happened = [
        _place(problem, expected[number] if number < len(expected) else None) for number, problem in enumerate(found)
    ]
    if stated != happened:
        raise Mismatch(step.action, f"{_diff(stated, happened)}\n\nfound:\n{shown}")
    for section, problem in zip(expected, found, strict=True):
        words = f"{problem.message}\n{problem.hint or ''}"
        for line in section.body.splitlines():
            if line.strip() not in words:
                raise Mismatch(section, f"neither message nor hint has {line.strip()!r}:\n{problem.render()}")


def _stated(section: Section) -> str:
    return " ".join([section.arguments[0], *(f"{name}={value}" for name, value in sorted(section.options.items()))])


def _place(problem: Problem, section: Section | None) -> str:
    """A problem in the words of the section that expects it, or in full."""
    place = {"column": problem.position.column, "line": problem.position.line}
    shown = place if section is None else {name: place.get(name) for name in sorted(section.options)}
    return " ".join([problem.code, *(f"{name}={value}" for name, value in shown.items())])


def _expect_text(section: Section, found: str) -> None:
    _expect_lines(section, section.body.split("\n"), found.split("\n"))


def _expect_lines(section: Section, expected: Iterable[str], found: Iterable[str]) -> None:
    stated, happened = list(expected), list(found)
    if stated != happened:
        raise Mismatch(section, _diff(stated, happened))


def _expect_subset(section: Section, found: Json) -> None:
    expected = cast(Json, json.loads(section.body))
    shown = _shown(expected, found)
    if shown != expected:
        raise Mismatch(section, _diff(_pretty(expected), _pretty(shown)))


def _expect_rows(section: Section, graph: Graph) -> None:
    """The rows of a type's table, in any order; the case may leave columns out."""
    expected = [cast("dict[str, Json]", json.loads(line)) for line in section.body.splitlines() if line.strip()]
    columns = set(expected[0]) if expected else set[str]()
    found = rows_of(graph, section.arguments[0])
    shown = [{name: value for name, value in row.items() if name in columns} for row in found]
    _expect_lines(section, sorted(map(_line, expected)), sorted(map(_line, shown)))


def _shown(expected: Json, found: Json) -> Json:
    """Of what was found, the part that a case speaks of: the same keys in objects, lists whole."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return {key: _shown(value, found[key]) for key, value in expected.items() if key in found}
    return found


def _pretty(value: Json) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).split("\n")


def _line(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _diff(stated: Sequence[str], happened: Sequence[str]) -> str:
    return "\n".join(unified_diff(stated, happened, "stated", "happened", lineterm=""))
