"""``serve --check``: what would be served, who may do what there, and whether the tests of the policies hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from omnigraph.errors import NotFound, OmniGraphError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy import Policy, parse_cases, read_policy_file, run_cases
from omnigraph.server.access import Gate, Token, list_actions, read_token_file
from omnigraph.server.config import ServedGraph, ServerSettings
from omnigraph.server.hosting import open_hosted_graph

TESTS: Final = "*.policy-test.yaml"


@dataclass(frozen=True, slots=True)
class ServerCheck:
    """What was found: lines for people, and what is wrong."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


def check_server(settings: ServerSettings) -> ServerCheck:
    """Read and open everything that the settings name, without writing a byte."""
    settings.check()
    lines, problems = [f"bind {settings.bind}"], list[str]()
    tokens = [] if settings.tokens is None else read_token_file(settings.tokens)
    for served in settings.graphs:
        lines += _describe_graph(served, tokens)
        try:
            opened = open_hosted_graph(replace(served, read_only=True))
            lines.append(f"  opens: format {opened.format}, branches {', '.join(opened.graph.info().branches)}")
            opened.graph.close()
        except OmniGraphError as error:
            problems.append(f"{served.public_uri} cannot be opened: {error}")
    for path, tests in find_policy_tests(settings):
        policy = _find_policy(settings, path)
        for test in tests:
            failed = run_policy_tests(policy, test)
            lines.append(f"{test.name}: {'all cases hold' if not failed else f'{len(failed)} cases fail'}")
            problems += failed
    return ServerCheck(tuple(lines), tuple(problems))


def _describe_graph(served: ServedGraph, tokens: Sequence[Token]) -> list[str]:
    kind = "read-only" if served.read_only else "read and write"
    lines = [f"{served.public_uri}: {kind}, {'a policy decides' if served.policy else 'roles decide'}"]
    for token in tokens:
        actions = list_actions(Gate(token, served.policy))
        lines.append(f"  {token.actor} ({token.role}): {', '.join(actions) or 'nothing'}")
    return lines


def find_policy_tests(settings: ServerSettings) -> list[tuple[Path, list[Path]]]:
    """Return each policy with the tests beside it; of several policies in one folder, by the beginning of the name."""
    files = [served.policy_file for served in settings.graphs] + [settings.server_policy_file]
    policies = list(dict.fromkeys(path for path in files if path is not None))
    shared = Counter(path.parent for path in policies)
    found: list[tuple[Path, list[Path]]] = []
    for path in policies:
        tests = sorted(path.parent.glob(TESTS))
        mine = [test for test in tests if shared[path.parent] == 1 or test.name.startswith(f"{path.stem}.")]
        found.append((path, mine))
    taken = {test for _, tests in found for test in tests}
    left = [test for path in policies for test in path.parent.glob(TESTS) if test not in taken]
    if left:
        raise NotFound(
            f"{left[0]} belongs to none of several policies beside it",
            hint=f"call it after its policy, such as {policies[0].stem}.policy-test.yaml",
        )
    return found


def _find_policy(settings: ServerSettings, path: Path) -> Policy:
    for served in settings.graphs:
        if served.policy_file == path and served.policy is not None:
            return served.policy
    assert settings.server_policy is not None, "the other policy is that of the server"
    return settings.server_policy


def run_policy_tests(policy: Policy, path: Path) -> list[str]:
    """Run the cases of a file; return what is wrong with those that fail."""
    results = run_cases(policy, parse_cases(read_policy_file(path), str(path)))
    return [
        f"{path.name}: case '{each.case.id}' expects {'allow' if each.case.is_allowed else 'deny'}, but "
        f"{each.decision.describe()}"
        for each in results
        if not each.passed
    ]
