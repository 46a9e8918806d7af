"""Signing in without a token: one-time codes, and the tokens that they are exchanged for.

Both are files in the state folder, named by digests, so that a code which one worker made can be taken at another. They
belong to one run of the server: after a restart neither is good for anything.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast

import orjson

from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.access.tokens import Role, Token, hash_token, make_token

_CODE_BYTES: Final = 24
_CODE_LIFETIME: Final = timedelta(minutes=10)
_SESSION_LIFETIME: Final = timedelta(hours=12)
_NAME: Final = "signed in by a link"
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a file holds: whom it is for, in which run, and until when. Of a session also its token."""

    run: str
    expires_at: str
    token: Token

    @property
    def is_expired(self) -> bool:
        return datetime.fromisoformat(self.expires_at) <= datetime.now(UTC)


class SessionStore:
    """The codes and sessions of one run of a server."""

    def __init__(self, folder: Path, run: str) -> None:
        self.run = run
        self._codes = folder / "codes"
        self._sessions = folder / "sessions"
        self._known: dict[str, Token] = {}
        for each in (self._codes, self._sessions):
            each.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._forget_expired()

    def make_code(self, token: Token) -> str:
        """Make a code that signs in as the holder of a token, once and within ten minutes."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._write(self._codes / hash_token(code), token, datetime.now(UTC) + _CODE_LIFETIME)
        return code

    def exchange(self, code: str) -> tuple[Token, str] | None:
        """Take a code; return a new token and its text. None for a code that is unknown, used or too old."""
        path = self._codes / hash_token(code)
        entry = _read(path)
        if entry is None or entry.run != self.run:
            return None
        try:
            # Of several that bring the same code at the same time, one removes the file.
            path.unlink()
        except FileNotFoundError:
            return None
        if entry.is_expired:
            return None
        token, text = make_token(entry.token.actor, entry.token.role, _NAME, _SESSION_LIFETIME)
        assert token.expires_at is not None
        self._write(self._sessions / token.sha256, token, datetime.fromisoformat(token.expires_at))
        return token, text

    def find(self, digest: str) -> Token | None:
        """Return the token of a session by its digest. Whether its time is over is asked by the caller."""
        if digest not in self._known:
            entry = _read(self._sessions / digest)
            if entry is None or entry.run != self.run:
                return None
            self._known[digest] = entry.token
        return self._known[digest]

    def _write(self, path: Path, token: Token, end: datetime) -> None:
        entry = _Entry(self.run, end.isoformat(), token)
        part = path.with_suffix(f".{secrets.token_hex(4)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(asdict(entry)))
        part.replace(path)

    def _forget_expired(self) -> None:
        for path in (*self._codes.iterdir(), *self._sessions.iterdir()):
            entry = _read(path)
            if entry is not None and entry.is_expired:
                path.unlink(missing_ok=True)


def _read(path: Path) -> _Entry | None:
    with suppress(FileNotFoundError):
        found = cast("dict[str, dict[str, str]]", orjson.loads(path.read_bytes()))
        token = found["token"]
        kept = Token(**{**token, "role": Role(token["role"])})  # pyright: ignore[reportArgumentType]  as it was written
        return _Entry(str(found["run"]), str(found["expires_at"]), kept)
    return None
