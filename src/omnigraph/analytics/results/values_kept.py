"""Whether the rows of a result are in a snapshot, so that they need not be written again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import compare_values
from omnigraph.read.rows import open_type_rows
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.write.load import LoadInput


def are_values_kept(snapshot: Snapshot, catalog: Catalog, given: LoadInput) -> bool:
    """Whether a snapshot has the properties of the given nodes, and exactly the given edges of their types."""
    nodes, edges = (cast("Mapping[str, pa.Table]", tables) for tables in (given.nodes, given.edges))
    return all(_are_rows_there(snapshot, catalog.nodes[name], rows) for name, rows in nodes.items()) and all(
        _are_all_edges(snapshot, catalog.edges[name], rows) for name, rows in edges.items()
    )


def _are_all_edges(snapshot: Snapshot, edge: EdgeType, rows: pa.Table) -> bool:
    pin = snapshot.pins.get(edge.table_key)
    # The id of such an edge is made of its ends.
    return (0 if pin is None else pin.row_count) == rows.num_rows and _are_rows_there(
        snapshot, edge, rows.select([name for name in rows.column_names if name not in ("from", "to")])
    )


def _are_rows_there(snapshot: Snapshot, type_: NodeType | EdgeType, rows: pa.Table) -> bool:
    """Whether rows with these ids have these values."""
    names = rows.column_names
    batches = list(open_type_rows(snapshot, type_).read(names))
    if not batches:
        return not rows.num_rows
    stored = pa.Table.from_batches(batches)
    check_deadline()
    known = column_of(stored, "id")
    places = compute("index_in", column_of(rows, "id").cast(known.type), options=pc.SetLookupOptions(known))
    if places.null_count:
        return False
    rows_there = places.to_numpy()
    return all(_are_equal(column_of(rows, name), column_of(stored, name).take(rows_there)) for name in names[1:])


def _are_equal(given: Values, stored: Values) -> bool:
    check_deadline()
    try:
        fitting = given.cast(stored.type)
    except pa.ArrowInvalid:
        return False
    return bool(np.all(compare_values(fitting, stored)))
