"""Where a follower of changes stands: after a whole commit, of one graph, one branch and one choice of types.

To others a cursor is a text without a meaning, which may be kept as long as the graph itself.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

import orjson

from omnigraph.errors import ParameterError

CURSOR_PREFIX: Final = "ogc1."
_DIGEST: Final = 6
BASELINE_HINT: Final = "take a baseline (`omnigraph changes baseline`) and go on from its cursor"


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the history of a branch. ``commit`` is None before the first one.

    ``graph`` is the first commit of main, which no other graph has; ``incarnation`` tells the branch from an earlier
    one of its name; ``tables`` are the table keys that are followed, None for all of them.
    """

    graph: str | None
    branch: str
    incarnation: str | None
    tables: tuple[str, ...] | None
    commit: str | None

    def encode(self) -> str:
        """The text of it."""
        facts = [self.graph, self.branch, self.incarnation, self.tables, self.commit]
        data = orjson.dumps(facts)
        return CURSOR_PREFIX + urlsafe_b64encode(_digest(data) + data).decode().rstrip("=")

    def check_same_feed(self, wanted: Cursor) -> None:
        """Refuse to go on from here in another graph, on another branch, or with other types."""
        if self.graph != wanted.graph:
            raise ParameterError("the cursor is of another graph", hint="each graph has cursors of its own")
        if self.branch != wanted.branch:
            raise ParameterError(
                f"the cursor is of branch '{self.branch}', not of '{wanted.branch}'",
                hint=f"ask for the changes of '{self.branch}', or {BASELINE_HINT}",
            )
        if self.incarnation != wanted.incarnation:
            raise ParameterError(
                f"branch '{self.branch}' was deleted and made anew since this cursor was given", hint=BASELINE_HINT
            )
        if self.tables != wanted.tables:
            raise ParameterError(
                f"the cursor follows {_types(self.tables)}, not {_types(wanted.tables)}",
                hint=f"ask for the same types, or {BASELINE_HINT}",
            )


def decode_cursor(text: str) -> Cursor:
    """The cursor that a text is."""
    try:
        if not text.startswith(CURSOR_PREFIX):
            raise ValueError(text)
        body = text.removeprefix(CURSOR_PREFIX)
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
        digest, data = raw[:_DIGEST], raw[_DIGEST:]
        if digest != _digest(data):
            raise ValueError(text)
        facts = cast("tuple[str | None, str, str | None, list[str] | None, str | None]", orjson.loads(data))
    except (ValueError, binascii.Error) as error:
        raise ParameterError(
            f"'{text[:80]}' is no cursor, or a damaged one", hint="give it exactly as it was given to you"
        ) from error
    graph, branch, incarnation, tables, commit = facts
    return Cursor(graph, branch, incarnation, None if tables is None else tuple(tables), commit)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


def _types(tables: tuple[str, ...] | None) -> str:
    return "all types" if tables is None else ", ".join(tables) or "no types"
