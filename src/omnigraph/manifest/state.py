"""The state of one branch of the manifest at one version, as an immutable view.

A view has the state of the tables and the newest commit, and the whole lineage only on request, since most readers do
not need it. Extending a view reads only the rows that were written after it, in one scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import rows as shape
from omnigraph.manifest.lineage import COLUMNS as LINEAGE_COLUMNS
from omnigraph.manifest.lineage import CREATED_VERSION, Lineage, build_lineage, decode_lineage
from omnigraph.manifest.rows import CommitRecord, Registration, Row, SchemaHead, TableVersion, Tombstone, Txn
from omnigraph.storage.columns import column_of, compute
from omnigraph.storage.tables import ROW_ADDRESS, Table

_Positions: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]

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
_RARE = (shape.TABLE, shape.TABLE_TOMBSTONE, shape.SCHEMA_HEAD, shape.TXN)
_COMMITS = f"object_type = '{shape.GRAPH_COMMIT}'"
_NOT_HEADS = f"object_type != '{shape.GRAPH_HEAD}'"


@dataclass(frozen=True, slots=True)
class TableState:
    """The tables, and the greatest version of each, tombstoned or not."""

    locations: Mapping[str, str]
    latest: Mapping[str, TableVersion]
    tombstones: Mapping[str, int]
    txns: Mapping[str, Txn]
    schema_head: SchemaHead | None

    def visible_tables(self) -> dict[str, TableVersion]:
        """Return the latest version of each table, without tombstoned ones, by table key."""
        return {
            table_key: entry
            for table_key, entry in sorted(self.latest.items())
            if self.tombstones.get(table_key, -1) < entry.version
        }

    def version_of(self, table_key: str) -> int:
        """Return the version that a publisher must expect: 0 for an unknown table, the tombstone if it was dropped."""
        entry = self.latest.get(table_key)
        return max(entry.version if entry else 0, self.tombstones.get(table_key, 0))

    def extend(self, newer: Iterable[Row]) -> TableState:
        """Return this state with newer rows applied."""
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
                    schema_head = row
                case _:
                    pass
        return TableState(locations, latest, tombstones, txns, schema_head).refuse_unregistered()

    def refuse_unregistered(self) -> TableState:
        """Return the same state; raise if a table has a version but no registration."""
        for table_key in self.latest:
            if table_key not in self.locations:
                raise shape.malformed_row(table_key, "it has a table_version row but no table row")
        return self


EMPTY = TableState({}, {}, {}, {}, None)


@dataclass(frozen=True, slots=True)
class ManifestView:
    """One branch of the manifest at one version. ``incarnation`` differs for a re-created branch.

    ``newest`` has the rows of the newest commit, which are decoded on request, and ``newest_data`` those of the newest
    one that is not upkeep.
    """

    branch: str
    incarnation: str | None
    version: int
    newest_fragment: int
    tables: TableState
    newest: pa.Table
    newest_data: pa.Table
    lineage: Lineage | None
    head_row: int | None = None
    """The address of the row that the next publish replaces, where the publish that made this version knows it."""

    @property
    def head(self) -> CommitRecord | None:
        """The newest commit; None if there is none."""
        return (self.lineage or _decode_commits(self.newest)).head()

    @property
    def data_head(self) -> CommitRecord | None:
        """The newest commit that is not upkeep, which is the head for users; None if there is none."""
        return (self.lineage or _decode_commits(self.newest_data)).data_head()

    @property
    def history(self) -> Lineage:
        """The lineage, if the view was read with it."""
        if self.lineage is None:
            raise ValueError("this view was read without its lineage")
        return self.lineage

    def is_new(self, row: Row) -> bool:
        """Return whether a row surely has a key that the manifest does not have yet."""
        match row:
            case TableVersion():
                known = self.tables.latest.get(row.table_key)
                return known is None or row.version > known.version
            case CommitRecord():
                return self.history.find(row.id) is None
            case _:
                return False

    def add_published(self, table: Table, written: Iterable[Row]) -> ManifestView:
        """Return this view with the rows of the publish that made the next version."""
        written = tuple(written)
        commits = [replace(row, manifest_version=table.version) for row in written if isinstance(row, CommitRecord)]
        newer = build_lineage(commits)
        return replace(
            self.add_newest(newer.rows, newer),
            version=table.version,
            newest_fragment=newest_fragment_of(table),
            tables=self.tables.extend(written),
            lineage=None if self.lineage is None else self.lineage.extend(newer),
            head_row=None,
        )

    def add_newest(self, rows: pa.Table, commits: Lineage) -> ManifestView:
        """Return this view with the rows of newer commits, if there are any, as the newest ones."""
        if not len(rows):
            return self
        return replace(self, newest=rows, newest_data=self.newest_data if commits.data_head() is None else rows)


def newest_fragment_of(table: Table) -> int:
    """Return the id of the newest fragment; ids only grow."""
    return max(table.fragment_rows(), default=-1)


def read_view(table: Table, branch: str, incarnation: str | None, *, with_lineage: bool) -> ManifestView:
    """Read a view from scratch."""
    current = _read_current_rows(table)
    is_commit = _is_of_kind(current, shape.GRAPH_COMMIT)
    versions = current.filter(_is_of_kind(current, shape.TABLE_VERSION))
    shape.refuse_missing(versions, "metadata", "table_version", "row_count")
    tables = EMPTY.extend(shape.decode_rows(current.filter(pc.invert(is_commit))))
    newest = current.filter(is_commit)
    lineage = read_lineage(table) if with_lineage else None
    return ManifestView(
        branch,
        incarnation,
        table.version,
        newest_fragment_of(table),
        tables,
        newest,
        newest_data=_read_newest_data(table, newest),
        lineage=lineage,
    )


def read_lineage(table: Table) -> Lineage:
    """Read the whole lineage of a manifest version."""
    return decode_lineage(_scan_commits(table, _COMMITS), row_versions=table.has_stable_row_ids)


def _read_newest_data(table: Table, newest: pa.Table) -> pa.Table:
    """Read the rows of the newest commit that is not upkeep: the parent of the upkeep on top of it."""
    head = _decode_commits(newest).head()
    if head is None or not head.upkeep or head.parent is None:
        return newest
    return _scan_commits(table, f"object_id = '{head.parent}'")


def _scan_commits(table: Table, filter_: str) -> pa.Table:
    columns = [*LINEAGE_COLUMNS, *([CREATED_VERSION] if table.has_stable_row_ids else [])]
    return table.scan(columns=columns, filter=filter_).read_all()


def _decode_commits(rows: pa.Table) -> Lineage:
    return decode_lineage(rows, row_versions=CREATED_VERSION in rows.column_names)


def extend_view(view: ManifestView, table: Table, *, with_lineage: bool) -> ManifestView:
    """Return the view at the table's version; only newer rows are read, except from a legacy manifest."""
    if table.version == view.version and (view.lineage is not None or not with_lineage):
        return view
    if not table.has_stable_row_ids or table.version < view.version:
        return read_view(table, view.branch, view.incarnation, with_lineage=with_lineage)
    newer = table.scan(
        columns=[*_STATE_COLUMNS, CREATED_VERSION],
        filter=f"_row_last_updated_at_version > {view.version} AND {_NOT_HEADS}",
        after_fragment=view.newest_fragment,
    ).read_all()
    is_commit = _is_of_kind(newer, shape.GRAPH_COMMIT)
    commits = newer.filter(is_commit)
    added = decode_lineage(commits, row_versions=True)
    lineage = view.lineage
    if lineage is not None:
        lineage = lineage.extend(added)
    elif with_lineage:
        lineage = read_lineage(table)
    return replace(
        view.add_newest(commits, added),
        version=table.version,
        newest_fragment=newest_fragment_of(table),
        tables=view.tables.extend(shape.decode_rows(newer.filter(pc.invert(is_commit)))),
        lineage=lineage,
        head_row=None,
    )


def find_head_row(table: Table, branch: str) -> int | None:
    """Return the address of the head row of a branch, if it is in the newest fragment, where publishes write it."""
    found = table.scan(
        columns=[],
        filter=f"object_id = '{shape.name_head(branch)}'",
        with_row_address=True,
        in_fragments=[newest_fragment_of(table)],
    ).read_all()
    return int(column_of(found, ROW_ADDRESS)[0].as_py()) if len(found) == 1 else None


def _is_of_kind(rows: pa.Table, kind: str) -> pa.BooleanArray:
    # A mask: a filter by an expression starts a plan of Acero, which costs more than the rows of a commit.
    return cast("pa.BooleanArray", compute("equal", column_of(rows, "object_type"), kind))


def _read_current_rows(table: Table) -> pa.Table:
    """Read the rows of the current state: few, whatever the length of the history.

    They are found by a scan of the narrow columns. Pushed-down filters would compare texts row by row, and the wide
    JSON column would be read for the whole history: both cost several times as much.
    """
    created = [CREATED_VERSION] if table.has_stable_row_ids else []
    narrow = table.scan(columns=["object_type", "table_key", "table_version"], with_row_address=True).read_all()
    found = np.concatenate([_positions(narrow, *_RARE), _find_latest_versions(narrow), _find_newest_commits(narrow)])
    addresses = narrow.column(ROW_ADDRESS).to_numpy()[found]
    filter_ = f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses))})" if len(addresses) else "false"
    return table.scan(columns=[*_STATE_COLUMNS, *created], filter=filter_).read_all()


def _find_latest_versions(narrow: pa.Table) -> _Positions:
    """Return the positions of the greatest version of each table. One without a number wins, to be refused later."""
    versions = _positions(narrow, shape.TABLE_VERSION)
    rows = narrow.take(versions)
    codes = rows.column("table_key").combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((_numbers(rows.column("table_version")), codes))
    last_of_table = np.flatnonzero(np.append(np.diff(codes[order]) != 0, [True]))[: len(order)]
    return versions[order[last_of_table]]


def _find_newest_commits(narrow: pa.Table) -> _Positions:
    """Return the position of the newest commit by recorded version. Those without a number win, to be refused later."""
    commits = _positions(narrow, shape.GRAPH_COMMIT)
    recorded = _numbers(narrow.column("table_version"))[commits]
    return commits[recorded == recorded.max(initial=0)]


def _positions(narrow: pa.Table, *kinds: str) -> _Positions:
    return np.flatnonzero(pc.is_in(narrow.column("object_type"), value_set=pa.array(kinds)).to_numpy())


def _numbers(versions: pa.ChunkedArray[pa.UInt64Scalar]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return versions.fill_null(pa.scalar(2**64 - 1, pa.uint64())).to_numpy()
