"""The words of ``.gq`` that its grammar knows."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_TERMINAL = re.compile(r"^_?[A-Z][A-Z_0-9]*(?:\.\d)?: /\(?([a-z_0-9|]+)\)?\\b/(.*)$", re.MULTILINE)


@cache
def list_keywords() -> frozenset[str]:
    """Return the words that the grammar has terminals for; where only a name can stand they are names too."""
    return frozenset(_read_words())


@cache
def list_grammar_calls() -> frozenset[str]:
    """Return the keywords that are written like functions: ``count``, ``date``, ``nearest`` and so on."""
    return frozenset(word for word, ending in _read_words().items() if "_BEFORE_PARENTHESIS" in ending)


def _read_words() -> dict[str, str]:
    """Read the words of the grammar, each with what its terminal looks ahead to."""
    grammar = files(__package__ or "").joinpath("grammar.lark").read_text("utf-8")
    return {word: ending for words, ending in _TERMINAL.findall(grammar) for word in str(words).split("|")}
