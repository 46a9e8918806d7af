"""The queries of a text that a schema change breaks: the old catalog accepts them, and the new one does not."""

from __future__ import annotations

from omnigraph.errors import Json, Problem, QueryError
from omnigraph.language.query.ast import Query
from omnigraph.language.query.check import check_query
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source
from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BrokenQuery:
    """A query that the new schema does not accept, and why. ``is_new``: the old schema accepted it."""

    name: str
    file: str | None
    problems: tuple[Problem, ...]
    is_new: bool

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``breaks``."""
        return {
            "name": self.name,
            "file": self.file,
            "new": self.is_new,
            "problems": [problem.to_json() for problem in self.problems],
        }


def find_broken_queries(text: Source, old: Catalog, new: Catalog) -> list[BrokenQuery]:
    """Return the queries that the new catalog does not accept. Raise QueryError if the text cannot be parsed."""
    document = parse_query_text(text)
    if isinstance(document, list):
        raise QueryError(document)
    return [found for query in document.queries if (found := _find_breakage(query, text, old, new)) is not None]


def _find_breakage(query: Query, text: Source, old: Catalog, new: Catalog) -> BrokenQuery | None:
    after = check_query(query, new, text)
    if not isinstance(after, list):
        return None
    was_accepted = not isinstance(check_query(query, old, text), list)
    return BrokenQuery(query.name, text.name, tuple(after), was_accepted)
