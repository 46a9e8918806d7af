"""Results of ``omnigraph token``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.server import Token


@dataclass(frozen=True, slots=True)
class NewToken(CommandResult):
    """A token that was just created, and its text."""

    token: Token
    text: str

    def to_json(self) -> Mapping[str, Json]:
        """The token and its text."""
        return {**_token_to_json(self.token), "token": self.text}

    def draw(self, page: Page) -> None:
        """The text alone on stdout, so that a script can take it."""
        page.print(self.text)
        ends = "never expires" if self.token.expires_at is None else f"expires {self.token.expires_at}"
        page.say(f"token {self.token.id} of {self.token.actor}, role {self.token.role}, {ends}; it is not shown again")


@dataclass(frozen=True, slots=True)
class RevokedToken(CommandResult):
    """A token that was just revoked."""

    token: Token

    def to_json(self) -> Mapping[str, Json]:
        """The token."""
        return _token_to_json(self.token)

    def draw(self, page: Page) -> None:
        """One line."""
        page.print(f"revoked token {self.token.id} of {self.token.actor}")


@dataclass(frozen=True, slots=True)
class TokenListing(CommandResult):
    """The tokens of a file."""

    tokens: Sequence[Token]

    def to_json(self) -> Mapping[str, Json]:
        """Each token, without its digest."""
        return {"tokens": [_token_to_json(token) for token in self.tokens]}

    def draw(self, page: Page) -> None:
        """One line per token."""
        if not self.tokens:
            return page.say("no tokens")
        return page.table(
            ("id", "actor", "role", "name", "expires", "last used"),
            [
                (token.id, token.actor, str(token.role), token.name, token.expires_at or "never", token.last_used_on)
                for token in self.tokens
            ],
        )


def _token_to_json(token: Token) -> dict[str, Json]:
    return {
        "id": token.id,
        "actor": token.actor,
        "role": str(token.role),
        "name": token.name,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_on": token.last_used_on,
    }
