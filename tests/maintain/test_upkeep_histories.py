"""Random histories with branches, tags, optimizes and cleanups: what has to stay reads as it did, at any time."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import ConflictError, HistoryGone
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from tests.maintain.ports import AT_ONCE, SCHEMA, Shown, add, cleanup_now, remove, shown
from tests.selection import sized

Step: TypeAlias = tuple[str, int]
WORDS = ["add", "add", "add", "remove", "branch", "delete branch", "tag", "untag", "optimize", "cleanup", "cleanup"]


@dataclass
class History:
    """A graph, and what every commit showed when it was made."""

    graph: Graph
    showed: dict[str, Shown] = field(default_factory=dict[str, Shown])
    gone: set[str] = field(default_factory=set[str])
    """What a cleanup was free to take: no later one brings it back."""
    ports: int = 0

    def branch(self, number: int) -> str:
        names = [branch.name for branch in self.graph.branches()]
        return names[number % len(names)]

    def note(self, branch: str) -> None:
        """What the commits show that are new on a branch: upkeep makes some that show the same."""
        now = shown(self.graph, branch)
        for commit in self.graph.commits(branch):
            if commit.id in self.showed:
                break
            self.showed[commit.id] = now

    def do(self, word: str, number: int) -> None:
        branch = self.branch(number)
        match word:
            case "add":
                self.ports += 1
                add(self.graph, f"p{self.ports:03}", branch)
            case "remove":
                remove(self.graph, f"p{1 + number % max(1, self.ports):03}", branch)
            case "branch":
                commits = {self.graph.commits(branch)[0].id, *self.stays(branch, 1)}
                self.graph.create_branch(f"b{len(self.showed)}-{number}", from_=sorted(commits)[number % len(commits)])
            case "delete branch":
                self.delete(branch)
            case "tag":
                self.graph.create_tag(f"t{len(self.graph.tags())}-{len(self.showed)}-{number}", branch)
            case "untag":
                for tag in self.graph.tags()[:1]:
                    self.graph.delete_tag(tag.name)
            case "optimize":
                self.graph.optimize(branch)
            case _:
                self.clean(1 + number % 4)
                return
        for name in {branch, *(each.name for each in self.graph.branches())}:
            if name in {each.name for each in self.graph.branches()}:
                self.note(name)

    def delete(self, branch: str) -> None:
        if branch != MAIN:
            # Refused while another branch or a tag stands on it.
            with suppress(ConflictError):
                self.graph.delete_branch(branch)

    def stays(self, branch: str, keep: int) -> set[str]:
        """The newest of a branch's own commits, its head and the tags on it."""
        commits = self.graph.commits(branch)
        own = [commit.id for commit in commits if commit.branch == branch]
        tagged = {tag.commit for tag in self.graph.tags() if tag.branch == branch}
        return {commits[0].id, *own[:keep], *tagged} - self.gone

    def clean(self, keep: int) -> None:
        stay = {commit for branch in self.graph.branches() for commit in self.stays(branch.name, keep)}
        cleanup_now(self.graph, keep, stale_after=AT_ONCE)
        self.gone |= self.showed.keys() - stay
        self.check(stay)

    def check(self, stay: set[str]) -> None:
        for graph in (self.graph, omnigraph.open(self.graph.uri)):
            for branch in graph.branches():
                for commit in graph.commits(branch.name):
                    try:
                        assert shown(graph, branch.name, commit.id) == self.showed[commit.id], commit
                    except HistoryGone:
                        assert commit.id not in stay, commit
                assert shown(graph, branch.name) == self.showed[branch.head or ""]


@pytest.fixture(scope="session")
def empty_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph without a port."""
    folder = tmp_path_factory.mktemp("histories") / "ports.og"
    omnigraph.init(folder, SCHEMA)
    return folder


@settings(
    max_examples=sized(2, 40),
    # A history is long to replay: a failure prints its steps, and those are readable as they are.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 11)), min_size=8, max_size=sized(16, 30)))
def test_what_stays_reads_as_it_did(empty_template: Path, steps: Sequence[Step]) -> None:
    with TemporaryDirectory() as folder:
        graph = omnigraph.open(shutil.copytree(empty_template, Path(folder, "ports.og")))
        history = History(graph)
        history.note(MAIN)
        for word, number in steps:
            history.do(word, number)
        history.clean(2)
        assert graph.verify().findings == ()
