"""How far vectors are from one that is looked for: computed by the tasks, with the same function as without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.read.search import Vector, distances
from omnigraph.storage.columns import Values


def distance(vectors: Column, query: Vector | None) -> Column:
    """The Euclidean distance; null where there is no vector, or none is looked for."""
    if query is None:
        return fn.lit(None).cast("double")

    # Spark looks at the hints to learn what kind of function it is.
    def away(found: pa.Array) -> pa.Array:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]  those with arguments it does not know
        far = distances(cast("Values", found), query)
        return pa.array(far, pa.float64(), mask=np.isnan(far))

    # Its stubs ask for what they call the function's type, and Spark warns of giving it.
    as_udf = cast("Callable[[object, str], Callable[[Column], Column]]", fn.arrow_udf)
    return as_udf(cast("object", away), "double")(vectors)
