"""Results of the commands that look at a graph or change its branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.graph import GraphInfo
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.history import Commit
    from omnigraph.manifest.settings import GraphSettings
    from omnigraph.manifest.snapshot import Pin, Snapshot

MAIN = "main"


@dataclass(frozen=True, slots=True)
class GraphDescription(CommandResult):
    """Location, contents and newest commit of a graph."""

    info: GraphInfo

    def to_json(self) -> Mapping[str, Json]:
        """All of ``graph.info()`` but the mode, which only says how the command opened the graph."""
        info = self.info
        return {
            "uri": info.uri,
            "format": info.format,
            "schema_ir_hash": info.schema_ir_hash,
            "branches": list(info.branches),
            "head": None if info.head is None else commit_json(info.head),
            "nodes": dict(info.nodes),
            "edges": dict(info.edges),
        }

    def draw(self, page: Page) -> None:
        """The facts, and the rows of each type on main."""
        info = self.info
        page.facts(
            {
                "graph": info.uri,
                "format": str(info.format),
                "schema": info.schema_ir_hash,
                "branches": ", ".join(info.branches),
                "head": None if info.head is None else f"{info.head.id}, {page.exact_moment(info.head.created_at)}",
            }
        )
        kinds = {"node": info.nodes, "edge": info.edges}
        page.print("")
        page.table(
            ("kind", "type", "rows"),
            [(kind, name, count) for kind, counts in kinds.items() for name, count in counts.items()],
        )


@dataclass(frozen=True, slots=True)
class NewGraph(GraphDescription):
    """A graph that was just created."""

    def draw(self, page: Page) -> None:
        """One line: location, number of types, first commit."""
        types = f"{pluralize(len(self.info.nodes), 'node type')}, {pluralize(len(self.info.edges), 'edge type')}"
        first = "" if self.info.head is None else f", commit {self.info.head.id}"
        page.print(f"{self.info.uri}: {types}{first}")


@dataclass(frozen=True, slots=True)
class BranchChange(CommandResult):
    """A branch that was just created or deleted, and its newest commit."""

    verb: str
    branch: str
    commit: str | None

    def to_json(self) -> Mapping[str, Json]:
        """The branch and its head."""
        return {"branch": self.branch, "commit": self.commit}

    def draw(self, page: Page) -> None:
        """One line."""
        page.print(f"{self.verb} branch {self.branch}" + (f" at {self.commit}" if self.commit else ""))


@dataclass(frozen=True, slots=True)
class BranchListing(CommandResult):
    """The branches of a graph."""

    branches: Sequence[Branch]

    def to_json(self) -> Mapping[str, Json]:
        """Each branch with its head, its parent and its age."""
        return {
            "branches": [
                {
                    "name": branch.name,
                    "head": branch.head,
                    "parent": branch.parent,
                    "created_at": None if branch.created_at is None else timestamp(branch.created_at),
                }
                for branch in self.branches
            ]
        }

    def draw(self, page: Page) -> None:
        """One line per branch."""
        page.table(
            ("branch", "head", "parent", "created"),
            [
                (branch.name, branch.head, branch.parent, branch.created_at and page.moment(branch.created_at))
                for branch in self.branches
            ],
        )


@dataclass(frozen=True, slots=True)
class CommitListing(CommandResult):
    """Commits, newest first. ``more``: older ones were left out."""

    commits: Sequence[Commit]
    more: bool

    def to_json(self) -> Mapping[str, Json]:
        """The commits."""
        return {"commits": [commit_json(commit) for commit in self.commits]}

    def draw(self, page: Page) -> None:
        """One line per commit. Ids are shown whole, because a part of an id is not a reference."""
        if not self.commits:
            return page.say("no commits")
        page.table(
            ("commit", "when", "branch", "actor", "message"),
            [
                (commit.id, page.moment(commit.created_at), commit.branch, commit.actor, commit.message)
                for commit in self.commits
            ],
        )
        return page.say("there are more; --limit shows them") if self.more else None


@dataclass(frozen=True, slots=True)
class CommitDetails(CommandResult):
    """A single commit."""

    commit: Commit

    def to_json(self) -> Mapping[str, Json]:
        """The commit."""
        return commit_json(self.commit)

    def draw(self, page: Page) -> None:
        """One line per fact."""
        commit = self.commit
        page.facts(
            {
                "commit": commit.id,
                "parents": ", ".join(commit.parents) or None,
                "branch": commit.branch,
                "version": f"v{commit.manifest_version}",
                "actor": commit.actor,
                "when": page.exact_moment(commit.created_at),
                "message": commit.message,
            }
        )


@dataclass(frozen=True, slots=True)
class SnapshotTables(CommandResult):
    """The version of every table in one snapshot."""

    snapshot: Snapshot

    def to_json(self) -> Mapping[str, Json]:
        """Branch, commit, and the pinned version of every table."""
        snapshot = self.snapshot
        return {
            "branch": snapshot.branch,
            "commit": None if snapshot.commit is None else snapshot.commit.id,
            "manifest_version": snapshot.manifest_version,
            "tables": [
                {
                    "key": pin.table_key,
                    "kind": pin.kind,
                    "type": pin.type_name,
                    "version": pin.version,
                    "branch": pin.branch or MAIN,
                    "row_count": pin.row_count,
                }
                for pin in self._pins()
            ],
        }

    def draw(self, page: Page) -> None:
        """The facts, and one line per table."""
        snapshot, commit = self.snapshot, self.snapshot.commit
        page.facts(
            {
                "branch": snapshot.branch,
                "version": f"v{snapshot.manifest_version}",
                "commit": None if commit is None else f"{commit.id}, {page.exact_moment(commit.created_at)}",
            }
        )
        page.print("")
        page.table(
            ("kind", "type", "version", "branch", "rows"),
            [(pin.kind, pin.type_name, pin.version, pin.branch or MAIN, pin.row_count) for pin in self._pins()],
        )

    def _pins(self) -> list[Pin]:
        """Nodes before edges, each by name."""
        return sorted(self.snapshot.pins.values(), key=lambda pin: (pin.kind != "node", pin.type_name))


def commit_json(commit: Commit) -> dict[str, Json]:
    """A commit in JSON."""
    analyses = commit.analyses
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "branch": commit.branch,
        "manifest_version": commit.manifest_version,
        "actor": commit.actor,
        "message": commit.message,
        "created_at": timestamp(commit.created_at),
        **({"upkeep": True} if commit.upkeep else {}),
        **({"analyses": [each.to_json() for each in analyses]} if analyses else {}),
    }


def timestamp(instant: datetime) -> str:
    """A time in JSON: always to the microsecond, so that texts sort as times do."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class SettingsListing(CommandResult):
    """The settings that a graph keeps."""

    settings: GraphSettings

    def to_json(self) -> Mapping[str, Json]:
        """Values by name, as in ``__settings.json``."""
        return {"durability": self.settings.durability, "keep": self.settings.keep, "lock": self.settings.lock}

    def draw(self, page: Page) -> None:
        """One line per name."""
        for name, value in self.to_json().items():
            page.print(f"{name:<10}  {value}")


@dataclass(frozen=True, slots=True)
class VersionListing(CommandResult):
    """Releases by name."""

    releases: Mapping[str, str | None]

    def to_json(self) -> Mapping[str, Json]:
        """Releases by name; null for a library that is not installed."""
        return dict(self.releases)

    def draw(self, page: Page) -> None:
        """One line per name."""
        width = max(map(len, self.releases))
        for name, release in self.releases.items():
            page.print(f"{name:<{width}}  {release or 'not installed'}")
