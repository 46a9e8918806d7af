"""Snapshots: which version of which table a reader sees."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, fields, replace

from omnigraph.errors import HistoryGone, NotFound
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.language.source import suggest_name
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.lagging import SchemaLag, follow_schemas, list_schemas_between
from omnigraph.manifest.rows import SchemaHead, TableVersion, locate_manifest_file
from omnigraph.manifest.state import ManifestView
from omnigraph.storage.lagging_columns import NO_LAG, ColumnLag
from omnigraph.storage.tables import Table, open_table


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of one table in a snapshot. ``branch`` is None for a version on main."""

    table_key: TableKey
    location: str
    version: int
    branch: str | None
    row_count: int

    @property
    def kind(self) -> str:
        """``node`` or ``edge``."""
        return self.table_key.kind

    @property
    def type_name(self) -> str:
        """The type of its rows."""
        return self.table_key.type_name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole graph at one manifest version. Later writes do not change it.

    ``commit`` is its newest commit that is not upkeep, ``schema_ir_hash`` the schema that it is read with. Tables are
    opened on first use, once.
    """

    branch: str
    manifest_version: int
    commit: Commit | None
    schema_ir_hash: str | None
    pins: Mapping[str, Pin]
    _manifest: Manifest = field(repr=False, compare=False)
    written_under: SchemaHead | None = None
    """The schema of its tables, with those before it."""
    read_under: SchemaHead | None = None
    """The schema that it is read with, with those before it."""
    lag: SchemaLag | None = None
    """How far its tables lag behind the schema that it is read with; None if they do not."""
    _opened: dict[Pin, Table] = field(default_factory=dict[Pin, Table], repr=False, compare=False)
    described: dict[str, object] = field(default_factory=dict[str, object], init=False, repr=False, compare=False)
    """What readers have learned about its tables, by table key."""

    def __reduce__(self) -> tuple[object, ...]:
        # What readers have learned belongs to their process; another one learns it again.
        return Snapshot, tuple(getattr(self, each.name) for each in fields(self) if each.init)

    def catalog(self) -> Catalog:
        """Return the types of the schema that it is read with."""
        return load_schema_of(self._manifest, self.schema_ir_hash).catalog

    def pin(self, name: str) -> Pin:
        """Return the pin of a type by name, or by table key if a node and an edge type share the name."""
        if name in self.pins:
            return self.pins[name]
        for table_key in TableKey.candidates(name):
            if table_key in self.pins:
                return self.pins[table_key]
        known = [pin.type_name for pin in self.pins.values()]
        raise NotFound(
            f"no type '{name}' in this snapshot", hint=suggest_name(name, known, "types"), details={"type": name}
        )

    def table(self, name: str) -> Table:
        """Open the table of a type at this snapshot's version, for reading."""
        pin = self.pin(name)
        # Two threads may both open it; either handle is fine.
        return self._opened.get(pin) or self._opened.setdefault(pin, self._open(pin))

    def _open(self, pin: Pin) -> Table:
        return open_pin(self._manifest, pin).with_lag(self.column_lag(pin.table_key))

    def table_uri(self, pin: Pin) -> str:
        """Return where the dataset of one of its tables lies."""
        return self._manifest.location.join(pin.location)

    def keep_open(self, before: Snapshot) -> None:
        """Use the open tables of an earlier head of the same branch that are the same here."""
        if (before.read_under, before.written_under) != (self.read_under, self.written_under):
            return
        # Another branch may have been re-created meanwhile; then its versions are others.
        shown = (pin for pin in self.pins.values() if pin.branch in (None, self.branch))
        self._opened.update({pin: before._opened[pin] for pin in shown if pin in before._opened})

    def take_over(self, opened: Iterable[Table]) -> None:
        """Use tables that are open already, where they are the versions of this snapshot."""
        by_version = {(table.uri, table.branch, table.version): table for table in opened}
        for pin in self.pins.values() if by_version else ():
            table = by_version.get((self.table_uri(pin), pin.branch, pin.version))
            if table is not None and pin not in self._opened:
                self._opened.setdefault(pin, table.with_own_handle().with_lag(self.column_lag(pin.table_key)))

    def column_lag(self, table_key: str) -> ColumnLag:
        """Return how the columns of a table differ from the properties that it is read with."""
        return NO_LAG if self.lag is None else self.lag.column_lag(table_key)

    def list_schemas(self) -> tuple[str, ...]:
        """Return the hashes from the schema of its tables to the one that it is read with; empty if they are one."""
        return list_schemas_between(self.written_under, self.read_under)

    @property
    def schema_number(self) -> int:
        """How many schemas were before the one that it is read with."""
        return 0 if self.read_under is None else self.read_under.number

    def follow_schemas(self, older: Snapshot) -> SchemaLag | None:
        """Return the effect of the schema changes since an older snapshot; None if the schema is the same."""
        return follow_schemas(self._manifest, older.read_under, self.read_under)

    def read_with(self, schema: SchemaHead | None) -> Snapshot:
        """Return the same rows, read with a newer schema."""
        lag = follow_schemas(self._manifest, self.written_under, schema)
        pins = self.pins if lag is None else lag.filter_tables(self.pins)
        schema_hash = None if schema is None else schema.schema_ir_hash
        return replace(self, schema_ir_hash=schema_hash, pins=pins, read_under=schema, lag=lag, _opened={})

    def with_tables(self, tables: Mapping[str, Table]) -> Snapshot:
        """Return the snapshot with other versions of some tables, such as detached ones."""
        shown = {
            key: replace(self.pins[key], version=table.version, branch=table.branch, row_count=table.count_rows())
            for key, table in tables.items()
        }
        opened = {pin: tables[key] for key, pin in shown.items()}
        return replace(self, pins={**self.pins, **shown}, _opened=opened)

    def with_owned_tables(self, table_keys: Collection[str]) -> Snapshot:
        """Return the snapshot after forks of these tables were published on the branch at the same versions."""
        pins = {key: replace(pin, branch=self.branch) if key in table_keys else pin for key, pin in self.pins.items()}
        return replace(self, pins=pins, _opened={})


def list_pins(view: ManifestView) -> dict[str, Pin]:
    """Return the latest visible version of each table, by table key."""
    return {
        table_key: Pin(
            TableKey(table_key), view.tables.locations[table_key], entry.version, entry.branch, entry.row_count
        )
        for table_key, entry in view.tables.visible_tables().items()
    }


def open_pin(manifest: Manifest, pin: Pin) -> Table:
    """Open the table of a pin at exactly its version. The ref of its branch is not needed."""
    uri = manifest.location.join(pin.location)
    committed = manifest.find_committed(uri, pin.version) if pin.branch is None else None
    if committed is not None:
        return committed.with_own_handle()
    try:
        return open_table(uri, pin.branch, pin.version, manifest.access)
    except (NotFound, HistoryGone) as missing:
        raise type(missing)(
            f"version {pin.version} of '{pin.table_key}' cannot be read: {missing.message}",
            hint=missing.hint,
            details={"table_key": pin.table_key, "version": pin.version},
        ) from missing


def open_every_table(manifest: Manifest, branch: str, version: int, purpose: str) -> None:
    """Refuse a manifest version whose tables cleanup has removed: open every table that it shows.

    Call it under the refs lock, under which cleanup works. ``purpose`` begins the message.
    """
    try:
        for pin in list_pins(manifest.view_at(branch, version)).values():
            open_pin(manifest, pin)
    except (NotFound, HistoryGone) as missing:
        raise HistoryGone(
            f"{purpose}: {missing.message}",
            hint="choose a newer commit; a tag or a branch keeps a commit from cleanup",
            details={"branch": branch, "manifest_version": version, **missing.details},
        ) from missing


def make_pointer_entry(manifest: Manifest, pin: Pin) -> TableVersion:
    """Return the row that publishes an existing version, which a pin of another branch shows."""
    file = locate_manifest_file(manifest.location, pin.location, pin.branch, pin.version)
    return TableVersion(pin.table_key, pin.version, pin.branch, pin.row_count, file)


def make_entry(manifest: Manifest, pin: Pin, table: Table) -> TableVersion:
    """Return the row that publishes a table as the successor of its pin."""
    file = locate_manifest_file(manifest.location, pin.location, table.branch, table.version)
    return TableVersion(pin.table_key, table.version, table.branch, table.count_rows(), file)
