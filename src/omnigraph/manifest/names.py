"""What a branch or a tag may be called, so that a name is never taken for a commit, a version, a date or a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from omnigraph.errors import AlreadyExists, ParameterError
from omnigraph.manifest.rows import MAIN

MAX_BYTES = 200
COMMIT_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
VERSION = re.compile(r"v(\d+)")
DATE_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_name(name: str) -> None:
    """Refuse a name that a branch or tag may not have, and say which rule it breaks."""
    reason = _why_not(name)
    if reason is not None:
        raise ParameterError(
            f"'{name}' cannot be the name of a branch or tag: {reason}",
            hint="use letters, digits, '.', '_' and '-', in segments split by '/', for example review/june",
            details={"name": name},
        )


def is_name(text: str) -> bool:
    """Whether a branch or tag may have this name."""
    return _why_not(text) is None


def check_free(name: str, live: Iterable[str], kind: Literal["branch", "tag"] = "branch") -> None:
    """Refuse the name of what is there, and one whose folder would lie inside that of what is there, or around it.

    Two tags may stand in each other's folder; a branch and anything else may not.
    """
    for other in live:
        if other == name:
            raise AlreadyExists(f"there is a {kind} '{name}' already", details={"name": name})
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise ParameterError(
                f"'{name}' cannot stand beside the {kind} '{other}': one is a path prefix of the other",
                hint=f"choose another name, for example {name.replace('/', '-')}-2",
                details={"name": name, kind: other},
            )


def _why_not(name: str) -> str | None:  # noqa: C901  one rule per line reads better than any split
    if not name:
        return "it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    if name == MAIN:
        return "every graph has a 'main' already"
    if name.startswith("__"):
        return "names that begin with '__' are reserved"
    if COMMIT_ID.fullmatch(name.upper()):
        return "it looks like a commit id"
    if VERSION.fullmatch(name):
        return "it looks like a manifest version"
    if DATE_LIKE.fullmatch(name):
        return "it looks like a date"
    for segment in name.split("/"):
        if not segment:
            return "a segment between '/' is empty"
        if not _SEGMENT.fullmatch(segment):
            return f"'{segment}' has a character that is not allowed"
        if segment.startswith("."):
            return f"the segment '{segment}' begins with '.'"
        if segment.endswith(".lock"):
            return f"the segment '{segment}' ends in '.lock'"
    return None
