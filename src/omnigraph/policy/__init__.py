"""Who may do what: rules in YAML, asked through Cedar.

:mod:`.rules` reads a file, :mod:`.cedar` writes it as Cedar policies, :mod:`.engine` asks them, and :mod:`.cases` runs
the tests beside a policy. Nothing here knows a graph: a question names an actor, an action and what it is done to.
"""

from omnigraph.policy.cases import CaseResult, PolicyCase, parse_cases, run_cases
from omnigraph.policy.engine import (
    Policy,
    check_writer,
    explain_question,
    forbid,
    grant_branch,
    load_policy,
    read_policy_file,
    require_actor,
)
from omnigraph.policy.model import Action, PolicyDecision, PolicyQuestion
from omnigraph.policy.rules import PolicyRules, Rule, parse_rules

__all__ = [
    "Action",
    "CaseResult",
    "Policy",
    "PolicyCase",
    "PolicyDecision",
    "PolicyQuestion",
    "PolicyRules",
    "Rule",
    "check_writer",
    "explain_question",
    "forbid",
    "grant_branch",
    "load_policy",
    "parse_cases",
    "parse_rules",
    "read_policy_file",
    "require_actor",
    "run_cases",
]
