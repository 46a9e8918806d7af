"""A list of commits that shows itself as a drawing of lanes in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from omnigraph.draw import HistoryEntry, draw_history
from omnigraph.manifest.history import Commit

SHOWN_COMMITS: Final = 100
NO_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class CommitList(list[Commit]):
    """Commits, newest first. It is a list; a notebook shows it as a picture."""

    def to_svg(self, names: Mapping[str, tuple[str, ...]] = NO_NAMES) -> str:
        """Return the commits drawn in lanes; ``names`` are the branches and tags that point to a commit, by its id."""
        return draw_history([_to_entry(commit, names.get(commit.id, ())) for commit in self])

    def _repr_html_(self) -> str:
        """Return the newest commits as a picture."""
        picture = CommitList(self[:SHOWN_COMMITS]).to_svg()
        rest = len(self) - SHOWN_COMMITS
        return f"{picture}<p>and {rest} older commits</p>" if rest > 0 else picture


def names_by_commit(pointers: Iterable[tuple[str, str | None]]) -> dict[str, tuple[str, ...]]:
    """Group names by the commit that they point to."""
    found: dict[str, tuple[str, ...]] = {}
    for name, commit in pointers:
        if commit is not None:
            found[commit] = (*found.get(commit, ()), name)
    return found


def _to_entry(commit: Commit, names: tuple[str, ...]) -> HistoryEntry:
    when = f"{commit.created_at:%Y-%m-%d %H:%M}"
    return HistoryEntry(commit.id, commit.parents, when, commit.actor, commit.message, names)
