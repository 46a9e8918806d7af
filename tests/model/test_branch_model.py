"""The rules for schemas, branches, cleanup and upkeep hold in every interleaving, and each of them is needed."""

from __future__ import annotations

import pytest

from tests.model.branch_checker import ALL_RULES, CAUGHT_BY, DEEP_SCENARIOS, SCENARIOS, Checker
from tests.model.branch_model import RULES
from tests.selection import daily

KNOWN = {each.name: each for each in (*SCENARIOS, *DEEP_SCENARIOS)}


@pytest.mark.parametrize("name", daily(KNOWN, [each.name for each in SCENARIOS]))
def test_with_all_rules_nothing_is_wedged_lost_or_mixed(name: str) -> None:
    _, problem, trace = Checker(KNOWN[name], ALL_RULES).run()
    assert problem is None, "\n".join([*trace, problem])


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_its_defect_is_found(rule: str) -> None:
    _, problem, _ = Checker(KNOWN[CAUGHT_BY[rule]], ALL_RULES - {rule}).run()
    assert problem is not None
