"""What a branch of the manifest says at one version, as an immutable view that is extended, not read again.

A view holds the state of the tables; the lineage only when it was asked for, since most readers never look at it.
Extending a view reads only the rows that were written after it, in one scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.manifest import rows as shape
from omnigraph.manifest.lineage import COLUMNS as LINEAGE_COLUMNS
from omnigraph.manifest.lineage import CREATED_VERSION, Lineage, lineage_from, lineage_of
from omnigraph.manifest.rows import CommitRecord, Registration, Row, SchemaHead, TableVersion, Tombstone, Txn
from omnigraph.storage.table import Table

_STATE_COLUMNS = (
    "object_id",
    "object_type",
    "location",
    "metadata",
    "table_key",
    "table_version",
    "table_branch",
    "row_count",
)
_RARE = f"object_type IN ('{shape.TABLE}', '{shape.TABLE_TOMBSTONE}', '{shape.SCHEMA_HEAD}', '{shape.TXN}')"
_COMMITS = f"object_type = '{shape.GRAPH_COMMIT}'"
_VERSIONS = f"object_type = '{shape.TABLE_VERSION}'"
_NOT_HEADS = f"object_type != '{shape.GRAPH_HEAD}'"


@dataclass(frozen=True, slots=True)
class TableState:
    """Which tables there are, and the greatest version of each, tombstoned or not."""

    locations: Mapping[str, str]
    latest: Mapping[str, TableVersion]
    tombstones: Mapping[str, int]
    txns: Mapping[str, Txn]
    schema_head: str | None

    def visible(self) -> dict[str, TableVersion]:
        """The latest version of each table, minus those tombstoned, by table key."""
        return {
            table_key: entry
            for table_key, entry in sorted(self.latest.items())
            if self.tombstones.get(table_key, -1) < entry.version
        }

    def version_of(self, table_key: str) -> int:
        """The version that a publisher must expect: 0 for an unknown table, the tombstone's for a dropped one."""
        entry = self.latest.get(table_key)
        return max(entry.version if entry else 0, self.tombstones.get(table_key, 0))

    def extended(self, newer: Iterable[Row]) -> TableState:
        """This state with newer rows folded in, as if it had been read with them."""
        locations, latest = dict(self.locations), dict(self.latest)
        tombstones, txns, schema_head = dict(self.tombstones), dict(self.txns), self.schema_head
        for row in newer:
            match row:
                case Registration():
                    locations[row.table_key] = row.location
                case TableVersion():
                    known = latest.get(row.table_key)
                    if known is None or row.version >= known.version:
                        latest[row.table_key] = row
                case Tombstone():
                    tombstones[row.table_key] = max(row.version, tombstones.get(row.table_key, 0))
                case Txn():
                    txns[row.app] = row
                case SchemaHead():
                    schema_head = row.schema_ir_hash
                case _:
                    pass
        return TableState(locations, latest, tombstones, txns, schema_head).checked()

    def checked(self) -> TableState:
        """The same state; a version of a table that nobody registered is a hard error."""
        for table_key in self.latest:
            if table_key not in self.locations:
                raise shape.malformed(table_key, "it has a table_version row but no table row")
        return self


EMPTY = TableState({}, {}, {}, {}, None)


@dataclass(frozen=True, slots=True)
class View:
    """One branch of the manifest at one version. ``incarnation`` tells a re-created branch from the deleted one."""

    branch: str
    incarnation: str | None
    version: int
    newest_fragment: int
    tables: TableState
    lineage: Lineage | None

    @property
    def history(self) -> Lineage:
        """The lineage, for those who asked for it."""
        if self.lineage is None:
            raise ValueError("this view was read without its lineage")
        return self.lineage

    def with_published(self, table: Table, written: Iterable[Row]) -> View:
        """This view with the rows of a publish folded in: the one that made the very next version."""
        written = tuple(written)
        commits = [replace(row, manifest_version=table.version) for row in written if isinstance(row, CommitRecord)]
        return replace(
            self,
            version=table.version,
            newest_fragment=newest_fragment(table),
            tables=self.tables.extended(written),
            lineage=None if self.lineage is None else self.lineage.extended(lineage_from(commits)),
        )


def newest_fragment(table: Table) -> int:
    """The id of the fragment that was written last; ids only ever grow."""
    return max(table.fragment_rows(), default=-1)


def read_view(table: Table, branch: str, incarnation: str | None, *, with_lineage: bool) -> View:
    """Read a view from nothing."""
    rare = table.scan(columns=_STATE_COLUMNS, filter=_RARE).read_all()
    versions = table.scan(columns=_STATE_COLUMNS, filter=_VERSIONS).read_all()
    tables = EMPTY.extended([*shape.decode(rare), *shape.decode(_greatest(versions))])
    lineage = read_lineage(table) if with_lineage else None
    return View(branch, incarnation, table.version, newest_fragment(table), tables, lineage)


def read_lineage(table: Table) -> Lineage:
    """Read the whole lineage that a version of the manifest shows."""
    columns = [*LINEAGE_COLUMNS, *([CREATED_VERSION] if table.stable_row_ids else [])]
    return lineage_of(table.scan(columns=columns, filter=_COMMITS).read_all(), row_versions=table.stable_row_ids)


def extend_view(view: View, table: Table, *, with_lineage: bool) -> View:
    """The view at the table's version, by reading only what is newer; a legacy manifest is read in full."""
    if table.version == view.version and (view.lineage is not None or not with_lineage):
        return view
    if not table.stable_row_ids or table.version < view.version:
        return read_view(table, view.branch, view.incarnation, with_lineage=with_lineage)
    newer = table.scan(
        columns=[*_STATE_COLUMNS, CREATED_VERSION],
        filter=f"_row_last_updated_at_version > {view.version} AND {_NOT_HEADS}",
        after_fragment=view.newest_fragment,
    ).read_all()
    is_commit = pc.field("object_type") == shape.GRAPH_COMMIT
    tables = view.tables.extended(shape.decode(newer.filter(~is_commit)))
    lineage = view.lineage
    if lineage is not None:
        lineage = lineage.extended(lineage_of(newer.filter(is_commit), row_versions=True))
    elif with_lineage:
        lineage = read_lineage(table)
    return View(view.branch, view.incarnation, table.version, newest_fragment(table), tables, lineage)


def _greatest(versions: pa.Table) -> pa.Table:
    """Of the rows of each table, the one with the greatest version."""
    shape.refuse_missing(versions, "metadata", "table_version", "row_count")
    codes = versions.column("table_key").combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((versions.column("table_version").to_numpy(), codes))
    last_of_table = np.flatnonzero(np.append(np.diff(codes[order]) != 0, [True]))[: len(order)]
    return versions.take(order[last_of_table])
