"""Open a graph: check it, migrate it, and repair what release 0.8 reads.

Release 0.8 takes no locks of ours. Instead it refuses to write while the branch ``__schema_apply_lock__`` exists. That
branch is created and removed under the refs lock, so the holder of that lock may remove one that a dead process left.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from omnigraph.errors import LockTimeout
from omnigraph.language.schema import EdgeType, NodeType, Schema
from omnigraph.manifest import contract, genesis, migrations
from omnigraph.manifest.handle import DIRECTORY, Manifest, refuse_file, unfinished_graph
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, make_ulid
from omnigraph.manifest.settings import GraphSettings, choose_settings
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.durability import WriteBarrier
from omnigraph.storage.lance_internals import branch_ref_path
from omnigraph.storage.location import Location
from omnigraph.storage.locks import HeldLock, LockSettings, branch_lock, refs_lock
from omnigraph.storage.tables import Access, open_table

ADOPTION_MESSAGE: Final = "schema taken over from release 0.8"
"""The message of the commit that adopts a schema which release 0.8 applied."""


def create_manifest(location: Location, chosen: GraphSettings) -> Manifest:
    """Return the manifest of a graph with the locks and the durability of its settings."""
    is_synced = location.is_local and chosen.durability == "power"
    barrier = WriteBarrier(location.base) if is_synced else None
    return Manifest(location, Access(location.options(), barrier=barrier), LockSettings(kind=chosen.lock))


def open_manifest(location: Location, durability: str | None = None, lock: str | None = None) -> Manifest:
    """Open a graph with the settings that it keeps; arguments win over them where that is allowed. Writes nothing."""
    refuse_file(location)
    manifest = create_manifest(location, choose_settings(location, durability, lock))
    check_graph(manifest)
    return manifest


def check_graph(manifest: Manifest) -> None:
    """Refuse a location without a graph, an unfinished graph and an unknown format. Writes nothing."""
    if manifest.read_stepping_over(MAIN, genesis.is_unfinished):
        raise unfinished_graph(manifest.location)


def format_version_of(manifest: Manifest) -> int:
    """Return the format of main."""
    return migrations.stamp_of(manifest.open(MAIN))


def upgrade_graph(manifest: Manifest) -> None:
    """Migrate main, and start the schema history of a graph that has none."""
    if format_version_of(manifest) < migrations.CURRENT:
        with branch_lock(manifest.location, MAIN, manifest.locks):
            migrations.migrate_patiently(manifest, MAIN)
    schema_hash = manifest.schema_hash()
    if schema_hash is None:
        contract.keep_schema(manifest.objects, contract.load_root_schema(manifest.objects))


def repair_for_0_8(manifest: Manifest) -> None:
    """Repair what release 0.8 reads if a process died before it did: the files at the root, and its lock branch.

    If release 0.8 itself changed the schema, adopt that schema.
    """
    remove_stale_lock(manifest)
    schema_hash = manifest.schema_hash()
    if schema_hash is None or contract.root_files_match(manifest.objects, schema_hash):
        return
    with refs_lock(manifest.location, manifest.locks):
        applied = _find_schema_of_0_8(manifest)
        if applied is None:
            contract.project_root_files(manifest.objects, contract.load_current_schema(manifest))
        else:
            _adopt_schema(manifest, applied)


def _find_schema_of_0_8(manifest: Manifest) -> Schema | None:
    """Return the schema at the root if release 0.8 made the newest commit and the tables match that schema."""
    view = manifest.view(MAIN)
    if view.head is None or view.head.schema_ir_hash is not None:
        return None
    applied = contract.load_root_schema(manifest.objects)
    types: dict[str, NodeType | EdgeType] = {type_.table_key: type_ for type_ in applied.catalog.types()}
    shown = view.tables.visible_tables()
    if applied.hash == manifest.schema_hash() or shown.keys() != types.keys():
        return None
    for key, entry in shown.items():
        uri = manifest.location.join(view.tables.locations[key])
        table = open_table(uri, entry.branch, entry.version, manifest.access)
        if set(table.schema.names) != set(arrow_schema(types[key]).names):
            return None
    return applied


def _adopt_schema(manifest: Manifest, applied: Schema) -> None:
    contract.keep_schema(manifest.objects, applied)
    with branch_lock(manifest.location, MAIN, manifest.locks) as held:
        request = PublishRequest(
            CommitIntent(make_ulid(), applied.hash, message=ADOPTION_MESSAGE),
            new_schema=applied.hash,
            replaces_schema=manifest.schema_hash(),
        )
        publish(manifest, held, MAIN, request)
    contract.project_root_files(manifest.objects, applied)


# --------------------------------------------------------------------------------------------- the lock of release 0.8

SCHEMA_APPLY_LOCK: Final = "__schema_apply_lock__"
_REF: Final = f"{DIRECTORY}/{branch_ref_path(SCHEMA_APPLY_LOCK)}"


@contextmanager
def lock_for_0_8(manifest: Manifest, refs: HeldLock) -> Generator[None]:
    """Block writers of release 0.8. The caller holds the refs lock."""
    _remove_lock_branch(manifest, refs)
    refs.check()
    tables.create_table_branch(manifest.open(MAIN), SCHEMA_APPLY_LOCK)
    try:
        yield
    finally:
        _remove_lock_branch(manifest, refs)


def remove_stale_lock(manifest: Manifest) -> None:
    """Remove the lock branch if its creator died. One that is in use stays."""
    if manifest.objects.head(_REF) is None:
        return
    with suppress(LockTimeout), refs_lock(manifest.location, replace(manifest.locks, timeout=0.0)) as refs:
        _remove_lock_branch(manifest, refs)


def _remove_lock_branch(manifest: Manifest, refs: HeldLock) -> None:
    main = manifest.open(MAIN)
    refs.check()
    tables.delete_table_branch(main, SCHEMA_APPLY_LOCK)
    if main.has_branch_storage(SCHEMA_APPLY_LOCK):
        refs.check()
        manifest.objects.delete_prefix(f"{DIRECTORY}/tree/{SCHEMA_APPLY_LOCK}")
