"""Runs every case file: what a case states must be what happens, to the letter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from omnigraph.errors import Json, OmniGraphError, Position, Problem, QueryError, SchemaError
from omnigraph.language.query import CompiledQuery, Severity, compile_query, explain, lint_queries
from omnigraph.language.query.typed import TypedRead
from omnigraph.language.schema import Schema, ir_json, parse_schema, plan_migration

from .case_files import CASES, Case, Section, Step, find_cases, read_case


class Mismatch(Exception):
    """What happened is not what a section of the case states."""

    def __init__(self, section: Section, message: str) -> None:
        super().__init__(message)
        self.section = section


@dataclass(frozen=True, slots=True)
class State:
    """What the steps of a case have built so far."""

    schema: Schema | None = None


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
    state = State()
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


RUNNERS: Mapping[tuple[str, ...], tuple[Runner, frozenset[str]]] = {
    ("schema",): (run_schema, frozenset({"error", "ir", "hash"})),
    ("schema", "evolve"): (run_evolution, frozenset({"error", "steps"})),
    ("query",): (run_query, frozenset({"error", "lint", "plan", "columns"})),
}


def _text(section: Section) -> str:
    file = section.options.get("file")
    # The line feed makes it a text in the eyes of the public functions, which also take paths.
    return (CASES / file).read_text("utf-8") if file else section.body + "\n"


def _schema(state: State, step: Step) -> Schema:
    if state.schema is None:
        raise Mismatch(step.action, "there is no schema before this")
    return state.schema


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
    if isinstance(error, SchemaError | QueryError):
        return list(error.problems)
    return [Problem(error.code, error.message, Position(None, 1, 1, 2, ""), error.hint)]


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
