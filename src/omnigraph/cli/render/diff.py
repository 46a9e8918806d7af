"""A diff as text, JSON lines and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import orjson
from rich.text import Text

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, to_one_line
from omnigraph.cli.render.query_rows import value_text
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.manifest.snapshot import Snapshot
    from omnigraph.read.changes import Diff

DiffFormat: TypeAlias = Literal["text", "jsonl", "csv"]
Record: TypeAlias = Mapping[str, Json]
Image: TypeAlias = Mapping[str, Json]

_COUNTS: Final = ("kind", "type", "inserted", "updated", "deleted")
_CHANGES: Final = ("op", "kind", "type", "id", "before", "after", "changed")
_MARKS: Final = {"inserted": ("+", "green"), "deleted": ("-", "red"), "updated": ("~", "yellow")}
_ENDS: Final = ("from", "to")
_BYTES: Final = "base64:"


@dataclass(frozen=True, slots=True)
class DiffCounts(CommandResult):
    """How many entities of each type changed."""

    diff: Diff
    format: DiffFormat

    def to_json(self) -> Mapping[str, Json]:
        """The two snapshots and the counts."""
        return self.diff.heading()

    def draw(self, page: Page) -> None:
        """A table of the counts."""
        _draw_counts(page, self.diff, self.format)


@dataclass(frozen=True, slots=True)
class DiffDetails(CommandResult):
    """The counts, and every entity that changed."""

    diff: Diff
    format: DiffFormat

    def to_json(self) -> Mapping[str, Json]:
        """All of it in one object."""
        return self.diff.to_json()

    def draw(self, page: Page) -> None:
        """Print the counts and then the entities; as JSON lines and CSV only the entities."""
        match self.format:
            case "text":
                if _draw_counts(page, self.diff, self.format):
                    page.print("")
                    for record in self.diff.records():
                        draw_entity(page, record)
            case "jsonl":
                for record in self.diff.records():
                    page.write(_line(record))
            case "csv":
                from omnigraph.read.rows import format_csv_lines

                page.write(format_csv_lines([_CHANGES]))
                for record in self.diff.records():
                    page.write(format_csv_lines([[record[column] for column in _CHANGES]]))


def _line(record: Record) -> str:
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE).decode()


def _draw_counts(page: Page, diff: Diff, form: DiffFormat) -> bool:
    """Draw the counts. Return whether there are any."""
    heading = diff.heading()
    counts = cast("Sequence[Mapping[str, str | int]]", heading["summary"])
    rows = [[each[column] for column in _COUNTS] for each in counts]
    match form:
        case "jsonl":
            for each in counts:
                page.write(_line(each))
        case "csv":
            from omnigraph.read.rows import format_csv_lines

            page.write(format_csv_lines([_COUNTS, *rows]))
        case "text":
            page.print(f"{_moment(diff.before)} → {_moment(diff.after)}")
            page.print("")
            if rows:
                page.table(_COUNTS, rows)
            else:
                page.print("nothing changed")
    return bool(rows)


def _moment(snapshot: Snapshot) -> str:
    return f"{snapshot.branch} at {f'v{snapshot.manifest_version}' if snapshot.commit is None else snapshot.commit.id}"


# --------------------------------------------------------------------------------------------- one entity


def draw_entity(page: Page, record: Record) -> None:
    """Draw one changed entity: inserted and deleted ones on a line, updated ones by property."""
    for line in _lines(record, page.out.width if page.out.is_terminal else None):
        if page.out.is_terminal:
            page.print(line)
        else:
            # No colours there, and there may be millions of lines.
            page.write(f"{line.plain}\n")


def _lines(record: Record, width: int | None) -> Iterator[Text]:
    before, after = (cast("Image | None", record[side]) for side in ("before", "after"))
    image = after or before or {}
    short = width is not None
    mark, colour = _MARKS[cast(str, record["op"])]
    line = Text.assemble((f"{mark} {record['type']} {to_one_line(cast(str, record['id']))}", f"bold {colour}"))
    if record["kind"] == "edge":
        line.append(f"  {' → '.join(to_one_line(cast(str, image[end])) for end in _ENDS)}", colour)
    if before is None or after is None:
        line.append(_properties(image, record["kind"] == "edge", short=short), colour)
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    yield line
    for name in cast("Sequence[str]", record["changed"]):
        old, new = (_value((each or {}).get(name), short=short) for each in (before, after))
        yield Text.assemble(f"    {name}: ", (old, "red"), " → ", (new, "green"))


def _properties(image: Image, is_edge: bool, *, short: bool) -> str:  # noqa: FBT001  what it is, not a switch
    """The properties that have a value, on one line."""
    told = [
        f"{name}: {_value(value, short=short)}"
        for name, value in image.items()
        if value is not None and not (is_edge and name in _ENDS)
    ]
    return f"  {', '.join(told)}" if told else ""


def _value(value: Json, *, short: bool) -> str:
    if isinstance(value, str):
        if short and value.startswith(_BYTES):
            return f"{len(value.removeprefix(_BYTES)) * 3 // 4 - value[-2:].count('=')} bytes"
        return to_one_line(orjson.dumps(value).decode())
    return value_text(value, short=short)
