"""``omnigraph policy``: check, test and explain the rules that say who may do what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.render.policy_report import PolicyExplanation, PolicySummary, PolicyTestReport
from omnigraph.cli.session import require_server_extra, session_of

if TYPE_CHECKING:
    from omnigraph.policy import Policy

app = typer.Typer(help="Check, test and explain who may do what.", rich_markup_mode=None)

PolicyFile = Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="The policy.", show_default=False)]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="server.yaml", help="The server that the policy is of.", show_default=False),
]
ForGraph = Annotated[
    str | None,
    typer.Option("--for", metavar="GRAPH", help="The graph in that file; else its server.", show_default=False),
]


@app.command()
def validate(
    context: typer.Context, policy: PolicyFile = None, config: ConfigFile = None, for_graph: ForGraph = None
) -> int:
    """Check a policy. Every problem is shown with its place.

    \b
    Examples:
      omnigraph policy validate --policy policy.yaml
      omnigraph policy validate --config server.yaml --for brain
    """
    found = _load(policy, config, for_graph)
    session_of(context).output.show(PolicySummary(found.rules))
    return 0


@app.command("test")
def run_tests(
    context: typer.Context,
    tests: Annotated[Path, typer.Option("--tests", metavar="FILE", help="The cases.", show_default=False)],
    policy: PolicyFile = None,
    config: ConfigFile = None,
    for_graph: ForGraph = None,
) -> int:
    """Ask a policy the cases of a file. Exits with 1 if one is not answered as expected.

    \b
    Examples:
      omnigraph policy test --policy policy.yaml --tests brain.policy-test.yaml
      omnigraph policy test --config server.yaml --for brain --tests brain.policy-test.yaml
    """
    found = _load(policy, config, for_graph)
    from omnigraph.policy import parse_cases, read_policy_file, run_cases

    report = PolicyTestReport(run_cases(found, parse_cases(read_policy_file(tests), str(tests))))
    session_of(context).output.show(report)
    return 0 if report.passed else 1


@app.command()
def explain(
    context: typer.Context,
    actor: Annotated[str, typer.Option("--actor", help="Who.", show_default=False)],
    action: Annotated[str, typer.Option("--action", help="Does what: read, change, ...", show_default=False)],
    branch: Annotated[str | None, typer.Option("--branch", help="On which branch.", show_default=False)] = None,
    target_branch: Annotated[
        str | None,
        typer.Option("--target-branch", help="To which branch.", show_default=False),
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="node:NAME", help="To which type.", show_default=False)
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Which stored query.", show_default=False)] = None,
    policy: PolicyFile = None,
    config: ConfigFile = None,
    for_graph: ForGraph = None,
) -> int:
    """Say whether an actor may do something, and which rule says so. Exits with 0 either way.

    \b
    Examples:
      omnigraph policy explain --policy policy.yaml --actor act-ines --action change --branch main
      omnigraph policy explain --config server.yaml --for brain --actor act-ines --action read --type node:Paper
    """
    found = _load(policy, config, for_graph)
    from omnigraph.policy import Action, PolicyQuestion, explain_question

    words = [str(each) for each in Action]
    if action not in words:
        raise typer.TyperException(f"--action is '{action}'; it is one of {', '.join(words)}")
    question = PolicyQuestion(actor, Action(action), branch, target_branch, type_, query)
    session_of(context).output.show(PolicyExplanation(explain_question(found, question)))
    return 0


def _load(policy: Path | None, config: Path | None, for_graph: str | None) -> Policy:
    """Load the policy that the options name."""
    require_server_extra()
    if (policy is None) == (config is None):
        raise typer.TyperException("give --policy FILE, or --config server.yaml with --for GRAPH")
    from omnigraph.policy import load_policy

    if policy is not None:
        return load_policy(policy)
    from omnigraph.server import read_config

    assert config is not None
    settings = read_config(config, os.environ)
    found = {served.id: served.policy for served in settings.graphs}
    if for_graph is not None and for_graph not in found:
        raise typer.TyperException(f"{config} serves no graph '{for_graph}', but {', '.join(found)}")
    chosen = settings.server_policy if for_graph is None else found[for_graph]
    if chosen is None:
        raise typer.TyperException(f"{config} has no policy for {for_graph or 'the server'}; give --for GRAPH")
    return chosen
