"""One reading of the graph: the snapshot, and what is asked of it. Everything that runs a query gets it handed down."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import ParameterError
from omnigraph.language.query import Constant
from omnigraph.language.query.plan import Count
from omnigraph.language.schema import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import EntityTables, Request
from omnigraph.read.profile import Recorder
from omnigraph.read.search import Search


@dataclass(frozen=True, slots=True)
class QueryContext:
    """One query on one snapshot."""

    tables: EntityTables
    request: Request
    search: Search
    recorder: Recorder

    @property
    def snapshot(self) -> Snapshot:
        """The graph at one moment."""
        return self.tables.snapshot

    @property
    def catalog(self) -> Catalog:
        """The schema that the snapshot is read with."""
        return self.tables.catalog

    def number(self, count: Count) -> int:
        """A limit: a literal, or the value of a parameter."""
        value = count.value if isinstance(count, Constant) else self.request.parameters[count.name]
        if not isinstance(value, int) or value < 0:
            name = "" if isinstance(count, Constant) else f" ${count.name}"
            raise ParameterError(f"limit{name} is {value}", hint="a limit is a whole number, 0 or more")
        return value
