"""The keywords of ``.gq``, as its grammar has them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_WORDS = re.compile(r"^_?[A-Z][A-Z_0-9]*(?:\.\d)?: /\(?([a-z_0-9|]+)\)?\\b/", re.MULTILINE)


@cache
def list_keywords() -> frozenset[str]:
    """Return the words that the grammar has terminals for; where only a name can stand they are names too."""
    grammar = files(__package__ or "").joinpath("grammar.lark").read_text("utf-8")
    return frozenset(word for words in _WORDS.findall(grammar) for word in str(words).split("|"))
