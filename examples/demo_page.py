"""What the demo prints: headings, tables, and how long everything took."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def indented(text: str) -> str:
    """A text of several lines, moved to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def table(rows: Iterable[Mapping[str, object]]) -> None:
    """Rows with the names of their columns above them."""
    found = list(rows)
    names = list(found[0]) if found else []
    lines: list[Sequence[str]] = [names, *([shown(row[name]) for name in names] for row in found)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    for line in lines:
        print("  " + "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def shown(value: object) -> str:
    """A value in a table."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if isinstance(value, float) else str(value)


class Clock:
    """How long each step took, in the order in which they were taken."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """A step with its heading, which takes as long as its block."""
        title(name)
        begun = perf_counter()
        yield
        self.steps.append((name, perf_counter() - begun))
        print(f"  {self.steps[-1][1]:.1f} s")

    def summary(self) -> None:
        """All steps, and their sum."""
        title("How long it took")
        for name, seconds in (*self.steps, ("all of it", sum(seconds for _, seconds in self.steps))):
            print(f"  {seconds:6.1f} s  {name}")
