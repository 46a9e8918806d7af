"""From the rows of a match to what the caller gets: groups, order, limit, named columns."""

from omnigraph.read.result.assemble import answer_schema, answered
from omnigraph.read.result.result import Result

__all__ = [
    "Result",
    "answer_schema",
    "answered",
]
