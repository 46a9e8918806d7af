"""The columns that OmniGraph adds to rows of users while it works on them.

Their names begin with ``@``. Properties, aliases and variables are identifiers, so none of them can have such a name,
in any case. A column that is added to rows with columns of users is named here, and nowhere else. The columns that
Lance adds have names that the schema language refuses.
"""

from __future__ import annotations

from enum import StrEnum


class InternalColumn(StrEnum):
    """The name of a column that no schema or query can name."""

    GIVEN = "@given"
    """Partial rows: the bitmap of the columns that a record mentions."""
    FILE = "@file"
    """Rows that Spark reads: the file of each row."""
    ROW = "@row"
    """Rows that Spark reads: the number of each row in its file."""
    FOUND = "@found"
    """Joined rows on Spark: null if the row has no counterpart."""
    SCORE = "@score"
    """Rows that a text search found: the score of each row."""
    SQUARED_DISTANCE = "@squared_distance"
    """Rows that a vector search found: the square of the distance of each row, in single precision."""
    RUN = "@run"
    """Sorted rows of a query that are merged: the file of sorted rows that each row comes from."""
