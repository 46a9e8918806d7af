"""The rules of a policy: what a file says, checked as a whole. Files of release 0.8 are valid as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, cast

from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy.document import Document, Path, read_document, suggest
from omnigraph.policy.model import BRANCH_ACTIONS, SERVER_ACTIONS, TARGET_ACTIONS, Action

Effect = Literal["allow", "deny"]
Protection = Literal["any", "protected", "unprotected"]
Default = Literal["deny", "read"]

DEFAULT_RULE: Final = "default"
"""The rule that `default: read` stands for."""
_VERSION: Final = 1
_KEYS: Final = ("version", "default", "groups", "protected_branches", "rules")
_BODY_KEYS: Final = (
    "actors",
    "except",
    "actions",
    "branch_scope",
    "target_branch_scope",
    "branches",
    "types",
    "queries",
    "grants",
)
_PROTECTIONS: Final = ("any", "protected", "unprotected")
_TYPE: Final = re.compile(r"(node|edge):[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = tuple(str(action) for action in Action)


@dataclass(frozen=True, slots=True)
class ActorSet:
    """Whom a rule speaks of: a group, one actor, or everybody (both None)."""

    group: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``protection`` and ``branches`` limit it to branches, ``types`` and ``queries`` to some of them."""

    id: str
    effect: Effect
    actors: ActorSet
    actions: tuple[Action, ...]
    excepted: ActorSet | None = None
    protection: Protection | None = None
    branches: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    queries: tuple[str, ...] | None = None
    grants: bool = False

    @property
    def is_scoped(self) -> bool:
        """Whether it holds on some branches only."""
        return self.branches is not None or self.protection in ("protected", "unprotected")


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """What a policy file says."""

    rules: tuple[Rule, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    protected_branches: tuple[str, ...] = ()
    default: Default = "deny"

    @property
    def has_types(self) -> bool:
        """Whether a rule speaks of types."""
        return any(rule.types is not None for rule in self.rules)

    def is_protected(self, branch: str) -> bool:
        """Whether a branch is one of the protected ones."""
        return any(matches_glob(glob, branch) for glob in self.protected_branches)

    def groups_of(self, actor: str) -> list[str]:
        """Return the groups that an actor is in."""
        return [name for name, members in self.groups.items() if actor in members]


def matches_glob(glob: str, name: str) -> bool:
    """Whether a name fits a pattern in which ``*`` stands for any text, also with slashes."""
    return re.fullmatch(".*".join(re.escape(part) for part in glob.split("*")), name, re.DOTALL) is not None


def parse_rules(text: str, file: str | None = None, *, for_server: bool = False) -> PolicyRules:
    """Read the rules of a graph, or of a server, from a text. All problems are raised as one ``ConfigError``."""
    document = read_document(text, file)
    rules = _RulesReader(document, for_server=for_server).read()
    document.raise_problems()
    return rules


class _RulesReader:
    """Reads one file."""

    def __init__(self, document: Document, *, for_server: bool) -> None:
        self._document = document
        self._for_server = for_server
        self._groups: dict[str, tuple[str, ...]] = {}

    def read(self) -> PolicyRules:
        """Return the rules; what is wrong is among the problems of the document."""
        document = self._document
        found = document.fields((), document.root, "the policy", _KEYS, ("version",))
        if "version" in found and found["version"] != _VERSION:
            document.add_problem(("version",), f"version must be {_VERSION}")
        default = document.choice(("default",), found.get("default", "deny"), "default", ("deny", "read"))
        for name, members in document.mapping(("groups",), found.get("groups") or {}, "groups").items():
            texts = document.texts_of(("groups", name), members, f"group '{name}'")
            self._groups[name] = tuple(dict.fromkeys(text for _, text in texts))
        protected = self._read_globs(("protected_branches",), found.get("protected_branches") or [])
        rules = [
            self._read_rule(("rules", index), each)
            for index, each in enumerate(document.items(("rules",), found.get("rules") or [], "rules"))
        ]
        self._refuse_repeated(rules)
        return PolicyRules(
            tuple(rule for rule in rules if rule is not None), self._groups, protected, cast(Default, default or "deny")
        )

    def _refuse_repeated(self, rules: Sequence[Rule | None]) -> None:
        seen = {DEFAULT_RULE}
        for index, rule in enumerate(rules):
            if rule is not None and rule.id in seen:
                self._document.add_problem(
                    ("rules", index, "id"), f"the id '{rule.id}' is used already", "give each rule an id of its own"
                )
            elif rule is not None:
                seen.add(rule.id)

    def _read_rule(self, path: Path, value: object) -> Rule | None:
        document = self._document
        found = document.fields(path, value, "a rule", ("id", "allow", "deny"), ("id",))
        id_ = document.text_of((*path, "id"), found["id"], "id") if "id" in found else None
        effects = [name for name in ("allow", "deny") if name in found]
        if len(effects) != 1:
            if isinstance(value, dict):
                document.add_problem(path, "a rule needs either 'allow' or 'deny'")
            return None
        effect = cast(Effect, effects[0])
        place = (*path, effect)
        body = document.fields(place, found[effect], effect, _BODY_KEYS, ("actors", "actions"))
        actors = self._read_actors((*place, "actors"), body["actors"]) if "actors" in body else None
        excepted = self._read_actors((*place, "except"), body["except"]) if "except" in body else None
        actions = self._read_actions((*place, "actions"), body["actions"]) if "actions" in body else ()
        protection, branches = self._read_scope(place, body, actions)
        types = self._read_types(place, body, actions)
        queries = self._read_queries(place, body, actions)
        grants = self._read_grants(place, body, effect, actions)
        if id_ is None or actors is None or not actions:
            return None
        return Rule(id_, effect, actors, actions, excepted, protection, branches, types, queries, grants)

    def _read_actors(self, path: Path, value: object) -> ActorSet | None:
        document = self._document
        found = document.fields(path, value, "actors", ("group", "actor", "any"))
        if len(found) != 1:
            if isinstance(value, dict):
                document.add_problem(path, "name one of 'group', 'actor' and 'any: true'")
            return None
        if "any" in found:
            if found["any"] is not True:
                document.add_problem((*path, "any"), "'any' must be true")
            return ActorSet()
        name = next(iter(found))
        text = document.text_of((*path, name), found[name], name)
        if text is not None and name == "group" and text not in self._groups:
            document.add_problem((*path, "group"), f"there is no group '{text}'", suggest(text, list(self._groups)))
        if text is None:
            return None
        return ActorSet(group=text) if name == "group" else ActorSet(actor=text)

    def _read_actions(self, path: Path, value: object) -> tuple[Action, ...]:
        document = self._document
        found: list[Action] = []
        known = [str(action) for action in Action if action in SERVER_ACTIONS] if self._for_server else _WORDS
        for place, text in document.texts_of(path, value, "actions"):
            if text not in known:
                document.add_problem(place, f"'{text}' is no action here", suggest(text, known))
            elif text == Action.GRAPH_LIST and not self._for_server:
                document.add_problem(place, "'graph_list' is asked of the server", "put it into server_policy")
            else:
                found.append(Action(text))
        if isinstance(value, list) and not value:
            document.add_problem(path, "no action is named")
        return tuple(dict.fromkeys(found))

    def _read_scope(
        self, path: Path, body: Mapping[str, object], actions: Sequence[Action]
    ) -> tuple[Protection | None, tuple[str, ...] | None]:
        """Return the protection or the patterns of branches. A rule has one kind of scope, fit for its actions."""
        document = self._document
        given = [name for name in ("branch_scope", "target_branch_scope", "branches") if name in body]
        if len(given) > 1:
            document.add_problem((*path, given[1]), "a rule has one kind of scope", f"leave out one of {given}")
        if not given:
            return None, None
        name = given[0]
        fitting = {
            "branch_scope": BRANCH_ACTIONS,
            "target_branch_scope": TARGET_ACTIONS,
            "branches": BRANCH_ACTIONS | TARGET_ACTIONS,
        }[name]
        granted = frozenset({Action.INVOKE_QUERY}) if body.get("grants") is True else frozenset[Action]()
        self._refuse_unfit((*path, name), name, actions, fitting | granted)
        if name == "branches":
            return None, self._read_globs((*path, name), body[name])
        return cast("Protection | None", document.choice((*path, name), body[name], name, _PROTECTIONS)), None

    def _read_globs(self, path: Path, value: object) -> tuple[str, ...]:
        texts = self._document.texts_of(path, value, str(path[-1]))
        for place, text in texts:
            if any(char in text for char in "?[]{}\\"):
                self._document.add_problem(place, f"'{text}' is no pattern of branches", "only * is a wildcard")
        return tuple(text for _, text in texts)

    def _read_types(self, path: Path, body: Mapping[str, object], actions: Sequence[Action]) -> tuple[str, ...] | None:
        if "types" not in body:
            return None
        self._refuse_unfit((*path, "types"), "types", actions, BRANCH_ACTIONS)
        texts = self._document.texts_of((*path, "types"), body["types"], "types")
        for place, text in texts:
            if _TYPE.fullmatch(text) is None:
                self._document.add_problem(place, f"'{text}' is no type", "write node:NAME or edge:NAME")
        return tuple(text for _, text in texts)

    def _read_queries(
        self, path: Path, body: Mapping[str, object], actions: Sequence[Action]
    ) -> tuple[str, ...] | None:
        if "queries" not in body:
            return None
        self._refuse_unfit((*path, "queries"), "queries", actions, frozenset({Action.INVOKE_QUERY}))
        return tuple(text for _, text in self._document.texts_of((*path, "queries"), body["queries"], "queries"))

    def _read_grants(self, path: Path, body: Mapping[str, object], effect: Effect, actions: Sequence[Action]) -> bool:
        value = body.get("grants", False)
        if not isinstance(value, bool):
            self._document.add_problem((*path, "grants"), "grants must be true or false")
        if value is True:
            self._refuse_unfit((*path, "grants"), "grants", actions, frozenset({Action.INVOKE_QUERY}))
            if effect == "deny" or "queries" not in body:
                self._document.add_problem((*path, "grants"), "grants is for 'allow' with 'queries'")
        return value is True

    def _refuse_unfit(self, path: Path, name: str, actions: Sequence[Action], fitting: frozenset[Action]) -> None:
        unfit = [str(action) for action in actions if action not in fitting]
        if unfit:
            fit = ", ".join(str(action) for action in Action if action in fitting)
            self._document.add_problem(
                path, f"'{name}' does not fit {', '.join(unfit)}", f"it fits {fit}; make two rules"
            )
