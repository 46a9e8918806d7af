"""A progress bar on stderr, for work that takes longer than a second."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Final

from rich.console import Console

PATIENCE: Final = 1.0
"""Seconds before the bar appears."""


@contextmanager
def byte_bar(console: Console, total: int | None) -> Generator[Callable[[int], None]]:
    """Yield a function to report bytes to. Work that ends before ``PATIENCE`` never shows the bar."""
    # A late import: few commands draw a bar.
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
        # Otherwise the bar could appear after it was stopped.
        appearance.join()
        bar.stop()
