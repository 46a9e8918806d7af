"""Whether the rows of a result are in a snapshot, so that they need not be written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.analytics.result_rows import RowSelection
from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import RowStream, compare_values, group_by_id_range
from omnigraph.read.rows import open_type_rows
from omnigraph.storage.columns import Values, column_of, compute
from omnigraph.write.load import LoadInput, ignore_bytes


@dataclass(frozen=True, slots=True)
class SelectedValues:
    """What is written of a result: rows of ``id`` and properties of nodes, or whole edges, by type."""

    nodes: Mapping[str, RowSelection]
    edges: Mapping[str, RowSelection]

    def to_input(self) -> LoadInput:
        """Return the rows as streams that a load reads."""
        nodes, edges = ({name: rows.open() for name, rows in given.items()} for given in (self.nodes, self.edges))
        return LoadInput(None, nodes, edges, {}, {}, {}, ignore_bytes, allow_empty=True)


def are_values_kept(snapshot: Snapshot, catalog: Catalog, given: SelectedValues) -> bool:
    """Whether a snapshot has the properties of the given nodes, and exactly the given edges of their types."""
    return all(
        _are_rows_there(snapshot, catalog.nodes[name], rows, rows.schema.names) for name, rows in given.nodes.items()
    ) and all(_are_all_edges(snapshot, catalog.edges[name], rows) for name, rows in given.edges.items())


def _are_all_edges(snapshot: Snapshot, edge: EdgeType, rows: RowSelection) -> bool:
    pin = snapshot.pins.get(edge.table_key)
    # The id of such an edge is made of its ends.
    names = [name for name in rows.schema.names if name not in ("from", "to")]
    return (0 if pin is None else pin.row_count) == rows.num_rows and _are_rows_there(snapshot, edge, rows, names)


def _are_rows_there(snapshot: Snapshot, type_: NodeType | EdgeType, rows: RowSelection, names: Sequence[str]) -> bool:
    """Whether rows with these ids have these values. Both sides are compared by ranges of ids, one at a time."""
    pin, stored = snapshot.pins.get(type_.table_key), open_type_rows(snapshot, type_)
    there = RowStream(stored.read(names), 0 if pin is None else pin.row_count, lambda: stored.read(["id"]))
    ours = RowStream(_read(rows, names), rows.num_rows, lambda: _read(rows, ["id"]))
    for before, after in group_by_id_range(there, ours):
        check_deadline()
        if after.num_rows and not _are_in(before, after, names):
            return False
    return True


def _read(rows: RowSelection, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (batch.select(list(names)) for batch in rows.read())


def _are_in(stored: pa.Table, rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether stored rows have the ids and values of others."""
    known = column_of(stored, "id")
    places = compute("index_in", column_of(rows, "id").cast(known.type), options=pc.SetLookupOptions(known))
    if places.null_count:
        return False
    at = places.to_numpy()
    others = [name for name in names if name != "id"]
    return all(_are_equal(column_of(rows, name), column_of(stored, name).take(at)) for name in others)


def _are_equal(given: Values, stored: Values) -> bool:
    check_deadline()
    try:
        fitting = given.cast(stored.type)
    except pa.ArrowInvalid:
        return False
    return bool(np.all(compare_values(fitting, stored)))
