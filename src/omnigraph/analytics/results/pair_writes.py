"""Write pairs of nodes as edges of a type: one commit that replaces all edges of the type."""

from __future__ import annotations

from typing import cast

import orjson
import pyarrow as pa

from omnigraph.analytics.result_rows import select_table
from omnigraph.analytics.results.edited_values import Replaced, refuse_edited
from omnigraph.analytics.results.provenance import Provenance
from omnigraph.analytics.results.values_kept import SelectedValues
from omnigraph.analytics.results.write_back import (
    Destination,
    WriteTarget,
    change_schema,
    load_result,
    take_replaced_snapshot,
)
from omnigraph.errors import ParameterError
from omnigraph.language.schema import EdgeType, Schema
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.storage.columns import column_of, to_list
from omnigraph.write.load import LoadResult


@dataclass(frozen=True, slots=True)
class PairWrite:
    """Rows of (type, id, other_type, other_id, score), and the edge type that they become."""

    table: pa.Table
    column: str
    edge: str
    provenance: Provenance
    to: Destination

    @property
    def ends(self) -> tuple[str, str]:
        """The node types at both ends; there must be one each."""
        found = [cast("list[str]", to_list(column_of(self.table, name).unique())) for name in ("type", "other_type")]
        if any(len(types) != 1 for types in found):
            raise ParameterError(
                f"pairs of {', '.join(sorted({*found[0], *found[1]})) or 'no types'} are no edges of one type",
                hint="filter the result, or choose nodes of one type in the projection",
            )
        return found[0][0], found[1][0]

    @property
    def declaration(self) -> str:
        """The lines that declare the edge type."""
        begin, end = self.ends
        return f"edge {self.edge}: {begin} -> {end} {{\n  {self.column}: F64\n}}"


def write_pairs(target: WriteTarget, write: PairWrite) -> LoadResult:
    """Write pairs as edges, in place of all edges of the type. A refusal comes before anything is written."""
    target.check_writable()
    if write.column != "score":
        raise ParameterError(f"'{write.column}' is no value of an edge", hint='leave column out: it is "score"')
    schema = load_current_schema(target.manifest)
    edge = _find_edge(schema, write)
    basis = take_replaced_snapshot(target.manifest, write.to)
    if edge is not None and not write.to.overwrite:
        refuse_edited(target.manifest, basis, [Replaced(edge)])
    if edge is None:
        text = f"{schema.text.rstrip()}\n\n{write.declaration}\n"
        schema = change_schema(target.manifest, text, f"{write.edge} for {write.provenance.algorithm}", write.to.actor)
    values = SelectedValues({}, {write.edge: select_table(_make_edges(write))})
    key = write.provenance.hash(write.column)
    return load_result(target.manifest, schema, values, "overwrite", write.provenance, key, [write.edge], write.to)


def _find_edge(schema: Schema, write: PairWrite) -> EdgeType | None:
    """Return the edge type, None if it is to be created."""
    edge, ends = schema.catalog.edges.get(write.edge), write.ends
    hint = f"declare {' '.join(write.declaration.split())}"
    if edge is None:
        if not write.to.create:
            raise ParameterError(
                f"there is no edge type '{write.edge}'",
                hint=f"{hint}, or give create=True",
                details={"declaration": write.declaration},
            )
        return None
    if (edge.from_type, edge.to_type) != ends:
        raise ParameterError(f"the edges of {edge.name} lead from {edge.from_type} to {edge.to_type}", hint=hint)
    if write.column not in edge.properties:
        raise ParameterError(f"{edge.name} has no property '{write.column}'", hint=hint)
    return edge


def _make_edges(write: PairWrite) -> pa.Table:
    """Return the edges. Their ids are made of the ends, so that a later result changes only what differs."""
    begins, ends = (cast("list[str]", to_list(column_of(write.table, name))) for name in ("id", "other_id"))
    ids = [orjson.dumps(pair).decode() for pair in zip(begins, ends, strict=True)]
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "from": pa.array(begins, pa.string()),
            "to": pa.array(ends, pa.string()),
            write.column: column_of(write.table, write.column),
        }
    )
