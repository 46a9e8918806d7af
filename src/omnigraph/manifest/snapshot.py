"""Rows to snapshots: which version of which table a reader sees, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from omnigraph.errors import HistoryGone, NotFound
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.lagging import SchemaLag
from omnigraph.manifest.rows import SchemaHead, TableVersion, locate_manifest_file
from omnigraph.manifest.state import ManifestView
from omnigraph.storage.table import Table, open_table


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of one table that a snapshot shows. ``branch`` is None for a version on main."""

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
        """The type whose table it is."""
        return self.table_key.type_name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole graph at one manifest version. It stays as it is, whatever is written meanwhile.

    ``commit`` is the newest commit in it, ``schema_ir_hash`` the schema that it is read with. Each table is opened
    when it is first asked for, and once.
    """

    branch: str
    manifest_version: int
    commit: Commit | None
    schema_ir_hash: str | None
    pins: Mapping[str, Pin]
    _manifest: Manifest = field(repr=False, compare=False)
    written_under: SchemaHead | None = None
    """The schema whose columns its tables have, with those before it."""
    lag: SchemaLag | None = None
    """How far its tables are behind the schema that it is read with, if that is not the one they were written under."""
    _opened: dict[Pin, Table] = field(default_factory=dict[Pin, Table], repr=False, compare=False)

    def catalog(self) -> Catalog:
        """The types, as the schema that it is read with declares them."""
        return load_schema_of(self._manifest, self.schema_ir_hash).catalog

    def pin(self, name: str) -> Pin:
        """The pin of a type, by its name, or by its table key where a node and an edge type share a name."""
        for table_key in TableKey.candidates(name):
            if table_key in self.pins:
                return self.pins[table_key]
        known = [pin.type_name for pin in self.pins.values()]
        raise NotFound(f"no type '{name}' in this snapshot", hint=suggest_similar(name, known), details={"type": name})

    def table(self, name: str) -> Table:
        """The table of a type, pinned at this snapshot's version, to be read."""
        pin = self.pin(name)
        # Two threads may both open it; either handle will do.
        return self._opened.get(pin) or self._opened.setdefault(pin, self._open(pin))

    def _open(self, pin: Pin) -> Table:
        return open_pin(self._manifest, pin).hide_columns(self.hidden_columns(pin.table_key))

    def hidden_columns(self, table_key: str) -> frozenset[str]:
        """The columns of a table that are not those of the properties which have their names now."""
        return frozenset() if self.lag is None else self.lag.hidden_columns(table_key)

    def with_lag(self, lag: SchemaLag | None, schema_ir_hash: str | None) -> Snapshot:
        """The same rows, read with a newer schema."""
        pins = self.pins if lag is None else lag.filter_tables(self.pins)
        return replace(self, schema_ir_hash=schema_ir_hash, pins=pins, lag=lag, _opened={})

    def with_tables(self, tables: Mapping[str, Table]) -> Snapshot:
        """The same, with other versions of some tables, such as ones that nobody else can see."""
        shown = {
            key: replace(self.pins[key], version=table.version, branch=table.branch, row_count=table.count_rows())
            for key, table in tables.items()
        }
        opened = {pin: tables[key] for key, pin in shown.items()}
        return replace(self, pins={**self.pins, **shown}, _opened=opened)

    def with_owned_tables(self, table_keys: Collection[str]) -> Snapshot:
        """The same rows, where the forks of these tables were published on the branch at the very versions shown."""
        pins = {key: replace(pin, branch=self.branch) if key in table_keys else pin for key, pin in self.pins.items()}
        return replace(self, pins=pins, _opened={})


def list_pins(view: ManifestView) -> dict[str, Pin]:
    """The latest visible version of each table, by table key."""
    return {
        table_key: Pin(
            TableKey(table_key), view.tables.locations[table_key], entry.version, entry.branch, entry.row_count
        )
        for table_key, entry in view.tables.visible_tables().items()
    }


def open_pin(manifest: Manifest, pin: Pin) -> Table:
    """The table of a pin, at exactly its version; the refs of its branch are not needed for that."""
    try:
        return open_table(manifest.location.join(pin.location), pin.branch, pin.version, manifest.access)
    except (NotFound, HistoryGone) as missing:
        raise type(missing)(
            f"version {pin.version} of '{pin.table_key}' cannot be read: {missing.message}",
            hint=missing.hint,
            details={"table_key": pin.table_key, "version": pin.version},
        ) from missing


def make_pointer_entry(manifest: Manifest, pin: Pin) -> TableVersion:
    """The row that publishes a version that is there already, as a pin of another branch shows it."""
    file = locate_manifest_file(manifest.location, pin.location, pin.branch, pin.version)
    return TableVersion(pin.table_key, pin.version, pin.branch, pin.row_count, file)


def make_entry(manifest: Manifest, pin: Pin, table: Table) -> TableVersion:
    """The row that publishes a table, committed beyond its pin, as the pin's successor."""
    file = locate_manifest_file(manifest.location, pin.location, table.branch, table.version)
    return TableVersion(pin.table_key, table.version, table.branch, table.count_rows(), file)
