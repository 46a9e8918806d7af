"""A graph as plain dictionaries: what every reader must see, however it was written.

What a mutation or a load makes of the rows is said in ``graph_writes.py``. Later parts add what they add to a graph: a
new kind of change is a new method here and a rule in a state machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.errors import AlreadyExists, OmniGraphError, ParameterError
from tests.model.graph_writes import Rows


@dataclass(frozen=True, slots=True)
class ModelCommit:
    """One commit, the branch it was made on, and the whole graph after it."""

    id: str
    parent: str | None
    branch: str
    rows: Rows


@dataclass(slots=True)
class ModelBranch:
    """A branch: the one that it began on, and every commit that it shows, oldest first."""

    parent: str | None
    history: list[ModelCommit]

    @property
    def head(self) -> ModelCommit:
        return self.history[-1]


class GraphModel:
    """The branches of a graph, each with its history, and its tags. It begins with one empty commit on main."""

    def __init__(self, first_commit: str, types: Iterable[str]) -> None:
        empty = Rows({type_name: {} for type_name in types})
        self.branches = {"main": ModelBranch(None, [ModelCommit(first_commit, None, "main", empty)])}
        self.tags: dict[str, ModelCommit] = {}

    def commit(self, branch: str, commit_id: str, rows: Rows) -> None:
        """One more commit, after which the whole graph is this."""
        shown = self.branches[branch]
        shown.history.append(ModelCommit(commit_id, shown.head.id, branch, rows))

    def drop(self, branch: str, commit_id: str, type_name: str) -> None:
        self.commit(branch, commit_id, self.branches[branch].head.rows.without_type(type_name))

    def bring_back(self, branch: str, commit_id: str, type_name: str) -> None:
        self.commit(branch, commit_id, self.branches[branch].head.rows.with_nodes(type_name, {}))

    def create_branch(self, name: str, start: ModelCommit | str) -> None:
        """From a branch by its name, or from a commit: then the branch that it was made on is the parent."""
        parent = start if isinstance(start, str) else start.branch
        shown = self.branches[parent].history
        self.branches[name] = ModelBranch(
            parent, shown[: len(shown) if isinstance(start, str) else shown.index(start) + 1]
        )

    def delete_branch(self, name: str) -> None:
        del self.branches[name]

    def why_not_create(self, name: str) -> type[OmniGraphError] | None:
        if name in self.branches:
            return AlreadyExists
        nested = any(f"{live}/".startswith(f"{name}/") or name.startswith(f"{live}/") for live in self._others())
        return ParameterError if nested else None

    def has_dependents(self, name: str) -> bool:
        """Whether another branch began here, or a tag names a commit that was made here."""
        tagged = any(commit.branch == name for commit in self.tags.values())
        return tagged or any(branch.parent == name for branch in self.branches.values())

    def leaves(self) -> list[str]:
        """The branches that can be deleted."""
        return sorted(name for name in self._others() if not self.has_dependents(name))

    def commits(self) -> list[ModelCommit]:
        """Every commit that some branch shows, oldest branch first."""
        found = {commit.id: commit for branch in self.branches.values() for commit in branch.history}
        return list(found.values())

    def _others(self) -> list[str]:
        return [name for name in self.branches if name != "main"]
