"""What happens in a life: operations that pickle, so that they can be done here or by a child that is killed."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import omnigraph
from omnigraph.errors import ConflictError, HistoryGone
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from tests.maintain.ports import AT_ONCE
from tests.model.merge_model import By
from tests.write.fleet import open_unhealed

Side: TypeAlias = Literal["ours", "theirs"]


@dataclass(frozen=True, slots=True)
class Load:
    """Records, in place of those with the same ids."""

    branch: str
    records: tuple[bytes, ...]

    def run(self, graph: Graph) -> None:
        graph.load(io.BytesIO(b"\n".join(self.records)), mode="merge", branch=self.branch)


@dataclass(frozen=True, slots=True)
class Mutate:
    """A mutation."""

    branch: str
    text: str

    def run(self, graph: Graph) -> None:
        graph.mutate(self.text, branch=self.branch)


@dataclass(frozen=True, slots=True)
class Merge:
    """A branch comes into another one."""

    source: str
    into: str
    by: By
    prefer: Side | None

    def run(self, graph: Graph) -> None:
        graph.merge(self.source, self.into, by=self.by, prefer=self.prefer)


@dataclass(frozen=True, slots=True)
class Revert:
    """A commit is taken back."""

    branch: str
    commit: str
    side: int

    def run(self, graph: Graph) -> None:
        graph.revert(self.commit, branch=self.branch, side=self.side)


@dataclass(frozen=True, slots=True)
class Apply:
    """Another schema. A hard drop removes all values of what is dropped."""

    text: str
    is_hard: bool = False

    def run(self, graph: Graph) -> None:
        graph.apply_schema(self.text, allow_data_loss=self.is_hard)


@dataclass(frozen=True, slots=True)
class CreateBranch:
    """A branch that begins at a commit."""

    name: str
    start: str

    def run(self, graph: Graph) -> None:
        graph.create_branch(self.name, from_=self.start)


@dataclass(frozen=True, slots=True)
class DeleteBranch:
    """A branch goes."""

    name: str

    def run(self, graph: Graph) -> None:
        graph.delete_branch(self.name)


@dataclass(frozen=True, slots=True)
class CreateTag:
    """A commit gets a name."""

    name: str
    commit: str

    def run(self, graph: Graph) -> None:
        graph.create_tag(self.name, self.commit)


@dataclass(frozen=True, slots=True)
class DeleteTag:
    """A name goes."""

    name: str

    def run(self, graph: Graph) -> None:
        graph.delete_tag(self.name)


@dataclass(frozen=True, slots=True)
class Optimize:
    """Upkeep of one branch."""

    branch: str

    def run(self, graph: Graph) -> None:
        graph.optimize(self.branch)


@dataclass(frozen=True, slots=True)
class Clean:
    """Old history goes, and all that nobody needs, however young."""

    keep: int

    def run(self, graph: Graph) -> None:
        cleanup(graph._manifest, self.keep, confirm=True, stale_after=AT_ONCE, grace=AT_ONCE)


Operation: TypeAlias = (
    Load | Mutate | Merge | Revert | Apply | CreateBranch | DeleteBranch | CreateTag | DeleteTag | Optimize | Clean
)


def run_at(uri: str, operation: Operation) -> None:
    """Do it in a process that opened the graph before something went wrong: it heals on the way, or not at all."""
    operation.run(open_unhealed(uri))


def tend(uri: str, branch: str, keep: int) -> None:
    """Build indexes, compact and clean up beside somebody who writes. Whoever is overtaken is told so."""
    graph = omnigraph.open(uri)
    for call in (graph.ensure_indexes, graph.optimize, graph.ensure_indexes):
        with suppress(ConflictError, HistoryGone):
            call(branch)
    Clean(keep).run(graph)
