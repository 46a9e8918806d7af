"""Items that follow each other without a comma: where the parser asks for one, and where lint warns.

Commas between the items of a list are optional, so an item that begins like the rest of an expression must not follow
one on its line: ``return { $v.tons -1 }`` could be two columns or a difference. Nothing here changes a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Final, cast

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.source import Source, Span
from omnigraph.lazy_dataclass import dataclass

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONTINUATION: Final = re.compile(r'[(\["0-9-]|(?:true|false|null)\b|(?:date|datetime)\s*\(')
_SIGNED: Final = re.compile(r"-[0-9]")
_LONGEST_QUOTE: Final = 40


@dataclass(frozen=True, slots=True)
class _Neighbors:
    """Two items without a comma between them, of which the first one ends with an expression."""

    before: Span
    after: Span
    is_condition: bool
    on_one_line: bool


def find_missing_commas(document: ast.QueryDocument, source: Source, code: str) -> list[Problem]:
    """Return a problem for each item that needs a comma or a line break before it."""
    return [
        _describe(pair, source, code)
        for query in document.queries
        for pair in _find_neighbors(query.body, source.text)
        if pair.on_one_line and _CONTINUATION.match(source.text, pair.after.start)
    ]


def find_signed_numbers(query: ast.Query, source: Source) -> Iterator[Span]:
    """Yield the sign of each number that begins a line, directly after a value: it is not subtracted from it."""
    for pair in _find_neighbors(query.body, source.text):
        begin = pair.after.start
        if _SIGNED.match(source.text, begin):
            yield Span(begin, begin + 1)


def _describe(pair: _Neighbors, source: Source, code: str) -> Problem:
    before, after = (_quote(source.text[span.start : span.end]) for span in (pair.before, pair.after))
    items = "conditions" if pair.is_condition else "columns"
    if _SIGNED.match(source.text, pair.after.start):
        joined = f"{before} - {after[1:]}"
    else:
        joined = f"{before} {'and' if pair.is_condition else '+'} {after}"
    return source.problem(
        code,
        "this needs a comma or a line break before it, because it could continue the expression before it",
        pair.after,
        f"write `{before}, {after}` for two {items}, or an operator for one, as in `{joined}`",
    )


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]}..."


def _find_neighbors(part: object, text: str) -> Iterator[_Neighbors]:
    """Yield the pairs of a syntax tree, those in blocks too, in the order of the text."""
    pairs: list[_Neighbors] = []
    pending = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple):
            pending += cast("tuple[object, ...]", node)
        elif is_dataclass(node):
            pending += [cast("object", getattr(node, field.name)) for field in fields(node)]
            pairs += [pair for items in _lists_of(node) for pair in _pair_up(items, text)]
    yield from sorted(pairs, key=lambda pair: pair.after.start)


_Item = ast.Projection | ast.ClauseSyntax


def _lists_of(node: object) -> Iterator[Sequence[_Item]]:
    """Yield the lists of a syntax node whose items need no comma between them."""
    if isinstance(node, ast.ReadBody):
        yield from (node.projections, node.clauses, node.having)
    elif isinstance(node, ast.MutationBody | ast.OptionalClause | ast.Negation | ast.Existence):
        yield node.clauses


def _pair_up(items: Sequence[_Item], text: str) -> Iterator[_Neighbors]:
    for before, after in pairwise(items):
        between = _COMMENT.sub("", text[before.span.end : after.span.start])
        if _ends_with_expression(before) and "," not in between:
            is_condition = not isinstance(before, ast.Projection)
            yield _Neighbors(before.span, after.span, is_condition, "\n" not in between)


def _ends_with_expression(item: _Item) -> bool:
    if isinstance(item, ast.Projection):
        return item.alias is None
    patterns = (ast.BindingClause, ast.TraversalClause, ast.OptionalClause, ast.Negation, ast.Existence)
    return not isinstance(item, patterns)
