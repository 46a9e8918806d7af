"""Cursors of the change feed: a position after a whole commit, for one graph, one branch and one choice of types.

To a caller a cursor is an opaque text that stays valid as long as the graph exists.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Final, cast

import orjson

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

CURSOR_PREFIX: Final = "ogc1."
_DIGEST_BYTES: Final = 6
BASELINE_HINT: Final = "take a baseline (`omnigraph changes baseline`) and continue from its cursor"


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the history of a branch. ``commit`` is None before the first commit.

    ``graph`` is the first commit of main, which is unique to a graph. ``incarnation`` distinguishes the branch from an
    earlier one of the same name. ``tables`` are the table keys that are followed; None means all tables.
    """

    graph: str | None
    branch: str
    incarnation: str | None
    tables: tuple[str, ...] | None
    commit: str | None

    def encode(self) -> str:
        """Return the cursor as text."""
        data = orjson.dumps([self.graph, self.branch, self.incarnation, self.tables, self.commit])
        return CURSOR_PREFIX + urlsafe_b64encode(_digest(data) + data).decode().rstrip("=")

    def check_same_feed(self, expected: Cursor) -> None:
        """Refuse a cursor of another graph, of another branch, or with other types."""
        if self.graph != expected.graph:
            raise ParameterError(
                "the cursor belongs to another graph", hint="a cursor is valid only in the graph that issued it"
            )
        if self.branch != expected.branch:
            raise ParameterError(
                f"the cursor belongs to branch '{self.branch}', not to '{expected.branch}'",
                hint=f"ask for the changes of '{self.branch}', or {BASELINE_HINT}",
            )
        if self.incarnation != expected.incarnation:
            raise ParameterError(
                f"branch '{self.branch}' was deleted and re-created after this cursor was issued", hint=BASELINE_HINT
            )
        if self.tables != expected.tables:
            raise ParameterError(
                f"the cursor follows {_describe_tables(self.tables)}, not {_describe_tables(expected.tables)}",
                hint=f"ask for the same types, or {BASELINE_HINT}",
            )


def decode_cursor(text: str) -> Cursor:
    """Read a cursor from its text."""
    try:
        if not text.startswith(CURSOR_PREFIX):
            raise ValueError(text)
        body = text.removeprefix(CURSOR_PREFIX)
        raw = urlsafe_b64decode(body + "=" * (-len(body) % 4))
        digest, data = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if digest != _digest(data):
            raise ValueError(text)
        fields = cast("tuple[str | None, str, str | None, list[str] | None, str | None]", orjson.loads(data))
    except (ValueError, binascii.Error) as error:
        raise ParameterError(
            f"'{text[:80]}' is not a cursor, or is damaged", hint="give the cursor exactly as it was issued"
        ) from error
    graph, branch, incarnation, tables, commit = fields
    return Cursor(graph, branch, incarnation, None if tables is None else tuple(tables), commit)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _describe_tables(tables: tuple[str, ...] | None) -> str:
    return "all types" if tables is None else ", ".join(tables) or "no types"
