"""Runs every case file: what a case states must be what happens, to the letter."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeVar, cast

import pytest

import omnigraph
from omnigraph.errors import Json, OmniGraphError, Position, Problem, QueryError, SchemaError, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.query import CompiledQuery, Severity, compile_query, lint_queries
from omnigraph.language.query.plan import print_plan
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.query.typed_tree import columns_of
from omnigraph.language.schema import Schema, encode_ir, parse_schema, plan_migration
from omnigraph.manifest.rows import MAIN
from omnigraph.read.query import QueryRequest
from omnigraph.write.load import LoadMode as LoadMode
from omnigraph.write.load.run import LoadResult
from omnigraph.write.mutation.run import MutationResult
from tests.case_expectations import (
    Mismatch,
    expect_answer,
    expect_lines,
    expect_problems,
    expect_subset,
    expect_table,
    expect_text,
    line_of,
)
from tests.case_files import CASES, Case, Row, Section, Step, find_cases, read_case
from tests.executors import EXECUTORS, LOCAL, Executor, Way, on_spark
from tests.graphs import insert, rows_of, written
from tests.selection import daily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Written = TypeVar("Written", MutationResult, LoadResult)


@dataclass(frozen=True, slots=True)
class State:
    """What the steps of a case have built so far; a graph is made when a step first needs one.

    ``made`` is the commit of the step that runs, ``commits`` those of the steps before it.
    """

    folder: Path
    executor: Executor
    schema: Schema | None = None
    graph: Graph | None = None
    made: str | None = None
    commits: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: what runs it, what may be stated of it, its options, and how many names follow its words."""

    run: Callable[[State, Step], State]
    outcomes: frozenset[str]
    options: frozenset[str] = frozenset()
    names: int = 0


DAILY_ON_SPARK: Final = (
    "aggregates-of-nothing",
    "blob-is-null-on-both",
    "computed-on-both",
    "dates-and-times",
    "fused-rankings",
    "negation-with-its-own-part",
    "optional-on-both",
    "order-with-nulls",
    "sums-and-extremes",
    "ties-by-all-variables",
    "paths-with-a-lower-bound",
    "unions-on-both",
    "values-of-every-type",
)
"""One case for each operator, aggregate and kind of value. Each takes Spark a second or more."""


def name_of_case(path: Path) -> str:
    return str(path.relative_to(CASES))


@pytest.mark.parametrize("path", find_cases(), ids=lambda path: str(path.relative_to(CASES)))
def test_case(path: Path) -> None:
    assert_so(path, LOCAL)


@pytest.mark.parametrize(
    "path",
    daily(find_cases("read"), [CASES / "read" / f"{name}.case" for name in DAILY_ON_SPARK], name_of_case),
)
def test_case_on_spark(path: Path, spark: SparkSession) -> None:
    assert_so(path, on_spark(spark))


@pytest.mark.parametrize(
    "path", daily(find_cases("write/match"), [CASES / "write" / "match" / "values-of-rows.case"], name_of_case)
)
def test_match_of_a_mutation_on_spark(path: Path, spark: SparkSession) -> None:
    assert_so(path, on_spark(spark))


def assert_so(path: Path, executor: Executor) -> None:
    """What a case file states is what happens."""
    case = read_case(path)
    failure = None
    try:
        run(case, executor)
    except Mismatch as mismatch:
        failure = f"{case.title}\n{path}:{mismatch.section.line}: {mismatch}"
    # Outside of the handler, so that the report is the difference and not a chain of exceptions.
    if failure:
        pytest.fail(failure, pytrace=False)


def run(case: Case, executor: Executor = LOCAL) -> None:
    """Run the steps of a case, in order."""
    with TemporaryDirectory() as folder:
        state = State(Path(folder), executor)
        for step in case.steps:
            state = _kind(step).run(replace(state, made=None), step)
            if step.action.word != "schema":
                state = replace(state, commits=(*state.commits, state.made))


def _kind(step: Step) -> Kind:
    """The kind of a step; what the kind does not know is a mistake in the case."""
    words = (step.action.word, *step.action.arguments)
    found = ((length, KINDS.get(words[:length])) for length in (2, 1))
    kind = next((kind for length, kind in found if kind and len(words) == length + kind.names), None)
    if kind is None:
        raise Mismatch(step.action, f"there is no step '{' '.join(words)}'")
    for option in step.action.options:
        if option not in kind.options:
            raise Mismatch(step.action, f"'{' '.join(words)}' takes no {option}=")
    for outcome in step.outcomes:
        if outcome.word not in kind.outcomes:
            raise Mismatch(outcome, f"'{outcome.word}' says nothing about '{' '.join(words)}'")
    return kind


# ------------------------------------------------------------------------------------------------ steps


def run_schema(state: State, step: Step) -> State:
    schema = _parsed(step)
    if schema is None:
        return state
    for outcome in step.outcomes:
        if outcome.word == "ir":
            expect_subset(outcome, json.loads(encode_ir(schema.ir)))
        else:
            expect_text(outcome, schema.hash)
    return replace(state, schema=schema)


def run_evolution(state: State, step: Step) -> State:
    new = _parsed(step)
    if new is None:
        return state
    hard = step.action.options.get("allow_data_loss") == "true"
    plan = plan_migration(_schema(state, step).ir, new.ir, allow_data_loss=hard)
    for outcome in step.outcomes:
        expected = [cast(Json, json.loads(line)) for line in outcome.body.splitlines() if line.strip()]
        expect_lines(outcome, map(line_of, expected), (line_of(found.to_json()) for found in plan.steps))
        expect_lines(outcome, [outcome.options.get("supported", "true")], [line_of(plan.supported)])
    return replace(state, schema=new)


def run_application(state: State, step: Step) -> State:
    """Give a graph another schema; what stands in the way leaves it as it was."""
    graph = _graph(state, step)
    hard = step.action.options.get("allow_data_loss") == "true"
    before, had = _all_branches(graph), graph.schema.hash
    reached = state.executor.reach(graph)
    problems = _problems_of(lambda: reached.apply_schema(_text(step.action), allow_data_loss=hard))
    expect_problems(step, problems)
    if problems and (_all_branches(graph) != before or graph.schema.hash != had):
        raise Mismatch(step.action, "it was refused, and yet something changed")
    return _looked_at(replace(state, graph=graph, schema=graph.schema), step)


def run_query(state: State, step: Step) -> State:
    schema = _schema(state, step)
    text = _text(step.action)
    # Lint output states the problems itself; a case need not state them twice.
    if step.errors or all(outcome.word != "lint" for outcome in step.outcomes):
        # What is wrong with the text is found without data; else the case means what happens when it runs.
        problems = _query_problems(text, schema)
        if step.errors and not problems:
            return run_wrong_query(state, step)
        expect_problems(step, problems)
    for outcome in step.outcomes:
        if outcome.word == "lint":
            expect_subset(outcome, lint_queries(text, schema.catalog, "case.pg").to_json())
        elif outcome.word == "plan":
            expect_text(outcome, print_plan(_compiled(step, text, schema).plan))
        elif outcome.word == "columns":
            expect_text(outcome, _columns(outcome, _compiled(step, text, schema)))
        elif outcome.word == "rows":
            state = replace(state, graph=_graph(state, step))
            for name, way in _ways(state, step).items():
                with _telling(name):
                    expect_answer(outcome, _answer(state, step, way))
    return state


def run_wrong_query(state: State, step: Step) -> State:
    """A query that fails only when it runs; it fails in the same way whichever way it takes."""
    state = replace(state, graph=_graph(state, step))
    for name, way in _ways(state, step).items():
        with _telling(name):
            expect_problems(step, _problems_of(partial(_answer, state, step, way)))
    return state


def _ways(state: State, step: Step) -> Mapping[str, Way]:
    """The ways in which a query runs here; none, if it is for another executor."""
    only = step.action.options.get("only", state.executor.name)
    if only not in EXECUTORS:
        raise Mismatch(step.action, f"only={only}: there are {' and '.join(EXECUTORS)}")
    return state.executor.ways if only == state.executor.name else {}


@contextmanager
def _telling(way: str) -> Generator[None]:
    """Say which way gave the answer that is wrong."""
    try:
        yield
    except Mismatch as mismatch:
        raise Mismatch(mismatch.section, f"{way}: {mismatch}") from None


def _answer(state: State, step: Step, way: Way) -> list[Row]:
    options = step.action.options
    params = cast("dict[str, object]", json.loads(options.get("params", "{}")))
    question = QueryRequest(_text(step.action), options.get("name"), params)
    return way(_graph(state, step), question, _branch(step), _reference(state, step.action, "at"))


def run_data(state: State, step: Step) -> State:
    graph = _graph(state, step)
    with state.executor.reach(graph).transaction() as tx:
        for line in filter(str.strip, step.action.body.splitlines()):
            insert(tx, graph.schema, cast("dict[str, object]", json.loads(line)))
    return replace(state, graph=graph, made=_made(tx.result))


def run_mutation(state: State, step: Step) -> State:
    graph, options = _graph(state, step), step.action.options
    params = cast("dict[str, object]", json.loads(options.get("params", "{}")))
    request = QueryRequest(_text(step.action), options.get("name"), params)
    result = _written(step, graph, lambda: state.executor.mutate(graph, request, _branch(step)))
    for outcome in step.outcomes:
        if outcome.word == "affected":
            assert result is not None
            found = {"nodes": result.affected_nodes, "edges": result.affected_edges}
            stated = {name: int(outcome.options.get(name, "0")) for name in found}
            expect_lines(outcome, [line_of(stated)], [line_of(found)])
    return _looked_at(replace(state, graph=graph, made=_made(result)), step)


def run_load(state: State, step: Step) -> State:
    graph, text = _graph(state, step), io.StringIO(_text(step.action))
    mode, identity = load_options(step)
    reached = state.executor.reach(graph)
    result = _written(step, graph, lambda: reached.load(text, mode=mode, branch=_branch(step), identity=identity))
    expect_commit(step, result)
    return _looked_at(replace(state, graph=graph, made=_made(result)), step)


def load_options(step: Step) -> tuple[LoadMode, dict[str, list[str]] | None]:
    """The mode and the identity of a load."""
    options = step.action.options
    return cast(LoadMode, options.get("mode", "append")), json.loads(options.get("identity", "null"))


def expect_commit(step: Step, result: LoadResult | None) -> None:
    """What a case says of the commit of a load: there is none."""
    for outcome in step.outcomes:
        if outcome.word == "unchanged" and _made(result) is not None:
            raise Mismatch(outcome, "there is a commit")


def run_branch_create(state: State, step: Step) -> State:
    graph = _graph(state, step)
    source = _reference(state, step.action, "from") or MAIN
    reached = state.executor.reach(graph)
    expect_problems(step, _problems_of(lambda: reached.create_branch(_branch(step), source)))
    return _looked_at(replace(state, graph=graph), step)


def run_branch_delete(state: State, step: Step) -> State:
    graph = _graph(state, step)
    reached = state.executor.reach(graph)
    expect_problems(step, _problems_of(lambda: reached.delete_branch(step.action.arguments[1])))
    return _looked_at(replace(state, graph=graph), step)


_LOOKS = frozenset({"error", "table", "owners"})
KINDS: Mapping[tuple[str, ...], Kind] = {
    ("schema",): Kind(run_schema, frozenset({"error", "ir", "hash"}), frozenset({"file"})),
    ("schema", "evolve"): Kind(run_evolution, frozenset({"error", "steps"}), frozenset({"file", "allow_data_loss"})),
    ("schema", "apply"): Kind(run_application, _LOOKS, frozenset({"file", "allow_data_loss"})),
    ("query",): Kind(
        run_query,
        frozenset({"error", "lint", "plan", "columns", "rows"}),
        frozenset({"file", "name", "params", "branch", "at", "only"}),
    ),
    ("data",): Kind(run_data, frozenset()),
    ("load",): Kind(run_load, _LOOKS | {"unchanged"}, frozenset({"file", "mode", "branch", "identity"})),
    ("mutate",): Kind(run_mutation, _LOOKS | {"affected"}, frozenset({"file", "name", "params", "branch"})),
    ("branch", "create"): Kind(run_branch_create, _LOOKS, frozenset({"from"}), names=1),
    ("branch", "delete"): Kind(run_branch_delete, _LOOKS, names=1),
}


def _written(step: Step, graph: Graph, write: Callable[[], Written]) -> Written | None:
    """Write to a branch. The others stay as they are; and that one too, unless there is a commit."""
    before = _all_branches(graph)
    results = list[Written]()
    expect_problems(step, _problems_of(lambda: results.append(write())))
    result = results[0] if results else None
    after = _all_branches(graph)
    if _made(result) is None and after != before:
        raise Mismatch(step.action, "there is no commit, and yet something was written")
    for name in before.keys() - {_branch(step)}:
        # The files of a table are shared until a branch forks it: their newest version is nobody's alone.
        if any(before[name][fact] != after[name][fact] for fact in ("commit", "pins")):
            raise Mismatch(step.action, f"branch '{name}' shows it too")
    return result


def _all_branches(graph: Graph) -> dict[str, dict[str, object]]:
    return {branch.name: written(graph, branch.name) for branch in graph.branches()}


def _made(result: MutationResult | LoadResult | None) -> str | None:
    return None if result is None or result.commit is None else result.commit.id


def _branch(step: Step) -> str:
    """The branch that a step is about."""
    action = step.action
    return action.arguments[1] if action.word == "branch" else action.options.get("branch", MAIN)


def _reference(state: State, section: Section, option: str) -> str | None:
    """The reference in an option: ``@2`` is the commit of step 2."""
    text = section.options.get(option)
    if text is None or not text.startswith("@"):
        return text
    number = int(text[1:]) if text[1:].isdecimal() else 0
    if not 0 < number <= len(state.commits):
        raise Mismatch(section, f"{option}={text}: there is no such step before this")
    commit = state.commits[number - 1]
    if commit is None:
        raise Mismatch(section, f"{option}={text}: step {number} made no commit")
    return commit


def _looked_at(state: State, step: Step) -> State:
    """The same state; what the step says about the tables is so."""
    graph = _graph(state, step)
    # A branch that was deleted shows nothing any more.
    shown = MAIN if step.action.arguments[:1] == ("delete",) else _branch(step)
    for outcome in step.outcomes:
        branch = outcome.options.get("branch", shown)
        if outcome.word == "table":
            expect_table(outcome, rows_of(graph, outcome.arguments[0], branch, _reference(state, outcome, "at")))
        elif outcome.word == "owners":
            pins = graph.snapshot(branch).pins.values()
            expect_subset(outcome, {pin.type_name: pin.branch or MAIN for pin in pins})
    return state


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
    schemas = list[Schema]()
    expect_problems(step, _problems_of(lambda: schemas.append(parse_schema(_text(step.action)))))
    return schemas[0] if schemas else None


def _query_problems(text: str, schema: Schema) -> list[Problem]:
    try:
        report = lint_queries(text, schema.catalog, "case.pg")
    except OmniGraphError as error:
        return _problems(error)
    return [problem for severity, problem in report.problems if severity is Severity.ERROR]


def _compiled(step: Step, text: str, schema: Schema) -> CompiledQuery:
    return compile_query(text, schema.catalog, step.action.options.get("name"))


def _columns(section: Section, compiled: CompiledQuery) -> str:
    if isinstance(compiled.typed, TypedMutation):
        raise Mismatch(section, "a mutation has no columns")
    return "\n".join(f"{column.name}: {column.type}" for column in columns_of(compiled.typed))


def _problems_of(act: Callable[[], object]) -> list[Problem]:
    try:
        act()
    except OmniGraphError as error:
        return _problems(error)
    return []


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
