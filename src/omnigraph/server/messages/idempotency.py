"""Idempotency keys of requests: a write that is sent again with its key is answered with the commit that it made.

The key is kept in the commit itself, so any process of any server finds it, for a day. Of writes without a commit the
answers are kept in the state folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.manifest.rows import WriteKey
from omnigraph.write.commit import make_write_key

KEY_HEADER: Final = "idempotency-key"
_BLOCK: Final = 1 << 20


def read_write_key(
    header: str | None, actor: str, request: tuple[str, str], body: bytes | Path | None, *, is_kept: bool
) -> WriteKey | None:
    """Return the key of a request. ``request`` is its path and its query string; ``is_kept``: its route keeps keys."""
    if header is None:
        return None
    if not is_kept:
        raise ParameterError("this route keeps no idempotency keys", hint="send it without one: it only reads")
    return make_write_key(header, actor, (*request, _digest(body)))


def _digest(body: bytes | Path | None) -> bytes:
    digest = sha256()
    for block in _read_blocks(body) if isinstance(body, Path) else (body or b"",):
        digest.update(block)
    return digest.digest()


def _read_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
