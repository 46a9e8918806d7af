"""What a table is taken to hold in a column that the schema has and the table has not: it may lag behind."""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType, default_value
from omnigraph.storage.arrow_schema import arrow_field
from omnigraph.storage.columns import Values, absent

_TIME: Final = pa.timestamp("ms", "UTC")


def missing_column(type_: NodeType | EdgeType, name: str, count: int) -> Values:
    """The default of a property that must be filled, else nothing."""
    known = type_.properties[name]
    wanted = arrow_field(name, known.type).type
    if known.type.nullable or known.default is None:
        return absent(count, wanted)
    # Made from a datetime object, or cast from a timestamp, a date64 would lose the time of day.
    is_time = wanted == pa.date64()
    one = cast("Values", pa.array([default_value(known.default, known.type)], _TIME if is_time else wanted))
    return (one.cast(pa.int64()).cast(wanted) if is_time else one).take(np.zeros(count, np.int64))
