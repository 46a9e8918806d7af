"""The text that is typed, as statements: where one ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from omnigraph.cli.arguments import is_body
from omnigraph.lazy_dataclass import dataclass

# A text or a comment that is not closed reaches to the end: the statement goes on.
_OPAQUE: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_OPEN: Final = re.compile(r'"(?:[^"\\]|\\.)*\Z|/\*(?:(?!\*/).)*\Z', re.DOTALL)


@dataclass(slots=True)
class StatementReader:
    """Collects lines until they are a statement: at ``;``, at an empty line, or where a whole query ends."""

    _lines: list[str] = field(default_factory=list[str])

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been collected."""
        return not self._lines

    def add(self, line: str) -> str | None:
        """Add a line. Return the statement if it ends there; a line with a dot before any other is one by itself."""
        if self.is_empty and (not line.strip() or line.lstrip().startswith(".")):
            return line.strip() or None
        self._lines.append(line)
        text = "\n".join(self._lines)
        if not _is_complete(text, line):
            return None
        return self.take()

    def take(self) -> str | None:
        """Return what was collected, and begin anew."""
        text = "\n".join(self._lines).strip().removesuffix(";").strip()
        self._lines.clear()
        return text or None


def _is_complete(text: str, line: str) -> bool:
    bare = _OPAQUE.sub("", text)
    if _ends_open(text):
        return False
    if bare.rstrip().endswith(";") or not line.strip():
        return True
    return not is_body(text) and "{" in bare and bare.count("{") <= bare.count("}")


def _ends_open(text: str) -> bool:
    """Whether a text or a comment is still open at the end."""
    found = [each for each in _OPAQUE.finditer(text) if each.end() == len(text)]
    return bool(found) and bool(_OPEN.match(found[-1].group()))


def split_statements(lines: Iterator[str]) -> Iterator[str]:
    """Yield the statements of a text."""
    reader = StatementReader()
    for line in lines:
        statement = reader.add(line.rstrip("\n"))
        if statement is not None:
            yield statement
    rest = reader.take()
    if rest is not None:
        yield rest
