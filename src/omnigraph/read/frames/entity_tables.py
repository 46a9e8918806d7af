"""The tables that one query reaches: whole types in memory, and the rows that it came across by an index."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.population import SeenRows, WholeTable, whole_table


class Strategy(StrEnum):
    """How edges are found."""

    ARRAYS = "arrays"
    INDEX = "index"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class EntityTables:
    """What a step along edges needs to know. ``seen`` are the entities that this query came across by an index."""

    snapshot: Snapshot
    catalog: Catalog
    cache: Cache
    strategy: Strategy = Strategy.AUTO
    seen: dict[str, SeenRows] = field(default_factory=dict[str, SeenRows], repr=False)

    def whole(self, type_: NodeType | EdgeType) -> WholeTable:
        """All entities of a type."""
        return whole_table(self.snapshot, type_.table_key, type_, self.cache)

    def seen_rows(self, type_: NodeType | EdgeType) -> SeenRows:
        """The entities of a type that this query came across."""
        key = type_.table_key
        if key not in self.seen:
            self.seen[key] = SeenRows(self.snapshot.table(key) if key in self.snapshot.pins else None, type_)
        return self.seen[key]
