"""The error tree, its docstring and its documentation say the same."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import errors
from omnigraph.errors import OmniGraphError, Position, Problem, Violation

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "errors.md"
OPERATING = PAGE.parent.parent / "how-to" / "operate.md"
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)
POSITION = Position("a.gq", 3, 8, 12, "    $p.agee > 30")
PROBLEM = Problem("T6", "Person has no property 'agee'", POSITION, "did you mean 'age'?")

# Errors whose arguments are more than a message.
SPECIAL: dict[str, OmniGraphError] = {
    "SchemaError": errors.SchemaError([PROBLEM, PROBLEM]),
    "QueryError": errors.QueryError([PROBLEM]),
    "ValidationError": errors.ValidationError("2 records", [Violation("Person", "range", "too old", value=200)]),
    "KeyConflict": errors.KeyConflict("1 record", [Violation("Person", "key", "exists", id="ann")]),
    "ConflictingValues": errors.ConflictingValues(
        "2 values", [Violation("Person", "one value", "two", id="ann", property="age", value=[1, 2])]
    ),
    "LegacyRowIds": errors.LegacyRowIds("old ids", hint="rewrite them"),
    "SourceTooLarge": errors.SourceTooLarge("a.pg", 10, 5),
    "KeyReused": errors.KeyReused("01J"),
    "WalkTooLong": errors.WalkTooLong(32),
    "PipelineError": errors.PipelineError([PROBLEM]),
    "ConfigError": errors.ConfigError([PROBLEM]),
    "ExpectedVersionMismatch": errors.ExpectedVersionMismatch("node:Person", 1, 2),
    "PreconditionFailed": errors.PreconditionFailed("main", "A", None),
    "LockTimeout": errors.LockTimeout("main", "process 7", 1.5),
    "MergeConflicts": errors.MergeConflicts(
        "1 conflict",
        [errors.Conflict("DivergentUpdate", "Person", "a", {"age": 1}, {"age": 2}, None, "both", ("age",))],
    ),
    "DeadlineExceeded": errors.DeadlineExceeded(2.5),
    "Cancelled": errors.Cancelled(),
    "MemoryExceeded": errors.MemoryExceeded("Sort $a", 2_000_000, 900, 1_000_000),
    "TooManyRequests": errors.TooManyRequests("busy", 2),
    "OutcomeUnknown": errors.OutcomeUnknown("01J", "the connection broke"),
}


def tree(root: type[OmniGraphError] = OmniGraphError) -> Iterator[type[OmniGraphError]]:
    """Every public class of the tree. Only errors.py counts: tests may have errors of their own."""
    if not root.__name__.startswith("_") and root.__module__ == errors.__name__:
        yield root
    for child in root.__subclasses__():
        yield from tree(child)


TREE = {kind.__name__: kind for kind in tree()}


def example(name: str) -> OmniGraphError:
    return SPECIAL.get(name) or TREE[name]("what happened", hint="what to do", details={"n": 1})


def test_every_error_is_documented_with_its_code_and_nothing_else_is() -> None:
    documented = {name: code for name, code, _when, _what in ROW.findall(PAGE.read_text("utf-8"))}
    assert documented == {name: kind.code for name, kind in TREE.items()}


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in TREE.values()]
    assert len(codes) == len(set(codes))


def test_every_error_declares_a_code_of_its_own() -> None:
    assert [name for name, kind in TREE.items() if "code" not in vars(kind)] == []


def test_the_docstring_draws_the_whole_tree_and_no_more() -> None:
    drawing = (errors.__doc__ or "").partition("::")[2].partition("\n\nEvery error")[0]
    drawn = re.findall(r"\b[A-Z]\w+", drawing)
    assert sorted(drawn) == sorted(TREE)


@pytest.mark.parametrize("name", sorted(TREE))
def test_every_error_crosses_a_process_border_whole(name: str) -> None:
    error = example(name)
    revived = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(revived) is type(error)
    assert vars(revived) == vars(error)
    assert str(revived) == str(error)
    assert revived.to_json() == error.to_json()


@pytest.mark.parametrize("name", sorted(TREE))
def test_every_error_has_the_json_form_of_the_interface(name: str) -> None:
    error = example(name)
    found = error.to_json()
    assert found["code"] == error.code
    assert found["message"] == error.message
    assert "details" in found
    assert found.get("hint") == error.hint


def test_a_problem_shows_the_line_and_a_caret() -> None:
    assert PROBLEM.render() == (
        "a.gq:3:8  T6  Person has no property 'agee'\n  3 |     $p.agee > 30\n    |        ^^^^ did you mean 'age'?"
    )


def test_the_caret_stands_right_under_tabs() -> None:
    problem = Problem("T6", "wrong", Position(None, 12, 2, 4, "\tab"))
    assert problem.render() == "<text>:12:2  T6  wrong\n 12 | \tab\n    | \t^^"


def test_all_problems_of_a_text_are_in_the_error() -> None:
    error = errors.QueryError([PROBLEM, Problem("T1", "no type 'X'", POSITION)])
    assert error.message == "Person has no property 'agee' (and 1 more)"
    assert str(error).count("\n") == 5
    assert error.to_json()["position"] == POSITION.to_json()


def test_the_page_for_operators_has_a_way_out_of_everything_that_is_no_wrong_input() -> None:
    told = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ([^|]+) \|", OPERATING.read_text("utf-8"), re.MULTILINE)))
    )
    wrong_input = {*tree(errors.InputError), errors.NotFoundError, errors.AlreadyExists, errors.MergeConflicts}
    missing = {error.__name__ for error in tree() if error not in wrong_input and error is not OmniGraphError} - told
    assert missing == set()
