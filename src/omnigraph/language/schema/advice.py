"""Hints for syntax errors: what to write instead, guessed from the text around the error."""

from __future__ import annotations

import re

from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar

_WORD = re.compile(r"\w+")
_LOOK_BACK = 200

# The text before the error, the text at the error, and the hint. The first that matches is used.
_ADVICE: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"(?:{before})\Z"), re.compile(at), hint)
    for before, at, hint in (
        (r"", r"#", "comments begin with //"),
        (r"", r"(node|edge|interface)[A-Z]", "put a blank after the keyword"),
        (r"\binterface\s+\w+\s+", r"implements\b", "an interface cannot implement another; list its properties"),
        (r"\binterface\s+\w+\s+", r"@", "an interface takes no annotations"),
        (
            r"\binterface\s[^{}]*\{[^{}]*",
            r"@\s*\w+\s*\(|\(",
            "an interface takes no constraints; put them on the nodes",
        ),
        (r"\b(node|edge|interface|implements)\s+", r"[a-z_]", "type names begin with an upper-case letter"),
        (r"\bedge\s+\w+\s*:\s*|->\s*", r"[a-z_]", "type names begin with an upper-case letter"),
        (r"@\s*card\s*\(\s*", r"\.\.", "write the minimum too: @card(0..3)"),
        (r"@\s*card\s*\(\s*\d+\s*", r"\.\.", "@card comes first after the target type, and only on an edge"),
        (r"\benum\s*\([^)]*", r'"', "enum values are written without quotes"),
        (r"\benum\s*\([^)]*,\s*", r"\)", "no comma after the last value"),
        (r"\[\s*", r"\w|\[", "a list holds one of the basic types, as in [String]"),
        (r"@\s*\w+\s*\(\s*", r"\)", "leave out the empty parentheses"),
        (r"\{\s*", r"@", "an annotation stands after the property that it belongs to"),
        (r"\)\s*", r"@", "an annotation stands after its property, before the constraints"),
        (r"", r",", "properties are separated by blanks or line breaks, not by commas"),
        (r"", r"query\s+\w+\s*\(", "this is a query; a schema has nodes and edges, and its files end in .pg"),
        (r"(\A|\})\s*", r"enum\b", "an enum is the type of a property: kind: enum(a, b)"),
        (r"\{\s*|[^:\s]\s+", r"[A-Z]\w*\s*:", "property names begin with a lower-case letter or _"),
    )
)


def advise_on_schema(text: str, offset: int) -> str | None:
    """Return a hint for a syntax error at an offset, or None."""
    before = text[max(0, offset - _LOOK_BACK) : offset]
    for stands_before, stands_at, hint in _ADVICE:
        if stands_at.match(text, offset) and stands_before.search(before):
            return hint
    return _advise_on_type(before, text, offset)


def _advise_on_type(before: str, text: str, offset: int) -> str | None:
    word = _WORD.match(text, offset)
    if word is None or not before.rstrip().endswith(":"):
        return None
    types = [str(scalar) for scalar in Scalar]
    return suggest_similar(word.group(), types) or f"the types are {', '.join(types)} and enum"
