"""Entities that changed as rows of Spark: what became of them, and what they were and are as texts of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import orjson
import pyarrow as pa
from pyspark.sql.types import ArrayType, StringType, StructField

from omnigraph.errors import Json

FIELDS: Final = (
    StructField("op", StringType(), nullable=False),
    StructField("kind", StringType(), nullable=False),
    StructField("type", StringType(), nullable=False),
    StructField("id", StringType(), nullable=False),
    StructField("before", StringType()),
    StructField("after", StringType()),
    StructField("changed", ArrayType(StringType(), containsNull=False), nullable=False),
)
"""One row for each entity: the records of a diff, and of what a commit changed."""
ARROW: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("op", "kind", "type", "id", "before", "after")),
        pa.field("changed", pa.list_(pa.string())),
    ]
)
"""The same as Arrow has it."""


def row_of(record: Mapping[str, Json]) -> tuple[str | list[str] | None, ...]:
    """A record as a row."""
    what = (cast("str", record[name]) for name in ("op", "kind", "type", "id"))
    images = (_text(record[name]) for name in ("before", "after"))
    return (*what, *images, cast("list[str]", record["changed"]))


def _text(image: Json) -> str | None:
    return None if image is None else orjson.dumps(image).decode()
