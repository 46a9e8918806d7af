"""What opening a graph looks at, and what a read-write open may put right."""

from __future__ import annotations

from omnigraph.language.schema import Schema
from omnigraph.manifest import contract, genesis, migrations
from omnigraph.manifest.handle import Manifest, refuse_file, unfinished
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.locks import branch_lock, refs_lock


def check(manifest: Manifest) -> None:
    """Refuse what is no graph, an unfinished one, and a format that this release does not know. Writes nothing."""
    refuse_file(manifest.location)
    table = manifest.open(MAIN)
    if genesis.is_unfinished(table):
        raise unfinished(manifest.location)


def format_of(manifest: Manifest) -> int:
    """The format that main is written in."""
    return migrations.stamp_of(manifest.open(MAIN))


def bring_up_to_date(manifest: Manifest) -> None:
    """Migrate main, keep the schema of a graph that never kept it, and repair the files for other readers."""
    if format_of(manifest) < migrations.CURRENT:
        with branch_lock(manifest.location, MAIN, manifest.locks):
            migrations.migrate(manifest, MAIN)
    schema_hash = manifest.schema_hash()
    if schema_hash is None:
        contract.keep_schema(manifest.objects, contract.root_schema(manifest.objects))
    elif not contract.root_files_say(manifest.objects, schema_hash):
        with refs_lock(manifest.location, manifest.locks):
            contract.project_root_files(manifest.objects, current_schema(manifest))


def current_schema(manifest: Manifest) -> Schema:
    """The schema that the graph has now."""
    return schema_of(manifest, manifest.schema_hash())


def schema_of(manifest: Manifest, schema_hash: str | None) -> Schema:
    """The schema of a hash, such as a snapshot names; None: the graph never kept its schema, and has only one."""
    if schema_hash is None:
        return contract.root_schema(manifest.objects)
    known = manifest.schemas.get(schema_hash)
    if known is None:
        known = manifest.schemas[schema_hash] = contract.load_schema(manifest.objects, schema_hash)
    return known
