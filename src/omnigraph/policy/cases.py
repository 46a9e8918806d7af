"""Tests of a policy: who must be allowed what, beside the rules. The files of release 0.8 are valid as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy.document import read_document
from omnigraph.policy.engine import Policy
from omnigraph.policy.model import Action, PolicyDecision, PolicyQuestion

_VERSION: Final = 1
_KEYS: Final = ("id", "actor", "action", "branch", "target_branch", "type", "query", "expect")
_TEXTS: Final = ("id", "actor", "branch", "target_branch", "type", "query")


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One case: a question, and whether it must be allowed."""

    id: str
    question: PolicyQuestion
    is_allowed: bool


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case and what the policy said."""

    case: PolicyCase
    decision: PolicyDecision

    @property
    def passed(self) -> bool:
        """Whether the policy said what the case expects."""
        return self.case.is_allowed == self.decision.allowed


def parse_cases(text: str, file: str | None = None) -> list[PolicyCase]:
    """Read cases from a text. All problems are raised as one ``ConfigError``."""
    document = read_document(text, file)
    found = document.fields((), document.root, "the file", ("version", "cases"), ("version", "cases"))
    if found.get("version", _VERSION) != _VERSION:
        document.add_problem(("version",), f"version must be {_VERSION}")
    cases: list[PolicyCase] = []
    for index, each in enumerate(document.items(("cases",), found.get("cases", []), "cases")):
        path = ("cases", index)
        body = document.fields(path, each, "a case", _KEYS, ("id", "actor", "action", "expect"))
        texts = {
            name: document.text_of((*path, name), body[name], name) for name in _TEXTS if body.get(name) is not None
        }
        words = [str(action) for action in Action]
        action = document.choice((*path, "action"), body["action"], "action", words) if "action" in body else None
        expect = (
            document.choice((*path, "expect"), body["expect"], "expect", ("allow", "deny"))
            if "expect" in body
            else None
        )
        id_, actor = texts.get("id"), texts.get("actor")
        if id_ is not None and actor is not None and action is not None and expect is not None:
            question = PolicyQuestion(
                actor,
                Action(action),
                texts.get("branch"),
                texts.get("target_branch"),
                texts.get("type"),
                texts.get("query"),
            )
            cases.append(PolicyCase(id_, question, expect == "allow"))
    document.raise_problems()
    return cases


def run_cases(policy: Policy, cases: Sequence[PolicyCase]) -> list[CaseResult]:
    """Ask a policy all cases."""
    decisions = policy.decide_all([case.question for case in cases])
    return [CaseResult(case, decision) for case, decision in zip(cases, decisions, strict=True)]
