"""The context of a running query, which every operator gets: tables, parameters, search, recorder and memory."""

from __future__ import annotations

from typing import cast

from omnigraph.language.query import Constant
from omnigraph.language.query.plan import Count
from omnigraph.language.schema import Catalog
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import EvaluationContext, QueryTables
from omnigraph.read.memory import QueryMemory
from omnigraph.read.profile import ProfileRecorder
from omnigraph.read.search import Search


@dataclass(frozen=True, slots=True)
class QueryContext:
    """One query on one snapshot."""

    tables: QueryTables
    evaluation: EvaluationContext
    search: Search
    recorder: ProfileRecorder
    memory: QueryMemory

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the query reads."""
        return self.tables.snapshot

    @property
    def catalog(self) -> Catalog:
        """The schema of the snapshot."""
        return self.tables.catalog

    def resolve_count(self, count: Count) -> int:
        """The value of a limit; it was checked when the parameters were bound."""
        value = count.value if isinstance(count, Constant) else self.evaluation.parameters[count.name]
        return cast(int, value)

    def resolve_total(self, count: Count | None, skip: Count | None) -> int | None:
        """How many rows or entities a limit needs, with those that are skipped; None if there is no limit."""
        if count is None:
            return None
        return self.resolve_count(count) + (0 if skip is None else self.resolve_count(skip))
