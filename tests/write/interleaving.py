"""Two writers in a chosen order, without threads: one runs in the middle of the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from omnigraph.storage.failpoints import Step, When, _arming


@contextmanager
def meanwhile(other: Callable[[], object]) -> Generator[None]:
    """Run ``other`` once, when the writer in this block has staged its first rows and holds no lock yet."""
    waiting = [other]

    def act(when: When, step: Step) -> None:
        if when == "after" and step.name == "table.stage" and waiting:
            waiting.pop()()

    with _arming(act):
        yield
    assert not waiting, "nothing was staged in this block"
