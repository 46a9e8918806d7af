"""Tokens of servers that a user has logged in to, in a file that only the user can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, cast

import orjson

from omnigraph.errors import ParameterError

TOKEN_VARIABLE: Final = "OMNIGRAPH_TOKEN"
_FILE: Final = Path(".omnigraph") / "credentials"


def find_token(origin: str, given: str | None) -> str | None:
    """Return the token for a server: the given one, that of the environment, or the one of the login."""
    return given or os.environ.get(TOKEN_VARIABLE) or read_credentials().get(origin)


def credentials_path() -> Path:
    """Return the file of the credentials."""
    return Path.home() / _FILE


def read_credentials() -> dict[str, str]:
    """Read the tokens by origin. A file that others can read is refused."""
    path = credentials_path()
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}", hint="log in again") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ParameterError(f"others can read {path}", hint=f"chmod 600 {path}")
    try:
        found = cast("object", orjson.loads(data))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ParameterError(f"{path} is not a file of credentials", hint="delete it, and log in again")
    return {str(origin): str(token) for origin, token in cast("dict[object, object]", found).items()}


def keep_token(origin: str, token: str) -> Path:
    """Keep the token of a server."""
    return _write_credentials({**read_credentials(), origin: token})


def forget_token(origin: str) -> bool:
    """Remove the token of a server; return whether there was one."""
    known = read_credentials()
    if origin not in known:
        return False
    _write_credentials({name: token for name, token in known.items() if name != origin})
    return True


def _write_credentials(tokens: dict[str, str]) -> Path:
    path = credentials_path()
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(tokens, option=orjson.OPT_INDENT_2))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
