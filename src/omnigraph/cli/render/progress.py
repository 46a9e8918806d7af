"""A bar on stderr for work that takes longer than a moment."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Final

from rich.console import Console

PATIENCE: Final = 1.0
"""After so many seconds a person wants to see that something happens."""


@contextmanager
def byte_bar(console: Console, total: int | None) -> Generator[Callable[[int], None]]:
    """A bar that counts bytes; tell it about each that is read. Work that is done before it appears never shows it."""
    # Imported here, because few commands ever draw one.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("loading", total=total)
    appearance = Timer(PATIENCE, bar.start)
    appearance.start()
    try:
        yield partial(bar.advance, task)
    finally:
        appearance.cancel()
        # Else it might appear after it was taken away.
        appearance.join()
        bar.stop()
