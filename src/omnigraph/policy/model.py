"""The words of a policy: actions, questions and decisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from omnigraph.lazy_dataclass import dataclass


class Action(StrEnum):
    """What a request does, as rules name it."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    TAG = "tag"
    INVOKE_QUERY = "invoke_query"
    GRAPH_LIST = "graph_list"
    ADMIN = "admin"


BRANCH_ACTIONS: Final = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""Done on a branch, and on types of it."""
TARGET_ACTIONS: Final = frozenset(
    {Action.SCHEMA_APPLY, Action.BRANCH_CREATE, Action.BRANCH_DELETE, Action.BRANCH_MERGE}
)
"""Done to a target branch."""
_VERBS: Final = {
    Action.SCHEMA_APPLY: "change the schema of",
    Action.BRANCH_CREATE: "create",
    Action.BRANCH_DELETE: "delete",
    Action.BRANCH_MERGE: "merge into",
    Action.INVOKE_QUERY: "invoke",
    Action.GRAPH_LIST: "list the graphs of",
    Action.ADMIN: "administer",
}
"""How a sentence says an action; the names of the others are verbs."""
_PARTS: Final = {
    Action.BRANCH_CREATE: "branches of",
    Action.BRANCH_DELETE: "branches of",
    Action.BRANCH_MERGE: "branches of",
    Action.INVOKE_QUERY: "queries of",
}
"""What these actions are done to in a graph, where the question names none of it."""
SERVER_ACTIONS: Final = frozenset({Action.GRAPH_LIST, Action.ADMIN})
"""What the rules of a server may name."""


@dataclass(frozen=True, slots=True)
class PolicyQuestion:
    """May this actor do this? To what: a query, else a type, else a branch, else the graph or the server as a whole.

    ``branch`` is the one that is read or changed, or where a new branch or a merge comes from; ``target_branch`` is the
    one that is made, deleted, merged into, or gets a schema. ``type`` is written ``node:Trial``. ``mutates`` says of a
    query that it changes data. ``for_grant`` asks of a query whether whoever invokes it needs no further right on
    ``branch``.
    """

    actor: str
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    type: str | None = None
    query: str | None = None
    mutates: bool = False
    for_grant: bool = False

    @property
    def scoped_branch(self) -> str | None:
        """The branch that the scope of a rule speaks of."""
        return self.target_branch if self.action in TARGET_ACTIONS else self.branch

    def describe_deed(self, target: str) -> str:
        """Say what would be done to a target."""
        verb = _VERBS.get(self.action, self.action)
        is_of_the_whole = self.scoped_branch is None and self.query is None and self.action in _PARTS
        return f"{verb} {_PARTS[self.action]} {target}" if is_of_the_whole else f"{verb} {target}"

    def describe_target(self) -> str:
        """Say what it would be done to."""
        branch = self.scoped_branch
        place = "" if branch is None else f" on branch '{branch}'"
        if self.query is not None:
            return f"query '{self.query}'{place}"
        if self.type is not None:
            return f"{self.type}{place}"
        return "the graph" if branch is None else f"branch '{branch}'"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The answer to a question, and the rule that decided; None if no rule speaks of it."""

    question: PolicyQuestion
    allowed: bool
    rule: str | None

    def describe(self) -> str:
        """Say in one sentence who may or may not do what, and why."""
        verb = "may" if self.allowed else "may not"
        if self.rule is not None:
            reason = f"the rule '{self.rule}' {'allows' if self.allowed else 'denies'} it"
        else:
            reason = "no rule of the policy allows it"
        question = self.question
        return f"'{question.actor}' {verb} {question.describe_deed(question.describe_target())}: {reason}"
