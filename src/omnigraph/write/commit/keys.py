"""Keys of writes: a write that is repeated with its key finds the commit that it made, and is not done twice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, TypeAlias

from omnigraph.errors import ParameterError
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import find_by_key, find_repeated
from omnigraph.manifest.rows import CommitRecord, WriteKey
from omnigraph.write.commit.operation import check_txn
from omnigraph.write.commit.recovery import heal_branch

Key: TypeAlias = str | WriteKey | None
"""What a writer takes as ``key``: a text that belongs to this write alone, or one that was digested before."""

_TEXT: Final = re.compile(r"[!-~]{1,200}")
_DIGITS: Final = 32


def make_write_key(text: str, actor: str | None, request: Iterable[str | bytes]) -> WriteKey:
    """Digest a key, which belongs to its actor, and what is asked for with it."""
    if not _TEXT.fullmatch(text):
        raise ParameterError(f"the key is {text!r:.300}", hint="give 1 to 200 visible ASCII characters")
    return WriteKey(_digest((actor or "", text)), _digest(request))


def resolve_key(key: Key, actor: str | None, *request: object) -> WriteKey | None:
    """Return the key of a write of this process. ``request`` is what it asks for, as far as that is a value."""
    return make_write_key(key, actor, [repr(request)]) if isinstance(key, str) else key


def find_written(
    manifest: Manifest, branch: str, txn: tuple[str, int] | None, key: str | None, actor: str | None, *, can_heal: bool
) -> CommitRecord | None:
    """Return the commit that a write with this ``txn`` or key has made, whatever it asked for."""
    if (txn is None) == (key is None):
        raise ParameterError("a write is found by its txn or by its key", hint="give one of them")
    if txn is not None:
        check_txn(txn)
    digest = None if key is None else make_write_key(key, actor, ()).digest
    if can_heal:
        # A writer that died after its sidecar has made a commit that nobody has published yet.
        heal_branch(manifest, branch)
    view = manifest.view(branch, with_lineage=True)
    return find_repeated(view, txn, None) if digest is None else find_by_key(view, digest)


def _digest(parts: Iterable[str | bytes]) -> str:
    digest = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:_DIGITS]
