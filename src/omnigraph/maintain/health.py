"""The state of a graph that an operator looks at: unfinished writes, small fragments, deleted rows, missing indexes.

Reads metadata only: no row, and nothing is healed.
"""

from __future__ import annotations

from datetime import datetime

from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.maintain.cleanup_times import read_cleanup_times
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.storage.locks import LockKind, choose_lock_kind
from omnigraph.storage.tables import IndexKind
from omnigraph.write.commit import list_sidecars
from omnigraph.write.indexes import IndexSpec, list_required_indexes


@dataclass(frozen=True, slots=True)
class IndexHealth:
    """One index that the schema declares, and how many rows it covers: 0 if it was never built."""

    column: str
    kind: IndexKind | None
    """None for a type that cannot be indexed."""
    rows: int


@dataclass(frozen=True, slots=True)
class TableHealth:
    """One table: its rows, how many fragments hold them, and how many deleted rows are still stored."""

    table_key: TableKey
    rows: int
    fragments: int
    deleted_rows: int
    indexes: tuple[IndexHealth, ...]

    @property
    def uncovered_rows(self) -> int:
        """The rows that the least complete index lacks."""
        return max((self.rows - index.rows for index in self.indexes if index.kind is not None), default=0)


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a graph, seen on one branch.

    ``sidecars`` counts the writes that are under way, or that a dead process left: the next writer ends those.
    ``commits`` and ``manifest_rows`` are those of the branch. ``last_cleanup`` is when the last confirmed or automatic
    cleanup of the graph ended.
    """

    branch: str
    locks: LockKind
    sidecars: int
    branches: int
    commits: int
    manifest_rows: int
    tables: tuple[TableHealth, ...]
    last_cleanup: datetime | None = None


def describe_health(manifest: Manifest, branch: str = MAIN) -> Health:
    """Describe the tables of a branch, and what is unfinished in the graph."""
    snapshot = take_snapshot(manifest, branch)
    catalog = load_schema_of(manifest, snapshot.schema_ir_hash).catalog
    required = list_required_indexes(catalog)
    tables = [
        _describe_table(snapshot, snapshot.pins[type_.table_key], required)
        for type_ in catalog.types()
        if type_.table_key in snapshot.pins
    ]
    return Health(
        branch,
        choose_lock_kind(manifest.location, manifest.locks),
        len(list_sidecars(manifest.objects)),
        len(branch_names(manifest)),
        len(manifest.view(branch, with_lineage=True).history),
        manifest.open(branch).count_rows(),
        tuple(tables),
        read_cleanup_times(manifest.objects).ended_at,
    )


def _describe_table(snapshot: Snapshot, pin: Pin, required: tuple[IndexSpec, ...]) -> TableHealth:
    table = snapshot.table(pin.table_key)
    written = table.fragment_rows()
    covered = {index.columns: index.rows for index in table.list_indexes().values()}
    indexes = tuple(
        IndexHealth(index.column, index.kind, covered.get((index.column,), 0))
        for index in required
        if index.table_key == pin.table_key
    )
    return TableHealth(
        TableKey(pin.table_key), pin.row_count, len(written), sum(written.values()) - pin.row_count, indexes
    )
