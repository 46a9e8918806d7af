"""A deadline that counts how often it is looked at, and can end a call at any of these moments."""

from __future__ import annotations

from omnigraph import Deadline


class CountedDeadline(Deadline):
    """Cancels itself when it was looked at ``most`` times."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most
        self.checks = 0

    def check(self) -> None:
        """Count, then look."""
        self.checks += 1
        if self.most is not None and self.checks > self.most:
            self.cancel()
        super().check()
