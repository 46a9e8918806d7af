"""Tokens: who a request comes from. A file keeps their digests, and a running server follows the file.

A token is shown once, when it is created. The file has the mode 0600 and is only ever replaced as a whole, under a
lock, so that a reader sees one state of it.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import logging
import os
import re
import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

from ulid import ULID

from omnigraph.arguments import check_text
from omnigraph.errors import NotFound, OmniGraphError, ParameterError
from omnigraph.lazy_dataclass import dataclass

_PREFIX: Final = "og_"
_RANDOM_BYTES: Final = 32
_DURATION: Final = re.compile(r"(\d{1,5})([hd])")
_NEVER: Final = "never"
_PRIVATE: Final = 0o600
_log = logging.getLogger("omnigraph.server")


class Role(StrEnum):
    """What a token may do at most."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the file has it: its digest, never its text."""

    id: str
    actor: str
    role: Role
    name: str | None
    sha256: str
    created_at: str
    expires_at: str | None = None
    last_used_on: str | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now


class ActorMapToken(Token):
    """A token of a file of release 0.8, which has no roles: it may write, or what a policy says where there is one."""

    __slots__ = ()


def hash_token(text: str) -> str:
    """Return the digest that stands for a token."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def make_token(actor: str, role: Role, name: str | None = None, lifetime: timedelta | None = None) -> tuple[Token, str]:
    """Make a token; return its record and its text."""
    check_text("actor", actor)
    check_text("name", name)
    if not actor:
        raise ParameterError("the actor of a token has no name", hint="give --actor NAME")
    text = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    now = datetime.now(UTC)
    expires_at = None if lifetime is None else _to_text(now + lifetime)
    return Token(str(ULID()), actor, role, name, hash_token(text), _to_text(now), expires_at), text


def parse_lifetime(text: str) -> timedelta | None:
    """Parse ``90d``, ``12h`` or ``never``."""
    if text == _NEVER:
        return None
    found = _DURATION.fullmatch(text)
    if found is None or not int(found.group(1)):
        raise ParameterError(f"a token cannot expire after '{text}'", hint="give days or hours: 90d, 12h, or never")
    number = int(found.group(1))
    return timedelta(days=number) if found.group(2) == "d" else timedelta(hours=number)


def _to_text(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds")


# --------------------------------------------------------------------------------------------- the file


def read_token_file(path: Path) -> list[Token]:
    """Read the tokens of a file. One that others may read, or that is malformed, is refused."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            data = file.read()
    except OSError as error:
        raise NotFound(f"cannot read the tokens file {path}: {error.strerror}", hint="check --tokens") from error
    if mode & 0o077:
        raise ParameterError(
            f"others may read the tokens file {path}: its mode is {mode:04o}", hint=f"chmod 600 {path}"
        )
    return _parse_tokens(path, data)


def _parse_tokens(path: Path, data: bytes) -> list[Token]:
    try:
        found = cast("object", json.loads(data))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        content = cast("dict[str, object]", found)
        if "tokens" not in content:
            return [_parse_actor_token(actor, text) for actor, text in content.items()]
        tokens = [_parse_token(each) for each in cast("list[object]", content["tokens"])]
    except (ValueError, TypeError, KeyError) as error:
        raise ParameterError(
            f"{path} is not a tokens file: {error}", hint="`omnigraph token create` makes one"
        ) from error
    return tokens


def _parse_token(found: object) -> Token:
    fields = dict(cast("dict[str, str]", found))
    token = Token(role=Role(fields.pop("role")), **fields)
    texts = (token.id, token.actor, token.sha256)
    if not all(isinstance(text, str) and text for text in cast("Sequence[object]", texts)):
        raise ValueError("a token has no id, actor or sha256")
    if token.expires_at is not None and datetime.fromisoformat(token.expires_at).tzinfo is None:
        raise ValueError(f"expires_at of {token.id} has no time zone")
    return token


def _parse_actor_token(actor: str, text: object) -> Token:
    """Read one entry of a file of release 0.8, which maps actors to the tokens themselves."""
    if not isinstance(text, str) or not text:
        raise ValueError(f"the token of '{actor}' is not a text")
    digest = hash_token(text)
    return ActorMapToken(digest[:12], actor, Role.WRITE, None, digest, _to_text(datetime.fromtimestamp(0, UTC)))


def _is_actor_map(path: Path) -> bool:
    return "tokens" not in cast("dict[str, object]", json.loads(path.read_bytes()))


def create_token(path: Path, actor: str, role: Role, name: str | None, lifetime: timedelta | None) -> tuple[Token, str]:
    """Add a token to a file, which is made if there is none. Return its record and its text."""
    token, text = make_token(actor, role, name, lifetime)
    _change_token_file(path, lambda tokens: [*tokens, token])
    return token, text


def revoke_token(path: Path, token_id: str) -> Token:
    """Remove a token from a file."""
    removed: list[Token] = []

    def remove(tokens: list[Token]) -> list[Token]:
        removed.extend(token for token in tokens if token.id == token_id)
        if not removed:
            raise NotFound(f"no token {token_id} in {path}", hint="`omnigraph token list` shows them")
        return [token for token in tokens if token.id != token_id]

    _change_token_file(path, remove)
    return removed[0]


def record_token_use(path: Path, token_id: str, day: str) -> None:
    """Note the day on which a token was used last."""
    _change_token_file(
        path, lambda tokens: [replace(each, last_used_on=day) if each.id == token_id else each for each in tokens]
    )


def _change_token_file(path: Path, change: Callable[[list[Token]], list[Token]]) -> None:
    with _lock_file(path):
        if path.exists() and _is_actor_map(path):
            raise ParameterError(
                f"{path} is a file of release 0.8", hint="the server reads it; give another --tokens FILE to change"
            )
        tokens = change(read_token_file(path) if path.exists() else [])
        content = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=2)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)


@contextmanager
def _lock_file(path: Path) -> Generator[None]:
    try:
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, _PRIVATE)
    except OSError as error:
        raise ParameterError(
            f"cannot write beside the tokens file {path}: {error.strerror}", hint="give another --tokens FILE"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --------------------------------------------------------------------------------------------- a running server


FindSession = Callable[[str], Token | None]
"""Returns the token of a session by its digest."""


class TokenBook:
    """The tokens that a running server knows: those of a file, as it is now, those made for this run, and sessions."""

    def __init__(self, path: Path | None, made: Sequence[Token] = (), find_session: FindSession | None = None) -> None:
        self._path = path
        self._find_session = find_session
        self._made = tuple(made)
        self._lock = threading.Lock()
        # Tokens that were made for this run are in no file.
        self._recorded = {token.id: datetime.now(UTC).date().isoformat() for token in made}
        self._stamp = None if path is None else _stamp_of(path)
        self._by_digest = self._index([] if path is None else read_token_file(path))
        self.is_stale = False
        """Whether the file changed to something that cannot be read; the tokens before still hold."""

    def find(self, text: str) -> Token | None:
        """Return the token of a text; None for one that is unknown, expired or revoked."""
        self._follow()
        digest = hash_token(text)
        token = self._by_digest.get(digest)
        if token is None and self._find_session is not None:
            token = self._find_session(digest)
        if token is None or not hmac.compare_digest(token.sha256, digest) or token.is_expired(datetime.now(UTC)):
            return None
        return token

    def list_tokens(self) -> list[Token]:
        """Return all tokens."""
        return list(self._by_digest.values())

    def record_use(self, token: Token) -> None:
        """Note that a token is used today, once a day."""
        today = datetime.now(UTC).date().isoformat()
        if (
            self._path is None
            or token.sha256 not in self._by_digest
            or today in (token.last_used_on, self._recorded.get(token.id))
        ):
            return
        self._recorded[token.id] = today
        try:
            record_token_use(self._path, token.id, today)
        except OmniGraphError as error:
            # A file that only an operator may write, or one of release 0.8: its tokens are valid all the same.
            _log.info("the last use of token %s is not recorded: %s", token.id, error)

    def _follow(self) -> None:
        """Read the file again if it has changed."""
        if self._path is None:
            return
        stamp = _stamp_of(self._path)
        with self._lock:
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._by_digest = self._index(read_token_file(self._path))
                known = {token.id for token in self._by_digest.values()}
                self._recorded = {name: day for name, day in self._recorded.items() if name in known}
                self.is_stale = False
            except (NotFound, ParameterError) as error:
                self.is_stale = True
                _log.error("the tokens stay as they were: %s", error)

    def _index(self, tokens: Sequence[Token]) -> Mapping[str, Token]:
        return {token.sha256: token for token in (*tokens, *self._made)}


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
