"""The real commit path beside the model of the protocol: both meet the same faults and must write the same, in order.

What a run of the real code writes durably is recorded and named in the model's words. The model's programs run on a
world of their own, with the same dead writer or failing write in it. Which versions a table has is not compared, only
who writes what, and when: the model is checked over every interleaving, so a path that it does not have is not known
to be safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins, open_pin
from omnigraph.storage import tables
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.tables import open_table
from omnigraph.write.commit.section import WriteOperation
from omnigraph.write.commit.sidecars import WriterKind
from tests import crash
from tests.model import protocol_checker, protocol_world
from tests.model import protocol_model as model
from tests.model.protocol_checker import SCENARIOS, WITHOUT_FIX, Checker, Scenario
from tests.selection import daily
from tests.write.writers import (
    FLOCK,
    KNOWS,
    LEASE,
    PERSON,
    DeletePerson,
    InsertEdge,
    LoadAll,
    append_nodes,
    copy_template,
    make_template,
    open_manifest,
    write_commit,
    write_in_process,
)

Trace: TypeAlias = tuple[str, ...]
FIXES = frozenset(model.FIXES)
NAMES = {model.NODES: PERSON, model.EDGES: KNOWS}

PAIRS: dict[str, tuple[WriteOperation[None], model.Operation]] = {
    "edge": (InsertEdge("ann", "bob"), model.Operation("real", "edge", "ann>bob")),
    "delete": (DeletePerson("bob"), model.Operation("real", "delete", "bob")),
    "load": (LoadAll(("x",), (), (("x", "x"),)), model.Operation("real", "load", "x")),
    "merge": (
        LoadAll(("x",), (), (("x", "x"),), WriterKind.BRANCH_MERGE),
        model.Operation("real", "merge", "x"),
    ),
}
NEXT = LoadAll(("f",), (), (("f", "f"),)), model.Operation("next", "load", "f")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("protocol"))


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real publish is tried again after contention only, and no other publisher runs here."""
    monkeypatch.setattr(model, "PUBLISH_ATTEMPTS", 1)


@dataclass(frozen=True, slots=True)
class Fault:
    """A durable write, by its place in the trace, that fails: before it happens, or after, when its answer is lost."""

    place: int
    when: When


@dataclass(frozen=True, slots=True)
class Run:
    """What was written, and what the caller was told."""

    trace: Trace
    told: str


# --------------------------------------------------------------------------------------------- the model's side


def world_of_template() -> protocol_world.World:
    """Two people who know each other."""
    rows = ("ann", "bob"), ("bob>ann",)
    versions = tuple((protocol_world.Version("", "create", each),) for each in rows)
    first = protocol_world.Commit("c0", None, (0, 0), (), protocol_world.OWNER)
    return protocol_world.World(versions, (first,), (), (), (None,), None, 0, 0, 0)


@dataclass(slots=True)
class ModelRun:
    """One world of the model, in which writers run one after the other."""

    world: protocol_world.World
    lease: bool = False

    def run(self, operation: model.Operation, fault: Fault | None = None, killed_after: int | None = None) -> Run:
        """Run a writer to its end, or kill it after so many durable writes. A file lock is free then."""
        flags = FIXES | ({"lease"} if self.lease else frozenset[str]())
        program, trace, answer = model.writer(0, operation, flags), list[str](), cast(object, None)
        while True:
            try:
                action = program.send(answer)
            except StopIteration as stop:
                return Run(tuple(trace), cast(str, stop.value))
            if len(trace) == killed_after:
                self.world = self.world._replace(locks=(None,))
                return Run(tuple(trace), "killed")
            answer = self._answer(action, fault, len(trace))
            name = _model_name(action)
            trace += [name] if name else []

    def _answer(self, action: tuple[object, ...], fault: Fault | None, place: int) -> object:
        if action[0] == "acquire":
            return "free"
        durable = _model_name(action) is not None
        if durable and fault == Fault(place, "before"):
            return "error"
        self.world, answer = protocol_world.perform(self.world, 0, action, FIXES)
        return "error" if durable and fault == Fault(place, "after") else answer


def _model_name(action: tuple[object, ...]) -> str | None:
    match action:
        case ("put", protocol_world.Sidecar(decision=decision, confirmed=confirmed)):
            return "put again" if decision or confirmed else "put"
        case ("commit", protocol_world.Change(table=table), _, _):
            return f"commit {NAMES[table]}"
        case ("restore", int(table), _):
            return f"restore {NAMES[table]}"
        case ("acquire" | "publish" | "audit_if_absent" | "delete", *_):
            return str(action[0])
        case _:
            return None


# --------------------------------------------------------------------------------------------- the real side


def run_real(manifest: Manifest, work: WriteOperation[None], fault: Fault | None = None) -> Run:
    """Run a writer, and name what it wrote."""
    observed: list[str] = []
    versions = Counter({name: _head(manifest, name).version for name in NAMES.values()})
    with _observe(manifest, observed, fault):
        try:
            told = "committed" if write_commit(manifest, work) else "nothing"
        except OmniGraphError:
            told = "failed"
    return Run(tuple(_named(manifest, observed, versions)), told)


@contextmanager
def _observe(manifest: Manifest, observed: list[str], fault: Fault | None) -> Generator[None]:
    places: dict[int, int] = {}

    def act(when: When, step: WriteStep) -> None:
        if when == "before":
            name = _real_name(manifest, step)
            if name is None:
                return
            places[step.number] = len(observed)
            observed.append(name)
        if step.number in places and fault == Fault(places[step.number], when):
            if when == "before":
                observed[-1] = f"unlanded {observed[-1]}"
            raise OSError("injected")

    with _arm(act):
        yield


def _real_name(manifest: Manifest, step: WriteStep) -> str | None:
    match step.name:
        case "locks.flock":
            return "acquire"
        case "objects.put_if_absent" if step.detail.startswith("__locks"):
            # A lease is freed by a write too, which the model does not count among what may fail.
            return "acquire"
        case "objects.put":
            # A decision to roll back, or a merge's word that every table was committed.
            return "put again" if manifest.objects.head(step.detail) else "put"
        case "table.commit":
            pins = list_pins(manifest.view(MAIN))
            return next(name for name in NAMES.values() if pins[name].location in step.detail)
        case "table.merge":
            return "publish" if "__manifest" in step.detail else "audit_if_absent"
        case "objects.delete" if step.detail.startswith("__recovery"):
            return "delete"
        case _:
            return None


def _named(manifest: Manifest, observed: Sequence[str], versions: Counter[str]) -> Iterator[str]:
    """Tell commits of a table from Restores, by what its history says of each."""
    for each in observed:
        name = each.removeprefix("unlanded ")
        if name not in versions:
            yield name
        elif each != name:
            yield f"commit {name}"
        else:
            versions[name] += 1
            (landed,) = _head(manifest, name).read_commits(versions[name] - 1, versions[name])
            yield f"{'commit' if landed.restored is None else 'restore'} {name}"


def _head(manifest: Manifest, table_key: str) -> tables.Table:
    location = manifest.location.join(list_pins(manifest.view(MAIN))[table_key].location)
    return open_table(location, None, None, manifest.access)


def without_release(run: Run) -> Run:
    """A lease is freed by the last write of its section, which looks like taking it."""
    kept = [name for place, name in enumerate(run.trace) if name != "acquire" or run.trace[:place].count(name) % 2 == 0]
    return replace(run, trace=tuple(kept))


# --------------------------------------------------------------------------------------------- conformance


LOCKS = {"flock": FLOCK, "lease": LEASE}


@pytest.mark.parametrize(
    ("pair", "kind_of_lock"),
    daily(product(PAIRS, LOCKS), [("edge", "flock"), ("delete", "flock"), ("load", "flock"), ("merge", "lease")]),
)
def test_commits_and_give_ups_are_those_of_the_model(template: Path, pair: str, kind_of_lock: str) -> None:
    (work, operation), locks = PAIRS[pair], LOCKS[kind_of_lock]
    lease = locks is LEASE
    clean = ModelRun(world_of_template(), lease).run(operation)
    places = [place for place, name in enumerate(clean.trace) if name != "acquire"]
    faults = [Fault(place, when) for place in places for when in ("before", "after")]
    for fault in (None, *faults):
        found = run_real(open_manifest(copy_template(template), locks), work, fault)
        expected = ModelRun(world_of_template(), lease).run(operation, fault)
        assert (without_release(found) if lease else found) == expected, fault


@pytest.mark.parametrize("pair", daily(PAIRS, ["delete", "merge"]))
def test_recoveries_are_those_of_the_model(template: Path, pair: str) -> None:
    work, operation = PAIRS[pair]
    steps = crash.record(write_in_process, str(copy_template(template)), work)
    manifest = open_manifest(template)
    numbers = [step.number for step in steps if _real_name(manifest, step) is not None]
    for durable, number in enumerate(numbers, 1):
        root = copy_template(template)
        crash.kill_at(write_in_process, (str(root), work), number, "after")
        modelled = ModelRun(world_of_template())
        assert modelled.run(operation, killed_after=durable).told in ("killed", "committed")
        assert run_real(open_manifest(root), NEXT[0]) == modelled.run(NEXT[1]), f"killed after {steps[number - 1]}"


def test_discarded_drift_is_that_of_the_model(template: Path) -> None:
    manifest = open_manifest(copy_template(template))
    table = open_pin(manifest, list_pins(manifest.view(MAIN))[PERSON])
    staged = append_nodes(PERSON, ["ghost"]).stage(table)
    assert staged is not None
    tables.commit(table, staged, "dead")
    world = world_of_template()
    nodes = (*world.tables[model.NODES], protocol_world.Version("dead", "append", ("ann", "bob", "ghost")))
    world = world._replace(tables=(nodes, world.tables[model.EDGES]))
    expected = ModelRun(world).run(NEXT[1])
    found = run_real(manifest, NEXT[0])
    # The row that tells of the drift decides nothing, and the model leaves it out.
    assert found.trace[:4] == ("acquire", f"restore {PERSON}", "publish", "audit_if_absent")
    assert replace(found, trace=found.trace[:3] + found.trace[4:]) == expected


def test_two_writes_in_another_order_are_not_the_models() -> None:
    operation = PAIRS["load"][1]
    clean = ModelRun(world_of_template()).run(operation).trace
    assert clean == ("acquire", "put", f"commit {PERSON}", f"commit {KNOWS}", "publish", "delete")
    faults = [Fault(place, when) for place in range(1, len(clean)) for when in ("before", "after")]
    allowed = {ModelRun(world_of_template()).run(operation, fault).trace for fault in (None, *faults)}
    for place in range(len(clean) - 1):
        swapped = (*clean[:place], clean[place + 1], clean[place], *clean[place + 2 :])
        assert swapped not in allowed


QUICK = [each for each in SCENARIOS if each.name in ("L1", "L2", "L8", "S3", "S4b", "C1")]


@pytest.mark.parametrize("scenario", QUICK, ids=[each.name for each in QUICK])
def test_the_model_holds(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "PUBLISH_ATTEMPTS", 2)
    _, problem, trace = Checker(scenario, FIXES).run(1_000_000)
    assert problem is None, trace


def test_the_model_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "PUBLISH_ATTEMPTS", 2)
    scenario = next(each for each in SCENARIOS if each.name == WITHOUT_FIX["finished_first"])
    _, problem, _ = Checker(scenario, FIXES - {"finished_first"}).run(1_000_000)
    assert problem is not None


@pytest.mark.slow
def test_the_whole_model_with_every_rule_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scenario with all rules; without each rule; each weakening, of which each must be caught."""
    monkeypatch.setattr(model, "PUBLISH_ATTEMPTS", 2)
    assert protocol_checker.main([]) == 0
