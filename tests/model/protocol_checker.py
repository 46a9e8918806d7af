# pyright: basic
# ruff: noqa: B905, C901, E501, RUF059, T201
# States are plain tuples of many shapes, as in the model; a command line prints.
"""The model checker of `protocol_model.py`: breadth first over every interleaving of several writers, with faults.

Crashes, failed or lost answers, late requests and stolen leases come between any two accesses. In every reachable state
it checks what the guarantees promise, and asks whether a fresh writer, alone, can still commit (no wedge) and leaves
nothing unfinished.

    python -m tests.model.protocol_checker              each scenario with all fixes; without each fix; each mutation (1-2 minutes)
    python -m tests.model.protocol_checker --deep       also three blind writers, two steals, late requests of every kind (half an hour)
    python -m tests.model.protocol_checker --only S4b   one scenario (or prefix) with all fixes; --flags a,b chooses fixes and mutations
    python -m tests.model.protocol_checker --trace      print the counterexample of each missing fix and each mutation

Two locks: L = flock (freed exactly at death, never stolen), S = lease (may be stolen from a live, paused holder, who then
goes on with its next step). S runs twice: `check` = the holder notices before the step after next that its lease is gone;
`blind` = its clock lies and it never notices. Safety must not depend on the difference.

Exit status 0: every scenario holds with all fixes and every mutation is caught. 1: otherwise, with a shortest
counterexample.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.model.protocol_model import EDGES, FIXES, NODES, TABLE_NAMES, Operation, chained_writer, writer
from tests.model.protocol_world import (
    DURABLE,
    OWNER,
    RECOVERY,
    Automaton,
    Commit,
    Flags,
    Version,
    World,
    changed,
    guard_of,
    perform,
    replace_at,
    without_stale_request,
)


class Scenario(NamedTuple):
    name: str  # a trailing b: blind
    lock: str  # L | S
    operations: tuple[Operation | tuple[Operation, ...], ...]  # of each process; several: one handle after the other
    crashes: int = 0
    steals: int = 0
    io_errors: int = 0
    failing: frozenset = (
        frozenset()
    )  # which accesses may fail (io_errors); every one may land or not, "late" = lands later
    blind: bool = False


def broken(world: World) -> str | None:
    """What must hold of the shared state, always."""
    rows = [table[0].rows for table in world.tables]
    parent = None
    for commit in world.commits:
        if commit.parent != parent:
            return f"history not linear: the parent of {commit.id} is {commit.parent}, not {parent}"
        if commit.if_commit and commit.if_commit != commit.parent:
            return f"if_commit broken: {commit.id} asked for {commit.if_commit}, its parent is {commit.parent}"
        for change in commit.changes:
            rows[change.table] = changed(rows[change.table], change)
        for table, pin in enumerate(commit.pins):
            if pin >= len(world.tables[table]):
                return f"pin {TABLE_NAMES[table]}@{pin} of {commit.id} cannot be opened"
            if world.tables[table][pin].rows != rows[table]:
                return f"{commit.id} shows {TABLE_NAMES[table]}={world.tables[table][pin].rows}, its history says {rows[table]}"
        if any(end not in rows[NODES] for edge in rows[EDGES] for end in edge.split(">")):
            return f"dangling edge in {commit.id}: nodes {rows[NODES]}, edges {rows[EDGES]}"
        parent = commit.id
    ids = {commit.id for commit in world.commits}
    if len(ids) != len(world.commits):
        return f"one commit applied twice: {[commit.id for commit in world.commits]}"
    for operation, kind in world.audit:
        if (kind == "RolledForward") != ("c-" + operation in ids):
            return f"audit says {kind} of {operation}, but it is {'' if 'c-' + operation in ids else 'not '}visible"
    if len({operation for operation, _ in world.audit}) != len(world.audit):
        return f"audited twice: {world.audit}"
    return None


def list_operations(process: Operation | tuple[Operation, ...]) -> tuple[Operation, ...]:
    # An operation is a tuple too.
    return (process,) if isinstance(process, Operation) else process


def misreported(world: World, operation: Operation, result: str) -> str | None:
    own_ids = {operation.commit_id, operation.repeated().commit_id}
    visible = sum(commit.id in own_ids for commit in world.commits)
    if visible > 1:
        return f"{operation.id} was applied twice"
    if result == "committed" and not visible:
        return f"{operation.id} was acknowledged and is not in the history"
    if result == "failed" and visible:
        return f"{operation.id} was reported as failed and is visible"
    if result == "replayed" and all(commit.txn != operation.txn for commit in world.commits):
        return f"{operation.id} was reported as replayed and its txn is not in the history"
    return None


class Checker:
    def __init__(self, scenario: Scenario, flags: Flags) -> None:
        self.scenario = scenario
        self.lease = scenario.lock == "S"
        self.flags = flags | ({"lease"} if self.lease else set())
        self.processes = [list_operations(each) for each in scenario.operations]
        if any(len(each) > 1 for each in self.processes):
            self.flags |= {"chain"}
        self.programs = [self.automaton(me, operations) for me, operations in enumerate(self.processes)]
        fresh = len(self.programs)
        self.fresh = [
            self.automaton(fresh, (op,))
            for op in (Operation("fresh1", "delete", "m"), Operation("fresh2", "load", "f"))
        ]
        self.checked_worlds: dict[tuple, str | None] = {}

    def automaton(self, me: int, operations: tuple[Operation, ...]) -> Automaton:
        single = operations[0] if len(operations) == 1 else None
        if single is None:
            return Automaton(lambda: chained_writer(me, operations, self.flags))
        return Automaton(lambda: writer(me, single, self.flags - {"chain"}))

    def start(self) -> tuple:
        tables = ((Version("", "create", ("m", "n")),), (Version("", "create", ()),))
        locks = (None, None) if "table_locks" in self.flags else (None,)
        scenario = self.scenario
        world = World(
            tables,
            (Commit("c0", None, (0, 0), (), OWNER),),
            (),
            (),
            locks,
            None,
            scenario.crashes,
            scenario.steals,
            scenario.io_errors,
        )
        return world, tuple(program.start for program in self.programs)

    def successors(self, world: World, places: tuple) -> Iterator[tuple[str, World, tuple]]:
        """A place is a node of the process's automaton, or what has become of it: dead, abandoned."""
        if world.in_flight:
            landed, answer = perform(world._replace(in_flight=None), -1, world.in_flight[1], self.flags)
            yield f"late request lands: {describe(world.in_flight[1], answer)}", landed, places
        for me, place in enumerate(places):
            if not isinstance(place, int):
                continue
            _, action, _, inside = self.programs[me].nodes[place]
            if action is None:
                continue
            who = f"W{me} ({', '.join(operation.id for operation in self.processes[me])})"
            if action[0] == "acquire":
                for how, taken in self.acquire(world, me, action[1], places):
                    yield f"{who} takes the lock ({how})", taken, self.move(places, me, how, taken)
                continue
            if action[0] in DURABLE and world.crashes:
                locks = world.locks if self.lease else tuple(None if holder == me else holder for holder in world.locks)
                yield (
                    f"{who} is killed",
                    world._replace(crashes=world.crashes - 1, locks=locks),
                    replace_at(places, me, "dead"),
                )
            after, answer = perform(world, me, action, self.flags)
            yield f"{who} {describe(action, answer)}", after, self.move(places, me, answer, after)
            if world.io_errors and action[0] in self.scenario.failing:
                failed = world._replace(io_errors=world.io_errors - 1)
                yield f"{who} {describe(action, 'error, no effect')}", failed, self.move(places, me, "error", failed)
                lost = after._replace(io_errors=world.io_errors - 1)
                if lost != failed:
                    yield (
                        f"{who} {describe(action, 'error, but it landed')}",
                        lost,
                        self.move(places, me, "error", lost),
                    )
                if "late" in self.scenario.failing and after != world and not world.in_flight:
                    late = failed._replace(in_flight=(guard_of(world, action), action))
                    yield (
                        f"{who} {describe(action, 'error, still in flight')}",
                        late,
                        self.move(places, me, "error", late),
                    )

    def acquire(self, world: World, me: int, wanted: tuple, places: tuple) -> Iterator[tuple[str, World]]:
        holders = {world.locks[index] for index in wanted} - {None}
        locks = tuple(me if index in wanted else holder for index, holder in enumerate(world.locks))
        continues = world.freed_by == me
        world = world._replace(freed_by=None)
        if not holders:
            yield "continues" if continues else "free", world._replace(locks=locks)
        elif self.lease:
            live = any(isinstance(places[holder], int) for holder in holders)
            if not live:
                yield "takeover", world._replace(locks=locks)
            elif world.steals:
                yield "takeover", world._replace(locks=locks, steals=world.steals - 1)

    def move(self, places: tuple, me: int, answer: Any, world: World) -> tuple:
        program = self.programs[me]
        place: Any = program.step(places[me], answer)
        _, action, _, inside = program.nodes[place]
        if self.lease and not self.scenario.blind and inside and action and me not in world.locks:
            place = "abandoned"  # the lease check before the next durable step: walk away, OutcomeUnknown
        return replace_at(places, me, place)

    def violation(self, world: World, places: tuple) -> str | None:
        for program, operations, place in zip(self.programs, self.processes, places):
            if isinstance(place, int) and program.nodes[place][1] is None:
                for operation, result in zip(operations, program.nodes[place][2].split(",")):
                    problem = misreported(world, operation, result)
                    if problem:
                        return problem
        visible = {commit.id for commit in world.commits}
        done = [
            operation.txn
            for operations in self.processes
            for operation in operations
            if operation.txn and operation.commit_id in visible
        ]
        if len(done) != len(set(done)):
            return f"one txn applied by two operations: {done}"
        live_holder = any(holder is not None and isinstance(places[holder], int) for holder in world.locks)
        key = (world[:6], live_holder and not self.lease)
        if key not in self.checked_worlds:
            self.checked_worlds[key] = broken(world) or (None if key[1] else self.wedged(world))
        return self.checked_worlds[key]

    def wedged(self, world: World) -> str | None:
        """Everybody else stands still: can a fresh writer commit, twice, and is everything finished afterwards?"""
        steps = []
        for program in self.fresh:
            place = program.start
            while program.nodes[place][1] is not None:
                action = program.nodes[place][1]
                if action[0] == "acquire":
                    answer: Any = "takeover" if any(world.locks[index] is not None for index in action[1]) else "free"
                    world = world._replace(locks=tuple(len(self.programs) for _ in world.locks))
                else:
                    world, answer = perform(world, len(self.programs), action, self.flags)
                steps.append(describe(action, answer))
                place = program.step(place, answer)
            problem = broken(world)
            if program.nodes[place][2] != "committed":
                problem = problem or f"blocked: a fresh writer, alone, ends with {program.nodes[place][2]!r}"
            if problem:
                return problem + "; the fresh writer: " + "; ".join(steps)
        if world.sidecars and "table_locks" not in self.flags:
            return f"sidecar left behind by the fresh writer: {world.sidecars}"
        audits = Counter(operation for operation, _ in world.audit)
        for commit in world.commits:
            if commit.actor == RECOVERY and commit.changes and audits[commit.id[2:]] != 1:
                return f"{commit.id} was published by recovery and audited {audits[commit.id[2:]]} times"
        return None

    def run(self, limit: int) -> tuple[int, str | None, list[str]]:
        """Breadth-first: (states, violation, shortest trace)."""
        world, places = self.start()
        world_ids: dict[World, int] = {world: 0}
        worlds = [world]
        first = (0, places)
        came_from: dict[tuple, tuple | None] = {first: None}
        frontier = [first]
        while frontier:
            reached = []
            for state in frontier:
                for label, next_world, next_places in self.successors(worlds[state[0]], state[1]):
                    next_world = without_stale_request(next_world)
                    number = world_ids.setdefault(next_world, len(worlds))
                    if number == len(worlds):
                        worlds.append(next_world)
                    following = (number, next_places)
                    if following in came_from:
                        continue
                    came_from[following] = (state, label)
                    problem = self.violation(next_world, next_places)
                    if problem:
                        return len(came_from), problem, self.trace(came_from, following)
                    reached.append(following)
            if len(came_from) > limit:
                return len(came_from), f"gave up: more than {limit} states", []
            frontier = reached
        return len(came_from), None, []

    @staticmethod
    def trace(came_from: dict, state: tuple) -> list[str]:
        labels = []
        while came_from[state] is not None:
            state, label = came_from[state]
            labels.append(label)
        return labels[::-1]


def describe(action: tuple, answer: Any) -> str:
    """One line of a trace."""
    name = action[0]
    if name == "snapshot":
        shown = f"reads the manifest: head {answer.head}, pins {answer.pins}"
    elif name == "list":
        shown = f"lists sidecars: {[s.operation for s in answer]}"
    elif name == "put":
        shown = (
            f"puts sidecar {action[1].operation} (parent {action[1].parent}, decision {action[1].decision}) -> {answer}"
        )
    elif name == "read_sidecar":
        shown = f"reads its sidecar: {'gone' if answer is None else answer.decision or 'there'}"
    elif name == "commit":
        shown = (
            f"commits {action[1].kind} {action[1].rows} to {TABLE_NAMES[action[1].table]} on {action[2]} -> {answer}"
        )
    elif name == "restore":
        shown = f"restores {TABLE_NAMES[action[1]]} to {action[2]} -> {answer}"
    elif name == "transactions":
        shown = f"reads {TABLE_NAMES[action[1]]} beyond {action[2]}: {answer}"
    elif name == "publish":
        shown = f"publishes {action[2].id} pins {action[2].pins} over {action[1]} -> {answer}"
    else:
        shown = f"{' '.join(map(str, action))} -> {answer}"
    return shown


# --------------------------------------------------------------------------------------------------------------- scenarios


EDGE = Operation("edge", "edge", "m>n")
DELETE = Operation("delete", "delete", "n")
LOAD = Operation("load", "load", "x")
NODE = Operation("node", "node", "y")
MERGE = Operation("merge", "merge", "x")
EDGE_IF, NODE_IF = EDGE._replace(id="edgeif", if_commit="c0"), NODE._replace(id="nodeif", if_commit="c0")
TXN_A, TXN_B = Operation("txnA", "load", "x", txn="app:1"), Operation("txnB", "load", "z", txn="app:1")
TXN_NODE, TXN_EDGE = NODE._replace(id="txnnode", txn="app:1"), EDGE._replace(id="txnedge", txn="app:1")
ANY = frozenset({"put", "delete", "commit", "restore", "publish", "audit", "audit_if_absent"})
LATE_PUBLISH = frozenset({"publish", "late"})
ALL_FIXES = frozenset(FIXES)

SCENARIOS = (
    Scenario("L1", "L", (EDGE, DELETE), crashes=2),
    Scenario("L2", "L", (LOAD, DELETE), crashes=2),
    Scenario("L3", "L", (LOAD, EDGE, DELETE), crashes=3),
    Scenario("L4", "L", (LOAD, EDGE), crashes=2, io_errors=2, failing=ANY),
    Scenario("L5", "L", (LOAD, EDGE), crashes=1, io_errors=2, failing=LATE_PUBLISH),
    Scenario("L6", "L", (NODE_IF, EDGE_IF, LOAD), crashes=2),
    Scenario("L7", "L", (TXN_A, TXN_B, EDGE), crashes=2),
    Scenario("L8", "L", (MERGE, EDGE), crashes=1, io_errors=1, failing=ANY),
    Scenario("S1", "S", (LOAD, EDGE), crashes=2, steals=2),
    Scenario("S2", "S", (LOAD, DELETE), crashes=2, steals=2),
    Scenario("S3", "S", (EDGE, DELETE), crashes=2, steals=2),
    Scenario("S4", "S", (NODE_IF, EDGE), crashes=1, steals=1),
    Scenario("S5", "S", (TXN_A, TXN_B), crashes=1, steals=1),
    Scenario("S6", "S", (LOAD, NODE, EDGE), crashes=1, steals=1),
    Scenario("S7", "S", (LOAD, EDGE), crashes=1, steals=1, io_errors=1, failing=ANY),
    Scenario("S8", "S", (LOAD, EDGE), crashes=1, steals=1, io_errors=2, failing=LATE_PUBLISH),
    Scenario("S1b", "S", (LOAD, EDGE), crashes=1, steals=1, blind=True),
    Scenario("S2b", "S", (LOAD, DELETE), crashes=1, steals=1, blind=True),
    Scenario("S3b", "S", (EDGE, DELETE), crashes=2, steals=2, blind=True),
    Scenario("S4b", "S", (NODE_IF, EDGE), crashes=1, steals=1, blind=True),
    Scenario("S5b", "S", (TXN_A, TXN_B), crashes=1, steals=1, blind=True),
    Scenario("S7b", "S", (LOAD, EDGE), steals=1, io_errors=1, failing=ANY, blind=True),
    Scenario("S8b", "S", (MERGE, EDGE), crashes=1, steals=1, blind=True),
    Scenario("S9b", "S", (TXN_NODE, TXN_EDGE), crashes=1, steals=1, blind=True),
    Scenario("C1", "S", ((NODE, LOAD), EDGE), crashes=2, steals=1),
    Scenario("C2", "S", ((LOAD, EDGE), DELETE), crashes=1, steals=1),
    Scenario("C3", "S", ((NODE, LOAD), EDGE), io_errors=1, failing=ANY),
    Scenario("C4", "S", ((NODE, EDGE), DELETE), io_errors=1, steals=1, failing=LATE_PUBLISH),
    Scenario("C1b", "S", ((NODE, EDGE), DELETE), crashes=1, steals=1, blind=True),
)
DEEP_SCENARIOS = (
    Scenario("DL3", "L", (LOAD, EDGE, DELETE, NODE), crashes=4),
    Scenario("DL4", "L", (LOAD, EDGE, DELETE), crashes=2, io_errors=2, failing=ANY),
    Scenario("DS1b", "S", (LOAD, EDGE), crashes=2, steals=2, blind=True),
    Scenario("DS2b", "S", (LOAD, DELETE), crashes=2, steals=2, blind=True),
    Scenario("DS5b", "S", (TXN_A, TXN_B), crashes=2, steals=2, blind=True),
    Scenario("DS6", "S", (LOAD, NODE, EDGE), crashes=2, steals=2),
    Scenario("DS6b", "S", (LOAD, NODE, EDGE), steals=1, blind=True),
    Scenario("DS7", "S", (LOAD, EDGE), crashes=1, steals=2, io_errors=2, failing=ANY | {"late"}),
    Scenario("DS8b", "S", (LOAD, EDGE), steals=1, io_errors=2, failing=LATE_PUBLISH, blind=True),
)
AUDIT_RACE = Scenario(
    "S10b", "S", (LOAD, NODE, EDGE), steals=1, blind=True
)  # big; used only where a violation ends it early

# Where the absence of each fix, and each mutation, shows. A second mutation named beside one means that the first alone is
# masked by another rule (defence in depth): the pair is caught, and neither is caught alone in that scenario.
WITHOUT_FIX = {
    "finished_first": "L1",
    "if_commit_every_attempt": "S4b",
    "look_before_failing": "L5",
    "restore_all_under_lease": "S1b",
    "audit_insert_if_absent": "S10b",
    "neutral_restore": "L5",
    "owner_leaves_recovered": "S1b",
}
CAUGHT_BY: dict[tuple[str, ...], str] = {
    ("no_read_set",): "L1",
    ("no_operation_ids",): "S1",
    ("no_parent_check",): "S4",
    ("no_drift_rule",): "S3",
    ("no_restore_all",): "S3b",
    ("no_restore",): "L5",
    ("no_commit_id_lookup",): "L5",
    ("no_rollback_on_failure",): "L5",
    ("no_version_check",): "S2b",
    ("no_head_cas",): "L5",
    ("no_txn_in_attempt",): "S9b",
    ("no_txn_in_sidecar",): "L7",
    ("no_audit_lookup",): "S6",
    ("rollback_unexpected",): "S2b",
    ("recovery_publishes_head",): "S2b",
    ("no_decide_anew",): "S1b",
    ("no_sidecar",): "L5",
    ("sidecar_deleted_early",): "L5",
    ("heal_before_lock_only", "no_parent_check"): "L1",
    ("heal_before_lock_only", "no_operation_ids"): "L2",
    ("table_locks", "no_parent_check"): "L1",
    ("chain_after_others", "no_head_cas"): "C4",
    ("chain_keeps_basis", "no_head_cas"): "C2",
}
MASKED = {
    "heal_before_lock_only": "L3",
    "table_locks": "L3",
    "no_parent_check": "L1",
    "no_operation_ids": "L2",
    "ignore_decision": "L4",
    # What a handle assumes is met by the head row, which the publish compares: wrong knowledge costs an attempt, no more.
    "chain_after_others": "C2",
    "chain_after_trouble": "C3",
    "chain_without_heads": "C4",
    "chain_keeps_basis": "C2",
}


def title(scenario: Scenario) -> str:
    faults = ((scenario.crashes, "crash"), (scenario.steals, "steal"), (scenario.io_errors, "I/O error"))
    words = [f"{count} {name}" for count, name in faults if count] + (
        ["late requests"] if "late" in scenario.failing else []
    )
    processes = (", ".join(op.id for op in list_operations(each)) for each in scenario.operations)
    return f"{scenario.name:5}{' | '.join(processes):29}{', '.join(words)}"


def show(problem: str, trace: list[str]) -> None:
    print("\n".join(f"        {number:2}. {line}" for number, line in enumerate(trace, 1)))
    print(f"        => {problem.replace('; ', chr(10) + '             ')}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--only", default="", help="scenario or prefix; skips the fixes and mutations")
    parser.add_argument("--flags", help="comma separated fixes and mutations; default: all fixes; empty: as specified")
    parser.add_argument("--limit", type=int, default=20_000_000, help="most states per scenario")
    args = parser.parse_args(arguments)
    flags = ALL_FIXES if args.flags is None else frozenset(filter(None, args.flags.split(",")))
    known = {scenario.name: scenario for scenario in (*SCENARIOS, *DEEP_SCENARIOS, AUDIT_RACE)}
    bad = 0

    print("scenarios:", "all fixes" if flags == ALL_FIXES else sorted(flags) or "as specified")
    for scenario in SCENARIOS + (DEEP_SCENARIOS if args.deep or args.only.startswith("D") else ()):
        if not scenario.name.startswith(args.only):
            continue
        began = time.perf_counter()
        states, problem, trace = Checker(scenario, flags).run(args.limit)
        verdict = "VIOLATED" if problem else "holds"
        print(f"  {title(scenario):70}{states:9} states {time.perf_counter() - began:7.1f} s  {verdict}", flush=True)
        if problem:
            bad += 1
            show(problem, trace)
    if args.only or args.flags is not None:
        return bool(bad)

    def unexpected(what: str, flags: frozenset, where: str, wanted: bool = True) -> bool:
        states, problem, trace = Checker(known[where], flags).run(args.limit)
        print(f"  {what:48}{where:5}{states:8} states  {(problem or 'holds').split(';')[0]}", flush=True)
        if problem and args.trace:
            show(problem, trace)
        return bool(problem) != wanted

    print("without one fix (the text as specified, otherwise fixed): each must be violated")
    bad += sum(unexpected(fix, ALL_FIXES - {fix}, where) for fix, where in WITHOUT_FIX.items())
    print("mutations: each must be caught")
    bad += sum(unexpected(" + ".join(names), ALL_FIXES | set(names), where) for names, where in CAUGHT_BY.items())
    print("masked: each must hold alone, because another rule covers it there")
    bad += sum(unexpected(name, ALL_FIXES | {name}, where, wanted=False) for name, where in MASKED.items())
    print("all as expected" if not bad else f"{bad} NOT as expected")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
