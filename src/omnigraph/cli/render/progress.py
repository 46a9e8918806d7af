"""A progress bar on stderr, for work that takes longer than a second."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING, Final

from rich.console import Console

from omnigraph.progress import ProgressStep, Watcher

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE: Final = 1.0
"""Seconds before the bar appears."""


@contextmanager
def byte_bar(console: Console, total: int | None) -> Generator[Callable[[int], None]]:
    """Yield a function to report bytes to."""
    # A late import: few commands draw a bar.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("loading", total=total)
    with _show_late(bar):
        yield partial(bar.advance, task)


@contextmanager
def step_bar(console: Console) -> Generator[Watcher]:
    """Yield a function to tell steps to. Each part of the work has the bar for itself."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=None)

    def show(step: ProgressStep) -> None:
        bar.update(task, description=step.doing, completed=step.done, total=step.total)

    with _show_late(bar):
        yield show


@contextmanager
def _show_late(bar: Progress) -> Generator[None]:
    """Show a bar. Work that ends before ``PATIENCE`` never shows it."""
    appearance = Timer(PATIENCE, bar.start)
    appearance.start()
    try:
        yield
    finally:
        appearance.cancel()
        # Otherwise the bar could appear after it was stopped.
        appearance.join()
        bar.stop()
