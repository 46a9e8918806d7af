"""Why a type of a graph cannot be a table of Spark's catalog. The data source and its tasks say the same.

Spark imports this for every user, so it imports nothing that a graph needs.
"""

from __future__ import annotations

from typing import Final

CATALOG_REFUSAL: Final = "a type of a graph cannot be a table of Spark's catalog, which passes no options to its source"
CATALOG_HINT: Final = (
    "CREATE TEMPORARY VIEW ... USING omnigraph OPTIONS (path '...', type '...') makes a view to read, and "
    'df.write.format("omnigraph").save(...) writes rows'
)
