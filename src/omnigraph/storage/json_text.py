"""Texts as JSON writes them, a whole column at once."""

from __future__ import annotations

import json
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.columns import Values, compute, rewritten

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
# The backslash comes first: what the others put in would be escaped again.
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE: Final = {code: json.dumps(chr(code))[1:-1] for code in range(32)}


def json_strings(texts: Values) -> Values:
    """Each text in quotes and escaped; null stays null."""
    values = texts
    if _some(values, _NEEDS_ESCAPE):
        for plain, escaped in _ESCAPES:
            values = compute("replace_substring", values, options=pc.ReplaceSubstringOptions(plain, escaped))
        control = _matching(values, _CONTROL)
        values = rewritten(values, control, lambda text: text.translate(_RARE))
    return quoted(values)


def quoted(texts: Values) -> Values:
    """Each text in quotes, where it has nothing to escape."""
    quote = pa.scalar('"', texts.type)
    return compute("binary_join_element_wise", quote, texts, quote, pa.scalar("", texts.type))


def _some(texts: Values, pattern: str) -> bool:
    return cast("bool | None", pc.any(cast("pa.BooleanArray", _matching(texts, pattern))).as_py()) or False


def _matching(texts: Values, pattern: str) -> Values:
    return compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern))
