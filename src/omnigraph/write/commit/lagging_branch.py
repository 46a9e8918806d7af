"""Branches that lag: the schema is that of the whole graph, and their tables are still as an older one wanted them.

They are read as if they had caught up. Before the first write to a branch after the schema changed, its tables are
brought to it, and types that are new get a table there. Mostly that costs nothing but a commit, since files stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from omnigraph.language.schema import EdgeType, NodeType, Schema
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lagging import lag_of
from omnigraph.manifest.opening import schema_of
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin, Snapshot, open_pin, pins_of
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.locks import Held
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.commit.operation import PreparedWrite, SchemaChange, TableChange, TableCreation
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.commit.table_shape import TableShape, is_lagging


def find_newer_schema(manifest: Manifest, branch: str) -> Schema | None:
    """The schema of the graph, if the tables of a branch were not brought to it yet."""
    current = manifest.view(MAIN).tables.schema_head
    if current is None or lag_of(manifest, manifest.view(branch).tables.schema_head) is None:
        return None
    return schema_of(manifest, current.schema_ir_hash)


@dataclass(frozen=True, slots=True)
class CatchUpOperation:
    """Gives the tables of a branch the columns of the current schema, and the branch tables of the types it lacks."""

    manifest: Manifest
    schema: Schema
    branch: str
    kind: WriterKind = WriterKind.LOAD
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Look at every table that the branch shows."""
        if snapshot.lag is None:
            # Somebody else was first.
            return PreparedWrite((), frozenset(), None)
        changes = tuple(
            TableChange(
                type_.table_key, TableShape(type_, snapshot.lag.origins[type_.table_key].columns).stage_nullable
            )
            for type_ in self.schema.catalog.types()
            if type_.table_key in snapshot.pins and is_lagging(snapshot.table(type_.table_key), type_)
        )
        before = snapshot.written_under
        schema = SchemaChange(self.schema.hash, self.schema.hash if before is None else before.schema_ir_hash)
        return PreparedWrite(changes, frozenset(), None, created=tuple(self._created(snapshot)), schema=schema)

    def _created(self, snapshot: Snapshot) -> Iterator[TableCreation]:
        on_main = pins_of(self.manifest.view(MAIN))
        for type_ in self.schema.catalog.types():
            pin = on_main.get(type_.table_key)
            if type_.table_key not in snapshot.pins and pin is not None:
                yield TableCreation(type_.table_key, pin.location, partial(self._home, pin), partial(_empty, type_))

    def _home(self, pin: Pin, held: Held | None) -> Table:
        """A fork of the table of main: it is made empty, and shares nothing but the folder.

        A branch that has a fork of an older table of that name, with rows of a type that was dropped, goes on with it.
        """
        assert held is not None
        old = pins_of(self.manifest.view(self.branch)).get(pin.table_key)
        if old is not None and old.branch == self.branch:
            return open_pin(self.manifest, old).newest()
        return fork_table(self.manifest, held, self.branch, pin)


def _empty(type_: NodeType | EdgeType, table: Table) -> Staged:
    return tables.overwrite(table, arrow_schema(type_).empty_table())
