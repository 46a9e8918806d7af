"""Every case of a load gives the same graph, or the same violations, when the executors of Spark do the work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.spark.load import identity_matching
from omnigraph.spark.load import incoming_rows as load_incoming
from tests import test_cases
from tests.case_expectations import Mismatch
from tests.case_files import CASES, Step, find_cases, read_case
from tests.selection import daily
from tests.test_cases import Kind, State


def load_on_spark(state: State, step: Step) -> State:
    graph = test_cases._graph(state, step)
    mode, identity = test_cases.load_options(step)
    file = state.folder / "case.jsonl"
    file.write_text(test_cases._text(step.action), "utf-8")
    result = test_cases._written(
        step,
        graph,
        lambda: graph.load(file, mode=mode, branch=test_cases._branch(step), engine="spark", identity=identity),
    )
    test_cases.expect_commit(step, result)
    return test_cases._looked_at(replace(state, graph=graph, made=test_cases._made(result)), step)


DAILY = (
    "all-problems-of-a-file",
    "merge-on-a-branch",
)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "path",
    daily(
        find_cases("load"),
        [CASES / "load" / f"{name}.case" for name in DAILY],
        test_cases.name_of_case,
    ),
)
def test_case_on_spark(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rules are to run on Spark, which few rows alone would not make them do.
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)
    here = test_cases.KINDS["load",]
    there = Kind(load_on_spark, here.outcomes, here.options, here.names)
    monkeypatch.setattr(test_cases, "KINDS", {**test_cases.KINDS, ("load",): there})
    case = read_case(path)
    try:
        test_cases.run(case)
    except Mismatch as mismatch:
        pytest.fail(f"{case.title}\n{path}:{mismatch.section.line}: {mismatch}")
