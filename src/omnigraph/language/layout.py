"""Lay out a text of either language: one canonical form of blanks, line breaks and optional commas.

A language gives the concrete syntax tree of a text and a :class:`Style`: what stands between two tokens. Tokens and
comments keep their spelling and their order. Between two tokens stand the same comments as before; only a comment
before a comma moves behind it. A comment that has a line of its own, or ends one, still does.

The tree becomes a list of words, and each bracket or chain of operators a block. A block is written on one line if it
fits; else it is broken at all of its own gaps. Nothing here recurses, so deep trees are no problem.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import ClassVar, Final, TypeAlias, cast

from lark import Token, Tree

from omnigraph.lazy_dataclass import dataclass

WIDTH: Final = 100
INDENT: Final = "  "
COMMA: Final = "COMMA"
SyntaxTree: TypeAlias = Tree[Token]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
OPENING: Final = frozenset("({[")
CLOSING: Final = frozenset(")}]")


class Gap(Enum):
    """What stands between two tokens."""

    TIGHT = auto()
    """Nothing."""
    SPACE = auto()
    """One blank."""
    SOFT = auto()
    """Nothing, or a line break if the block is broken."""
    LINE = auto()
    """One blank, or a line break if the block is broken."""
    FILL = auto()
    """One blank, or a line break if the block is broken and the next words do not fit on the line."""
    BREAK = auto()
    """A line break."""
    ITEM = auto()
    """A line break, and an empty line if the text has one."""
    APART = auto()
    """An empty line."""


_UNBROKEN: Final = frozenset({Gap.TIGHT, Gap.SPACE})
_ALWAYS: Final = frozenset({Gap.BREAK, Gap.ITEM, Gap.APART})
_BLANKS: Final = frozenset({Gap.SPACE, Gap.LINE, Gap.FILL})


class Comma(Enum):
    """Whether a comma stands between two items."""

    AS_WRITTEN = auto()
    YES = auto()
    NO = auto()


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where two tokens meet: in which rule of the grammar, and between which children, tokens or rules, of it."""

    rule: str
    before: str
    after: str


class Style(ABC):
    """What a language says about its layout."""

    chains: ClassVar[Mapping[str, str | None]]
    """Rules that are blocks without brackets, and the token that ends the block before the rule ends, if any."""
    groups: ClassVar[frozenset[str]]
    """Rules that are brackets around one chain: it needs no further indentation."""

    @abstractmethod
    def choose_gap(self, boundary: Boundary, left: Token, right: Token) -> Gap:
        """Return what stands between two tokens."""

    @abstractmethod
    def choose_comma(self, boundary: Boundary, left: Token, right: Token) -> Comma:
        """Return whether a comma stands between two items, or between the last one and its bracket."""

    @abstractmethod
    def shift_line(self, boundary: Boundary) -> int:
        """Return how many levels to the right of its block a line begins; to the left if negative."""

    @abstractmethod
    def split_token(self, token: Token) -> list[Token]:
        """Return the words of a token, which may be several."""


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment, whether it begins a line, and whether an empty line is above it."""

    text: str
    begins_line: bool
    empty_above: bool

    @property
    def ends_line(self) -> bool:
        return self.text.startswith("//")

    @property
    def breaks(self) -> bool:
        return self.ends_line or self.begins_line or "\n" in self.text


@dataclass(slots=True)
class _LayoutBlock:
    """The words from ``first`` to ``last``, which are on one line or broken; ``rule`` is that of a chain.

    ``hanging``: how much deeper the lines after the first are.
    """

    parent: _LayoutBlock | None
    first: int
    last: int
    depth: int
    hanging: int
    rule: str | None
    broken: bool | None = None


@dataclass(slots=True)
class _Word:
    """A token, what stands before it, and the block that this gap belongs to."""

    token: Token
    boundary: Boundary
    comments: list[_Comment]
    begins_line: bool = False
    empty_above: bool = False
    gap: Gap = Gap.TIGHT
    depth: int = 0
    block: _LayoutBlock | None = None

    @property
    def closes(self) -> bool:
        return str(self.token) in CLOSING


@dataclass(slots=True)
class _Page:
    """The words of a text in order, the blocks in the order of their first words, and the comments at the end."""

    words: list[_Word] = field(default_factory=list["_Word"])
    blocks: list[_LayoutBlock] = field(default_factory=list["_LayoutBlock"])
    last_comments: list[_Comment] = field(default_factory=list["_Comment"])


def lay_out(text: str, tree: SyntaxTree, style: Style) -> str:
    """Return a text in its canonical layout. ``tree`` has all tokens of the text."""
    page = _Page()
    marks = list(_walk(tree, style))
    words = _read_comments(text, [(mark, boundary) for mark, boundary in marks if isinstance(mark, Token)], page)
    placement = _Placement(page, _settle_commas(words, style), style)
    for mark, boundary in marks:
        placement.follow(mark, boundary.rule)
    _break_blocks(page)
    return "".join(_Writer(page).write())


# ------------------------------------------------------------------------------------------------ words


_Mark: TypeAlias = tuple[Token | SyntaxTree | None, Boundary]
"""A token and where it meets the one before; a chain that begins; or None where a chain ends."""


class _Visit:
    """A node of the tree, its children that are left, and the last child that has a token."""

    def __init__(self, node: SyntaxTree) -> None:
        self.node = node
        self.rule = str(node.data)
        # Lark writes None for an optional part that is missing.
        self.children = (child for child in cast("list[Token | SyntaxTree | None]", node.children) if child is not None)
        self.last: str | None = None


def _walk(tree: SyntaxTree, style: Style) -> Iterator[_Mark]:
    visits = [_Visit(tree)]
    boundary = Boundary(visits[0].rule, "", "")
    while visits:
        visit = visits[-1]
        child = next(visit.children, None)
        if child is None:
            visits.pop()
            if visits and visit.last is not None:
                visits[-1].last = visit.rule
            if visit.rule in style.chains:
                yield None, Boundary(visit.rule, "", "")
            continue
        name = child.type if isinstance(child, Token) else str(child.data)
        if visit.last is not None:
            boundary = Boundary(visit.rule, visit.last, name)
        if isinstance(child, Token):
            for part in style.split_token(child):
                yield part, boundary
                boundary = Boundary(visit.rule, part.type, part.type)
            visit.last = name
        else:
            if name in style.chains:
                yield child, Boundary(visit.rule, "", "")
            visits.append(_Visit(child))


def _read_comments(text: str, tokens: list[tuple[Token, Boundary]], page: _Page) -> list[_Word]:
    words: list[_Word] = []
    done = 0
    for token, boundary in tokens:
        comments, rest = _split_gap(text[done : token.start_pos], at_start=not words)
        words.append(_Word(token, boundary, comments, "\n" in rest, rest.count("\n") > 1))
        done = token.end_pos or 0
    page.last_comments, _ = _split_gap(text[done:], at_start=not words)
    return words


def _split_gap(gap: str, *, at_start: bool) -> tuple[list[_Comment], str]:
    """Return the comments between two tokens, and the blanks after the last one."""
    comments: list[_Comment] = []
    done = 0
    for match in _COMMENT.finditer(gap):
        blanks = gap[done : match.start()]
        written = match.group()
        written = written.rstrip(" \t\r") if written.startswith("//") else written.replace("\r\n", "\n")
        first = at_start and not comments
        comments.append(_Comment(written, first or "\n" in blanks, not first and blanks.count("\n") > 1))
        done = match.end()
    return comments, gap[done:]


def _settle_commas(words: list[_Word], style: Style) -> list[_Word]:
    """Add and leave out commas. What stands before a comma goes behind it."""
    settled: list[_Word] = []
    comma: _Word | None = None
    for word in words:
        if word.token.type == COMMA:
            comma = word
            continue
        if comma is not None:
            word.comments[:0] = comma.comments
        if settled:
            choice = style.choose_comma(word.boundary, settled[-1].token, word.token)
            if choice is Comma.YES or (choice is Comma.AS_WRITTEN and comma is not None):
                settled.append(_Word(comma.token if comma else Token(COMMA, ","), word.boundary, []))
        settled.append(word)
        comma = None
    for word in settled:
        word.comments[:] = _mark_line_ends(word.comments)
    return settled


def _mark_line_ends(comments: Iterable[_Comment]) -> Iterator[_Comment]:
    """A comment after one that ends its line begins a line. A comma may have stood between them."""
    after_end = False
    for comment in comments:
        yield _Comment(comment.text, comment.begins_line or after_end, comment.empty_above)
        after_end = comment.ends_line


# ------------------------------------------------------------------------------------------------ blocks


class _Placement:
    """Sets the gap, the depth and the block of each word, in order."""

    def __init__(self, page: _Page, words: Iterable[_Word], style: Style) -> None:
        self._page = page
        self._words = deque(words)
        self._style = style
        self._inner: _LayoutBlock | None = None

    def follow(self, mark: Token | SyntaxTree | None, rule: str) -> None:
        """Boundary the words of a token, or open or close a chain."""
        if mark is None:
            if self._inner is not None and self._inner.rule == rule:
                self._close_block(len(self._page.words) - 1)
            return
        # A comma that the text does not have stands before its mark.
        while self._words and self._words[0].token.type == COMMA and self._words[0].token is not mark:
            self._place(self._words.popleft())
        if not isinstance(mark, Token):
            self._open_block(str(mark.data), hanging=int(rule not in self._style.groups))
        elif self._words and self._words[0].token is mark:
            self._place(self._words.popleft())

    def _place(self, word: _Word) -> None:
        words, text = self._page.words, str(word.token)
        owner = self._inner
        while owner is not None and owner.first == len(words):
            # The gap before a chain is not a part of it.
            owner = owner.parent
        word.block = owner
        word.gap = self._style.choose_gap(word.boundary, words[-1].token, word.token) if words else Gap.ITEM
        if owner is not None and word.gap not in _UNBROKEN:
            owner.depth += owner.hanging
            owner.hanging = 0
        word.depth = (owner.depth if owner else 0) + self._style.shift_line(word.boundary)
        if text in CLOSING:
            word.depth -= 1
            self._close_block(len(words))
        elif self._inner is not None and self._style.chains.get(self._inner.rule or "") == word.token.type:
            self._close_block(len(words))
        if text in OPENING:
            self._open_block(None)
        words.append(word)

    def _open_block(self, rule: str | None, hanging: int = 0) -> None:
        depth = (self._inner.depth if self._inner else 0) + (rule is None)
        self._inner = _LayoutBlock(self._inner, len(self._page.words), -1, depth, hanging, rule)
        self._page.blocks.append(self._inner)

    def _close_block(self, last: int) -> None:
        if self._inner is not None:
            self._inner.last = last
            self._inner = self._inner.parent


def _break_blocks(page: _Page) -> None:
    """Break the blocks that have a line break in them for certain."""
    for word in page.words:
        if word.gap in _ALWAYS or any(comment.breaks for comment in word.comments):
            block = word.block
            while block is not None and not block.broken:
                block.broken = True
                block = block.parent


# ------------------------------------------------------------------------------------------------ writing


class _Writer:
    """Writes the words of a page, line by line."""

    def __init__(self, page: _Page) -> None:
        self._page = page
        self._column = 0
        self._starts = _measure(page.words)
        self._next_break = _find_breaks(page.words)
        self._begun = False

    def write(self) -> Iterator[str]:
        """Yield the parts of the text."""
        blocks = iter([*self._page.blocks, None])
        block = next(blocks)
        for index, word in enumerate(self._page.words):
            yield from self._write_gap(index, word)
            while block is not None and block.first == index:
                self._decide(block)
                block = next(blocks)
            yield self._put(str(word.token))
        yield from self._write_comments(self._page.last_comments, 0)
        if self._begun:
            yield "\n"

    def _decide(self, block: _LayoutBlock) -> None:
        if block.broken is None:
            is_flat = block.parent is not None and not block.parent.broken
            block.broken = not is_flat and not self._fits(block.first, block.last + 1)

    def _fits(self, first: int, after: int) -> bool:
        """Whether the words from one to another, and those that follow up to a possible break, fit on the line."""
        end = self._next_break[after]
        last = end - 1
        width = self._starts[last] + len(self._page.words[last].token) - self._starts[first]
        return self._column + width <= WIDTH

    def _write_gap(self, index: int, word: _Word) -> Iterator[str]:
        if not self._begun and not word.comments:
            return
        breaks = self._begun and self._breaks(index, word)
        inside = word.depth + word.closes
        continued = word.gap in _UNBROKEN and self._begun
        after_opening = index > 0 and str(self._page.words[index - 1].token) in OPENING
        apart = word.gap is Gap.APART and not self._has_empty_line(word)
        yield from self._write_comments(word.comments, inside + continued, after_opening=after_opening, apart=apart)
        apart = apart and not any(comment.begins_line for comment in word.comments)
        if word.comments:
            last = word.comments[-1]
            begun = any(comment.begins_line for comment in word.comments)
            # A block comment that begins a line stays before the word, if it stood there.
            breaks = last.ends_line or (breaks and (word.closes or not begun)) or (begun and word.begins_line)
        if breaks:
            depth = word.depth + continued
            empty = word.empty_above and word.gap in (Gap.ITEM, Gap.APART) and not after_opening and not word.closes
            yield self._put("\n" * (1 + (apart or empty)) + INDENT * depth)
        elif word.comments or word.gap in _BLANKS:
            yield self._put(" ")

    def _breaks(self, index: int, word: _Word) -> bool:
        if word.gap in _ALWAYS:
            return True
        if word.gap in _UNBROKEN or word.block is None or not word.block.broken:
            return False
        self._column += 1
        fits = word.gap is Gap.FILL and self._fits(index, index + 1)
        self._column -= 1
        return not fits

    @staticmethod
    def _has_empty_line(word: _Word) -> bool:
        return word.empty_above or any(comment.empty_above and comment.begins_line for comment in word.comments)

    def _write_comments(
        self, comments: Iterable[_Comment], depth: int, *, after_opening: bool = False, apart: bool = False
    ) -> Iterator[str]:
        for comment in comments:
            if comment.begins_line and self._begun:
                empty = apart or (comment.empty_above and not after_opening)
                yield self._put("\n" * (1 + empty) + INDENT * depth)
                apart = False
            elif self._begun:
                yield self._put(" ")
            yield self._put(comment.text)
            after_opening = False

    def _put(self, text: str) -> str:
        self._begun = True
        line = text.rfind("\n")
        self._column = len(text) + (self._column if line < 0 else -line - 1)
        return text


def _measure(words: list[_Word]) -> list[int]:
    """Return the column of each word if all were on one line."""
    starts: list[int] = []
    column = 0
    for word in words:
        column += sum(len(comment.text) + 1 for comment in word.comments if not comment.ends_line)
        column += 1 if word.comments or word.gap in _BLANKS else 0
        starts.append(column)
        column += len(word.token)
    return starts


def _find_breaks(words: list[_Word]) -> list[int]:
    """Return for each word the first one, from there on, before which a line may break."""
    found = [len(words)] * (len(words) + 1)
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        can_break = word.gap not in _UNBROKEN or any(comment.ends_line for comment in word.comments)
        found[index] = index if can_break else found[index + 1]
    return found
