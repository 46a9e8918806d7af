"""The gate: the one place that decides whether a request may do what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from omnigraph.errors import Forbidden
from omnigraph.server.tokens import Role, Token


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


_READS: Final = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY, Action.GRAPH_LIST})
_WRITES: Final = _READS | {
    Action.CHANGE,
    Action.BRANCH_CREATE,
    Action.BRANCH_DELETE,
    Action.BRANCH_MERGE,
    Action.TAG,
}
ROLE_ACTIONS: Final[Mapping[Role, frozenset[Action]]] = {
    Role.READ: _READS,
    Role.WRITE: _WRITES,
    Role.ADMIN: frozenset(Action),
}


def authorize(token: Token, action: Action, target: str) -> None:
    """Refuse an action that the role of a token does not have. ``target`` says what it would be done to."""
    if action not in ROLE_ACTIONS[token.role]:
        needed = next(role for role in Role if action in ROLE_ACTIONS[role])
        raise Forbidden(
            f"'{token.actor}' may not {action} on {target}: the role of the token is '{token.role}'",
            hint=f"use a token with the role '{needed}'",
        )


def list_actions(token: Token) -> list[str]:
    """Return the actions that a token may take, in the order of their declaration."""
    return [str(action) for action in Action if action in ROLE_ACTIONS[token.role]]
