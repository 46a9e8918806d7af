"""From the rows of a match to what the caller gets: groups, order, limit, named columns."""

from omnigraph.read.result.assemble import execute_read, output_schema
from omnigraph.read.result.result import Result

__all__ = [
    "Result",
    "execute_read",
    "output_schema",
]
