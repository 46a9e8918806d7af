"""The type checker of ``.gq``: from the syntax tree to a query whose every name and type is known."""

from omnigraph.language.query.check.checker import check_query, find_duplicate_names

__all__ = [
    "check_query",
    "find_duplicate_names",
]
