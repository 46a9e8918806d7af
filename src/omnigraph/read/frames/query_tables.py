"""The tables that one query reads: whole tables through the cache, and partial tables of its own."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.entity_sets import PartialTable
from omnigraph.read.frames.extended_table import ExtendedTable, WholeTable, open_node_table


class Strategy(StrEnum):
    """How a query finds rows: in arrays of whole tables, by index lookups, or by the cheaper of the two."""

    ARRAYS = "arrays"
    INDEX = "index"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class QueryTables:
    """The tables of a snapshot for one query: whole tables through the cache, and partial tables of its own."""

    snapshot: Snapshot
    catalog: Catalog
    cache: Cache
    strategy: Strategy = Strategy.AUTO
    read_columns: frozenset[str] = frozenset()
    """The names of all properties that the query reads."""
    whole_tables: dict[str, WholeTable] = field(default_factory=dict[str, WholeTable], repr=False)
    """The whole tables that the query has opened: positions in one stay valid while the query runs."""
    partial_tables: dict[str, PartialTable] = field(default_factory=dict[str, PartialTable], repr=False)

    def full_table_of(self, type_: NodeType) -> WholeTable:
        """All rows of a type."""
        if type_.table_key not in self.whole_tables:
            self.whole_tables[type_.table_key] = open_node_table(self.snapshot, type_, self.cache)
        return self.whole_tables[type_.table_key]

    def is_loaded(self, type_: NodeType) -> bool:
        """Whether the ids of a type are in memory, but for those of a few rows."""
        table = self.full_table_of(type_)
        return isinstance(table, ExtendedTable) or table.is_loaded()

    def partial_table_of(self, type_: NodeType | EdgeType) -> PartialTable:
        """The rows of a type that this query has found by an index."""
        key = type_.table_key
        if key not in self.partial_tables:
            table = self.snapshot.table(key) if key in self.snapshot.pins else None
            self.partial_tables[key] = PartialTable(table, type_, self.read_columns)
        return self.partial_tables[key]
