"""Branches that lag: the schema is that of the whole graph, and their tables are still as an older one wanted them.

They are read as if they had caught up. Before the first write to a branch after the schema changed, its tables are
brought to it, and types that are new get a table there. Mostly that costs nothing but a commit, since files stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from omnigraph.language.schema import Catalog, Schema
from omnigraph.language.schema.arrow import arrow_schema
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.opening import schema_of
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin, Snapshot, pins_of
from omnigraph.storage import table as tables
from omnigraph.storage.locks import Held
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.shaping import Shape, lags
from omnigraph.write.sidecars import WriterKind
from omnigraph.write.work import Change, NewTable, Prepared

_UPKEEP = "omnigraph:"
"""The actors that publish what others made, or take it back; they never look at the columns of tables."""


def newer_schema(manifest: Manifest, branch: str) -> Schema | None:
    """The schema of the graph, if nobody has written to a branch under it yet."""
    current = manifest.schema_hash()
    if current is None or _written_under(manifest, branch) == current:
        return None
    return schema_of(manifest, current)


def _written_under(manifest: Manifest, branch: str) -> str | None:
    head = manifest.view(branch).head
    if head is None or not (head.actor or "").startswith(_UPKEEP):
        return None if head is None else head.schema_ir_hash
    commits = manifest.view(branch, with_lineage=True).history.newest_first()
    return next((each.schema_ir_hash for each in commits if not (each.actor or "").startswith(_UPKEEP)), None)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Gives the tables of a branch the columns of the current schema, and the branch tables of the types it lacks."""

    manifest: Manifest
    catalog: Catalog
    branch: str
    kind: WriterKind = WriterKind.LOAD
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> Prepared[None]:
        """Look at every table that the branch shows."""
        changes = tuple(
            Change(type_.table_key, Shape(type_).stage_loosely)
            for type_ in self.catalog.types()
            if type_.table_key in snapshot.pins and lags(snapshot.table(type_.table_key), type_)
        )
        return Prepared(changes, frozenset(), None, created=tuple(self._created(snapshot)))

    def _created(self, snapshot: Snapshot) -> Iterator[NewTable]:
        on_main = pins_of(self.manifest.view(MAIN))
        for type_ in self.catalog.types():
            pin = on_main.get(type_.table_key)
            if type_.table_key not in snapshot.pins and pin is not None:
                yield NewTable(type_.table_key, pin.location, partial(self._home, pin), partial(_empty, type_))

    def _home(self, pin: Pin, held: Held | None) -> Table:
        """A fork of the table of main: it is made empty, and shares nothing but the folder."""
        assert held is not None
        return fork_table(self.manifest, held, self.branch, pin)


def _empty(type_: NodeType | EdgeType, table: Table) -> Staged:
    return tables.overwrite(table, arrow_schema(type_).empty_table())
