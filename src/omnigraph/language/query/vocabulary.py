"""The vocabulary of ``.gq`` for editors that complete words: keywords, operators, types, functions with their forms.

Nothing is listed by hand that the grammar or the checker knows. Types and properties of a graph are in its catalog.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from omnigraph.errors import Json
from omnigraph.language.operators import ComparisonOperator, LogicalOperator
from omnigraph.language.query.ast import ArithmeticOperator
from omnigraph.language.query.check import list_function_forms
from omnigraph.language.query.keywords import list_grammar_calls, list_keywords
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass

_GRAMMAR_FORMS: Final = {
    "now": "now()",
    "date": 'date("2024-05-01")',
    "datetime": 'datetime("2024-05-01T10:00:00Z")',
    "count": "count(distinct value)",
    "collect": "collect(distinct value)",
    "sum": "sum(number)",
    "avg": "avg(number)",
    "min": "min(value)",
    "max": "max(value)",
    "search": "search($x.text, words)",
    "match_text": "match_text($x.text, words)",
    "fuzzy": "fuzzy($x.text, words, edits)",
    "bm25": "bm25($x.text, words)",
    "nearest": "nearest($x.vector, query)",
    "rrf": "rrf(nearest($x.vector, query), bm25($x.text, words))",
}
"""The forms of what the grammar itself reads like a function."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of the language, each list sorted; ``functions`` has the form of each by its name."""

    keywords: tuple[str, ...]
    operators: tuple[str, ...]
    types: tuple[str, ...]
    functions: dict[str, str]

    def to_json(self) -> dict[str, Json]:
        """Return the lists as JSON values."""
        return {
            "keywords": list(self.keywords),
            "operators": list(self.operators),
            "types": list(self.types),
            "functions": dict(self.functions),
        }


@cache
def list_vocabulary() -> Vocabulary:
    """Return the vocabulary of the language."""
    operators = {*map(str, ComparisonOperator), *map(str, LogicalOperator), *map(str, ArithmeticOperator)}
    functions = {**{name: _GRAMMAR_FORMS[name] for name in list_grammar_calls()}, **list_function_forms()}
    return Vocabulary(
        keywords=tuple(sorted(list_keywords() - list_grammar_calls() - operators)),
        operators=tuple(sorted(operators)),
        types=tuple(sorted(map(str, Scalar))),
        functions=dict(sorted(functions.items())),
    )
