"""Source texts of both languages: reading, size limits, positions, and suggestions for misspelled words.

A :class:`Span` is a pair of offsets, cheap enough for every node of a syntax tree. Only a :class:`Source` turns it
into a line and a column.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from omnigraph.errors import NotFound, ParameterError, Position, Problem, SourceTooLarge
from omnigraph.lazy_dataclass import dataclass

MAX_SOURCE_BYTES = 2 * 1024 * 1024
MAX_NESTING = 100
_MAX_LISTED = 8


@dataclass(frozen=True, slots=True)
class Span:
    """A range of offsets in the text; ``end`` is exclusive."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of another."""
        return Span(self.start, other.end)


def span_field() -> Span:
    """Return a dataclass field for the span of a syntax node; it does not count in comparisons."""
    return field(default=Span(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Source:
    """A text, and the name of its file if it has one."""

    text: str
    name: str | None = None

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def position(self, span: Span) -> Position:
        """Return the position of a span. A span of several lines ends with its first line."""
        line = bisect_right(self._line_starts, span.start) - 1
        start = self._line_starts[line]
        stop = self.text.find("\n", start)
        text = self.text[start : stop if stop >= 0 else len(self.text)].rstrip("\r")
        column = span.start - start
        end_column = max(column + 1, min(span.end - start, len(text)))
        return Position(self.name, line + 1, column + 1, end_column + 1, text)

    def problem(self, code: str, message: str, span: Span, hint: str | None = None) -> Problem:
        """Return a problem at a span of this text."""
        return Problem(code, message, self.position(span), hint)


def read_source(source: str | Path, suffix: str) -> Source | Problem:
    """Read a source as the public interface takes it: a path, a ``str`` that ends in ``suffix``, or the text itself.

    A text that cannot be decoded is returned as a :class:`Problem`, because only the caller knows which error to raise.
    """
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return decode_source(source.encode("utf-8", "surrogatepass"), None)
    if isinstance(source, str) and not source.endswith(suffix):
        raise ParameterError(
            f"{source!r} is neither a {suffix} file nor source text",
            hint=f"pass a pathlib.Path, a name that ends in {suffix}, or the text itself",
        )
    path = Path(source)
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise SourceTooLarge(str(path), size, MAX_SOURCE_BYTES)
        return decode_source(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {path}", hint="check the path") from error
    except (OSError, ValueError) as error:
        # A zero byte in a path is a ValueError.
        reason = error.strerror if isinstance(error, OSError) else error
        raise ParameterError(
            f"cannot read {path}: {reason}", hint=f"give the path of a readable {suffix} file"
        ) from error


def decode_source(data: bytes, name: str | None) -> Source | Problem:
    """Decode a text and check its limits: size, UTF-8, no NUL, nesting. Problems have the code ``text``."""
    if len(data) > MAX_SOURCE_BYTES:
        raise SourceTooLarge(name, len(data), MAX_SOURCE_BYTES)
    try:
        source = Source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        readable = Source(data.decode("utf-8", "replace"), name)
        offset = len(data[: error.start].decode("utf-8"))
        return readable.problem(
            "text",
            f"invalid UTF-8 byte 0x{data[error.start]:02x}",
            Span(offset, offset + 1),
            "save the file as UTF-8",
        )
    nul = source.text.find("\0")
    if nul >= 0:
        return source.problem("text", "NUL byte in source text", Span(nul, nul + 1), "is this a text file?")
    return _find_deep_nesting(source) or source


# An unclosed string or comment matches to the end of the text; otherwise each later quote would be tried as a start.
_BRACKETS = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{(\[]|[})\]]', re.DOTALL)


def _find_deep_nesting(source: Source) -> Problem | None:
    # Checked before parsing, so that no later step can exceed the recursion limit.
    depth = 0
    for match in _BRACKETS.finditer(source.text):
        token = match.group()
        if token in "{([":
            depth += 1
        elif token in "})]":
            depth -= 1
        if depth > MAX_NESTING:
            return source.problem(
                "text",
                f"nested more than {MAX_NESTING} levels deep",
                Span(*match.span()),
                "flatten the block",
            )
    return None


def suggest_similar(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the known word closest to ``word``, or None if none is close."""
    by_lowercase = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lowercase, n=1, cutoff=0.6)
    return f"did you mean '{by_lowercase[close[0]]}'?" if close else None


def suggest_name(word: str, known: Collection[str], kind: str) -> str:
    """Return a hint with the closest known name, else with a list of them. ``kind`` is their plural, as in "edges"."""
    return suggest_similar(word, known) or list_names(known, kind)


def list_names(names: Collection[str], kind: str) -> str:
    """Return ``the node types are A, B, C``, shortened if there are many."""
    if not names:
        return f"there are no {kind}"
    shown = sorted(names)[:_MAX_LISTED]
    more = ", ..." if len(names) > _MAX_LISTED else ""
    return f"the {kind} are {', '.join(shown)}{more}"
