# pyright: basic
# ruff: noqa: ARG001, C901, E501, RUF005
# Programs have the same parameters, whether they use them or not; their locals are their state, as in the protocol model.
"""The second part of the specification: schemas, branches, cleanup and upkeep beside each other.

`protocol_model.py` checks how one commit survives crashes. This model takes a commit for atomic and asks what it leaves
out: schema changes beside branches that lag, branches of branches, branches and tags of old commits, merges that adopt a
version by pointer, cleanup with its grace for readers, hard drops, transactions that read, and index builds that may wait.

The programs are generator functions; every `yield` is one atomic access. RULES are what the protocol demands. Each one
names the defect that a review found without it; `branch_checker.py` finds that defect again when the rule is left out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

REFS = "refs"
T, U = 0, 1  # two tables; schemas change the columns of T

RULES = {
    "empty_versions_stay": "a hard drop removes only versions with rows: an empty one has no values, and somebody may pin it",
    "fork_from_own_pin": "a branch that catches up with a re-created table continues its own version numbers",
    "removal_is_recorded": "the publish of a hard drop records what must go; whoever writes next removes it",
    "removal_before_refs": "a branch or a tag is created after what a hard drop left is removed, under the same lock",
    "origin_is_opened": "a branch or a tag starts only from versions that are there, checked under the refs lock",
    "reads_are_compared": "what a transaction read is compared at the fence, also for one that only inserts",
    "adopted_under_refs": "a merge that adopts a version holds the refs lock, under which cleanup works, until it is published",
    "one_schema_in_catch_up": "catch-up publishes the schema that it made the tables for",
    "schema_in_basis": "the schema is part of the basis of a write; a writer that was overtaken gets a conflict",
    "prepared_rows_are_compared": "a schema change checks rows without a lock; if they moved, it prepares again or gives up",
    "refs_are_looked_at_again": "what a hard drop refuses is looked for again under the locks of its commit",
    "refs_lock_until_published": "no branch and no tag appears between that look and the publish",
    "readers_have_grace": "cleanup keeps what was the head of a branch a moment ago: somebody may be reading it",
    "upkeep_may_wait": "an index is never built under the lock: it is published for the rows that it covers, or given up",
}


# ---------------------------------------------------------------------------------------------------------- shared state


class Stored(NamedTuple):
    """One Lance version of a table. A version that was dropped cannot be opened."""

    schema: int  # the schema whose columns it has
    rows: tuple[str, ...]
    is_gone: bool = False


class Pin(NamedTuple):
    owner: str  # the Lance branch
    version: int


class Commit(NamedTuple):
    id: str
    pins: tuple[Pin, ...]
    schema: int  # the schema that the branch says its tables have


class Transaction(NamedTuple):
    """A committed write, with what it had read before: the tables, and the commits that it saw."""

    name: str
    table: int
    read: tuple[int, ...]
    saw: frozenset[str]


class World(NamedTuple):
    tables: tuple[tuple[tuple[tuple[str, int], Stored], ...], ...]  # for each table: ((owner, version), what is stored)
    branches: tuple[tuple[str, tuple[Commit, ...]], ...]
    tags: tuple[tuple[str, Commit], ...]
    re_created: tuple[int, ...]  # schemas in which T is another table than before, under the same name
    hard: tuple[int, ...]  # schemas below which every stored value must go
    pending: tuple[int, ...]  # of these, those that are not removed yet
    locks: tuple[tuple[str, int], ...]
    crashes: int
    transactions: tuple[Transaction, ...] = ()
    mistakes: tuple[str, ...] = ()  # what must never happen, whoever sees it


class Seen(NamedTuple):
    """What a reader of one branch sees: one version of its manifest."""

    commit: Commit
    stored: tuple[Stored | None, ...]  # None: the version cannot be opened
    committed: frozenset[str]


Program = Generator[tuple[Any, ...], Any, str]
Flags = frozenset[str]


def branch_of(world: World, name: str) -> tuple[Commit, ...]:
    return dict(world.branches)[name]


def stored_at(world: World, table: int, pin: Pin) -> Stored | None:
    found = dict(world.tables[table]).get((pin.owner, pin.version))
    return None if found is None or found.is_gone else found


def newest_schema(world: World) -> int:
    return branch_of(world, "main")[-1].schema


# ------------------------------------------------------------------------------------------------------------ the programs


def write(me: int, name: str, branch: str, table: int, reads: tuple[int, ...], rules: Flags) -> Program:
    """Insert one row. ``reads``: the tables that the transaction queried before. committed | conflict | raw error"""
    yield from finish_removals(rules)
    schema = yield ("schema",)
    seen = yield ("see", branch)
    if branch != "main" and seen.commit.schema != schema:
        caught_up = yield from catch_up(me, name, branch, schema, rules)
        if caught_up != "committed":
            return caught_up
        seen = yield ("see", branch)
    basis = seen
    yield ("acquire", (branch,))
    now = yield ("see", branch)
    if "schema_in_basis" in rules:
        current = yield ("schema",)
        if current != schema or now.commit.schema != schema:
            yield ("release",)
            return "conflict"
    if now.stored[table] is None or now.stored[table].schema != schema:
        # The statement was checked against another schema than the table has.
        yield ("release",)
        return "raw error"
    if "reads_are_compared" in rules and any(basis.commit.pins[each] != now.commit.pins[each] for each in reads):
        yield ("release",)
        return "conflict"
    transaction = Transaction(name, table, reads, basis.committed)
    done = yield ("commit", branch, transaction, now.commit.schema, None)
    yield ("release",)
    return done


def finish_removals(rules: Flags) -> Generator[tuple[Any, ...], Any, None]:
    """Remove what a hard drop recorded and did not come to remove."""
    pending = yield ("pending",)
    if pending:
        yield ("acquire", (REFS,))
        yield ("remove", "empty_versions_stay" in rules)
        yield ("release",)


def catch_up(me: int, name: str, branch: str, schema: int, rules: Flags) -> Program:
    """Bring T of a lagging branch to a schema, in a commit of its own."""
    seen = yield ("see", branch)
    if seen.stored[T] is None:
        return "raw error"
    again = yield ("re_created", seen.commit.schema, schema)
    yield ("acquire", (branch,))
    now = yield ("see", branch)
    if now.commit != seen.commit:
        yield ("release",)
        return "conflict"
    main = None
    if again and "fork_from_own_pin" not in rules:
        main = yield ("see", "main")
        main = main.commit.pins[T]
    claimed = schema if "one_schema_in_catch_up" in rules else (yield ("schema",))
    done = yield ("reshape", branch, f"{name}-catch-up", schema, claimed, again, main)
    yield ("release",)
    return done


def apply_schema(me: int, name: str, kind: str, is_long: bool, rules: Flags) -> Program:
    """kind: add (a column), re-create (T is dropped and another T is added), hard (a column and all its values go).

    The rows are checked and rewritten without a lock. If they moved meanwhile, a short change prepares again under the
    locks of its commit; a long one gives up. committed | conflict | refused
    """
    yield from finish_removals(rules)
    basis = yield ("see", "main")
    if kind == "hard":
        holders = yield ("holders",)
        if any(holders):
            return "refused"
    yield ("acquire", (REFS, "main") if "refs_lock_until_published" in rules else ("main",))
    if kind == "hard" and "refs_are_looked_at_again" in rules:
        holders = yield ("holders",)
        if any(holders):
            yield ("release",)
            return "refused"
    now = yield ("see", "main")
    if "prepared_rows_are_compared" in rules and now.commit != basis.commit:
        if is_long:
            yield ("release",)
            return "conflict"
        basis = now
    record = kind == "hard" and "removal_is_recorded" in rules
    done = yield ("evolve", name, kind, basis.commit.schema + 1, basis.stored[T].rows, record)
    yield ("release",)
    if kind == "hard" and done == "committed":
        yield ("acquire", (REFS,))
        yield ("remove", "empty_versions_stay" in rules)
        yield ("release",)
    return done


def create_ref(me: int, name: str, kind: str, rules: Flags) -> Program:
    """A branch or a tag of the oldest commit of main."""
    yield ("acquire", (REFS,))
    if "removal_before_refs" in rules:
        yield ("remove", "empty_versions_stay" in rules)
    origin = yield ("oldest",)
    if "origin_is_opened" in rules and not origin[1]:
        yield ("release",)
        return "refused"
    yield (kind, name, origin[0])
    yield ("release",)
    return "committed"


def merge(me: int, name: str, source: str, rules: Flags) -> Program:
    """Merge by pointer: main shows the version of T that the source showed when it was captured."""
    wanted = (REFS, "main") if "adopted_under_refs" in rules else ("main",)
    yield ("acquire", (REFS,))
    theirs = yield ("see", source)
    yield ("release",)
    schema = yield ("schema",)
    if theirs.commit.schema != schema or theirs.stored[T] is None:
        return "conflict"
    yield ("acquire", wanted)
    now = yield ("see", "main")
    if now.commit.schema != schema or now.commit.pins[T].version >= theirs.commit.pins[T].version:
        yield ("release",)
        return "conflict"
    if "adopted_under_refs" in rules:
        there = yield ("is there", T, theirs.commit.pins[T])
        if not there:
            yield ("release",)
            return "conflict"
    done = yield ("commit", "main", Transaction(name, T, (), now.committed), schema, theirs.commit.pins[T])
    yield ("release",)
    return done


def clean_up(me: int, name: str, rules: Flags) -> Program:
    """Drop every version that no head and no tag needs."""
    yield ("acquire", (REFS,))
    yield ("clean", False)
    yield ("release",)
    return "committed"


def clean_up_beside_readers(me: int, name: str, rules: Flags) -> Program:
    """Drop what no head, no tag and no reader of the moment before needs."""
    yield ("acquire", (REFS,))
    yield ("clean", "readers_have_grace" in rules)
    yield ("release",)
    return "committed"


def read(me: int, name: str, branch: str, rules: Flags) -> Program:
    """Take a snapshot, and then read each of its tables."""
    seen = yield ("see", branch)
    for table, pin in enumerate(seen.commit.pins):
        there = yield ("is there", table, pin)
        if not there:
            return "raw error"
    return "committed"


def build_index(me: int, name: str, rules: Flags) -> Program:
    """Build an index on T of main, or merge its small fragments, while others write. It takes long: an access of its own."""
    seen = yield ("see", "main")
    yield ("build", False)
    yield ("acquire", ("main",))
    now = yield ("see", "main")
    if now.commit.pins[T] != seen.commit.pins[T] and "upkeep_may_wait" not in rules:
        yield ("build", True)
    yield ("release",)
    return "committed"


# ------------------------------------------------------------------------------------------------- what an access does


DURABLE = {"commit", "reshape", "evolve", "remove", "branch", "tag", "clean", "release"}


def perform(world: World, me: int, action: tuple) -> tuple[World, Any]:
    """One atomic access."""
    name = action[0]
    if name == "schema":
        return world, newest_schema(world)
    if name == "pending":
        return world, world.pending
    if name == "see":
        return world, see(world, action[1])
    if name == "is there":
        return world, stored_at(world, action[1], action[2]) is not None
    if name == "re_created":
        return world, any(action[1] < schema <= action[2] for schema in world.re_created)
    if name == "release":
        return world._replace(locks=tuple(held for held in world.locks if held[1] != me)), "ok"
    if name == "build":
        under_lock = ("an index was built under the lock",) if action[1] else ()
        return world._replace(mistakes=world.mistakes + under_lock), "ok"
    if name == "holders":
        return world, holders_of(world)
    if name == "oldest":
        first = branch_of(world, "main")[0]
        return world, (first, all(stored_at(world, table, pin) for table, pin in enumerate(first.pins)))
    if name == "branch":
        return world._replace(branches=(*world.branches, (action[1], (action[2],)))), "ok"
    if name == "tag":
        return world._replace(tags=(*world.tags, (action[1], action[2]))), "ok"
    if name == "clean":
        return cleaned(world, has_grace=action[1]), "ok"
    if name == "remove":
        return removed(world, *action[1:]), "ok"
    if name == "evolve":
        return evolved(world, *action[1:])
    if name == "reshape":
        return reshaped(world, *action[1:])
    assert name == "commit", name
    return committed(world, *action[1:])


def see(world: World, branch: str) -> Seen:
    commits = branch_of(world, branch)
    head = commits[-1]
    stored = tuple(stored_at(world, table, pin) for table, pin in enumerate(head.pins))
    return Seen(head, stored, frozenset(commit.id for commit in commits))


def holders_of(world: World) -> tuple[int, ...]:
    """The row counts of the versions of T that other branches or tags show and that can be opened."""
    pins = {commits[-1].pins[T] for name, commits in world.branches if name != "main"}
    found = (stored_at(world, T, pin) for pin in sorted(pins | {commit.pins[T] for _, commit in world.tags}))
    return tuple(len(each.rows) for each in found if each is not None)


def publish(world: World, branch: str, commit: Commit) -> World:
    branches = tuple((name, (*commits, commit) if name == branch else commits) for name, commits in world.branches)
    return world._replace(branches=branches)


def stored_with(world: World, table: int, pin: Pin, stored: Stored) -> World:
    versions = (*world.tables[table], ((pin.owner, pin.version), stored))
    return world._replace(tables=world.tables[:table] + (versions,) + world.tables[table + 1 :])


def next_pin(branch: str, pin: Pin) -> Pin:
    """The version after a pin, on the branch itself: a first write forks, and a fork goes on with the numbers."""
    return Pin(branch, pin.version + 1)


def committed(
    world: World, branch: str, transaction: Transaction, schema: int, adopted: Pin | None
) -> tuple[World, str]:
    head, table = branch_of(world, branch)[-1], transaction.table
    pin = adopted
    if pin is None:
        old = stored_at(world, table, head.pins[table])
        assert old is not None
        pin = next_pin(branch, head.pins[table])
        world = stored_with(world, table, pin, old._replace(rows=(*old.rows, transaction.name)))
    pins = head.pins[:table] + (pin,) + head.pins[table + 1 :]
    world = publish(world, branch, Commit(transaction.name, pins, schema))
    return world._replace(transactions=(*world.transactions, transaction)), "committed"


def reshaped(
    world: World, branch: str, name: str, schema: int, claimed: int, again: bool, main: Pin | None
) -> tuple[World, str]:
    """T as a schema has it; of a table that was re-created, no row stays."""
    head = branch_of(world, branch)[-1]
    pin = next_pin(branch, main or head.pins[T])
    if pin.version <= head.pins[T].version:
        return world, "published already"
    old = stored_at(world, T, head.pins[T])
    assert old is not None
    world = stored_with(world, T, pin, Stored(schema, () if again else old.rows))
    return publish(world, branch, Commit(name, (pin, head.pins[U]), claimed)), "committed"


def evolved(world: World, name: str, kind: str, schema: int, rows: tuple[str, ...], record: bool) -> tuple[World, str]:
    """T of main as a schema has it, with the rows that were prepared."""
    head = branch_of(world, "main")[-1]
    pin = next_pin("main", head.pins[T])
    world = stored_with(world, T, pin, Stored(schema, () if kind == "re-create" else rows))
    world = publish(world, "main", Commit(name, (pin, head.pins[U]), schema))
    if kind == "re-create":
        world = world._replace(re_created=(*world.re_created, schema))
    if kind == "hard":
        world = world._replace(
            hard=(*world.hard, schema), pending=(*world.pending, schema) if record else world.pending
        )
    return world, "committed"


def removed(world: World, empty_stay: bool) -> World:
    """Drop the versions of main's T from before a hard drop."""
    below = max(world.hard, default=0)
    versions = tuple(
        (at, stored._replace(is_gone=True))
        if at[0] == "main" and stored.schema < below and not (empty_stay and not stored.rows)
        else (at, stored)
        for at, stored in world.tables[T]
    )
    return world._replace(tables=(versions, *world.tables[1:]), pending=())


def cleaned(world: World, *, has_grace: bool) -> World:
    heads = 2 if has_grace else 1
    kept = [commit for _, commits in world.branches for commit in commits[-heads:]]
    kept += [commit for _, commit in world.tags]
    tables = tuple(
        tuple(
            (at, stored if any(commit.pins[table] == Pin(*at) for commit in kept) else stored._replace(is_gone=True))
            for at, stored in versions
        )
        for table, versions in enumerate(world.tables)
    )
    return world._replace(tables=tables)
