"""A schema change dies by SIGKILL before and after every durable write; the graph has the old schema or the new one.

The next process makes no special call. It finds the schema and the tables together, writes, applies the schema again,
and nothing is left behind: no lock for release 0.8, no other files at the root, nothing that ``verify`` finds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.manifest import contract
from omnigraph.manifest.opening import SCHEMA_APPLY_LOCK
from omnigraph.manifest.rows import MAIN
from omnigraph.write.commit.section import CommitOptions
from omnigraph.write.commit.sidecars import list_sidecars
from omnigraph.write.evolve.apply import SchemaChangeOptions, apply_schema
from tests.crash import every_crash, fresh_copy, kill_at, record, run, some_crashes
from tests.write.evolve.people_graph import BEFORE, load, make, people, with_change
from tests.write.writers import open_manifest

WITHOUT_CITIES = with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", "")
PLANS = {
    "metadata": with_change("age: I32?", "age: I32? @index"),
    "new columns": with_change("age: I32?", "age: I32?\n  note: String?"),
    "types come and go": WITHOUT_CITIES + "node Boat { name: String @key }\n",
    "everything": with_change(
        "age: I32?",
        'years: I64? @rename_from("age")\n  rank: I32 @default("7")',
        WITHOUT_CITIES.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'),
    )
    + "node Boat { name: String @key }\n",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = make(tmp_path_factory.mktemp("evolve_crashes"))
    # A type that existed before, so that its folder exists, and a tombstone hides its versions.
    graph.apply_schema(BEFORE + "node Boat { name: String @key }\n")
    load(graph, {"type": "Boat", "data": {"name": "ark"}})
    graph.apply_schema(BEFORE)
    return Path(graph.uri)


def apply_at(root: str, schema: str) -> None:
    """Change the schema in a process that heals nothing before."""
    apply_schema(open_manifest(root), schema, SchemaChangeOptions(), CommitOptions(MAIN, actor="tests"))


def exported(root: str) -> list[str]:
    """Return everything that the graph shows."""
    return sorted(omnigraph.open(root, "ro").export())


def go_on(found: list[tuple[str, str]], new: str, states: dict[str, list[str]]) -> None:
    """Run the next process after every death."""
    for root, place in found:
        try:
            _go_on(root, new, states)
        except BaseException as error:
            error.add_note(place)
            raise


def _go_on(root: str, new: str, states: dict[str, list[str]]) -> None:
    assert exported(root) == states[omnigraph.open(root, "ro").schema.text]
    graph = omnigraph.open(root)
    assert graph.schema.text in (BEFORE, new)
    assert exported(root) == states[graph.schema.text]
    assert SCHEMA_APPLY_LOCK not in graph._manifest.list_refs()
    assert contract.load_root_schema(graph._manifest.objects).text == graph.schema.text
    assert list_sidecars(graph._manifest.objects) == []
    had = graph.schema.text
    assert graph.apply_schema(new).applied == (had == BEFORE)
    assert exported(root) == states[new]
    persons = "Human" if "Human" in new else "Person"
    load(graph, {"type": persons, "data": {"name": "dee"}})
    assert graph.verify().findings == ()


@pytest.mark.parametrize(
    "plan", ["everything", *(pytest.param(plan, marks=pytest.mark.slow) for plan in PLANS if plan != "everything")]
)
def test_killed_anywhere_the_schema_is_the_old_one_or_the_new(
    template: Path, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new = PLANS[plan]
    clean = str(fresh_copy(template))
    states = {BEFORE: exported(clean)}
    steps = record(apply_at, clean, new)
    states[new] = exported(clean)
    found: list[tuple[str, str]] = []
    for number, when in some_crashes(steps):
        root = str(fresh_copy(template))
        kill_at(apply_at, (root, new), number, when)
        found.append((root, f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}"))
    run(go_on, found, new, states)
    with capsys.disabled():
        sys.stdout.write(f"\nschema apply, {plan}: {len(found)} deaths\n")


@pytest.mark.slow
def test_killed_again_inside_the_recovery(template: Path) -> None:
    new = PLANS["everything"]
    clean = str(fresh_copy(template))
    states = {BEFORE: exported(clean)}
    steps = record(apply_at, clean, new)
    states[new] = exported(clean)
    commits = [step.number for step in steps if step.name == "table.commit"]
    for number in (commits[0], commits[-1]):
        again = _killed(template, new, number)
        second = record(omnigraph.open, again)
        found: list[tuple[str, str]] = []
        for at, then in every_crash(second):
            root = _killed(template, new, number)
            kill_at(omnigraph.open, (root,), at, then)
            found.append((root, f"killed after write {number}, then {then} write {at}: {second[at - 1].name}"))
        run(go_on, found, new, states)


def _killed(template: Path, new: str, number: int) -> str:
    root = str(fresh_copy(template))
    kill_at(apply_at, (root, new), number, "after")
    return root


# --------------------------------------------------------------------------------------------- branches that lag


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a lagging branch: a property was dropped and added again, a type is new."""
    graph = make(tmp_path_factory.mktemp("lagging"))
    graph.create_branch("dev")
    load(graph, {"type": "Person", "data": {"name": "dev", "nick": "d"}}, branch="dev")
    graph.apply_schema(with_change("  nick: String?\n", ""))
    graph.apply_schema(BEFORE + "node Boat { name: String @key }\n")
    return Path(graph.uri)


def write_to_branch(root: str) -> None:
    """Write to the branch for the first time since; its tables catch up first."""
    load(omnigraph.open(root), {"type": "Person", "data": {"name": "eve", "nick": "e"}}, branch="dev")


def go_on_there(found: list[tuple[str, str]]) -> None:
    """Check what the branch shows, and run the next process."""
    for root, place in found:
        try:
            graph = omnigraph.open(root, "ro")
            before = {name: row["nick"] for name, row in people(graph, "dev").items()}
            expected = dict.fromkeys(("ann", "bob", "cid", "dev"))
            assert before in (expected, expected | {"eve": "e"})
            write_to_branch(root)
            load(omnigraph.open(root), {"type": "Boat", "data": {"name": "ark"}}, branch="dev")
            again = omnigraph.open(root)
            assert {name: row["nick"] for name, row in people(again, "dev").items()} == expected | {"eve": "e"}
            assert again.snapshot("dev").lag is None
            assert again.verify().findings == ()
        except BaseException as error:
            error.add_note(place)
            raise


@pytest.mark.slow
def test_killed_while_a_branch_catches_up(lagging: Path) -> None:
    steps = record(write_to_branch, str(fresh_copy(lagging)))
    found: list[tuple[str, str]] = []
    for number, when in every_crash(steps):
        root = str(fresh_copy(lagging))
        kill_at(write_to_branch, (root,), number, when)
        found.append((root, f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}"))
    run(go_on_there, found)
