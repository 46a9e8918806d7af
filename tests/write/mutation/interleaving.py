"""Two writers in a chosen order, without threads: one runs in the middle of the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from omnigraph.storage.failpoints import When, WriteStep, _arm


@contextmanager
def meanwhile(other: Callable[[], object], step_name: str = "table.stage") -> Generator[None]:
    """Run ``other`` once, when the writer in this block has staged its first rows and holds no lock yet.

    A load that stages while it reads has begun its commit when it audits what it staged: ``table.audit``.
    """
    waiting = [other]

    def act(when: When, step: WriteStep) -> None:
        if when == "after" and step.name == step_name and waiting:
            waiting.pop()()

    with _arm(act):
        yield
    assert not waiting, "nothing was staged in this block"
