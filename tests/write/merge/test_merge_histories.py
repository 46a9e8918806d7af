"""Random histories: branches that are edited, merged in every direction and reverted, beside a model of plain dicts.

After every step all branches show what the model says, and the conflicts of a merge are those of the model. The model
finds common ancestors by comparing all ancestors. The result equals that of a dry run in this process, whichever engine
merges: ``tests/spark/merge/test_spark_merge_histories.py`` does the same on executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeAlias

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.write.merge.run import MergeResult
from tests.model.ancestry_model import bases as met
from tests.model.ancestry_model import common
from tests.model.merge_model import By, Entity, merge, orphans, preferred
from tests.selection import sized
from tests.write.merge.social_graph import edit, knows, make, person, state

if TYPE_CHECKING:
    from omnigraph.spark.graph import SparkGraph

State: TypeAlias = dict[tuple[str, str], Entity]
Key: TypeAlias = "tuple[str, str]"
Side: TypeAlias = Literal["ours", "theirs"]
NAMES = ("p0", "p1", "p2", "p3")
BRANCHES = ("main", "left", "right")
BY: tuple[By, ...] = ("row", "property")
PREFER: tuple[Side | None, ...] = (None, "ours", "theirs")


Merging: TypeAlias = "Callable[[Graph], Graph | SparkGraph]"
"""The graph that merges and reverts: local or on Spark."""


def here(graph: Graph) -> Graph:
    """Merge in this process."""
    return graph


def by_type(reason: str, keys: Iterable[Key]) -> dict[Key, int]:
    """Count entities by type."""
    return {(reason, type_): count for type_, count in Counter(type_ for type_, _ in keys).items()}


def find_lost(base: State, ours: State, theirs: State, result: State) -> set[Key]:
    """Return the entities with a change of theirs that is neither in ours nor in the result."""
    return {key for key in {*base, *theirs} if _loses(base.get(key), ours.get(key), theirs.get(key), result.get(key))}


def _loses(base: Entity | None, ours: Entity | None, theirs: Entity | None, result: Entity | None) -> bool:
    if theirs is None or result is None or base is None or ours is None:
        return theirs not in (base, ours, result)
    return any(theirs[name] not in (base[name], ours[name], result[name]) for name in theirs)


class History:
    """A graph and its model: what every commit shows, and its parents."""

    def __init__(self, folder: Path, merging: Merging = here) -> None:
        self.graph: Graph = make(folder, {name: person(0) for name in NAMES[:2]}, {"p0": knows("p0", "p1", 0)})
        self.merging = merging(self.graph)
        for name in BRANCHES[1:]:
            self.graph.create_branch(name)
        self.shown: dict[str, State] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.versions: dict[str, int] = {}
        for commit in self.graph.commits():
            self.know(commit, state(self.graph, at=commit.id))

    def know(self, commit: Commit, shows: State) -> None:
        """Record a new commit."""
        self.shown[commit.id] = shows
        self.parents[commit.id] = commit.parents
        self.versions[commit.id] = commit.manifest_version

    def head(self, branch: str) -> str:
        """Return the newest commit of a branch."""
        return self.graph.commits(branch, limit=1)[0].id

    def check(self) -> None:
        """Check that all branches show what the model says."""
        for branch in BRANCHES:
            assert state(self.graph, branch) == self.shown[self.head(branch)], branch

    # ----------------------------------------------------------------------------------------- steps

    def edit(self, branch: str, put: Mapping[str, Entity | None], ends: Mapping[str, int | None]) -> None:
        """Upsert and delete people, and edges from each of them to the next one. No edge may lack an end."""
        now = self.shown[self.head(branch)]
        wanted = {**now, **{("Person", name): row for name, row in put.items()}}
        for name, since in ends.items():
            following = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
            wanted["Knows", name] = None if since is None else knows(name, following, since)
        after: State = {key: row for key, row in wanted.items() if row is not None}
        for key in orphans(after):
            del after[key]
        changes = {key: after.get(key) for key in {*now, *after} if now.get(key) != after.get(key)}
        if not changes:
            return
        rows = {
            type_: {id_: row for (found, id_), row in changes.items() if found == type_}
            for type_ in ("Person", "Knows")
        }
        self.know(edit(self.graph, branch, people=rows["Person"], knows=rows["Knows"]), after)

    def merge(self, source: str, into: str, by: By = "row", prefer: Side | None = None) -> None:
        """Merge a branch or a commit."""
        theirs, target = self.head(source) if source in BRANCHES else source, self.head(into)
        if source == into:
            return
        bases = met(self.parents, theirs, target, self.versions.__getitem__)
        result = self.compare(source, into, by, prefer, theirs, bases)
        if result is not None:
            label = "already-up-to-date" if theirs in bases else "fast-forward" if target in bases else "merged"
            assert result.outcome == label
            event(f"{label}{', met more than once' if len(bases) > 1 else ''}")
            assert (result.commit is None) == (label == "already-up-to-date")

    def compare(
        self, source: str, into: str, by: By, prefer: Side | None, theirs: str, bases: list[str]
    ) -> MergeResult | None:
        """Merge, and compare the result with the model."""
        target = self.head(into)
        tried = self.graph.merge(source, into, by=by, dry_run=True)
        assert tried.base == bases[0]
        base = common(self.parents, self.shown.__getitem__, bases[0], bases[1:], self.versions.__getitem__)
        ours, other = self.shown[target], self.shown[theirs]
        if theirs in bases:
            base = other
        expected, conflicts = merge(base, ours, other, by)
        kinds = {**conflicts, **{key: "OrphanEdge" for key in orphans(expected) if key not in conflicts}}
        found = {(each.type, each.id): each.kind for each in tried.conflicts if each.kind != "OrphanEdge"}
        lost = {(each.type, each.id) for each in tried.conflicts if each.kind == "OrphanEdge"}
        assert (found, lost) == (conflicts, orphans(expected))
        if kinds and (prefer is None or orphans(preferred(base, ours, other, by, prefer))):
            event("conflicts")
            with pytest.raises(MergeConflicts) as raised:
                self.merging.merge(source, into, by=by)
            assert raised.value.conflicts == tried.conflicts
            return None
        if kinds and prefer is not None:
            event("conflicts, decided")
            tried = self.graph.merge(source, into, by=by, prefer=prefer, dry_run=True)
            expected = preferred(base, ours, other, by, prefer)
        result = self.merging.merge(source, into, by=by, prefer=prefer)
        assert replace(result, commit=None) == tried
        undone = self.undone(into, target, theirs, bases, base)
        assert {(each.reason, each.type): each.count for each in result.left_out} == {
            **by_type("resolved", find_lost(base, ours, other, expected)),
            **by_type("undone", undone),
        }
        event("undone" if undone else "nothing undone")
        changed = {**result.nodes, **result.edges}
        written = {type_: each.inserted + each.updated + each.deleted for type_, each in changed.items()}
        moved = {key for key in {*ours, *expected} if ours.get(key) != expected.get(key)}
        assert {("", type_): count for type_, count in written.items() if count} == by_type("", moved)
        if result.commit is not None:
            assert result.commit.parents == (target, theirs)
            self.know(result.commit, expected)
        return result

    def undone(self, into: str, target: str, theirs: str, bases: list[str], base: State) -> set[Key]:
        """Return what the target merged from the source before and undid since.

        It is as it was where the branch met the source first. The branch's own commits follow their first parent only.
        """
        first, *others = bases
        if first == target:
            return set()
        own = {each.id for each in self.graph.commits(into) if (each.branch or "main") == into}
        line = {each: found[:1] if each in own else found for each, found in self.parents.items()}
        origin = self.shown[met(line, theirs, target, self.versions.__getitem__)[0]]
        ours, other, before = self.shown[target], self.shown[theirs], self.shown[first]
        return {
            key
            for key in {*ours, *before}
            if ours.get(key) == origin.get(key) != before.get(key) == other.get(key)
            and (not others or base.get(key) == before.get(key))
        }

    def revert(self, branch: str, back: int, side: int) -> None:
        """Revert one of the last commits of a branch."""
        commits = self.graph.commits(branch)
        undone = commits[min(back, len(commits) - 1)]
        if not undone.parents:
            return
        side = min(side, len(undone.parents))
        ours = self.shown[self.head(branch)]
        expected, conflicts = merge(self.shown[undone.id], ours, self.shown[undone.parents[side - 1]], "row")
        tried = self.graph.revert(undone.id, branch=branch, side=side, dry_run=True)
        if conflicts or orphans(expected):
            with pytest.raises(MergeConflicts) as raised:
                self.merging.revert(undone.id, branch=branch, side=side)
            assert raised.value.conflicts == tried.conflicts
            return
        result = self.merging.revert(undone.id, branch=branch, side=side)
        assert replace(result, commit=None) == tried
        assert (result.commit is None) == (expected == ours)
        event("reverted")
        if result.commit is not None:
            self.know(result.commit, expected)


# --------------------------------------------------------------------------------------------- random steps


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits a branch."""

    branch: str
    people: Mapping[str, Entity | None]
    edges: Mapping[str, int | None]

    def happen(self, history: History) -> None:
        history.edit(self.branch, self.people, self.edges)


@dataclass(frozen=True, slots=True)
class Merges:
    """Merges a branch, at its head or some commits before."""

    source: str
    into: str
    by: By
    prefer: Side | None
    back: int | None

    def happen(self, history: History) -> None:
        source = self.source
        if self.back is not None:
            commits = history.graph.commits(source)
            source = commits[min(self.back, len(commits) - 1)].id
        history.merge(source, self.into, self.by, self.prefer)


@dataclass(frozen=True, slots=True)
class Reverts:
    """Reverts a commit."""

    branch: str
    back: int
    side: int

    def happen(self, history: History) -> None:
        history.revert(self.branch, self.back, self.side)


@dataclass(frozen=True, slots=True)
class Crosses:
    """Two branches merge each other's earlier state, so that they have two common ancestors."""

    one: str
    other: str
    prefer: Side | None

    def happen(self, history: History) -> None:
        before = history.head(self.one)
        history.merge(self.other, self.one, prefer=self.prefer)
        if self.one != self.other:
            history.merge(before, self.other, prefer=self.prefer)


Step: TypeAlias = Edits | Merges | Reverts | Crosses

people = st.one_of(st.none(), st.builds(person, st.sampled_from([None, 1, 2]), st.none()))
edges = st.one_of(st.none(), st.sampled_from([1, 2]))
branches = st.sampled_from(BRANCHES)
names = st.sampled_from(NAMES)
edits = st.builds(
    Edits, branches, st.dictionaries(names, people, max_size=3), st.dictionaries(names, edges, max_size=2)
)
merges = st.builds(
    Merges, branches, branches, st.sampled_from(BY), st.sampled_from(PREFER), st.none() | st.integers(0, 5)
)
crosses = st.builds(Crosses, branches, branches, st.sampled_from(PREFER))
reverts = st.builds(Reverts, branches, st.integers(0, 3), st.integers(1, 2))
steps: st.SearchStrategy[Step] = edits | edits | merges | reverts | crosses


def play(happenings: Iterable[Step], merging: Merging = here) -> None:
    """Run all steps, and check all branches after each."""
    with TemporaryDirectory() as folder:
        history = History(Path(folder), merging)
        for step in happenings:
            note(str(step))
            step.happen(history)
            history.check()


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=sized(3, 5), suppress_health_check=QUIET, print_blob=True)
@given(st.lists(steps, min_size=6, max_size=9))
def test_a_short_history_is_that_of_the_model(happenings: list[Step]) -> None:
    play(happenings)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=QUIET, print_blob=True)
@given(st.lists(steps, min_size=10, max_size=30))
def test_a_long_history_is_that_of_the_model(happenings: list[Step]) -> None:
    play(happenings)
