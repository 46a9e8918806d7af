"""A list of commits that shows itself as a drawing of lanes in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from omnigraph.manifest.history import Commit

if TYPE_CHECKING:
    from omnigraph.draw import HistoryEntry

SHOWN_COMMITS: Final = 100
NO_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class CommitList(list[Commit]):
    """Commits, newest first. It is a list; a notebook shows it as a picture."""

    def to_svg(self, names: Mapping[str, tuple[str, ...]] = NO_NAMES) -> str:
        """Return the commits drawn in lanes; ``names`` are the branches and tags that point to a commit, by its id."""
        # A late import: few who list commits draw them.
        from omnigraph.draw import draw_history

        return draw_history([_to_entry(commit, names.get(commit.id, ())) for commit in self])

    def _repr_html_(self) -> str:
        """Return the newest commits as a picture."""
        picture = CommitList(self[:SHOWN_COMMITS]).to_svg()
        rest = len(self) - SHOWN_COMMITS
        return f"{picture}<p>and {rest} older commits</p>" if rest > 0 else picture


def _to_entry(commit: Commit, names: tuple[str, ...]) -> HistoryEntry:
    from omnigraph.draw import HistoryEntry

    when = f"{commit.created_at:%Y-%m-%d %H:%M}"
    return HistoryEntry(commit.id, commit.parents, when, commit.actor, commit.message, names)
