"""What a branch may need before a write, in a commit of its own: the current schema, and forks of its tables.

Catch-up: the schema belongs to the whole graph, so after a schema change the tables of other branches lag behind it.
Reads show them as if they had caught up; the first write brings them to the schema. Usually that costs only a commit.

Owner-branch handoff: most forks are made inside the commit that first writes to a table. Work that stages for long
cannot wait for that, because the next writer may re-create an unpublished fork and lose the files staged in it. So such
forks are published first. No row changes and no table moves, so a crash leaves nothing to recover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from omnigraph.errors import ConflictError
from omnigraph.language.schema import EdgeType, NodeType, Schema
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.branches import delete_branch, fork_table
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lagging import follow_schemas
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin, Snapshot, list_pins, make_entry, open_pin
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.locks import HeldLock, branch_lock
from omnigraph.storage.tables import StagedChange, Table
from omnigraph.write.commit.operation import PreparedWrite, SchemaChange, TableChange, TableCreation
from omnigraph.write.commit.recovery import heal
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.commit.table_shape import TableShape, is_lagging
from omnigraph.write.executor import LOCAL, Executor


def delete_branch_at(manifest: Manifest, branch: str, head: str, hint: str) -> None:
    """Delete a branch whose newest commit is ``head``. Raise ``ConflictError`` with a hint if it has newer commits."""

    def heal_and_compare(manifest: Manifest, held: HeldLock, name: str) -> None:
        heal(manifest, held, name)
        newest = manifest.view(name).data_head
        if newest is not None and newest.id != head:
            details = {"branch": name, "expected": head, "actual": newest.id}
            raise ConflictError(f"branch '{name}' has new commits", hint=hint, details=details)

    delete_branch(manifest, branch, heal_and_compare)


# --------------------------------------------------------------------------------------------- catch-up


def find_newer_schema(manifest: Manifest, branch: str) -> Schema | None:
    """Return the schema of the graph if a branch lags behind it, else None."""
    own, current = manifest.view(branch).tables.schema_head, manifest.current_schema()
    if current is None or follow_schemas(manifest, own, current) is None:
        return None
    return load_schema_of(manifest, current.schema_ir_hash)


@dataclass(frozen=True, slots=True)
class CatchUpOperation:
    """Bring the tables of a branch to the current schema, and create tables for the types that it lacks.

    ``executor`` rewrites rows, where new columns have defaults or wider types.
    """

    manifest: Manifest
    schema: Schema
    branch: str
    executor: Executor = LOCAL
    kind: WriterKind = WriterKind.LOAD
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Plan a change for each table that lags, and a table for each new type."""
        if snapshot.lag is None:
            # Another writer was first.
            return PreparedWrite((), frozenset(), None)
        changes = tuple(
            TableChange(
                type_.table_key, partial(self._shape_of(snapshot, type_).stage_nullable, executor=self.executor)
            )
            for type_ in self.schema.catalog.types()
            if type_.table_key in snapshot.pins and is_lagging(snapshot.table(type_.table_key), type_)
        )
        before = snapshot.written_under
        schema = SchemaChange(self.schema.hash, self.schema.hash if before is None else before.schema_ir_hash)
        return PreparedWrite(changes, frozenset(), None, created=tuple(self._plan_created(snapshot)), schema=schema)

    def _shape_of(self, snapshot: Snapshot, type_: NodeType | EdgeType) -> TableShape:
        assert snapshot.lag is not None
        key = type_.table_key
        return TableShape(type_, snapshot.lag.origins[key].columns, snapshot.column_lag(key))

    def _plan_created(self, snapshot: Snapshot) -> Iterator[TableCreation]:
        on_main = list_pins(self.manifest.view(MAIN))
        for type_ in self.schema.catalog.types():
            pin = on_main.get(type_.table_key)
            if type_.table_key not in snapshot.pins and pin is not None:
                open_home = partial(self._open_home, pin)
                yield TableCreation(type_.table_key, pin.location, open_home, partial(_stage_empty, type_))

    def _open_home(self, pin: Pin, held: HeldLock | None) -> Table:
        """Fork the table of main; its content is replaced, so only the folder is shared.

        If the branch shows a table of a dropped type of the same name, that table goes on instead: its versions may be
        greater than those of main, and the versions of a branch only grow.
        """
        assert held is not None
        old = list_pins(self.manifest.view(self.branch)).get(pin.table_key)
        if old is not None and old.branch == self.branch:
            return open_pin(self.manifest, old).refresh()
        return fork_table(self.manifest, held, self.branch, old or pin)


def _stage_empty(type_: NodeType | EdgeType, table: Table) -> StagedChange:
    return tables.overwrite(table, arrow_schema(type_).empty_table())


# --------------------------------------------------------------------------------------------- handoff


def publish_handoff(
    manifest: Manifest, branch: str, inherited: Iterable[Pin], intent: CommitIntent, incarnation: str | None
) -> frozenset[str]:
    """Publish forks of inherited tables, at the versions that the branch shows; return the keys of those it owns now.

    A table that moved meanwhile is left out: its writer notices that when it commits.
    """
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        heal(manifest, held, branch)
        now = list_pins(manifest.writable_view(branch))
        forked = [pin for pin in inherited if now.get(pin.table_key) == pin]
        if forked:
            forks = [make_entry(manifest, pin, fork_table(manifest, held, branch, pin)) for pin in forked]
            expected: dict[str, int] = {pin.table_key: pin.version for pin in forked}
            request = PublishRequest(intent, updates=tuple(forks), expected=expected, incarnation=incarnation)
            publish(manifest, held, branch, request)
    return frozenset(pin.table_key for pin in forked)
