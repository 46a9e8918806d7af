"""The persisted schema: its history by hash, and the files at the root for other readers.

``__schemas/<hash>/`` keeps every schema that a commit was made under. The ``schema_head`` row of main names the current
one and is written by the same publish as the data. The three files at the root are a projection for readers that know
only those. Every writer repairs them from the head row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ConflictError, FormatError, NotFound, SchemaError, StorageError
from omnigraph.language.schema import (
    STRICTER_THAN_0_8,
    Schema,
    build_catalog,
    decode_ir,
    encode_ir,
    encode_state,
    hash_ir,
    parse_schema,
)
from omnigraph.language.source import Source
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

SOURCE_FILE = "_schema.pg"
IR_FILE = "_schema.ir.json"
STATE_FILE = "__schema_state.json"


def keep_schema(objects: Objects, schema: Schema) -> None:
    """Write a schema into the history, if it is not there yet."""
    folder = _folder(schema.hash)
    for name, text in (("schema.pg", schema.text), ("schema.ir.json", encode_ir(schema.ir))):
        if objects.head(f"{folder}/{name}") is None:
            objects.put_if_absent(f"{folder}/{name}", text.encode())


def load_schema(objects: Objects, schema_hash: str) -> Schema:
    """Load the schema of a hash from the history; from the root files if the graph has no history yet."""
    folder = _folder(schema_hash)
    ir = objects.get(f"{folder}/schema.ir.json")
    if ir is None:
        current = load_root_schema(objects)
        if current.hash != schema_hash:
            raise NotFound(f"the schema {schema_hash} is not in the graph's history")
        return current
    source = objects.get(f"{folder}/schema.pg") or b""
    return _check_hash(_decode_ir(ir, source), schema_hash)


def load_root_schema(objects: Objects) -> Schema:
    """Load the schema of the root files. A missing IR is compiled in memory: a reader must not write."""
    source = objects.get(SOURCE_FILE)
    if source is None:
        raise StorageError("the graph has no schema", hint="restore _schema.pg from a copy")
    ir = objects.get(IR_FILE)
    if ir is not None:
        return _decode_ir(ir, source)
    try:
        return parse_schema(Source(source.decode(), SOURCE_FILE), tolerated=STRICTER_THAN_0_8)
    except SchemaError as error:
        raise FormatError(f"the stored schema does not compile: {error.message}") from error


def project_root_files(objects: Objects, schema: Schema) -> None:
    """Write the three files at the root, where they differ from the schema."""
    contents = {SOURCE_FILE: schema.text, IR_FILE: encode_ir(schema.ir), STATE_FILE: encode_state(schema.ir)}
    for path, text in contents.items():
        if objects.get(path) != text.encode():
            objects.put(path, text.encode())


def root_files_match(objects: Objects, schema_hash: str) -> bool:
    """Return whether all root files exist and name this schema."""
    state = objects.get(STATE_FILE) or b""
    if schema_hash.encode() not in state:
        return False
    return objects.head(SOURCE_FILE) is not None and objects.head(IR_FILE) is not None


def _folder(schema_hash: str) -> str:
    return f"__schemas/{schema_hash.removeprefix('sha256:')}"


def _decode_ir(ir: bytes, source: bytes) -> Schema:
    read = decode_ir(ir)
    return Schema(source.decode(), read, hash_ir(read), build_catalog(read))


def _check_hash(schema: Schema, schema_hash: str) -> Schema:
    if schema.hash != schema_hash:
        raise StorageError(f"the stored schema {schema_hash} was changed: it is {schema.hash} now")
    return schema


def make_schema_conflict(validated_under: str | None, current: str | None) -> ConflictError:
    """Return the error of an operation that a schema change overtook."""
    return ConflictError(
        "the schema of the graph changed while this write was validated",
        hint="read again and retry",
        details={"validated_under": validated_under, "current": current},
    )


def load_current_schema(manifest: Manifest) -> Schema:
    """Load the current schema of the graph."""
    return load_schema_of(manifest, manifest.schema_hash())


def load_schema_of(manifest: Manifest, schema_hash: str | None) -> Schema:
    """Load the schema of a hash, cached; None means the only schema of a graph without history."""
    if schema_hash is None:
        return load_root_schema(manifest.objects)
    known = manifest.schemas.get(schema_hash)
    if known is None:
        known = load_schema(manifest.objects, schema_hash)
        manifest.keep_schema(known)
    return known
