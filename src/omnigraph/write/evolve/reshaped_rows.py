"""The stored rows of a type as a new schema reads them. Executors read them, so they pickle."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.tables import Table
from omnigraph.write.commit import TableShape
from omnigraph.write.evolve.id_rewrites import IdRewrites


@dataclass(frozen=True, slots=True)
class ReshapedRows:
    """The rows of one table in the columns of its type, with rewritten ids if there are any."""

    shape: TableShape
    table: Table
    ids: IdRewrites | None = None

    @property
    def type(self) -> NodeType | EdgeType:
        """The type in the new schema."""
        return self.shape.type

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be read: all but blobs."""
        blobs = {name for name, each in self.type.properties.items() if each.type.scalar is Scalar.BLOB}
        columns = cast("list[pa.Field[pa.DataType]]", list(arrow_schema(self.type)))
        # A property that the new schema requires may still be null.
        return pa.schema([each.with_nullable(nullable=True) for each in columns if each.name not in blobs])

    def select_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return some of the columns."""
        return self.schema.empty_table().select(list(names)).schema

    def read(
        self, names: Sequence[str] | None = None, in_fragments: Collection[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, of all rows or of those in some fragments."""
        chosen = self.schema.names if names is None else list(names)
        needed = chosen if self.ids is None else self.ids.list_needed(chosen)
        rows = self.shape.read(self.table, self.select_schema(needed), in_fragments)
        if self.ids is None:
            return iter(rows)
        return (batch.select(chosen) for batch in self.ids.apply(rows))
