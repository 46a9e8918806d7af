"""Search in one table at one version: words in a text column, and vectors that are near to one.

Lance searches what an index covers through the index and the rest row by row. For words in their stems that holds only
when some index says what a stem is; for words with typing errors, only the index is searched.
"""

from __future__ import annotations

from typing import Final, cast

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.query import MatchQuery

from omnigraph.storage.lance_errors import translated
from omnigraph.storage.pinned import Table

SCORE: Final = "_score"
SQUARED_DISTANCE: Final = "_distance"
_ALL: Final = 2**31
"""Lance stops at 50 similar words unless it is told otherwise."""


def words_found(table: Table, column: str, words: str, *, max_edits: int = 0) -> pa.Table:
    """The ids and scores of the rows whose text has any of the words, or one that differs from it by a few edits."""
    if max_edits:
        # Here Lance takes the words as they are written, whereas the index has their stems.
        words = " ".join(token.text for token in lance.tokenize(words))
    query = MatchQuery(words, column, fuzziness=max_edits, max_expansions=_ALL)
    with translated(table.subject):
        return table.dataset.scanner(columns=["id", SCORE], full_text_query=query).to_table()


def vectors_near(
    table: Table, column: str, vector: npt.NDArray[np.float32], count: int, *, where: str | None = None
) -> pa.Table:
    """The ids, vectors and squared distances of the rows that are nearest to a vector, of those that match."""
    nearest = {"column": column, "q": vector, "k": count, "metric": "l2"}
    with translated(table.subject):
        scanner = table.dataset.scanner(
            columns=["id", column, SQUARED_DISTANCE],
            nearest=cast("dict[str, object]", nearest),
            filter=where,
            prefilter=True,
        )
        return scanner.to_table()
