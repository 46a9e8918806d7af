"""Rules as Cedar policies. A rule and one of its actions become one ``permit`` or ``forbid``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy.model import BRANCH_ACTIONS, SERVER_ACTIONS, TARGET_ACTIONS, Action
from omnigraph.policy.rules import DEFAULT_RULE, ActorSet, PolicyRules, Rule

GRANT_ACTION: Final = "use_grant"
"""The action behind ``grants``: what a query does needs no further right."""
SERVER_ID: Final = "root"
_CONTEXT: Final = (
    "{has_branch: Bool, branch: String, branch_is_protected: Bool,"
    " has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool}"
)


def _applies(actions: str, resources: str) -> str:
    return f"action {actions} appliesTo {{principal: Actor, resource: [{resources}], context: {_CONTEXT}}};"


SCHEMA: Final = "\n".join(
    [
        "entity Group;",
        "entity Actor in [Group];",
        "entity Server;",
        "entity Graph in [Server];",
        "entity Branch, Type in [Graph];",
        "entity Query in [Graph] {mutates: Bool};",
        _applies(", ".join(sorted(BRANCH_ACTIONS)), "Graph, Branch, Type"),
        _applies(", ".join(sorted(TARGET_ACTIONS)), "Graph, Branch"),
        _applies("tag", "Graph"),
        _applies("invoke_query", "Graph, Query"),
        _applies(GRANT_ACTION, "Query"),
        _applies("admin", "Graph, Server"),
        _applies("graph_list", "Server"),
    ]
)


@dataclass(frozen=True, slots=True)
class CedarPolicy:
    """One policy as text, and the rule that it comes from."""

    rule: str
    text: str


def to_cedar(rules: PolicyRules, graph_id: str) -> list[CedarPolicy]:
    """Return the policies of rules, in their order. The names of types and queries begin with the id of the graph."""
    found = [
        CedarPolicy(rule.id, text)
        for rule in rules.rules
        for action in rule.actions
        for text in _write_rule(rule, action, graph_id)
    ]
    if rules.default == "read":
        found += [
            CedarPolicy(DEFAULT_RULE, _write_policy(DEFAULT_RULE, "permit", "principal is Actor", "read", "true")),
            CedarPolicy(
                DEFAULT_RULE,
                _write_policy(
                    DEFAULT_RULE,
                    "permit",
                    "principal is Actor",
                    "invoke_query",
                    "resource is Graph || (resource is Query && !resource.mutates)",
                ),
            ),
        ]
    return found


def _write_rule(rule: Rule, action: Action, graph_id: str) -> Iterator[str]:
    effect = "permit" if rule.effect == "allow" else "forbid"
    head = "principal is Actor"
    if rule.actors.group is not None:
        head = f"principal in Group::{quote(rule.actors.group)}"
    elif rule.actors.actor is not None:
        head = f"principal == Actor::{quote(rule.actors.actor)}"
    unless = "" if rule.excepted is None else _match_actors(rule.excepted)
    yield _write_policy(rule.id, effect, head, str(action), _write_condition(rule, action, graph_id), unless)
    if rule.grants:
        names = _match_names("Query", graph_id, rule.queries or ())
        condition = f"{names} && ({_write_scope(rule, 'branch')})"
        yield _write_policy(rule.id, "permit", head, GRANT_ACTION, condition, unless)


def _write_condition(rule: Rule, action: Action, graph_id: str) -> str:
    """Return when a rule holds, by the kind of thing that the action is done to.

    A permit for some branches, types or queries also permits the graph, and one for some types the branch: otherwise
    nothing could be reached. A prohibition of some leaves the whole alone.
    """
    is_permit = rule.effect == "allow"
    if action in SERVER_ACTIONS or action is Action.TAG:
        return "true"
    if action is Action.INVOKE_QUERY:
        named = "true" if rule.queries is None else _match_names("Query", graph_id, rule.queries)
        on_graph = "true" if is_permit or rule.queries is None else "false"
        return f"(resource is Graph && {on_graph}) || (resource is Query && {named})"
    scope = _write_scope(rule, "branch" if action in BRANCH_ACTIONS else "target_branch")
    is_whole = not rule.is_scoped and rule.types is None
    on_graph = "true" if is_permit or is_whole else "false"
    on_branch = "true" if is_permit or rule.types is None else "false"
    parts = [f"(resource is Graph && {on_graph})", f"(resource is Branch && {on_branch} && ({scope}))"]
    if action in BRANCH_ACTIONS:
        named = "true" if rule.types is None else _match_names("Type", graph_id, rule.types)
        parts.append(f"(resource is Type && {named} && ({scope}))")
    return " || ".join(parts)


def _write_scope(rule: Rule, branch: str) -> str:
    if rule.branches is not None:
        patterns = [f"context.{branch} like {quote(glob)}" for glob in rule.branches]
        return f"context.has_{branch} && ({' || '.join(patterns) or 'false'})"
    match rule.protection:
        case "protected":
            return f"context.has_{branch} && context.{branch}_is_protected"
        case "unprotected":
            return f"context.has_{branch} && !context.{branch}_is_protected"
        case _:
            return "true"


def _match_actors(actors: ActorSet) -> str:
    if actors.group is not None:
        return f"principal in Group::{quote(actors.group)}"
    return "true" if actors.actor is None else f"principal == Actor::{quote(actors.actor)}"


def _match_names(kind: str, graph_id: str, names: tuple[str, ...]) -> str:
    """Return the condition that the resource is one of some. Cedar has no empty sets."""
    if not names:
        return "false"
    entities = [f"{kind}::{quote(graph_id + '/' + name)}" for name in names]
    return f"resource in [{', '.join(entities)}]"


def _write_policy(rule: str, effect: str, head: str, action: str, when: str, unless: str = "") -> str:
    exception = f" unless {{ {unless} }}" if unless else ""
    return f'@id({quote(rule)})\n{effect}({head}, action == Action::"{action}", resource) when {{ {when} }}{exception};'


def quote(text: str) -> str:
    """Return a text as a literal of Cedar."""
    return f'"{"".join(_escape(char) for char in text)}"'


def _escape(char: str) -> str:
    return char if char.isprintable() and char not in '"\\' else f"\\u{{{ord(char):x}}}"
