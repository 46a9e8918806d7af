"""Declare another property in the text of a schema. Everything else, comments too, stays as it is."""

from __future__ import annotations

import re
from typing import Final

from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.source import Source

_UP_TO_BODY: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[^{"/])*\{', re.DOTALL)
"""From the name of a type to the brace that opens its body, past strings and comments."""


def declare_property(text: str, node_type: str, declaration: str) -> str:
    """Return a valid schema with a property as the first line of the body of a node type."""
    parsed = parse_schema_text(Source(text))
    assert not isinstance(parsed, list), "the schema is valid"
    name = next(node.name for node in parsed.nodes if node.name.text == node_type)
    body = _UP_TO_BODY.match(text, name.span.end)
    assert body is not None, "a node type has a body"
    return f"{text[: body.end()]}\n  {declaration}{_break_line(text[body.end() :])}"


def _break_line(rest: str) -> str:
    """Return the rest of the body, which begins on a line of its own."""
    return rest if rest.startswith(("\n", "\r")) else f"\n  {rest.lstrip(' ')}"
