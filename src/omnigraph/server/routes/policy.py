"""The route that explains how the policy of a graph decides."""

from __future__ import annotations

from typing import Final

from omnigraph.policy import PolicyDecision, PolicyQuestion, explain_question
from omnigraph.server.access import ANY_TOKEN, Action
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.messages import RequestModel


class ExplainFields(RequestModel):
    """A question to the policy. Without ``actor``, it is that of the token."""

    actor: str | None = None
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    type: str | None = None
    query: str | None = None


def explain_decision(call: ServerCall) -> Answer:
    """Say whether an actor may do something, which rule says so, and everything that was asked."""
    asked = call.fields(ExplainFields)
    gate = call.gate
    if asked.actor not in (None, gate.token.actor):
        gate.check_action(Action.ADMIN)
    actor = asked.actor or gate.token.actor
    question = PolicyQuestion(actor, asked.action, asked.branch, asked.target_branch, asked.type, asked.query)
    if gate.policy is not None:
        decisions = explain_question(gate.policy, question)
    elif actor == gate.token.actor:
        decisions = gate.decide([question])
    else:
        decisions = [PolicyDecision(question, allowed=True, rule=None)]
    last = next((each for each in decisions if not each.allowed), decisions[-1])
    message = last.describe() if gate.policy is not None else "there is no policy: the role of the token decides"
    return Answer(
        {
            "allowed": last.allowed,
            "rule": last.rule,
            "message": message,
            "asks": [
                {"target": each.question.describe_target(), "allowed": each.allowed, "rule": each.rule}
                for each in decisions
            ],
        }
    )


ROUTES: Final = (Route("GET", "/graphs/{graph_id}/policy/explain", explain_decision, ANY_TOKEN, query=ExplainFields),)
