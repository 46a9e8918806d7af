"""Ask the policy of a graph before a commit: only here is it known which types a load, a merge or a revert touches."""

from __future__ import annotations

from typing import Final

from omnigraph.manifest.references import find_commit
from omnigraph.manifest.rows import MAIN
from omnigraph.policy import Action, Policy, PolicyQuestion, forbid, require_actor
from omnigraph.write.commit.branch_setup import CatchUpOperation
from omnigraph.write.commit.operation import Outcome, PreparedWrite
from omnigraph.write.commit.phases import CommitAttempt
from omnigraph.write.commit.sidecars import WriterKind

_TARGETED: Final = {WriterKind.SCHEMA_APPLY: Action.SCHEMA_APPLY, WriterKind.BRANCH_MERGE: Action.BRANCH_MERGE}


def authorize_commit(attempt: CommitAttempt[Outcome], prepared: PreparedWrite[Outcome]) -> None:
    """Raise ``Forbidden`` unless the actor of a commit may make it, and may change every type that it writes.

    Upkeep changes no row. Catching up with the schema is part of the write that follows it.
    """
    policy, operation, options = attempt.manifest.policy, attempt.operation, attempt.options
    if policy is None or operation.kind.is_upkeep or isinstance(operation, CatchUpOperation):
        return
    actor = require_actor(options.actor)
    is_revert = operation.kind is WriterKind.BRANCH_MERGE and options.merged_parent is None
    action = Action.CHANGE if is_revert else _TARGETED.get(operation.kind, Action.CHANGE)
    if action is Action.CHANGE:
        policy.check([PolicyQuestion(actor, action, options.branch)])
    else:
        policy.check([PolicyQuestion(actor, action, target_branch=options.branch)])
    if policy.has_types and action is not Action.SCHEMA_APPLY:
        _check_types(policy, actor, attempt, _list_written_types(prepared))


def _list_written_types(prepared: PreparedWrite[Outcome]) -> list[str]:
    written = [change.table_key for change in prepared.changes if not change.is_upkeep]
    written += [pin.table_key for pin in prepared.adopted]
    written += [each.table_key for each in prepared.created]
    return sorted({*written, *prepared.dropped})


def _check_types(policy: Policy, actor: str, attempt: CommitAttempt[Outcome], types: list[str]) -> None:
    """Ask for each type on the branch. What a merge brings may also be what the actor may change where it comes from.

    Who may merge into a protected branch often may not change it directly.
    """
    options = attempt.options
    questions = [PolicyQuestion(actor, Action.CHANGE, options.branch, type=each) for each in types]
    if options.merged_parent is None:
        policy.check(questions)
        return
    source = find_commit(attempt.manifest, options.branch, options.merged_parent).branch or MAIN
    at_source = [PolicyQuestion(actor, Action.CHANGE, source, type=each) for each in types]
    for here, there in zip(policy.decide_all(questions), policy.decide_all(at_source), strict=True):
        is_denied_here = not here.allowed and here.rule is not None
        if is_denied_here or not (here.allowed or there.allowed):
            raise forbid(here)
