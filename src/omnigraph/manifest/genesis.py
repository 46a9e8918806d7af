"""Create a graph: schema files, empty tables, the manifest with its first commit, then the stamp.

After a crash the next ``init`` with the same schema finishes the work. The stamp is written last, so a graph with a
stamp is complete and one without is reported as unfinished.
"""

from __future__ import annotations

from omnigraph.arguments import check_text
from omnigraph.errors import AlreadyExists, ConflictError, HistoryGone, NotFound, StorageError, Unsupported
from omnigraph.language.schema import EdgeType, NodeType, Schema, table_directory
from omnigraph.language.values import now_microseconds
from omnigraph.manifest import contract, migrations
from omnigraph.manifest.handle import Manifest, refuse_file
from omnigraph.manifest.rows import (
    MAIN,
    CommitRecord,
    HeadPointer,
    Registration,
    Row,
    SchemaHead,
    TableVersion,
    encode_rows,
    locate_manifest_file,
    make_ulid,
)
from omnigraph.manifest.settings import GraphSettings, keep_first_settings, read_settings, replace_settings
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.location import Location
from omnigraph.storage.locks import HeldLock, refs_lock
from omnigraph.storage.tables import Table, discard_torn_versions, open_newest_whole, open_table

OPERATION_ID = "init"
_PROBE = "__locks/conditional-put"
_CONFIG = {"table_version_management": "true"}


def init_graph(manifest: Manifest, schema: Schema, settings: GraphSettings, actor: str | None) -> None:
    """Create a graph, or finish an interrupted init. Of two concurrent calls one wins."""
    check_text("actor", actor)
    _check_place(manifest)
    _check_claim(manifest, schema)
    keep_first_settings(manifest.objects, settings)
    with refs_lock(manifest.location, manifest.locks) as held:
        _claim(manifest, schema)
        if read_settings(manifest.objects) != settings:
            # An interrupted init had chosen others.
            replace_settings(manifest.objects, settings)
        contract.keep_schema(manifest.objects, schema)
        contract.project_root_files(manifest.objects, schema)
        for type_ in schema.catalog.types():
            held.check()
            _create_table(manifest, type_)
        manifest.sync()
        _create_manifest(manifest, schema, actor, held)
        manifest.sync_root()


def is_unfinished(table: Table) -> bool:
    """Return whether a manifest is that of an interrupted init: it has our rows but no stamp."""
    stamped = migrations.STAMP.encode() in (table.schema.metadata or {})
    return not stamped and table.count_rows("object_type = 'schema_head'") > 0


def _check_place(manifest: Manifest) -> None:
    """Refuse a file, and an object store that cannot hold a graph, before anything is written."""
    match manifest.location.scheme:
        case "file":
            refuse_file(manifest.location)
        case "s3":
            _require_conditional_put(manifest)
        case "s3+ddb":
            _require_unlisted(manifest)


def _require_conditional_put(manifest: Manifest) -> None:
    """Refuse a store that ignores conditional puts: Lance and leases rely on them, and commits would be lost."""
    objects = manifest.objects
    objects.put_if_absent(_PROBE, b"")
    if objects.put_if_absent(_PROBE, b"") or objects.replace_if_match(_PROBE, b"", '"no such etag"') is not None:
        objects.delete(_PROBE)
        raise Unsupported(
            f"the store of {manifest.location} ignores conditional puts (If-None-Match, If-Match)",
            hint="use a store that supports them, or s3+ddb://bucket/prefix?ddbTableName=table",
        )


def _require_unlisted(manifest: Manifest) -> None:
    """Refuse a prefix that DynamoDB already lists: it has no bucket, and items outlive the objects."""
    try:
        open_table(manifest.uri, None, None, manifest.access)
    except NotFound:
        return
    except HistoryGone as listed:
        raise AlreadyExists(
            f"DynamoDB lists versions of a graph at '{manifest.location.prefix}' that are not in this bucket",
            hint="choose another prefix; use one DynamoDB table per bucket, and no prefix of a graph that was removed",
        ) from listed


def _claim(manifest: Manifest, schema: Schema) -> None:
    """Write the schema's text first: it says which init this is."""
    _check_claim(manifest, schema)
    if not manifest.objects.put_if_absent(contract.SOURCE_FILE, schema.text.encode()):
        _check_claim(manifest, schema)


def _check_claim(manifest: Manifest, schema: Schema) -> None:
    """Refuse a place with a graph, or with an unfinished one of another schema."""
    if _is_finished(manifest):
        raise AlreadyExists(f"there is a graph at {manifest.location} already", hint="open it, or choose another place")
    claimed = manifest.objects.get(contract.SOURCE_FILE)
    # A power cut leaves the beginning of the text.
    if claimed is not None and not schema.text.encode().startswith(claimed):
        raise ConflictError(
            f"an unfinished init at {manifest.location} has another schema",
            hint="run init again with that schema, or remove the folder",
        )


def _is_finished(manifest: Manifest) -> bool:
    try:
        return not is_unfinished(open_newest_whole(manifest.uri, None, manifest.access))
    except NotFound:
        return False


def _create_table(manifest: Manifest, type_: NodeType | EdgeType) -> None:
    uri = manifest.location.join(table_directory(type_.table_key))
    discard_torn_versions(uri, None, manifest.access)
    try:
        tables.create_table(uri, arrow_schema(type_).empty_table(), OPERATION_ID, manifest.access)
    except AlreadyExists:
        # An interrupted init leaves an empty table at version 1; any other version is data.
        if open_table(uri, None, None, manifest.access).version != 1:
            raise StorageError(
                f"the table of '{type_.table_key}' has rows, and {manifest.location} has no manifest that says which",
                hint="restore __manifest from a copy, or choose another place",
            ) from None


def _create_manifest(manifest: Manifest, schema: Schema, actor: str | None, held: HeldLock) -> None:
    discard_torn_versions(manifest.uri, None, manifest.access)
    try:
        table = open_table(manifest.uri, None, None, manifest.access)
    except NotFound:
        held.check()
        rows = encode_rows(_list_genesis_rows(manifest.location, schema, actor))
        table = tables.create_table(manifest.uri, rows, OPERATION_ID, manifest.access)
        manifest.sync()
    if table.version == 1:
        held.check()
        table = tables.set_config(table, _CONFIG)
        manifest.sync()
    held.check()
    tables.set_schema_metadata(table, {migrations.STAMP: str(migrations.CURRENT)})
    manifest.sync()


def _list_genesis_rows(location: Location, schema: Schema, actor: str | None) -> list[Row]:
    rows: list[Row] = []
    for type_ in schema.catalog.types():
        directory = table_directory(type_.table_key)
        file = locate_manifest_file(location, directory, None, 1)
        rows += [Registration(type_.table_key, directory), TableVersion(type_.table_key, 1, None, 0, file)]
    commit = CommitRecord(make_ulid(), None, 1, now_microseconds(), actor=actor, schema_ir_hash=schema.hash)
    return [*rows, commit, HeadPointer(MAIN, commit.id, None), SchemaHead(schema.hash)]
