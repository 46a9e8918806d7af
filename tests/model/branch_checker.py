# pyright: basic
# ruff: noqa: E501, T201
# As in the protocol's checker: states are plain tuples, and a command line prints.
"""The model checker of `branch_model.py`: every interleaving of schema changes, branches, cleanup and upkeep, with kills.

In every reachable state: all that a branch or a tag shows can be opened, a branch says the schema that its tables have,
transactions are serializable, no caller meets an error that is not ours, and a fresh writer, alone, can write to every
branch. After a hard drop has returned, or the next write after its death, none of the values is left.

    python -m tests.model.branch_checker            each scenario; then each rule left out: its defect must be found
    python -m tests.model.branch_checker --trace    with the shortest way to each defect
    python -m tests.model.branch_checker --deep     also with more programs beside each other
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from tests.model.branch_model import (
    DURABLE,
    RULES,
    Commit,
    Flags,
    Pin,
    Program,
    Stored,
    T,
    Transaction,
    U,
    World,
    apply_schema,
    branch_of,
    build_index,
    clean_up,
    clean_up_beside_readers,
    create_ref,
    merge,
    perform,
    read,
    stored_at,
    write,
)
from tests.model.protocol_world import Automaton, replace_at

Make = Callable[[int, str, Flags], Program]
ALL_RULES = frozenset(RULES)
OURS = ("committed", "conflict", "refused")


def writes(branch: str, table: int = T, reads: tuple[int, ...] = ()) -> Make:
    return lambda me, name, rules: write(me, name, branch, table, reads, rules)


def applies(kind: str, *, is_long: bool = False) -> Make:
    return lambda me, name, rules: apply_schema(me, name, kind, is_long, rules)


def creates(kind: str) -> Make:
    return lambda me, name, rules: create_ref(me, name, kind, rules)


def merges(source: str) -> Make:
    return lambda me, name, rules: merge(me, name, source, rules)


def reads(branch: str) -> Make:
    return lambda me, name, rules: read(me, name, branch, rules)


class Scenario(NamedTuple):
    name: str
    programs: tuple[Make, ...]
    start: Callable[[], World]
    crashes: int = 0


# --------------------------------------------------------------------------------------------------------------- beginnings


def world_of(tables: dict[tuple[int, str, int], tuple[str, ...]], branches: dict[str, tuple[Commit, ...]]) -> World:
    stored = tuple(
        tuple(((owner, version), Stored(0, rows)) for (at, owner, version), rows in tables.items() if at == table)
        for table in (T, U)
    )
    return World(stored, tuple(branches.items()), (), (), (), (), (), 0)


def main_and_branch() -> World:
    """Main with one row in T, and a branch that shows T as it was before, without rows."""
    first, second = Commit("c0", (Pin("main", 1), Pin("main", 1)), 0), Commit("c1", (Pin("main", 2), Pin("main", 1)), 0)
    tables = {(T, "main", 1): (), (T, "main", 2): ("r",), (U, "main", 1): ()}
    return world_of(tables, {"main": (first, second), "b": (first,)})


def only_main() -> World:
    """Main alone, with one row in T."""
    return main_and_branch()._replace(branches=main_and_branch().branches[:1])


def one_commit() -> World:
    """Main with a single commit, which has one row in T."""
    only = Commit("c0", (Pin("main", 1), Pin("main", 1)), 0)
    return world_of({(T, "main", 1): ("r",), (U, "main", 1): ()}, {"main": (only,)})


def grown_branch() -> World:
    """A branch of a branch: its T has more versions than main's."""
    first = Commit("c0", (Pin("main", 1), Pin("main", 1)), 0)
    grown = Commit("p6", (Pin("p", 7), Pin("main", 1)), 0)
    tables = {(T, "main", 1): (), (T, "p", 7): ("a",), (U, "main", 1): ()}
    return world_of(tables, {"main": (first,), "b": (grown,)})


def branch_ahead() -> World:
    """A branch that main can adopt a version from."""
    first = Commit("c0", (Pin("main", 1), Pin("main", 1)), 0)
    ahead = Commit("b1", (Pin("b", 2), Pin("main", 1)), 0)
    tables = {(T, "main", 1): (), (T, "b", 2): ("x",), (U, "main", 1): ()}
    return world_of(tables, {"main": (first,), "b": (first, ahead)})


# ---------------------------------------------------------------------------------------------------------------- invariants


def broken(world: World) -> str | None:
    """What must hold of the shared state, always."""
    if world.mistakes:
        return world.mistakes[0]
    for name, commits in world.branches:
        head = commits[-1]
        for table, pin in enumerate(head.pins):
            stored = stored_at(world, table, pin)
            if stored is None:
                return f"the head of {name} cannot be opened: {pin}"
            if table == T and stored.schema != head.schema:
                return f"{name} says schema {head.schema}, its table has {stored.schema}"
    for name, commit in world.tags:
        if any(stored_at(world, table, pin) is None for table, pin in enumerate(commit.pins)):
            return f"tag {name} cannot be opened"
    return lost_row(world) or not_serializable(world)


def lost_row(world: World) -> str | None:
    """A row of main that was committed and that nobody took away."""
    commits = branch_of(world, "main")
    stored = stored_at(world, T, commits[-1].pins[T])
    if world.re_created or stored is None:
        return None
    inserted = {row for (owner, _), version in world.tables[T] if owner == "main" for row in version.rows}
    for transaction in world.transactions:
        if transaction.name in inserted - set(stored.rows):
            return f"the row of {transaction.name} is lost"
    return None


def not_serializable(world: World) -> str | None:
    """Two transactions of which each read the table that the other wrote, and neither saw the other."""
    for one, other in combinations(world.transactions, 2):
        if is_blind(one, other) and is_blind(other, one):
            return f"write skew: {one.name} and {other.name} did not see each other"
    return None


def is_blind(reader: Transaction, writer: Transaction) -> bool:
    return writer.table in reader.read and writer.name not in reader.saw


def left_of_hard_drops(world: World) -> bool:
    return any(
        stored.schema < max(world.hard, default=0) and stored.rows and not stored.is_gone and at[0] == "main"
        for at, stored in world.tables[T]
    )


# ------------------------------------------------------------------------------------------------------------------ checker


class Checker:
    def __init__(self, scenario: Scenario, rules: Flags) -> None:
        self.scenario, self.rules = scenario, rules
        self.programs = [Automaton(partial(make, me, f"w{me}", rules)) for me, make in enumerate(scenario.programs)]
        self.fresh: dict[tuple[str, int], Automaton] = {}
        self.checked: dict[tuple, str | None] = {}

    def run(self, limit: int = 2_000_000) -> tuple[int, str | None, list[str]]:
        """Breadth first: (states, violation, shortest trace)."""
        start = (
            self.scenario.start()._replace(crashes=self.scenario.crashes),
            tuple(each.start for each in self.programs),
        )
        came_from: dict[tuple, tuple | None] = {start: None}
        frontier = [start]
        while frontier:
            reached = []
            for state in frontier:
                for label, world, places in self.successors(*state):
                    following = (world, places)
                    if following in came_from:
                        continue
                    came_from[following] = (state, label)
                    problem = self.violation(world, places)
                    if problem:
                        return len(came_from), problem, trace_of(came_from, following)
                    reached.append(following)
            if len(came_from) > limit:
                return len(came_from), f"gave up: more than {limit} states", []
            frontier = reached
        return len(came_from), None, []

    def successors(self, world: World, places: tuple) -> Iterator[tuple[str, World, tuple]]:
        for me, place in enumerate(places):
            if not isinstance(place, int):
                continue
            action = self.programs[me].nodes[place][1]
            if action is None:
                continue
            if action[0] == "acquire":
                taken = acquire(world, me, action[1])
                if taken is not None:
                    yield f"w{me} locks {'+'.join(action[1])}", taken, self.move(places, me, "ok")
                continue
            if action[0] in DURABLE and world.crashes:
                locks = tuple(held for held in world.locks if held[1] != me)
                dead = world._replace(crashes=world.crashes - 1, locks=locks)
                yield f"w{me} is killed before {action[0]}", dead, replace_at(places, me, "dead")
            after, answer = perform(world, me, action)
            yield f"w{me} {' '.join(map(str, action))} -> {answer}", after, self.move(places, me, answer)

    def move(self, places: tuple, me: int, answer: Any) -> tuple:
        return replace_at(places, me, self.programs[me].step(places[me], answer))

    def violation(self, world: World, places: tuple) -> str | None:
        for me, place in enumerate(places):
            if isinstance(place, int) and self.programs[me].nodes[place][1] is None:
                result = self.programs[me].nodes[place][2]
                if result not in OURS:
                    return f"w{me} ends with: {result}"
        ended = all(
            not isinstance(place, int) or self.programs[me].nodes[place][1] is None for me, place in enumerate(places)
        )
        key = (world._replace(crashes=0), ended)
        if key not in self.checked:
            self.checked[key] = broken(world) or (self.wedged(world) if not world.locks else None)
        return self.checked[key]

    def wedged(self, world: World) -> str | None:
        """Everybody else stands still: can a fresh writer write to every branch, and is everything gone that must be?"""
        for name, _ in world.branches:
            after, result = self.alone(world, name)
            if result != "committed":
                return f"blocked: a fresh writer on {name}, alone, ends with {result!r}"
            problem = broken(after)
            if problem:
                return f"after a fresh write to {name}: {problem}"
            if left_of_hard_drops(after):
                return "values that a hard drop took away are still there after the next write"
        return None

    def alone(self, world: World, branch: str) -> tuple[World, str]:
        me = len(self.programs)
        program = self.fresh.setdefault((branch, T), Automaton(partial(writes(branch), me, "fresh", self.rules)))
        place = program.start
        while program.nodes[place][1] is not None:
            action = program.nodes[place][1]
            if action[0] == "acquire":
                world, answer = world._replace(locks=tuple((lock, me) for lock in action[1])), "ok"
            else:
                world, answer = perform(world, me, action)
            place = program.step(place, answer)
        return world, program.nodes[place][2]


def acquire(world: World, me: int, wanted: tuple[str, ...]) -> World | None:
    """Locks that this program may hold already, or that nobody holds; refs comes first."""
    if any(lock in wanted and holder != me for lock, holder in world.locks):
        return None
    others = tuple(held for held in world.locks if held[1] != me)
    return world._replace(locks=tuple(sorted({*others, *((lock, me) for lock in wanted)})))


def trace_of(came_from: dict, state: tuple) -> list[str]:
    labels = []
    while came_from[state] is not None:
        state, label = came_from[state]
        labels.append(label)
    return labels[::-1]


# ---------------------------------------------------------------------------------------------------------------- scenarios


SCENARIOS = (
    Scenario("add beside a writer", (applies("add"), writes("main")), main_and_branch),
    Scenario("add beside a lagging writer", (applies("add"), applies("add"), writes("b")), main_and_branch),
    Scenario("long change beside a writer", (applies("add", is_long=True), writes("main")), main_and_branch, crashes=1),
    Scenario("two changes beside a writer", (applies("add"), applies("add"), writes("main")), main_and_branch),
    Scenario("hard drop beside a new branch", (applies("hard"), creates("branch")), one_commit, crashes=1),
    Scenario("hard drop beside a new tag", (applies("hard"), creates("tag"), writes("main")), one_commit, crashes=1),
    Scenario("hard drop beside an empty branch", (applies("hard"), writes("b")), main_and_branch, crashes=1),
    Scenario("hard drop beside a branch's data", (applies("hard"), writes("b")), branch_ahead, crashes=1),
    Scenario("hard drop that dies", (applies("hard"), writes("main")), only_main, crashes=1),
    Scenario("re-created beside a grown branch", (applies("re-create"), writes("b")), grown_branch),
    Scenario("branch of an old commit", (clean_up, creates("branch"), writes("main")), branch_ahead),
    Scenario("tag of an old commit", (clean_up, creates("tag"), writes("main")), branch_ahead),
    Scenario("adoption beside cleanup", (merges("b"), writes("b"), clean_up), branch_ahead),
    Scenario("readers beside cleanup", (reads("main"), writes("main"), clean_up_beside_readers), main_and_branch),
    Scenario("two transactions", (writes("main", U, (T,)), writes("main", T, (U,))), main_and_branch),
    Scenario("an index beside writers", (build_index, writes("main"), writes("main")), main_and_branch),
)
DEEP_SCENARIOS = (
    Scenario(
        "hard drop, cleanup, branch",
        (applies("hard"), clean_up, creates("branch"), writes("b")),
        main_and_branch,
        crashes=1,
    ),
    Scenario("schemas beside a merge", (applies("add"), merges("b"), writes("b"), clean_up), branch_ahead, crashes=1),
    Scenario(
        "two hard drops and a branch",
        (applies("hard"), applies("hard"), creates("branch"), writes("main")),
        one_commit,
        crashes=1,
    ),
    Scenario("re-created twice", (applies("re-create"), applies("re-create"), writes("b"), writes("b")), grown_branch),
)
CAUGHT_BY = {
    "empty_versions_stay": "hard drop beside an empty branch",
    "fork_from_own_pin": "re-created beside a grown branch",
    "removal_is_recorded": "hard drop that dies",
    "removal_before_refs": "hard drop beside a new tag",
    "origin_is_opened": "branch of an old commit",
    "reads_are_compared": "two transactions",
    "adopted_under_refs": "adoption beside cleanup",
    "one_schema_in_catch_up": "add beside a lagging writer",
    "schema_in_basis": "add beside a writer",
    "prepared_rows_are_compared": "add beside a writer",
    "refs_are_looked_at_again": "hard drop beside a new branch",
    "refs_lock_until_published": "hard drop beside a new branch",
    "readers_have_grace": "readers beside cleanup",
    "upkeep_may_wait": "an index beside writers",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    bad = 0
    for scenario in SCENARIOS + (DEEP_SCENARIOS if args.deep else ()):
        began = time.perf_counter()
        states, problem, trace = Checker(scenario, ALL_RULES).run()
        print(
            f"  {scenario.name:40}{states:9} states {time.perf_counter() - began:6.1f} s  {problem or 'holds'}",
            flush=True,
        )
        bad += bool(problem)
        if problem:
            print("\n".join(f"        {line}" for line in trace))
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for rule, where in CAUGHT_BY.items():
        states, problem, trace = Checker(known[where], ALL_RULES - {rule}).run()
        print(f"  without {rule:32}{states:9} states  {problem or 'NOT FOUND'}", flush=True)
        bad += not problem
        if args.trace and problem:
            print("\n".join(f"        {line}" for line in trace))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
