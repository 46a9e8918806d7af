"""The tables of an edge type in a snapshot: its edges and the nodes at both ends, as far as possible as bases."""

from __future__ import annotations

from omnigraph.language.schema import EdgeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    ExtendedTable,
    QueryTables,
    TableContents,
    WholeTable,
    base_of,
    extend_table,
    list_bases,
    open_full_table,
)
from omnigraph.read.topology.edge_ends import EdgeEndsKey, TopologyTables


@dataclass(frozen=True, slots=True)
class CurrentTopology:
    """The tables of an edge type in a snapshot: its edges and the nodes at both ends."""

    edges: WholeTable
    sources: WholeTable
    destinations: WholeTable

    @property
    def bases(self) -> TopologyTables:
        """The versions that arrays are derived from."""
        tables = (self.edges, self.sources, self.destinations)
        return TopologyTables(*map(base_of, tables), are_of_one_snapshot=not self.is_extended)

    @property
    def is_extended(self) -> bool:
        """Whether a table differs from its base."""
        return any(isinstance(each, ExtendedTable) for each in (self.edges, self.sources, self.destinations))

    @property
    def contents(self) -> tuple[TableContents, ...]:
        """The versions in the snapshot."""
        return self.edges.contents, self.sources.contents, self.destinations.contents


def open_topology(edge: EdgeType, tables: QueryTables) -> CurrentTopology:
    """Return the tables of an edge type, without reading rows of a table that has a base."""
    sources, destinations = (
        tables.full_table_of(tables.catalog.nodes[name]) for name in (edge.from_type, edge.to_type)
    )
    if edge.table_key not in tables.whole_tables:
        tables.whole_tables[edge.table_key] = _open_edges(edge, sources, destinations, tables)
    return CurrentTopology(tables.whole_tables[edge.table_key], sources, destinations)


def _open_edges(edge: EdgeType, sources: WholeTable, destinations: WholeTable, tables: QueryTables) -> WholeTable:
    """Return the edges of a type: from a base if the ends of one, but not those of the version, are in memory."""
    own, cache = open_full_table(tables.snapshot, edge.table_key, edge, tables.cache), tables.cache

    def has_ends(edges: TableContents) -> bool:
        key = EdgeEndsKey(edges, base_of(sources).contents, base_of(destinations).contents)
        return cache.peek(key) is not None

    if has_ends(own.contents):
        return own
    bases = (base for base in list_bases(own.contents, cache) if has_ends(base.contents))
    extended = (extend_table(base, own, cache) for base in bases)
    return next((each for each in extended if each is not None), own)
