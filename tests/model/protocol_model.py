# pyright: basic, reportAssignmentType=false
# ruff: noqa: B007, C901, E501, SIM102
# A generator's answers have as many types as there are accesses, and its locals are its state: the text is kept as it
# was checked, not as a linter would like it.
"""Executable specification of the graph commit protocol: the programs.

The protocol is written below as plain generator functions: `writer`, `commit_section`, `publish`, `heal`, `roll_forward`,
`restore_and_publish`, `give_up`. Every `yield` is one atomic access to something shared: the branch lock, a table, the
manifest, a sidecar, the audit table. `protocol_checker.py` explores every interleaving of those accesses;
`tests/write/commit/test_protocol.py` runs the real commit path beside these programs and compares what both write.

`protocol_world.py` has what they share, and what an access does.

How a process is a state: a generator cannot be copied, so `Automaton` replays it on the answers it has been given; its
identity is the position and the local variables of its frames, so equal histories merge. Rules for the programs: locals
are immutable and hashable, and whatever a `for` walks over is a local variable.

FIXES are rules that the checker asked for; MUTATIONS weaken the protocol to show that the checker can fail.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from tests.model.protocol_world import (
    OWNER,
    RECOVERY,
    Change,
    Commit,
    Flags,
    Sidecar,
    Snapshot,
)

NODES, EDGES = 0, 1  # the two tables: T (nodes) and U (edges)
TABLE_NAMES = ("T", "U")
PUBLISH_ATTEMPTS = 2
ROUNDS = 3  # of deciding anew after losing a race

FIXES = {
    "finished_first": "recovery: a commit_id in the lineage, or an audited operation, is finished: only bookkeeping is left",
    "if_commit_every_attempt": "each publish attempt compares if_commit with the head it is about to replace",
    "look_before_failing": "an owner looks for its commit id after its sidecar and in each attempt of its own roll-back",
    "restore_all_under_lease": "under a lease, every roll-back restores every table, however the lease was obtained",
    "audit_insert_if_absent": "the audit row is inserted if absent (keyed by operation id), not looked up and appended",
    "neutral_restore": "a table moved only by a recovery's Restore has not moved for strict work: re-stage, do not raise",
    "owner_leaves_recovered": "an owner whose commit was published by recovery leaves the sidecar to recovery",
}
MUTATIONS = {
    "no_read_set": "read tables are neither compared under the lock nor expected by the publish",
    "no_operation_ids": "recovery trusts version numbers: HEAD == pin + 1 is taken for the sidecar's own commit",
    "heal_before_lock_only": "sidecars are listed before the lock and not again under it",
    "no_drift_rule": "HEAD beyond the pin without a sidecar is an error",
    "no_restore_all": "a roll-back restores only the tables that moved, under a lease too",
    "no_restore": "a roll-back restores nothing: it only removes the sidecar",
    "table_locks": "one lock per written table instead of one per branch",
    "no_parent_check": "roll forward does not compare the head with parent_commit_id",
    "no_commit_id_lookup": "no publish attempt looks for the commit id of its operation",
    "no_rollback_on_failure": "a failed publish is reported and the sidecar left for others",
    "no_version_check": "the version returned by a table commit is published, whatever it is",
    "no_head_cas": "the publish does not touch the head row: no compare and swap",
    "no_txn_in_attempt": "txn is compared under the lock only",
    "no_txn_in_sidecar": "a roll forward does not write the txn row",
    "no_audit_lookup": "the audit row is appended without looking",
    "rollback_unexpected": "the publish of a roll-back carries no expected versions",
    "recovery_publishes_head": "roll forward publishes HEAD, not pin + 1",
    "ignore_decision": "recovery does not honour the decision in the sidecar",
    "no_decide_anew": "a recoverer that loses its publish goes on as if done",
    "no_sidecar": "phase A is skipped",
    "sidecar_deleted_early": "the sidecar is deleted before the publish",
    "chain_after_others": "a handle goes by what it knows although others held the lease since",
    "chain_after_trouble": "a handle vouches for whatever it left: a failure, a sidecar that is still there",
    "chain_without_heads": "a handle that goes by what it knows does not look at the HEAD of its tables either",
    "chain_keeps_basis": "a handle vouches for the state that it began on, not for the one that it published",
}


class Operation(NamedTuple):
    id: str
    kind: str  # edge: insert m->n; delete: node n with its edges; load, merge: node + edge; node: one node
    row: str
    txn: str | None = None
    if_commit: str | None = None

    @property
    def commit_id(self) -> str:
        return "c-" + self.id

    def repeated(self) -> Operation:
        """The same work begun anew: ids are never used twice."""
        return self._replace(id=self.id + "-again")

    @property
    def strict(self) -> bool:
        return self.kind == "delete"


class Plan(NamedTuple):
    changes: tuple[Change, ...]
    reads: tuple[int, ...]

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(change.table for change in self.changes)


Program = Generator[tuple[Any, ...], Any, str]


def plan_of(operation: Operation, seen: Snapshot) -> Plan | None:
    """Execute and validate on a snapshot: the staged changes and the read set, or None if a rule is broken."""
    nodes, edges = seen.rows
    if operation.kind == "edge":
        valid = set(operation.row.split(">")) <= set(nodes)
        return Plan((Change(EDGES, "append", (operation.row,)),), (NODES,)) if valid else None
    if operation.kind == "delete":
        if operation.row not in nodes:
            return None
        incident = tuple(edge for edge in edges if operation.row in edge.split(">"))
        cascade = (Change(EDGES, "delete", incident),) if incident else ()
        return Plan((Change(NODES, "delete", (operation.row,)), *cascade), (NODES, EDGES))
    if operation.row in nodes:
        return None
    node = Change(NODES, "append", (operation.row,))
    if operation.kind == "node":
        return Plan((node,), (NODES,))
    return Plan((node, Change(EDGES, "append", (f"{operation.row}>{operation.row}",))), (NODES,))


# ------------------------------------------------------------------------------------------------------------ the protocol


def writer(me: int, operation: Operation, flags: Flags, tries: int = 1) -> Program:
    """The caller's view. committed | replayed | failed (never visible) | unknown (OutcomeUnknown)."""
    result = "failed"
    for attempt in range(tries):
        unfinished = yield ("list",)  # step 0: heal if there is something to heal
        if unfinished:
            everything = (0, 1) if "table_locks" in flags else (0,)
            got = yield ("acquire", everything)
            result = yield from heal(me, got == "takeover", everything, flags)
            yield ("release",)
            if result == "error":
                return "failed"
        unfinished = ()
        staged = yield ("snapshot",)  # execute, stage on the pin, validate
        plan = plan_of(operation, staged)
        if plan is None:
            return "failed"
        held = tuple(sorted(plan.tables)) if "table_locks" in flags else (0,)
        got = yield ("acquire", held)  # step 1
        result = yield from commit_section(me, operation, staged, plan, got == "takeover", held, flags)
        yield ("release",)
        if result != "failed":
            break
    return result


def chained_writer(me: int, operations: tuple[Operation, ...], flags: Flags) -> Program:
    """Several writes through one handle, under leases. What it published is what it knows, while the lease says that
    nobody else held it since: then it looks at nothing but the HEAD of its tables. The results, with commas between."""
    known, results = None, ()
    for operation in operations:
        if known is None:
            result = yield from writer(me, operation, flags)
        else:
            result = yield from write_without_looking(me, operation, known, flags)
        if result == "failed" and known is not None:  # nobody gets an answer from what a handle only assumed
            newest = yield ("snapshot",)
            if newest != known:
                operation = operation.repeated()
                result = yield from writer(me, operation, flags)
            newest = None
        basis, known = known, None
        if result == "vouched":
            known = yield ("recall", operation.commit_id)
        if "chain_after_trouble" in flags and result != "vouched":
            known = yield ("snapshot",)
        if "chain_keeps_basis" in flags and basis is not None:
            known = basis
        basis = None
        results += ("committed" if result == "vouched" else result,)
    return ",".join(results)


def write_without_looking(me: int, operation: Operation, known: Snapshot, flags: Flags) -> Program:
    """What is known is what is staged on; the lock says whether it is still so."""
    plan = plan_of(operation, known)
    if plan is None:
        return "failed"
    got = yield ("acquire", (0,))
    proven = known if got == "continues" or "chain_after_others" in flags else None
    result = yield from commit_section(me, operation, known, plan, got == "takeover", (0,), flags, proven)
    released = yield ("release",)
    return "committed" if released == "error" and result == "vouched" else result


def commit_section(
    me: int,
    operation: Operation,
    staged: Snapshot,
    plan: Plan,
    takeover: bool,
    held: tuple,
    flags: Flags,
    known: Snapshot | None = None,
) -> Program:
    if "heal_before_lock_only" not in flags and known is None:
        if (yield from heal(me, takeover, held, flags)) == "error":
            return "failed"
    for round_ in range(ROUNDS):
        now = known or (yield ("snapshot",))
        if operation.txn and operation.txn in now.txns:  # step 2
            return "replayed"
        if operation.if_commit and operation.if_commit != now.head:
            return "failed"
        compared = plan.tables if "no_read_set" in flags else plan.tables + plan.reads
        if any(staged.pins[table] != now.pins[table] for table in compared):
            neutral = "neutral_restore" in flags and staged.rows == now.rows
            if operation.strict and not neutral and "no_read_set" not in flags:
                return "failed"
            staged = now
            if "no_read_set" not in flags:
                plan = plan_of(operation, now)
                if plan is None:
                    return "failed"
        if known is not None:  # a writer without the lock wrote there: look at everything
            seen = () if "chain_without_heads" in flags else (yield ("heads", plan.tables, now.pins))
            known, drift = None, "moved" if seen else "none"
            if seen and (yield from heal(me, takeover, held, flags)) == "error":
                return "failed"
        else:
            drift = yield from discard_drift(me, plan.tables, now, flags)  # step 3
        if drift != "moved":
            break
    if drift != "none":
        return "failed"
    expected = tuple((table, now.pins[table]) for table in sorted({*plan.tables, *plan.reads}))
    if "no_read_set" in flags:
        expected = tuple((table, now.pins[table]) for table in plan.tables)
    sidecar = Sidecar(operation.id, now.head, now.pins, plan.changes, plan.reads, operation.txn, operation.if_commit)
    if "no_sidecar" not in flags and (yield ("put", sidecar)) == "error":  # step 4, phase A
        return "failed"
    landed, versions = 0, ()
    for change in plan.changes:  # phase B
        landed = yield ("commit", change, staged.pins[change.table], operation.id)
        if landed == "error" or landed == "refused":
            return (yield from give_up(me, operation, sidecar, flags))
        if landed != now.pins[change.table] + 1 and "no_version_check" not in flags:
            return (yield from give_up(me, operation, sidecar, flags))
        versions += ((change.table, landed),)
    if operation.kind == "merge":
        sidecar = sidecar._replace(confirmed=True)
        if (yield ("put", sidecar)) == "error":
            return (yield from give_up(me, operation, sidecar, flags))
    if "sidecar_deleted_early" in flags:
        yield ("delete", operation.id)
    commit = Commit(operation.commit_id, None, (), plan.changes, OWNER, operation.txn, operation.if_commit)
    only_on = operation.if_commit if "if_commit_every_attempt" in flags else None
    outcome = yield from publish(commit, versions, expected, only_on, None, flags, now)  # phase C
    if outcome == "published":
        cleared = yield ("delete", operation.id)  # phase D: a failure is only a warning
        return "vouched" if "chain" in flags and cleared != "error" else "committed"
    if outcome == "published by recovery":
        return "committed"
    if "no_rollback_on_failure" in flags:
        return "failed"
    return (yield from give_up(me, operation, sidecar, flags))


def publish(
    commit: Commit,
    versions: tuple,
    expected: tuple,
    only_on: str | None,
    instead_of: str | None,
    flags: Flags,
    known: Snapshot | None = None,
) -> Program:
    """The one fence. `instead_of`: the commit id whose presence means that this publish (a roll-back) must not happen.

    The first attempt goes by what its caller knows, if it does; an outdated one loses, and the next one reads."""
    for attempt in range(PUBLISH_ATTEMPTS):
        now = known or (yield ("snapshot",))
        known = None
        if commit.id in now.commits and "no_commit_id_lookup" not in flags:
            by_other = commit.actor == OWNER and commit.id in now.recovered and "owner_leaves_recovered" in flags
            return "published by recovery" if by_other else "published"
        if instead_of in now.commits and "no_commit_id_lookup" not in flags:
            return "already committed"
        if any(now.pins[table] != version for table, version in expected):
            return "refused"
        if only_on and only_on != now.head:
            return "refused"
        if commit.txn and commit.txn in now.txns and "no_txn_in_attempt" not in flags:
            return "refused"
        moved = dict(versions)
        pins = tuple(moved.get(table, pin) for table, pin in enumerate(now.pins))
        moved = None
        outcome = yield ("publish", now.head, commit._replace(parent=now.head, pins=pins))
        if outcome == "ok":
            return "published"
    return "exhausted"


def discard_drift(me: int, tables: tuple, now: Snapshot, flags: Flags) -> Program:
    """Step 3: HEAD must equal the pin. What lies beyond, without a sidecar, is ours and unpublished: restore and publish."""
    versions = ()
    for table in tables:
        beyond = yield ("transactions", table, now.pins[table])
        if beyond and "no_drift_rule" in flags:
            return "wedged"
        if beyond:
            restored = yield ("restore", table, now.pins[table])
            if restored == "error":
                return "error"
            versions += ((table, restored),)
    if not versions:
        return "none"
    expected = tuple((table, now.pins[table]) for table in tables)
    commit = Commit(f"drift-{me}-{now.head}", None, (), (), RECOVERY)
    outcome = yield from publish(commit, versions, expected, None, None, flags)
    return "error" if outcome == "exhausted" else "moved"


def give_up(me: int, operation: Operation, sidecar: Sidecar, flags: Flags) -> Program:
    """The owner's way out of a failed phase B or C."""
    mine = yield ("read_sidecar", operation.id)
    look = operation.commit_id if "look_before_failing" in flags else None
    if mine is None or mine.decision:  # gone or claimed: touch nothing
        if look:
            now = yield ("snapshot",)
            if look in now.commits:
                return "committed"
        return "failed" if mine is None else "unknown"
    if (yield ("put", sidecar._replace(decision="rollback"))) == "error":
        return "unknown"
    outcome = yield from restore_and_publish(me, sidecar, False, look, flags)
    if outcome == "already committed":
        return "committed"
    if outcome != "published" or (yield ("delete", operation.id)) == "error":
        return "unknown"
    return "failed"


def heal(me: int, takeover: bool, held: tuple, flags: Flags) -> Program:
    """Section 5, under the lock: finish every sidecar."""
    sidecars = yield ("list",)
    if "table_locks" in flags:
        sidecars = tuple(s for s in sidecars if {c.table for c in s.changes} <= set(held))
    for sidecar in sidecars:
        if (yield from recover(me, sidecar, takeover, flags)) == "error":
            return "error"
    return "done"


def recover(me: int, sidecar: Sidecar, takeover: bool, flags: Flags) -> Program:
    for round_ in range(ROUNDS):  # losing the publish means: decide anew
        now = yield ("snapshot",)
        audited = yield ("audited", sidecar.operation)
        commit_id = "c-" + sidecar.operation
        if "finished_first" in flags and (commit_id in now.commits or audited):
            kind = "RolledForward" if commit_id in now.recovered and not audited else None
            return (yield from finish(sidecar, kind, flags))
        complete = sidecar.decision != "rollback" or "ignore_decision" in flags
        heads = ()
        for change in sidecar.changes:
            beyond = yield ("transactions", change.table, now.pins[change.table])
            heads += ((change.table, now.pins[change.table] + len(beyond)),)
            own = beyond[:1] == (sidecar.operation,)
            if "no_operation_ids" in flags:
                own = len(beyond) == 1
            complete = complete and own
        if complete and (now.head == sidecar.parent or "no_parent_check" in flags):
            outcome = yield from roll_forward(sidecar, now, heads, flags)
            kind = "RolledForward"
        else:
            outcome = yield from restore_and_publish(
                me, sidecar, takeover, commit_id if "finished_first" in flags else None, flags
            )
            kind = "RolledBack"
        if outcome == "published" or "no_decide_anew" in flags:
            return (yield from finish(sidecar, kind, flags))
        if outcome == "error":
            return "error"
    return "error"


def roll_forward(sidecar: Sidecar, now: Snapshot, heads: tuple, flags: Flags) -> Program:
    """Publish what the writer would have, only on the head that it saw."""
    versions = tuple((change.table, now.pins[change.table] + 1) for change in sidecar.changes)
    read = () if "no_read_set" in flags else sidecar.reads
    expected = tuple(
        (table, sidecar.pins[table]) for table in sorted({*read, *(change.table for change in sidecar.changes)})
    )
    only_on = sidecar.parent
    if "no_parent_check" in flags:
        only_on, expected = None, ()
    if "recovery_publishes_head" in flags:
        versions = heads
    txn = None if "no_txn_in_sidecar" in flags else sidecar.txn
    commit = Commit("c-" + sidecar.operation, None, (), sidecar.changes, RECOVERY, txn, sidecar.if_commit)
    return (yield from publish(commit, versions, expected, only_on, None, flags))


def restore_and_publish(me: int, sidecar: Sidecar, takeover: bool, instead_of: str | None, flags: Flags) -> Program:
    """Roll back: Restore to the current pin, publish the restored versions."""
    if "no_restore" in flags:
        return "published"
    now = yield ("snapshot",)
    if instead_of in now.commits and "no_commit_id_lookup" not in flags:
        return "already committed"
    every_table = takeover and "no_restore_all" not in flags
    if "lease" in flags and "restore_all_under_lease" in flags and "no_restore_all" not in flags:
        every_table = True
    versions = ()
    tables = tuple(change.table for change in sidecar.changes)
    for table in tables:
        beyond = yield ("transactions", table, now.pins[table])
        if beyond or every_table:
            restored = yield ("restore", table, now.pins[table])
            if restored == "error":
                return "error"
            versions += ((table, restored),)
    if not versions:
        return "published"  # nothing moved, nothing to publish
    expected = () if "rollback_unexpected" in flags else tuple((table, now.pins[table]) for table in tables)
    commit = Commit(f"rollback-{sidecar.operation}-{me}-{now.head}", None, (), (), RECOVERY)
    return (yield from publish(commit, versions, expected, None, instead_of, flags))


def finish(sidecar: Sidecar, kind: str | None, flags: Flags) -> Program:
    """Audit exactly once, then delete the sidecar."""
    if kind and "audit_insert_if_absent" in flags and "no_audit_lookup" not in flags:
        if (yield ("audit_if_absent", sidecar.operation, kind)) == "error":
            return "error"
    elif kind:
        found = False if "no_audit_lookup" in flags else (yield ("audited", sidecar.operation))
        if not found and (yield ("audit", sidecar.operation, kind)) == "error":
            return "error"
    yield ("delete", sidecar.operation)
    return "done"
