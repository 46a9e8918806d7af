"""Hints that name what there is, when a query names something that is not there."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.language.source import suggest_similar

_LISTED = 8


def suggest_name(word: str, known: Collection[str], kind: str) -> str:
    """The closest known name, else the first of those that there are; ``kind`` says in the plural what they name."""
    return suggest_similar(word, known) or list_names(known, kind)


def list_names(names: Collection[str], kind: str) -> str:
    """``the node types are A, B, C``, as many as can be read."""
    if not names:
        return f"there are no {kind}"
    shown = sorted(names)[:_LISTED]
    more = ", ..." if len(names) > _LISTED else ""
    return f"the {kind} are {', '.join(shown)}{more}"
