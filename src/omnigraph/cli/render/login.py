"""What ``login`` and ``logout`` print."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoggedIn(CommandResult):
    """A token that is kept. It is not shown."""

    origin: str
    actor: str
    role: str
    file: str

    def to_json(self) -> Mapping[str, Json]:
        """Return who logged in, and where."""
        return {"origin": self.origin, "actor": self.actor, "role": self.role, "file": self.file}

    def draw(self, page: Page) -> None:
        """Print the same in two lines."""
        page.say(f"logged in to {self.origin} as {self.actor}, role {self.role}")
        page.say(f"the token is kept in {self.file}")


@dataclass(frozen=True, slots=True)
class LoggedOut(CommandResult):
    """A token that is forgotten, or was not known."""

    origin: str
    was_known: bool

    def to_json(self) -> Mapping[str, Json]:
        """Return whether there was a token."""
        return {"origin": self.origin, "removed": self.was_known}

    def draw(self, page: Page) -> None:
        """Print the same in a line."""
        page.say(f"logged out of {self.origin}" if self.was_known else f"no token of {self.origin} was kept")
