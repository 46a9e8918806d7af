# pyright: basic, reportAssignmentType=false
# ruff: noqa: B905, C901, RUF005
# As in `protocol_model.py`: the text is kept as it was checked.
"""What the programs of `protocol_model.py` share, and what each of their accesses does to it.

The shared state is immutable. `perform` makes one atomic access; `Automaton` makes a program's state comparable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

OWNER, RECOVERY = "owner", "omnigraph:recovery"

Flags = frozenset[str]


class Version(NamedTuple):
    operation: str  # omnigraph:operation_id; "" for a Restore
    kind: str  # create, append, delete, restore
    rows: tuple[str, ...]  # sorted, duplicates kept


class Change(NamedTuple):
    table: int
    kind: str
    rows: tuple[str, ...]


class Commit(NamedTuple):
    id: str
    parent: str | None
    pins: tuple[int, ...]
    changes: tuple[Change, ...]  # what the operation meant to do; () for a roll-back
    actor: str
    txn: str | None = None
    if_commit: str | None = None


class Sidecar(NamedTuple):
    operation: str
    parent: str
    pins: tuple[int, ...]
    changes: tuple[Change, ...]
    reads: tuple[int, ...]
    txn: str | None
    if_commit: str | None
    decision: str | None = None
    confirmed: bool = False  # a merge's: every table was committed


class World(NamedTuple):
    tables: tuple[tuple[Version, ...], ...]
    commits: tuple[Commit, ...]
    sidecars: tuple[Sidecar, ...]
    audit: tuple[tuple[str, str], ...]  # (operation, RolledForward | RolledBack), sorted, duplicates kept
    locks: tuple[int | None, ...]  # holder of each lock; one lock, unless mutated
    in_flight: (
        tuple[int, tuple] | None
    )  # (guard, action): a request whose caller stopped waiting and that may still land
    crashes: int  # faults still to be spent
    steals: int
    io_errors: int
    freed_by: int | None = None  # who freed the lease last, if nobody took it since: the tag that a handle remembers


class Snapshot(NamedTuple):
    head: str
    pins: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]
    commits: frozenset[str]
    recovered: frozenset[str]  # those published by recovery
    txns: frozenset[str]


def changed(rows: tuple[str, ...], change: Change) -> tuple[str, ...]:
    if change.kind == "append":
        return tuple(sorted(rows + change.rows))
    return tuple(row for row in rows if row not in change.rows)


def snapshot_of(world: World, commit_id: str | None = None) -> Snapshot:
    """What the newest commit shows, or a given one."""
    if commit_id is not None:
        ids = [commit.id for commit in world.commits]
        world = world._replace(commits=world.commits[: ids.index(commit_id) + 1])
    head = world.commits[-1]
    return Snapshot(
        head.id,
        head.pins,
        tuple(table[pin].rows for table, pin in zip(world.tables, head.pins)),
        frozenset(commit.id for commit in world.commits),
        frozenset(commit.id for commit in world.commits if commit.actor == RECOVERY),
        frozenset(commit.txn for commit in world.commits if commit.txn),
    )


DURABLE = {"put", "delete", "commit", "restore", "publish", "audit", "audit_if_absent", "release"}


def replace_at(items: tuple, index: int, item: Any) -> tuple:
    return items[:index] + (item,) + items[index + 1 :]


def perform(world: World, me: int, action: tuple, flags: Flags) -> tuple[World, Any]:
    """One atomic access. Table commits behave as measured with Lance 14; see substrate.md."""
    name = action[0]
    if name == "snapshot":
        return world, snapshot_of(world)
    if name == "list":
        return world, world.sidecars
    if name == "read_sidecar":
        return world, next((s for s in world.sidecars if s.operation == action[1]), None)
    if name == "audited":
        return world, any(operation == action[1] for operation, _ in world.audit)
    if name == "transactions":
        return world, tuple(version.operation for version in world.tables[action[1]][action[2] + 1 :])
    if name == "recall":  # what this handle published is in its memory
        return world, snapshot_of(world, action[1])
    if name == "heads":
        return world, tuple(table for table in action[1] if len(world.tables[table]) > action[2][table] + 1)
    if name == "release":
        freed = me if me in world.locks and "chain" in flags else None
        return world._replace(
            locks=tuple(None if holder == me else holder for holder in world.locks), freed_by=freed
        ), "ok"
    if name == "put":
        others = tuple(s for s in world.sidecars if s.operation != action[1].operation)
        return world._replace(sidecars=tuple(sorted((*others, action[1]), key=lambda s: s.operation))), "ok"
    if name == "delete":
        return world._replace(sidecars=tuple(s for s in world.sidecars if s.operation != action[1])), "ok"
    if name in ("audit", "audit_if_absent"):
        row = (action[1], action[2])
        if name == "audit_if_absent" and any(operation == action[1] for operation, _ in world.audit):
            return world, "ok"
        return world._replace(audit=tuple(sorted((*world.audit, row)))), "ok"
    if name == "restore":  # unconditional
        _, table, pin = action
        versions = world.tables[table] + (Version("", "restore", world.tables[table][pin].rows),)
        return world._replace(tables=replace_at(world.tables, table, versions)), len(versions) - 1
    if name == "commit":  # rebases over appends, refused after a Restore
        _, change, read_version, operation = action
        versions = world.tables[change.table]
        since = {version.kind for version in versions[read_version + 1 :]}
        if "restore" in since or (change.kind == "delete" and since - {"append"}):
            return world, "refused"
        versions += (Version(operation, change.kind, changed(versions[-1].rows, change)),)
        return world._replace(tables=replace_at(world.tables, change.table, versions)), len(versions) - 1
    assert name == "publish", name
    _, head, commit = action
    if head != world.commits[-1].id and "no_head_cas" not in flags:
        return world, "lost race"
    return world._replace(commits=world.commits + (commit,)), "ok"


def guard_of(world: World, action: tuple) -> int:
    """What must not have changed for a late request to land: the object store puts a version only if it is absent."""
    if action[0] == "publish":
        return len(world.commits)
    if action[0] in ("commit", "restore"):
        return len(world.tables[action[1].table if action[0] == "commit" else action[1]])
    return 0


def without_stale_request(world: World) -> World:
    if world.in_flight and guard_of(world, world.in_flight[1]) != world.in_flight[0]:
        return world._replace(in_flight=None)
    return world


class Automaton:
    """A program as a lazily built graph of local states."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.nodes: list[tuple] = []  # (answers so far, pending action or None, result, inside the commit section)
        self.by_key: dict[Any, int] = {}
        self.edges: dict[tuple[int, Any], int] = {}
        self.start = self.visit(())

    def visit(self, answers: tuple) -> int:
        program, inside = self.make(), False
        try:
            action = next(program)
            for answer in answers:
                inside = action[0] == "acquire" or (inside and action[0] != "release")
                action = program.send(answer)
            key, result = self.key_of(program), None
        except StopIteration as stop:
            action, result, key = None, stop.value, stop.value
        if key not in self.by_key:
            self.by_key[key] = len(self.nodes)
            self.nodes.append((answers, action, result, inside))
        return self.by_key[key]

    @staticmethod
    def key_of(program: Any) -> tuple:
        frames = []
        while program is not None:
            frame = program.gi_frame
            frames.append((frame.f_code.co_name, frame.f_lasti, tuple(frame.f_locals.items())))
            program = program.gi_yieldfrom
        return tuple(frames)

    def step(self, node: int, answer: Any) -> int:
        edge = (node, answer)
        if edge not in self.edges:
            self.edges[edge] = self.visit(self.nodes[node][0] + (answer,))
        return self.edges[edge]
