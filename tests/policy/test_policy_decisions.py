"""What a policy decides, beside a model of it in plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ConfigError
from omnigraph.policy import Action, Policy, PolicyQuestion, PolicyRules, Rule, load_policy, parse_cases, run_cases
from omnigraph.policy.model import BRANCH_ACTIONS, TARGET_ACTIONS, PolicyDecision
from omnigraph.policy.rules import ActorSet, Protection, matches_glob

ACTORS = ("ann", "bob", 'eve "quoted"', "zoë\n")
GROUPS = {"staff": ("ann", "bob"), "hr": ("bob", 'eve "quoted"'), "empty": ()}
BRANCHES = ("main", "release/1", "work/1", "work/1/x")
GLOBS = ("main", "work/*", "*/1", "*")
TYPES = ("node:Trial", "edge:Trial", "node:Salary")
QUERIES = ("ask", "pay")


# --------------------------------------------------------------------------------------------- the model


def is_matched(actors: ActorSet, actor: str) -> bool:
    if actors.group is not None:
        return actor in GROUPS[actors.group]
    return actors.actor in (None, actor)


def holds_on(rule: Rule, branch: str | None, protected: tuple[str, ...]) -> bool:
    """Whether the scope of a rule has a branch."""
    if rule.branches is not None:
        return branch is not None and any(matches_glob(glob, branch) for glob in rule.branches)
    if rule.protection in (None, "any"):
        return True
    is_protected = branch is not None and any(matches_glob(glob, branch) for glob in protected)
    return branch is not None and is_protected == (rule.protection == "protected")


def applies(rule: Rule, question: PolicyQuestion, protected: tuple[str, ...]) -> bool:
    """Whether a rule speaks of a question."""
    if question.action not in rule.actions or not is_matched(rule.actors, question.actor):
        return False
    if rule.excepted is not None and is_matched(rule.excepted, question.actor):
        return False
    allows = rule.effect == "allow"
    if question.action is Action.INVOKE_QUERY:
        if question.query is None:
            return allows or rule.queries is None
        return rule.queries is None or question.query in rule.queries
    if question.action not in BRANCH_ACTIONS | TARGET_ACTIONS:
        return True
    branch = question.scoped_branch
    if question.type is not None:
        return holds_on(rule, branch, protected) and (rule.types is None or question.type in rule.types)
    if branch is not None:
        return holds_on(rule, branch, protected) and (allows or rule.types is None)
    return allows or (rule.types is None and not rule.is_scoped)


def expect(rules: PolicyRules, question: PolicyQuestion) -> bool:
    found = [rule.effect for rule in rules.rules if applies(rule, question, rules.protected_branches)]
    if "deny" in found:
        return False
    if rules.default == "read":
        is_read = question.action is Action.READ
        is_asked = question.action is Action.INVOKE_QUERY and not (question.query is not None and question.mutates)
        if is_read or is_asked:
            return True
    return "allow" in found


# --------------------------------------------------------------------------------------------- the table

ACTOR_SETS = st.one_of(
    st.just(ActorSet()),
    st.sampled_from([ActorSet(group=name) for name in GROUPS]),
    st.sampled_from([ActorSet(actor=name) for name in ACTORS]),
)


@st.composite
def draw_rule(draw: st.DrawFn, number: int) -> Rule:
    kind = draw(st.sampled_from(["branch", "target", "query", "rest"]))
    actions = {
        "branch": sorted(BRANCH_ACTIONS),
        "target": sorted(TARGET_ACTIONS),
        "query": [Action.INVOKE_QUERY],
        "rest": [Action.TAG, Action.ADMIN],
    }[kind]
    protection: Protection | None = None
    branches = types = queries = None
    if kind in ("branch", "target"):
        scope = draw(st.sampled_from(["none", "protection", "branches"]))
        words: list[Protection] = ["any", "protected", "unprotected"]
        protection = draw(st.sampled_from(words)) if scope == "protection" else None
        branches = tuple(draw(st.lists(st.sampled_from(GLOBS), max_size=2))) if scope == "branches" else None
    if kind == "branch" and draw(st.booleans()):
        types = tuple(draw(st.lists(st.sampled_from(TYPES), max_size=2)))
    if kind == "query" and draw(st.booleans()):
        queries = tuple(draw(st.lists(st.sampled_from(QUERIES), max_size=2)))
    return Rule(
        f"r{number}",
        draw(st.sampled_from(["allow", "deny"])),
        draw(ACTOR_SETS),
        tuple(draw(st.lists(st.sampled_from(actions), min_size=1, max_size=3, unique=True))),
        draw(st.none() | ACTOR_SETS),
        protection,
        branches,
        types,
        queries,
    )


@st.composite
def draw_rules(draw: st.DrawFn) -> PolicyRules:
    count = draw(st.integers(0, 5))
    rules = tuple(draw(draw_rule(number)) for number in range(count))
    protected = tuple(draw(st.lists(st.sampled_from(("main", "release/*")), max_size=2)))
    return PolicyRules(rules, GROUPS, protected, draw(st.sampled_from(["deny", "read"])))


def list_questions(actor: str) -> list[PolicyQuestion]:
    places: list[str | None] = [None, *BRANCHES]
    found = [PolicyQuestion(actor, action, branch) for action in BRANCH_ACTIONS for branch in places]
    found += [
        PolicyQuestion(actor, action, branch, type=type_)
        for action in BRANCH_ACTIONS
        for branch in BRANCHES
        for type_ in TYPES
    ]
    found += [PolicyQuestion(actor, action, "work/1", target) for action in TARGET_ACTIONS for target in places]
    found += [
        PolicyQuestion(actor, Action.INVOKE_QUERY, query=query, mutates=mutates)
        for query in (None, *QUERIES, "other")
        for mutates in (False, True)
    ]
    return [*found, PolicyQuestion(actor, Action.TAG), PolicyQuestion(actor, Action.ADMIN)]


@settings(max_examples=25, deadline=None)
@given(draw_rules(), st.sampled_from(ACTORS))
def test_a_policy_decides_as_the_model_does(rules: PolicyRules, actor: str) -> None:
    questions = list_questions(actor)
    policy = Policy(rules, "brain")
    for question, decision in zip(questions, policy.decide_all(questions), strict=True):
        assert decision.allowed == expect(rules, question), (question, decision)
        if decision.allowed:
            assert decision.rule is not None


# --------------------------------------------------------------------------------------------- files


def test_the_example_holds_what_its_cases_say() -> None:
    folder = Path(__file__).parents[2] / "examples" / "server"
    for name, graph_id in (("policy", "brain"), ("server-policy", None)):
        policy = load_policy(folder / f"{name}.yaml", graph_id)
        cases = parse_cases((folder / f"{name}.policy-test.yaml").read_text())
        assert [each.case.id for each in run_cases(policy, cases) if not each.passed] == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{id: a, allow: {actors: {group: nobody}, actions: [read]}}", "no group 'nobody'"),
        ("{id: a, allow: {actors: {any: true}, actions: [reed]}}", "'reed' is no action"),
        ("{id: a, allow: {actors: {any: true}, actions: [admin], branch_scope: any}}", "does not fit admin"),
        ("{id: a, allow: {actors: {any: true}, actions: [change], target_branch_scope: any}}", "does not fit change"),
        ("{id: a, allow: {actors: {any: true}, actions: [tag], types: ['node:X']}}", "does not fit tag"),
        ("{id: a, allow: {actors: {any: true}, actions: [read], types: [X]}}", "'X' is no type"),
        ("{id: a, deny: {actors: {any: true}, actions: [invoke_query], queries: [q], grants: true}}", "grants is for"),
        ("{id: a, allow: {actors: {any: true}, actions: [read], branches: ['a?']}}", "no pattern"),
        ("{id: a, allow: {actors: {any: true, group: g}, actions: [read]}}", "name one of"),
        ("{id: a, allow: {actors: {any: true}, actions: [graph_list]}}", "asked of the server"),
        ("{id: a}", "either 'allow' or 'deny'"),
        ("{id: default, allow: {actors: {any: true}, actions: [read]}}", "used already"),
        ("&x {id: a, allow: *x}", "aliases"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(rule: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_policy(f"version: 1\ngroups: {{g: [a]}}\nrules:\n  - {rule}\n")
    assert any(message in problem.message for problem in refused.value.problems), str(refused.value)
    assert refused.value.position.line == 4


@pytest.mark.parametrize(
    ("question", "deed"),
    [
        (PolicyQuestion("ann", Action.READ, "main", type="node:Paper"), "read node:Paper on branch 'main'"),
        (PolicyQuestion("ann", Action.CHANGE, "main"), "change branch 'main'"),
        (PolicyQuestion("ann", Action.BRANCH_MERGE, "work", "main"), "merge into branch 'main'"),
        (PolicyQuestion("ann", Action.SCHEMA_APPLY, None, "main"), "change the schema of branch 'main'"),
        (PolicyQuestion("ann", Action.INVOKE_QUERY, query="top"), "invoke query 'top'"),
        (PolicyQuestion("ann", Action.TAG), "tag the graph"),
        (PolicyQuestion("ann", Action.BRANCH_DELETE), "delete branches of the graph"),
        (PolicyQuestion("ann", Action.BRANCH_DELETE, None, "work"), "delete branch 'work'"),
        (PolicyQuestion("ann", Action.INVOKE_QUERY), "invoke queries of the graph"),
    ],
)
def test_a_decision_is_a_sentence(question: PolicyQuestion, deed: str) -> None:
    told = PolicyDecision(question, allowed=False, rule=None).describe()
    assert told == f"'ann' may not {deed}: no rule of the policy allows it"
