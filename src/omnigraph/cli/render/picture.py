"""A picture in a file, or on stdout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Picture(CommandResult):
    """An SVG, and the file that it was written to; None is stdout."""

    svg: str
    file: str | None

    def to_json(self) -> Mapping[str, Json]:
        """The file, or else the picture itself."""
        return {"svg": self.svg} if self.file is None else {"file": self.file}

    def draw(self, page: Page) -> None:
        """The picture itself, or where it is."""
        if self.file is None:
            page.write(f"{self.svg}\n")
        else:
            page.say(f"drawn in {self.file}")


def write_picture(file: str, svg: str) -> Picture:
    """Write an SVG to a file, which is replaced whole; - is stdout."""
    if file == "-":
        return Picture(svg, None)
    # A late import: it loads Arrow.
    from omnigraph.read.rows import create_file

    with create_file(Path(file)) as stream:
        stream.write(svg.encode())
    return Picture(svg, file)
