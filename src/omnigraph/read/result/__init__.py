"""Turn the rows of a match into the result of a query: group, sort, limit, evaluate columns."""

from omnigraph.read.result.assemble import execute_read, output_schema, result_columns_of
from omnigraph.read.result.query_result import Result, ResultPage

__all__ = [
    "Result",
    "ResultPage",
    "execute_read",
    "output_schema",
    "result_columns_of",
]
