"""The size of rows: vectors count in full, and long texts by what the files hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.storage import tables
from omnigraph.storage.tables import Access, Table, estimate_row_bytes, estimate_stored_row_bytes

SCHEMA = pa.schema([pa.field("id", pa.string()), pa.field("n", pa.int64()), pa.field("v", pa.list_(pa.float32(), 256))])


def test_types_of_a_fixed_width_are_known() -> None:
    assert estimate_row_bytes(SCHEMA) == 32 + 8 + 4 * 256
    assert estimate_row_bytes(SCHEMA, ["n"]) == 8
    assert estimate_row_bytes(SCHEMA, []) == 1


def stored(folder: Path, rows: pa.Table) -> Table:
    table = tables.create_empty_table(str(folder), rows.schema, "test", Access({}))
    staged = tables.append_fragments(table, tables.write_rows(table, rows, "append"))
    assert staged is not None
    return tables.commit(table, staged, "test")


def test_files_tell_how_long_texts_are(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    texts = [chance.bytes(500).hex() for _ in range(2_000)]
    ids = [f"n{number}" for number in range(2_000)]
    table = stored(tmp_path / "texts", pa.table({"id": ids, "text": texts}))
    assert 400 < estimate_stored_row_bytes(table, ["id", "text"]) < 1_200
    assert estimate_stored_row_bytes(table, ["id"]) == 32, "an id is short, whatever else is stored"
    short = stored(tmp_path / "short", pa.table({"id": ids, "text": ids}))
    assert estimate_stored_row_bytes(short) == 64
