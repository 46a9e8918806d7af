"""Tags, and the history of all branches as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from omnigraph.cli.render.graph import commit_json, timestamp
from omnigraph.cli.render.lanes import draw_lanes
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, to_one_line
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.history import Commit
    from omnigraph.manifest.tags import Tag


@dataclass(frozen=True, slots=True)
class NewTag(CommandResult):
    """A tag that was just created."""

    tag: Tag

    def to_json(self) -> Mapping[str, Json]:
        """The tag."""
        return tag_json(self.tag)

    def draw(self, page: Page) -> None:
        """One line."""
        page.print(f"created tag {self.tag.name} at {self.tag.commit}")


@dataclass(frozen=True, slots=True)
class DeletedTag(CommandResult):
    """The name of a deleted tag."""

    name: str

    def to_json(self) -> Mapping[str, Json]:
        """The name."""
        return {"tag": self.name}

    def draw(self, page: Page) -> None:
        """One line."""
        page.print(f"deleted tag {self.name}")


@dataclass(frozen=True, slots=True)
class TagListing(CommandResult):
    """The tags of a graph."""

    tags: Sequence[Tag]

    def to_json(self) -> Mapping[str, Json]:
        """Each tag."""
        return {"tags": [tag_json(tag) for tag in self.tags]}

    def draw(self, page: Page) -> None:
        """One line per tag."""
        if not self.tags:
            return page.say("no tags")
        return page.table(
            ("tag", "commit", "branch", "created", "actor"),
            [(tag.name, tag.commit, tag.branch, page.moment(tag.created_at), tag.actor) for tag in self.tags],
        )


@dataclass(frozen=True, slots=True)
class HistoryDrawing(CommandResult):
    """Commits, children before parents, with the branches and tags that point to them."""

    commits: Sequence[Commit]
    more: bool
    branches: Sequence[Branch]
    tags: Sequence[Tag]

    def to_json(self) -> Mapping[str, Json]:
        """The commits in drawing order, each with the names that point to it."""
        return {
            "commits": [
                {**commit_json(commit), "heads": list(self._heads(commit)), "tags": list(self._tags(commit))}
                for commit in self.commits
            ]
        }

    def draw(self, page: Page) -> None:
        """One line per commit, beside the lanes. Ids are shown whole, because a part of an id is not a reference."""
        rows = list(draw_lanes(self.commits))
        width = max((len(row.lanes) for row in rows), default=0)
        for row in rows:
            line = row.lanes.copy()
            if row.commit is not None:
                line.append(" " * (width - len(row.lanes) + 1))
                line.append_text(self._described(row.commit, page))
            if page.out.is_terminal:
                line.truncate(page.out.width, overflow="ellipsis")
            page.print(line)
        if self.more:
            page.say("there are more; --limit shows them")

    def to_svg(self) -> str:
        """The same as a picture."""
        # A late import: it loads the manifest.
        from omnigraph.manifest.commit_list import CommitList

        names = {commit.id: (*self._heads(commit), *self._tags(commit)) for commit in self.commits}
        return CommitList(self.commits).to_svg(names)

    def _described(self, commit: Commit, page: Page) -> Text:
        names = [(name, "bold green") for name in self._heads(commit)]
        names += [(f"tag {name}", "bold yellow") for name in self._tags(commit)]
        line = Text.assemble((commit.id, "bold"))
        if names:
            shown = Text(", ").join(Text(name, style) for name, style in names)
            line.append_text(Text.assemble("  (", shown, ")"))
        line.append(f"  {page.moment(commit.created_at)}")
        for part in (commit.actor, next(iter((commit.message or "").splitlines()), None)):
            if part:
                line.append(f"  {to_one_line(part)}")
        drawn = {each.id for each in self.commits}
        for parent in commit.parents[1:]:
            if parent not in drawn:
                line.append(f"  (merges {parent})")
        return line

    def _heads(self, commit: Commit) -> Iterator[str]:
        return (branch.name for branch in self.branches if branch.head == commit.id)

    def _tags(self, commit: Commit) -> Iterator[str]:
        return (tag.name for tag in self.tags if tag.commit == commit.id)


def tag_json(tag: Tag) -> dict[str, Json]:
    """A tag in JSON."""
    return {
        "name": tag.name,
        "commit": tag.commit,
        "branch": tag.branch,
        "created_at": timestamp(tag.created_at),
        "actor": tag.actor,
    }
