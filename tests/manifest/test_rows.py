"""The shape of every row of ``__manifest``, to the byte, and what a reader does with rows that are not of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.language.schema import TableKey
from omnigraph.manifest.rows import (
    SCHEMA,
    CommitRecord,
    HeadPointer,
    ManifestFile,
    Registration,
    Row,
    SchemaHead,
    TableVersion,
    Tombstone,
    Txn,
    decode_rows,
    encode_rows,
    locate_manifest_file,
)
from omnigraph.storage.location import locate

ANN, BOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ"
FILE = ManifestFile("tmp/g/nodes/1/_versions/18446744073709551610.manifest")
FULL_COMMIT = CommitRecord(
    ANN, "dev", 7, 1_700_000_000_000_001, BOB, "M", "act-ann", "a message", ("app", 3), "sha256:1", backfilled=True
)

SHAPES: list[tuple[Row, dict[str, object]]] = [
    (
        Registration(TableKey("node:Person"), "nodes/40d76f1f51639ec0"),
        {
            "object_id": "node:Person",
            "object_type": "table",
            "location": "nodes/40d76f1f51639ec0",
            "table_key": "node:Person",
        },
    ),
    (
        TableVersion(TableKey("node:Person"), 5, None, 12, FILE),
        {
            "object_id": "node:Person$00000000000000000005",
            "object_type": "table_version",
            "metadata": f'{{"manifest_path":"{FILE.path}","manifest_size":null,"e_tag":null,"naming_scheme":"V2"}}',
            "table_key": "node:Person",
            "table_version": 5,
            "row_count": 12,
        },
    ),
    (
        TableVersion(TableKey("edge:Knows"), 2**63, "review/1", 0, ManifestFile("p", 1543, "etag", "V1")),
        {
            "object_id": "edge:Knows$09223372036854775808",
            "object_type": "table_version",
            "metadata": '{"manifest_path":"p","manifest_size":1543,"e_tag":"etag","naming_scheme":"V1"}',
            "table_key": "edge:Knows",
            "table_version": 2**63,
            "table_branch": "review/1",
            "row_count": 0,
        },
    ),
    (
        Tombstone(TableKey("edge:Knows"), 7),
        {
            "object_id": "edge:Knows$tombstone$00000000000000000007",
            "object_type": "table_tombstone",
            "table_key": "edge:Knows",
            "table_version": 7,
        },
    ),
    (
        CommitRecord(ANN, None, 1, 1_700_000_000_000_000),
        {
            "object_id": ANN,
            "object_type": "graph_commit",
            "metadata": '{"created_at":1700000000000000}',
            "table_key": "",
            "table_version": 1,
        },
    ),
    (
        FULL_COMMIT,
        {
            "object_id": ANN,
            "object_type": "graph_commit",
            "metadata": f'{{"parent_commit_id":"{BOB}","merged_parent_commit_id":"M","actor_id":"act-ann",'
            '"created_at":1700000000000001,"message":"a message","txn":["app",3],"schema_ir_hash":"sha256:1",'
            '"backfilled":true}',
            "table_key": "",
            "table_version": 7,
            "table_branch": "dev",
        },
    ),
    (
        HeadPointer("main", ANN, None),
        {
            "object_id": "graph_head:main",
            "object_type": "graph_head",
            "metadata": f'{{"head_commit_id":"{ANN}"}}',
            "table_key": "",
        },
    ),
    (
        HeadPointer("review/1", ANN, BOB),
        {
            "object_id": "graph_head:review/1",
            "object_type": "graph_head",
            "metadata": f'{{"head_commit_id":"{ANN}","parent_commit_id":"{BOB}"}}',
            "table_key": "",
        },
    ),
    (
        SchemaHead("sha256:1"),
        {
            "object_id": "schema_head",
            "object_type": "schema_head",
            "metadata": '{"schema_ir_hash":"sha256:1"}',
            "table_key": "",
        },
    ),
    (
        SchemaHead("sha256:3", ("sha256:1", "sha256:2")),
        {
            "object_id": "schema_head",
            "object_type": "schema_head",
            "metadata": '{"schema_ir_hash":"sha256:3","earlier":["sha256:1","sha256:2"]}',
            "table_key": "",
        },
    ),
    (
        Txn("nightly", 12, ANN),
        {
            "object_id": "txn:nightly",
            "object_type": "txn",
            "metadata": f'{{"number":12,"commit_id":"{ANN}"}}',
            "table_key": "",
        },
    ),
]


@pytest.mark.parametrize(("row", "cells"), SHAPES, ids=lambda value: type(value).__name__)
def test_a_row_has_exactly_these_cells_and_is_read_back(row: Row, cells: dict[str, object]) -> None:
    encoded = encode_rows([row])
    assert encoded.to_pylist() == [dict.fromkeys(SCHEMA.names) | cells]
    assert list(decode_rows(encoded)) == [row]


def test_the_columns_are_those_of_the_format_and_only_the_key_is_marked() -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    of_the_format = pa.schema(
        [
            pa.field("object_id", pa.string(), nullable=False, metadata=key),
            pa.field("object_type", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("base_objects", pa.list_(pa.string())),
            pa.field("table_key", pa.string(), nullable=False),
            pa.field("table_version", pa.uint64()),
            pa.field("table_branch", pa.string()),
            pa.field("row_count", pa.uint64()),
        ]
    )
    assert SCHEMA.equals(of_the_format, check_metadata=True)


def row(object_id: str, object_type: str, **cells: object) -> pa.Table:
    """One row as somebody else may have written it."""
    return pa.Table.from_pylist(
        [{"object_id": object_id, "object_type": object_type, "table_key": "", **cells}], schema=SCHEMA
    )


def test_rows_of_unknown_kinds_are_passed_over() -> None:
    known = encode_rows([SchemaHead("sha256:1")])
    assert list(decode_rows(pa.concat_tables([row("x", "of_the_future", metadata="no JSON"), known]))) == [
        SchemaHead("sha256:1")
    ]


def test_unknown_keys_are_passed_over_and_missing_ones_of_a_version_have_defaults() -> None:
    cells: dict[str, object] = {"table_key": "node:A", "table_version": 1, "row_count": 0, "table_branch": "main"}
    found = row("node:A$1", "table_version", metadata='{"manifest_path":"p","new":[1]}', **cells)
    assert list(decode_rows(found)) == [TableVersion(TableKey("node:A"), 1, None, 0, ManifestFile("p"))]


def test_a_commit_is_of_the_version_that_made_its_row_unless_it_was_backfilled() -> None:
    made_at = pa.array([9, 9], pa.uint64())
    commits = encode_rows([FULL_COMMIT, CommitRecord(BOB, None, 7, 1)]).append_column(
        "_row_created_at_version", made_at
    )
    assert [commit.manifest_version for commit in decode_rows(commits) if isinstance(commit, CommitRecord)] == [7, 9]


VERSION = {"table_key": "node:A", "table_version": 3, "row_count": 0, "metadata": '{"manifest_path":"p"}'}
MALFORMED: dict[str, tuple[str, str, dict[str, object]]] = {
    "a table without a location": ("node:A", "table", {"table_key": "node:A"}),
    "a table whose key is none": ("A", "table", {"table_key": "A", "location": "nodes/1"}),
    "a version without metadata": ("node:A$3", "table_version", {**VERSION, "metadata": None}),
    "a version without a number": ("node:A$3", "table_version", {**VERSION, "table_version": None}),
    "a version without a row count": ("node:A$3", "table_version", {**VERSION, "row_count": None}),
    "a version without a path": ("node:A$3", "table_version", {**VERSION, "metadata": "{}"}),
    "a version whose metadata is cut": ("node:A$3", "table_version", {**VERSION, "metadata": '{"manifest_pa'}),
    "a version whose metadata is a list": ("node:A$3", "table_version", {**VERSION, "metadata": "[]"}),
    "a tombstone without a version": ("node:A$tombstone$3", "table_tombstone", {"table_key": "node:A"}),
    "a commit without metadata": (ANN, "graph_commit", {"table_version": 3}),
    "a commit without a version": (ANN, "graph_commit", {"metadata": '{"created_at":1}'}),
    "a commit without a time": (ANN, "graph_commit", {"table_version": 3, "metadata": "{}"}),
    "a commit with a time of text": (ANN, "graph_commit", {"table_version": 3, "metadata": '{"created_at":"1"}'}),
    "a commit with a parent that is a number": (
        ANN,
        "graph_commit",
        {"table_version": 3, "metadata": '{"created_at":1,"parent_commit_id":2}'},
    ),
    "a commit with half a txn": (
        ANN,
        "graph_commit",
        {"table_version": 3, "metadata": '{"created_at":1,"txn":["app"]}'},
    ),
    "a head without metadata": ("graph_head:main", "graph_head", {}),
    "a head without a commit": ("graph_head:main", "graph_head", {"metadata": "{}"}),
    "a schema head without a hash": ("schema_head", "schema_head", {"metadata": "{}"}),
    "a txn without a number": ("txn:app", "txn", {"metadata": '{"commit_id":"x"}'}),
    "a txn without a commit": ("txn:app", "txn", {"metadata": '{"number":1}'}),
}


@pytest.mark.parametrize(("object_id", "object_type", "cells"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_row_is_a_hard_error_that_names_it(
    object_id: str, object_type: str, cells: dict[str, object]
) -> None:
    with pytest.raises(StorageError) as caught:
        list(decode_rows(row(object_id, object_type, **cells)))
    assert caught.value.details == {"row": object_id}
    assert f"malformed row '{object_id}'" in caught.value.message


@pytest.mark.parametrize(
    ("uri", "branch", "path"),
    [
        ("/tmp/g", None, "tmp/g/nodes/1/_versions/18446744073709551613.manifest"),  # noqa: S108  never opened
        ("s3://bucket/a/g", None, "a/g/nodes/1/_versions/18446744073709551613.manifest"),
        ("s3://bucket/a/g", "review/1", "a/g/nodes/1/tree/review/1/_versions/18446744073709551613.manifest"),
        ("s3://bucket", None, "nodes/1/_versions/18446744073709551613.manifest"),
    ],
)
def test_the_path_of_a_manifest_is_that_of_the_object_store(uri: str, branch: str | None, path: str) -> None:
    assert locate_manifest_file(locate(uri), "nodes/1", branch, 2) == ManifestFile(path)
