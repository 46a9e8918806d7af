"""The change feed, as text and as JSON events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import orjson
from rich.text import Text

from omnigraph.cli.render.diff import draw_entity
from omnigraph.cli.render.graph import commit_json
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, to_one_line
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.read.changes import ChangeBlock

ChangesFormat: TypeAlias = Literal["text", "jsonl"]


@dataclass(slots=True)
class ChangeFeed(CommandResult):
    """Blocks of changes, read as they are printed. ``cursor`` is the position after the last printed block."""

    branch: str
    blocks: Iterable[ChangeBlock]
    cursor: str
    format: ChangesFormat
    shows_cursor: bool
    """Whether to print the cursor: not if it goes to a file."""

    def to_json(self) -> Mapping[str, Json]:
        """All blocks in one object, which must fit into memory."""
        blocks: list[Json] = []
        for block in self.blocks:
            changes = list(block.records())
            blocks.append({"commit": commit_json(block.commit), "changes": changes, "cursor": block.cursor})
            self.cursor = block.cursor
        return {"branch": self.branch, "blocks": blocks, "cursor": self.cursor}

    def draw(self, page: Page) -> None:
        """Print block after block: JSON events, one per line, or the changes of each commit as text."""
        is_new = False
        for block in self.blocks:
            if self.format == "jsonl":
                _write_events(page, block)
            else:
                _draw_block(page, block)
            self.cursor, is_new = block.cursor, True
        if not is_new:
            page.say("no new commits")
        if self.format == "jsonl":
            page.write(_line({"event": "end", "branch": self.branch, "cursor": self.cursor}))
        elif self.shows_cursor:
            page.print(f"cursor {self.cursor}")


def _write_events(page: Page, block: ChangeBlock) -> None:
    page.write(_line({"event": "commit", **commit_json(block.commit)}))
    count = 0
    for record in block.records():
        page.write(_line({"event": "change", **record}))
        count += 1
    page.write(_line({"event": "complete", "commit": block.commit.id, "changes": count, "cursor": block.cursor}))


def _draw_block(page: Page, block: ChangeBlock) -> None:
    commit = block.commit
    message = next(iter((commit.message or "").splitlines()), None)
    facts = [page.exact_moment(commit.created_at), *(to_one_line(each) for each in (commit.actor, message) if each)]
    page.print(Text.assemble((f"commit {commit.id}", "bold"), f"  {'  '.join(facts)}"))
    count = 0
    for record in block.records():
        draw_entity(page, record)
        count += 1
    page.print("" if count else "nothing changed\n")


def _line(event: Mapping[str, Json]) -> str:
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE).decode()
