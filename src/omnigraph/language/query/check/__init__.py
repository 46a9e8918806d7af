"""The type checker of ``.gq``: resolves the names of a syntax tree and finds the type of every expression."""

from omnigraph.language.query.check.functions import list_function_forms
from omnigraph.language.query.check.queries import check_query, find_duplicate_names

__all__ = [
    "check_query",
    "find_duplicate_names",
    "list_function_forms",
]
