"""Parse texts with a Lark grammar, and turn Lark's errors into problems with positions and hints.

After a syntax error, parsing continues at the next declaration that begins a line, so that one run reports the errors
of every declaration.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from pkgutil import get_data
from typing import Generic, TypeVar, cast

import lark
from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span
from omnigraph.lazy_dataclass import dataclass

MAX_SYNTAX_PROBLEMS = 100
_MAX_EXPECTED = 6
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_IGNORED = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)

Tree = TypeVar("Tree")


class SyntaxRejection(Exception):
    """A text that the grammar accepts and the language does not. Raised by tree builders, caught here."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Grammar(Generic[Tree]):
    """A grammar whose parser returns the finished tree.

    ``code`` is the code of its syntax problems. ``declaration`` matches the word that begins a declaration. ``words``
    are the names of terminals in messages. ``advice`` returns a hint for an error at an offset, or None.
    """

    parser: Lark
    code: str
    declaration: re.Pattern[str]
    words: Mapping[str, str]
    advice: Callable[[str, int], str | None]

    def parse(self, source: Source) -> Tree | list[Problem]:
        """Return the tree of a text, or all syntax problems in it."""
        problems: list[Problem] = []
        text = source.text
        begin = 0
        while len(problems) < MAX_SYNTAX_PROBLEMS:
            try:
                tree = cast(Tree, self.parser.parse(" " * begin + text[begin:]))
            except SyntaxRejection as rejected:
                problems.append(source.problem(self.code, rejected.message, rejected.span, rejected.hint))
                at = rejected.span.start
            except UnexpectedInput as unexpected:
                problem, at = self._describe(source, unexpected)
                problems.append(problem)
            else:
                return problems or tree
            following = self.declaration.search(_blank_comments_and_strings(text), at + 1)
            if following is None:
                break
            begin = following.start()
        return problems

    def _describe(self, source: Source, unexpected: UnexpectedInput) -> tuple[Problem, int]:
        text = source.text
        if isinstance(unexpected, UnexpectedCharacters):
            at = cast(int, unexpected.pos_in_stream)
            unclosed = _describe_unclosed(text, at)
            if unclosed:
                return source.problem(self.code, unclosed, Span(at, at + 1), self.advice(text, at)), at
            span, message = Span(at, at + 1), f"unexpected character {text[at]!r}"
        elif isinstance(unexpected, UnexpectedToken) and cast(Token, unexpected.token).type != "$END":
            token = cast(Token, unexpected.token)
            span, message = span_of(token), f"unexpected {str(token)!r}"
        else:
            at = len(text.rstrip())
            span, message = Span(max(at - 1, 0), at), "the text ends too early"
        expected = self._describe_expected(unexpected)
        if expected:
            message += f"; expected {expected}"
        return source.problem(self.code, message, span, self.advice(text, span.start)), span.start

    def _describe_expected(self, unexpected: UnexpectedInput) -> str:
        if isinstance(unexpected, UnexpectedCharacters):
            names = unexpected.allowed or set[str]()
        elif isinstance(unexpected, UnexpectedToken):
            names = unexpected.accepts or unexpected.expected
        else:
            names = set[str]()
        words = sorted({self.words[name] for name in names if name in self.words})
        return " or ".join(words) if len(words) <= _MAX_EXPECTED else ""


def load_lark(package: str, transformer: Transformer[Token, object] | None) -> Lark:
    """Load the parser of a package's ``grammar.lark``. It builds the tree while parsing, without recursion.

    Without a transformer it returns the concrete syntax tree, which has every token. The parse tables are computed
    once, and kept beside the compiled modules of the package, as they are.
    """
    # Not importlib.resources, which imports ten modules more; Lark imports pkgutil anyway.
    grammar = (get_data(package, "grammar.lark") or b"").decode()
    is_concrete = transformer is None
    kept = _choose_tables_file(package, f"{grammar}{'with all tokens' if is_concrete else ''}")
    try:
        return _StoredLark(kept, transformer)
    except (OSError, EOFError, pickle.UnpicklingError):
        built = Lark(
            grammar,
            parser="lalr",
            lexer="contextual",
            transformer=transformer,
            propagate_positions=True,
            keep_all_tokens=is_concrete,
        )
    if not sys.dont_write_bytecode:
        _write_tables(built, kept)
    return built


class _StoredLark(Lark):
    """A parser as :func:`_write_tables` wrote it. ``Lark.load`` does the same, but takes no transformer."""

    def __init__(self, tables: Path, transformer: Transformer[Token, object] | None) -> None:
        with tables.open("rb") as file, _paused_collector():
            self._load(file, transformer=transformer, propagate_positions=True)


@contextmanager
def _paused_collector() -> Generator[None]:
    """Collect no garbage meanwhile.

    Parse tables are so many objects, and all of them stay, that loading them would make Python look through every
    object of the process once: that takes ten times as long as loading them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _choose_tables_file(package: str, grammar: str) -> Path:
    """Return where the parse tables are kept. The name changes with everything that they depend on."""
    source = sys.modules[package].__file__ or ""
    digest = hashlib.sha256(f"{lark.__version__} {sys.version_info[:2]} {grammar}".encode()).hexdigest()
    return Path(cache_from_source(source)).with_name(f"grammar-{digest[:16]}.tables")


def _write_tables(parser: Lark, tables: Path) -> None:
    """Write the parse tables, if the folder may be written. Other processes see the whole file or none."""
    unnamed = tables.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        with unnamed.open("wb") as file:
            parser.save(file, exclude_options=("transformer", "propagate_positions"))
        unnamed.replace(tables)


def span_of(token: Token) -> Span:
    """Return the span of a token."""
    start = token.start_pos or 0
    return Span(start, token.end_pos if token.end_pos is not None else start + len(token))


def unquote_string(token: Token) -> str:
    """Return the value of a string token, with its escapes resolved."""
    start = (token.start_pos or 0) + 1

    def resolve_escape(match: re.Match[str]) -> str:
        char = match.group(1)
        if char not in _ESCAPES:
            at = start + match.start()
            raise SyntaxRejection(f"unknown escape '\\{char}'", Span(at, at + 2), r"the escapes are \" \\ \n \r \t")
        return _ESCAPES[char]

    return re.sub(r"\\(.)", resolve_escape, token[1:-1], flags=re.DOTALL)


def quote_string(text: str) -> str:
    """Return a string as source text; :func:`unquote_string` reads it back."""
    for char, escape in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t")):
        text = text.replace(char, escape)
    return f'"{text}"'


def _describe_unclosed(text: str, at: int) -> str | None:
    if text[at] == '"':
        return "this string is not closed"
    if text.startswith("/*", at):
        return "this comment is not closed"
    return None


def _blank_comments_and_strings(text: str) -> str:
    return _IGNORED.sub(lambda match: " " * len(match.group()), text)
