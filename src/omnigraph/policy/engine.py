"""Ask a policy. Its Cedar policies are parsed once, and decisions are kept: they depend on the question alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.errors import Forbidden, NoDecision, NotFound, ParameterError, Unsupported
from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy.cedar import GRANT_ACTION, SCHEMA, SERVER_ID, CedarPolicy, to_cedar
from omnigraph.policy.model import BRANCH_ACTIONS, Action, PolicyDecision, PolicyQuestion
from omnigraph.policy.rules import PolicyRules, parse_rules

if TYPE_CHECKING:
    import cedarpy

DEFAULT_GRAPH_ID: Final = "graph"
_MOST_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a stored query may do for its caller: anything on one branch."""

    actor: str
    branch: str


_grant: ContextVar[_Grant | None] = ContextVar("omnigraph_policy_grant", default=None)


@contextmanager
def grant_branch(actor: str, branch: str) -> Generator[None]:
    """Let an actor read and change a branch inside the block: a rule with ``grants`` was asked before."""
    token = _grant.set(_Grant(actor, branch))
    try:
        yield
    finally:
        _grant.reset(token)


class Policy:
    """Rules that can be asked, for one graph, or for the server (``graph_id`` None)."""

    def __init__(self, rules: PolicyRules, graph_id: str | None = DEFAULT_GRAPH_ID) -> None:
        self.rules = rules
        self.graph_id = graph_id
        self._cedar: Sequence[CedarPolicy] = to_cedar(rules, graph_id or "")
        self._set = _parse_policies(self._cedar)
        self._kept: dict[PolicyQuestion, PolicyDecision] = {}
        self._lock = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and (self.rules, self.graph_id) == (other.rules, other.graph_id)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[object, ...]:
        return Policy, (self.rules, self.graph_id)

    @cached_property
    def digest(self) -> str:
        """A short text that differs between policies."""
        return sha256("\n".join([self.graph_id or "", *(each.text for each in self._cedar)]).encode()).hexdigest()[:12]

    @property
    def has_types(self) -> bool:
        """Whether a rule speaks of types."""
        return self.rules.has_types

    def decide(self, question: PolicyQuestion) -> PolicyDecision:
        """Answer a question."""
        return self.decide_all((question,))[0]

    def decide_all(self, questions: Sequence[PolicyQuestion]) -> list[PolicyDecision]:
        """Answer several questions at once."""
        unknown = [each for each in dict.fromkeys(questions) if each not in self._kept]
        found = self._ask_cedar(unknown) if unknown else {}
        if found:
            with self._lock:
                if len(self._kept) + len(found) > _MOST_KEPT:
                    self._kept.clear()
                self._kept.update(found)
        return [
            found[each] if each in found else self._kept.get(each) or self._ask_cedar([each])[each]
            for each in questions
        ]

    def check(self, questions: Collection[PolicyQuestion]) -> None:
        """Raise ``Forbidden`` for the first question that is not allowed, unless a grant covers it."""
        asked = [each for each in questions if not _is_granted(each)]
        for decision in self.decide_all(asked):
            if not decision.allowed:
                raise forbid(decision)

    def _ask_cedar(self, questions: Sequence[PolicyQuestion]) -> dict[PolicyQuestion, PolicyDecision]:
        import cedarpy

        found: dict[PolicyQuestion, PolicyDecision] = {}
        for question in questions:
            request, entities = self._to_request(question)
            answer = cedarpy.is_authorized(request, self._set, json.dumps(entities))  # pyright: ignore[reportUnknownMemberType]
            problems = answer.diagnostics.errors
            if problems or answer.decision is cedarpy.Decision.NoDecision:
                # A prohibition that fails would be left out: that must never become a permission.
                raise NoDecision(f"the policy cannot decide: {'; '.join(problems) or 'no decision'}")
            rules = sorted(int(reason.removeprefix("policy")) for reason in answer.diagnostics.reasons)
            rule = self._cedar[rules[0]].rule if rules else None
            found[question] = PolicyDecision(question, answer.allowed, rule)
        return found

    def _to_request(self, question: PolicyQuestion) -> tuple[dict[str, object], list[dict[str, object]]]:
        resource, attributes = self._find_resource(question)
        actor = _uid("Actor", question.actor)
        groups = [_uid("Group", name) for name in self.rules.groups_of(question.actor)]
        parents = [] if self.graph_id is None or resource["type"] == "Graph" else [_uid("Graph", self.graph_id)]
        entities: list[dict[str, object]] = [
            {"uid": actor, "attrs": {}, "parents": groups},
            {"uid": resource, "attrs": attributes, "parents": parents},
        ]
        context = {
            "has_branch": question.branch is not None,
            "branch": question.branch or "",
            "branch_is_protected": question.branch is not None and self.rules.is_protected(question.branch),
            "has_target_branch": question.target_branch is not None,
            "target_branch": question.target_branch or "",
            "target_branch_is_protected": question.target_branch is not None
            and self.rules.is_protected(question.target_branch),
        }
        action = GRANT_ACTION if question.for_grant else str(question.action)
        request: dict[str, object] = {
            "principal": actor,
            "action": _uid("Action", action),
            "resource": resource,
            "context": json.dumps(context),
        }
        return request, entities

    def _find_resource(self, question: PolicyQuestion) -> tuple[dict[str, str], dict[str, object]]:
        if self.graph_id is None:
            return _uid("Server", SERVER_ID), {}
        if question.query is not None:
            return _uid("Query", f"{self.graph_id}/{question.query}"), {"mutates": question.mutates}
        if question.type is not None:
            return _uid("Type", f"{self.graph_id}/{question.type}"), {}
        branch = question.scoped_branch
        if branch is not None:
            return _uid("Branch", f"{self.graph_id}/{branch}"), {}
        return _uid("Graph", self.graph_id), {}


def explain_question(policy: Policy, question: PolicyQuestion) -> list[PolicyDecision]:
    """Answer all that a request asks: the graph, then the branch, then the type or the query. The first no decides."""
    whole = PolicyQuestion(question.actor, question.action)
    on_branch = replace(whole, branch=question.branch, target_branch=question.target_branch)
    asked = [whole] if question.query is not None else [whole, on_branch]
    return policy.decide_all(list(dict.fromkeys([*asked, question])))


def check_writer(
    policy: Policy, action: Action, actor: str | None, branch: str | None = None, target_branch: str | None = None
) -> None:
    """Raise ``Forbidden`` unless a writer may do something. One without a name may do nothing."""
    policy.check([PolicyQuestion(require_actor(actor), action, branch, target_branch)])


def require_actor(actor: str | None) -> str:
    """Return the actor of a write; raise ``Forbidden`` if there is none."""
    if actor is None:
        raise Forbidden("the graph has a policy, and this write has no actor", hint="give actor=, or --as")
    return actor


def forbid(decision: PolicyDecision) -> Forbidden:
    """Return the error for a question that was answered with no."""
    question = decision.question
    return Forbidden(
        decision.describe(),
        hint=f"`omnigraph policy explain --actor {question.actor} --action {question.action}` shows the rules",
        details={"action": str(question.action), "by": "policy", "rule": decision.rule},
    )


def load_policy(source: str | Path | Policy, graph_id: str | None = DEFAULT_GRAPH_ID) -> Policy:
    """Return a policy: as it is, from a file, or from the text of one."""
    if isinstance(source, Policy):
        return source
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return Policy(parse_rules(source, for_server=graph_id is None), graph_id)
    if isinstance(source, str) and not source.endswith((".yaml", ".yml")):
        raise ParameterError(
            f"{source!r} is neither a policy file nor the text of one",
            hint="pass a pathlib.Path, a name that ends in .yaml, or the text itself",
        )
    path = Path(source)
    return Policy(parse_rules(read_policy_file(path), str(path), for_server=graph_id is None), graph_id)


def read_policy_file(path: Path) -> str:
    """Read the text of a policy, or of its tests."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise NotFound(f"cannot read the policy {path}: {error.strerror}", hint="check its name") from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"the policy {path} is not UTF-8", hint="save it as UTF-8") from error


def _is_granted(question: PolicyQuestion) -> bool:
    grant = _grant.get()
    return (
        grant is not None
        and question.action in BRANCH_ACTIONS
        and (question.actor, question.branch) == (grant.actor, grant.branch)
    )


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _parse_policies(policies: Sequence[CedarPolicy]) -> cedarpy.PolicySet:
    """Parse policies, and validate them against the schema: a mistake in what we write must not become a decision."""
    try:
        import cedarpy
    except ImportError as error:
        raise Unsupported("a policy needs cedarpy", hint="pip install 'omnigraph[server]'") from error
    text = "\n".join(each.text for each in policies)
    result = cedarpy.validate_policies(text, SCHEMA)
    if not result.validation_passed:
        raise NoDecision(f"the policy is not valid Cedar: {'; '.join(str(error) for error in result.errors)}")
    return cedarpy.PolicySet.from_str(text)
