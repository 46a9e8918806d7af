"""What somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the closest known word, if one is close."""
    by_lowercase = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lowercase, n=1, cutoff=0.6)
    return f"did you mean '{by_lowercase[close[0]]}'?" if close else None
