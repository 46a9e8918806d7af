"""The columns of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lance
import pyarrow as pa

from omnigraph.language.schema import parse_schema
from omnigraph.storage.arrow_schema import arrow_schema

EVERY_TYPE = """
node Every {
  z: String  y: Bool?  x: I32  w: I64  v: U32  u: U64  t: F32  s: F64  r: Date  q: DateTime?
  p: Vector(3)?  o: [Date]  n: enum(a, b)  m: [String]?
}
edge Link: Every -> Every { since: Date?  at: DateTime }
"""


def test_every_type_has_its_column() -> None:
    catalog = parse_schema(EVERY_TYPE).catalog
    assert arrow_schema(catalog.nodes["Every"]) == pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("m", pa.list_(pa.field("item", pa.string()))),
            pa.field("n", pa.string(), nullable=False),
            pa.field("o", pa.list_(pa.field("item", pa.date32())), nullable=False),
            pa.field("p", pa.list_(pa.field("item", pa.float32()), 3)),
            pa.field("q", pa.date64()),
            pa.field("r", pa.date32(), nullable=False),
            pa.field("s", pa.float64(), nullable=False),
            pa.field("t", pa.float32(), nullable=False),
            pa.field("u", pa.uint64(), nullable=False),
            pa.field("v", pa.uint32(), nullable=False),
            pa.field("w", pa.int64(), nullable=False),
            pa.field("x", pa.int32(), nullable=False),
            pa.field("y", pa.bool_()),
            pa.field("z", pa.string(), nullable=False),
        ]
    )


def test_an_edge_has_its_ends_before_its_properties() -> None:
    edge = parse_schema(EVERY_TYPE).catalog.edges["Link"]
    assert arrow_schema(edge) == pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("src", pa.string(), nullable=False),
            pa.field("dst", pa.string(), nullable=False),
            pa.field("at", pa.date64(), nullable=False),
            pa.field("since", pa.date32()),
        ]
    )


def test_a_blob_column_is_the_one_that_lance_makes(tmp_path: Path) -> None:
    ours = arrow_schema(parse_schema("node A { data: Blob? }").catalog.nodes["A"])
    theirs = cast("pa.Field[pa.DataType]", lance.blob_field("data"))
    assert isinstance(theirs.type, pa.BaseExtensionType)
    assert ours.field("data").type == theirs.type.storage_type

    # Through Lance and back, both are the same column.
    schemas = {"ours": ours, "theirs": ours.set(1, theirs)}
    written = {
        name: lance.write_dataset(pa.Table.from_batches([], schema), tmp_path / name, data_storage_version="2.2")
        for name, schema in schemas.items()
    }
    assert written["ours"].schema == written["theirs"].schema
