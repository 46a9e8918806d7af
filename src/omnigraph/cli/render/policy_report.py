"""Results of ``omnigraph policy`` and ``omnigraph serve --check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.policy import CaseResult, PolicyDecision, PolicyRules
    from omnigraph.server import ServerCheck


@dataclass(frozen=True, slots=True)
class PolicySummary(CommandResult):
    """A policy that is valid."""

    rules: PolicyRules

    def to_json(self) -> Mapping[str, Json]:
        """What it has."""
        return {"valid": True, "rules": len(self.rules.rules), "groups": len(self.rules.groups), "actors": self._actors}

    @property
    def _actors(self) -> int:
        named = {rule.actors.actor for rule in self.rules.rules if rule.actors.actor is not None}
        return len(named.union(*self.rules.groups.values()))

    def draw(self, page: Page) -> None:
        """One line."""
        parts = [
            pluralize(len(self.rules.rules), "rule"),
            pluralize(len(self.rules.groups), "group"),
            pluralize(self._actors, "actor"),
        ]
        page.print(f"the policy is valid: {', '.join(parts)}")


@dataclass(frozen=True, slots=True)
class PolicyTestReport(CommandResult):
    """The cases of a file, and what the policy said."""

    results: Sequence[CaseResult]

    @property
    def passed(self) -> bool:
        """Whether all cases were answered as expected."""
        return all(each.passed for each in self.results)

    def to_json(self) -> Mapping[str, Json]:
        """Each case."""
        return {
            "passed": self.passed,
            "cases": [
                {
                    "id": each.case.id,
                    "passed": each.passed,
                    "allowed": each.decision.allowed,
                    "rule": each.decision.rule,
                }
                for each in self.results
            ],
        }

    def draw(self, page: Page) -> None:
        """The cases that failed, and how many there are."""
        failed = [each for each in self.results if not each.passed]
        for each in failed:
            page.print(f"FAILED {each.case.id}: {each.decision.describe()}")
        page.print(f"{len(self.results) - len(failed)} of {pluralize(len(self.results), 'case')} hold")


@dataclass(frozen=True, slots=True)
class PolicyExplanation(CommandResult):
    """What was asked, and how it was decided."""

    decisions: Sequence[PolicyDecision]

    @property
    def _last(self) -> PolicyDecision:
        return next((each for each in self.decisions if not each.allowed), self.decisions[-1])

    def to_json(self) -> Mapping[str, Json]:
        """The decision and every ask."""
        return {
            "allowed": self._last.allowed,
            "rule": self._last.rule,
            "message": self._last.describe(),
            "asks": [
                {"target": each.question.describe_target(), "allowed": each.allowed, "rule": each.rule}
                for each in self.decisions
            ],
        }

    def draw(self, page: Page) -> None:
        """The decision, and a line for each ask."""
        page.print(f"{'allowed' if self._last.allowed else 'denied'}: {self._last.describe()}")
        page.table(
            ("asked", "answer", "rule"),
            [
                (each.question.describe_target(), "allowed" if each.allowed else "denied", each.rule)
                for each in self.decisions
            ],
        )


@dataclass(frozen=True, slots=True)
class ServerCheckReport(CommandResult):
    """What a server would serve, and what is wrong."""

    check: ServerCheck

    def to_json(self) -> Mapping[str, Json]:
        """The lines and the problems."""
        return {"lines": list(self.check.lines), "problems": list(self.check.problems)}

    def draw(self, page: Page) -> None:
        """Each line, then each problem."""
        for line in self.check.lines:
            page.print(line)
        for problem in self.check.problems:
            page.print(f"PROBLEM {problem}")
        if not self.check.problems:
            page.say("everything is in order")
