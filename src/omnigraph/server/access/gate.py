"""The gate: the one place that decides whether a request may do what it asks for.

A route declares its asks as data beside its path. They are asked in three steps: of the graph as a whole, before the
body is read; of the branches that the request names, before anything is looked up there; and of the types, once the
text of a query is checked and before a row is read. The role of a token is a ceiling that no policy lifts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from omnigraph.errors import Forbidden, NoDecision, NotFound
from omnigraph.graph import Graph, find_branch_of
from omnigraph.language.query import CompiledQuery, describe_operation
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.branches import DATE_LIKE, VERSION
from omnigraph.manifest.rows import MAIN
from omnigraph.policy import Action as Action  # routes name actions beside their asks
from omnigraph.policy import Policy, PolicyDecision, PolicyQuestion, grant_branch
from omnigraph.server.access.tokens import ActorMapToken, Role, Token
from omnigraph.server.request_log import RequestRecord

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
PLACE: Final = "place"
"""Stands for the fields ``branch``, ``at`` and ``snapshot`` of a read."""

FieldLookup = Callable[[str], object]
TypeAsk = Literal["none", "ask", "hide", "commit"]


# --------------------------------------------------------------------------------------------- what routes declare


@dataclass(frozen=True, slots=True)
class RouteAsk:
    """One question of a route. The texts are names of fields of the request, or of its path.

    ``ref`` holds what is read: a branch, or a reference that is resolved to one. ``branch`` and ``target`` hold names
    of branches as they are; ``fixed_target`` is one. The question is asked if ``only_if`` is given, and not if
    ``unless`` is.
    """

    action: Action
    ref: str | None = None
    branch: str | None = None
    target: str | None = None
    fixed_target: str | None = None
    only_if: str | None = None
    unless: str | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether it depends on the request if it is asked."""
        return self.only_if is not None or self.unless is not None

    @property
    def field_names(self) -> list[str]:
        """The fields that it needs."""
        names = (self.ref, self.branch, self.target, self.only_if, self.unless)
        return [name for name in names if name is not None]


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """What a route asks of the gate.

    ``types``: "ask" for each type that is read, "hide" those that may not be read, or leave it to the "commit" section,
    which knows what a write touches.
    """

    level: Literal["public", "token", "server", "graph"]
    asks: tuple[RouteAsk, ...] = ()
    types: TypeAsk = "none"


PUBLIC: Final = RouteAccess("public")
"""Needs no token."""
ANY_TOKEN: Final = RouteAccess("token")
"""Needs a token, and the work asks for what it shows."""


def ask_server(action: Action) -> RouteAccess:
    """Ask the server as a whole."""
    return RouteAccess("server", (RouteAsk(action),))


def ask_graph(action: Action, types: TypeAsk = "none") -> RouteAccess:
    """Ask the graph as a whole; the work leaves out what the actor may not see."""
    return RouteAccess("graph", (RouteAsk(action),), types)


def ask_place(action: Action = Action.READ, types: TypeAsk = "none") -> RouteAccess:
    """Ask the branch that a read names by ``branch``, ``at`` and ``snapshot``."""
    return RouteAccess("graph", (RouteAsk(action, ref=PLACE),), types)


def ask_all(*asks: RouteAsk, types: TypeAsk = "none") -> RouteAccess:
    """Ask several questions."""
    return RouteAccess("graph", asks, types)


def check_access(access: object, names: Collection[str], path: str) -> None:
    """Refuse a route without declared asks, or with one that names a field that the route does not have."""
    if not isinstance(access, RouteAccess):
        raise TypeError(f"{path} does not declare what it asks of the gate")
    if access.level in ("server", "graph") and not access.asks:
        raise TypeError(f"{path} asks nothing of the gate: declare PUBLIC or ANY_TOKEN if that is meant")
    if ("{graph_id}" in path) != (access.level == "graph") and access.level != "token":
        raise TypeError(f"{path} asks the {access.level}, which is not what it is about")
    unknown = [name for ask in access.asks for name in ask.field_names if name not in names]
    if unknown:
        raise TypeError(f"the asks of {path} name fields that it does not have: {unknown}")


# --------------------------------------------------------------------------------------------- one request


@dataclass(slots=True)
class Gate:
    """Answers the questions of one request: first by the role of its token, then by the policy, if there is one."""

    token: Token
    policy: Policy | None
    graph_name: str | None = None
    """The public name of the graph; None for the server."""
    record: RequestRecord | None = None
    branch: str = MAIN
    """The branch that the request reads, once its reference is resolved."""
    is_granted: bool = False
    """Whether a rule lets the stored query of this request do what it does."""
    are_types_asked: bool = False
    """Whether the types of this request were asked for, or filtered."""

    @property
    def asks_types(self) -> bool:
        """Whether types have rules of their own."""
        return self.policy is not None and self.policy.has_types and not self.is_granted

    @property
    def view(self) -> str:
        """A text that differs between callers who may see different things."""
        return self.token.role if self.policy is None else f"{self.token.role} {self.token.actor} {self.policy.digest}"

    def question(
        self,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        *,
        type_: str | None = None,
        query: str | None = None,
        mutates: bool = False,
    ) -> PolicyQuestion:
        """Return a question about the actor of this request."""
        return PolicyQuestion(self.token.actor, action, branch, target_branch, type_, query, mutates)

    def decide(self, questions: Sequence[PolicyQuestion]) -> list[PolicyDecision]:
        """Answer questions."""
        refused = {each for each in questions if not self._fits_role(each)}
        asked = [each for each in questions if each not in refused]
        decided = iter([] if self.policy is None else self.policy.decide_all(asked))
        return [
            PolicyDecision(each, allowed=False, rule=None)
            if each in refused
            else PolicyDecision(each, allowed=True, rule=None)
            if self.policy is None
            else next(decided)
            for each in questions
        ]

    def allows(self, question: PolicyQuestion) -> bool:
        """Whether something may be done."""
        return self.decide([question])[0].allowed

    def check(self, questions: Sequence[PolicyQuestion]) -> None:
        """Raise ``Forbidden`` for the first question that is not allowed."""
        for decision in self.decide(questions):
            self._note(decision)
            if not decision.allowed:
                raise self._forbid(decision)

    def check_action(self, action: Action, branch: str | None = None, target_branch: str | None = None) -> None:
        """Raise ``Forbidden`` unless an action may be done."""
        self.check([self.question(action, branch, target_branch)])

    def _fits_role(self, question: PolicyQuestion) -> bool:
        role = self.token.role
        if isinstance(self.token, ActorMapToken) and self.policy is not None:
            # A file of release 0.8 has no roles: there the policy alone decides.
            role = Role.ADMIN
        if question.action is Action.INVOKE_QUERY and question.mutates and role is Role.READ:
            return False
        return question.action in ROLE_ACTIONS[role]

    def _note(self, decision: PolicyDecision) -> None:
        if self.record is not None:
            self.record.decision = "allowed" if decision.allowed else "denied"
            self.record.rule = decision.rule
            if not decision.allowed:
                self.record.action = str(decision.question.action)

    def _forbid(self, decision: PolicyDecision) -> Forbidden:
        question = decision.question
        target = question.describe_target()
        target = (self.graph_name or "the server") if target == "the graph" else target
        who = f"'{question.actor}' may not {question.describe_deed(target)}"
        details = {"action": str(question.action)}
        if not self._fits_role(question):
            needed = next(role for role in Role if question.action in ROLE_ACTIONS[role])
            needed = Role.WRITE if question.mutates and needed is Role.READ else needed
            return Forbidden(
                f"{who}: the role of the token is '{self.token.role}'",
                hint=f"use a token with the role '{needed}'",
                details={**details, "by": "role"},
            )
        reason = "no rule of the policy allows it" if decision.rule is None else f"the rule '{decision.rule}' denies it"
        return Forbidden(
            f"{who}: {reason}",
            hint="GET policy/explain shows how the policy decides",
            details={**details, "by": "policy", "rule": decision.rule},
        )

    # ------------------------------------------------------------------------------------- what a route declared

    def check_first(self, access: RouteAccess) -> None:
        """Ask the graph or the server as a whole, before the request is read."""
        actions = dict.fromkeys(ask.action for ask in access.asks if not ask.is_conditional)
        self.check([self.question(action) for action in actions])

    def needs_look_up(self, access: RouteAccess, look_up: FieldLookup) -> bool:
        """Whether a request names a commit or a tag: it has to be looked up to know whose branch is asked for."""
        if self.policy is None:
            return False
        refs = {ask.ref for ask in access.asks if ask.ref is not None}
        return bool(refs - {PLACE}) or (PLACE in refs and any(look_up(name) is not None for name in ("at", "snapshot")))

    def check_branches(self, access: RouteAccess, look_up: FieldLookup, graph: Graph) -> None:
        """Ask the branches that a request names, before anything of them is read."""
        for ask in access.asks:
            if _is_asked(ask, look_up):
                self._check_ask(ask, look_up, graph)

    def _check_ask(self, ask: RouteAsk, look_up: FieldLookup, graph: Graph) -> None:
        branch = _to_text(look_up(ask.branch)) if ask.branch is not None else None
        target = ask.fixed_target or (_to_text(look_up(ask.target)) if ask.target is not None else None)
        if ask.ref is None:
            if branch is not None or target is not None or ask.is_conditional:
                self.check_action(ask.action, branch, target)
            return
        given = _to_text(look_up("branch"))
        self.branch = given or MAIN
        if self.policy is None:
            self.check_action(ask.action)
            return
        if ask.ref == PLACE:
            self._check_place(ask.action, given, _to_text(look_up("snapshot")) or _to_text(look_up("at")), graph)
            return
        ref = _to_text(look_up(ask.ref))
        if ref is not None:
            self.check_ref(ask.action, ref, given or MAIN, graph)

    def _check_place(self, action: Action, branch: str | None, at: str | None, graph: Graph) -> None:
        if branch is not None or at is None or _is_of_branch(at):
            self.check_action(action, branch or MAIN)
        if at is not None and not _is_of_branch(at):
            found = find_branch_of(graph, at, branch or MAIN)
            if found is None or not self.allows(self.question(action, found)):
                self._conceal(action, found)
                raise _make_not_found(at)
            self.branch = found

    def check_ref(self, action: Action, ref: str, branch: str, graph: Graph) -> None:
        """Ask for a reference where a branch may stand too. What may not be read is what does not exist."""
        if _is_of_branch(ref):
            self.check_action(action, branch)
            return
        is_branch = ref in graph.info().branches
        found = ref if is_branch else find_branch_of(graph, ref, branch)
        if found is not None and self.allows(self.question(action, found)):
            self._note(self.decide([self.question(action, found)])[0])
            return
        # A branch that is not there, a tag and a branch that may not be read must look the same.
        self.check_action(action, ref)
        self._conceal(action, found)
        raise _make_not_found(ref)

    def _conceal(self, action: Action, branch: str | None) -> None:
        """Note a denial that the caller is told as something that does not exist."""
        if branch is not None:
            self._note(self.decide([self.question(action, branch)])[0])

    # ------------------------------------------------------------------------------------- types and queries

    def check_types(self, types: Iterable[str], branch: str, action: Action = Action.READ) -> None:
        """Raise ``Forbidden`` unless all of some types, such as ``node:Trial``, may be read on a branch."""
        self.are_types_asked = True
        if self.asks_types:
            self.check([self.question(action, branch, type_=each) for each in types])

    def check_query_types(self, query: CompiledQuery, catalog: Catalog, branch: str) -> None:
        """Raise ``Forbidden`` unless the types that a checked query reads and writes may be read and changed."""
        self.are_types_asked = True
        if self.asks_types:
            uses = describe_operation(query.typed, catalog)
            for action, types in ((Action.READ, uses.reads), (Action.CHANGE, uses.writes)):
                self.check_types([TableKey.of(use.kind, use.type_name) for use in types], branch, action)

    def hidden_types(self, catalog: Catalog, branch: str, action: Action = Action.READ) -> frozenset[TableKey]:
        """Return the types whose rows the actor may not see on a branch."""
        self.are_types_asked = True
        if not self.asks_types:
            return frozenset()
        keys = [TableKey.of_node(name) for name in catalog.nodes] + [TableKey.of_edge(name) for name in catalog.edges]
        decided = self.decide([self.question(action, branch, type_=str(key)) for key in keys])
        return frozenset(key for key, decision in zip(keys, decided, strict=True) if not decision.allowed)

    def is_protected(self, branch: str) -> bool:
        """Whether a branch is main, or one that the policy protects."""
        return branch == MAIN or (self.policy is not None and self.policy.rules.is_protected(branch))

    def may_read_branch(self, branch: str) -> bool:
        """Whether a branch may be read."""
        return self.allows(self.question(Action.READ, branch))

    def check_stored_query(self, name: str, *, is_known: bool, mutates: bool) -> None:
        """Raise ``NotFound`` for a stored query that is not there, or that the actor may not invoke."""
        question = self.question(Action.INVOKE_QUERY, query=name, mutates=mutates)
        decision = self.decide([question])[0]
        self._note(decision)
        if not (is_known and decision.allowed):
            raise NotFound("no stored query of this name", hint="GET queries lists them")

    def find_branch(self, branch: str, at: str | None, *, graph: Graph) -> str:
        """Return the branch that a place is read on. Whether it may be read is asked afterwards."""
        is_there = self.policy is None or at is None or _is_of_branch(at)
        found = branch if is_there or at is None else find_branch_of(graph, at, branch)
        if found is None:
            raise _make_not_found(str(at))
        return found

    @contextmanager
    def invoke(
        self, query: str, action: Action, branch: str, at: str | None = None, *, mutates: bool
    ) -> Generator[None]:
        """Run a stored query in the block: with the right to what it does on a branch, or with a grant of a rule.

        ``at`` is the reference that was resolved to the branch: one that may not be read is one that is not there.
        """
        question = PolicyQuestion(
            self.token.actor, Action.INVOKE_QUERY, branch, query=query, mutates=mutates, for_grant=True
        )
        self.branch = branch
        if self.policy is None or not self.policy.decide(question).allowed:
            if at is not None and not _is_of_branch(at) and not self.allows(self.question(action, branch)):
                self._conceal(action, branch)
                raise _make_not_found(at)
            self.check_action(action, branch)
            yield
            return
        self.is_granted = True
        with grant_branch(self.token.actor, branch):
            yield


def list_actions(gate: Gate) -> list[str]:
    """Return the actions that an actor may take somewhere in a graph, in the order of their declaration."""
    actions = list(Action)
    decided = gate.decide([gate.question(action) for action in actions])
    return [str(action) for action, decision in zip(actions, decided, strict=True) if decision.allowed]


def require_types_asked(access: RouteAccess, gate: Gate) -> None:
    """Refuse an answer of a route that should have asked for types and did not: a defect must not become a leak."""
    if access.types in ("ask", "hide") and gate.asks_types and not gate.are_types_asked:
        raise NoDecision("the types of this request were not asked for")


def _is_asked(ask: RouteAsk, look_up: FieldLookup) -> bool:
    if ask.only_if is not None and not look_up(ask.only_if):
        return False
    return ask.unless is None or not look_up(ask.unless)


def _is_of_branch(ref: str) -> bool:
    """Whether a reference is a version or a time, which are those of a branch."""
    return VERSION.fullmatch(ref) is not None or DATE_LIKE.fullmatch(ref) is not None


def _to_text(value: object) -> str | None:
    return None if value is None else str(value)


def _make_not_found(ref: str) -> NotFound:
    return NotFound(
        f"no commit, version, date or tag '{ref}'",
        hint="give a commit id, a version like v12, a time like 2024-05-01T10:00Z, or a tag",
        details={"reference": ref},
    )
