"""Schema files as several commands read them. It imports the schema language, which most commands do not need."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.errors import Problem, SchemaError
from omnigraph.language.schema import SYNTAX, Schema, parse_schema
from omnigraph.language.source import Source


def parse_schemas(*texts: Source | Problem) -> list[Schema]:
    """Parse several texts; one error lists the problems of all of them."""
    schemas: list[Schema] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            schemas.append(parse_schema(require_text(text)))
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(problems)
    return schemas


def require_text(text: Source | Problem) -> Source:
    """Return the text of a schema file, or raise if it could not be read as text."""
    if isinstance(text, Problem):
        raise SchemaError([replace(text, code=SYNTAX)])
    return text
