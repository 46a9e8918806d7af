"""Fragments that were written beside a table become its own without being written again.

A data file knows its table only by the numbers of its columns. If another table numbers them the same, a second name
for the file in the folder of that table, a hard link, is enough. What reads the file by its first name goes on to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pyarrow as pa

from omnigraph.storage.lance_internals import data_paths, has_first_field_ids, is_blob
from omnigraph.storage.tables.staging import FragmentText, decode_fragments
from omnigraph.storage.tables.table import Table, branch_uri, is_local_uri
from omnigraph.storage.tables.writes import STORAGE_VERSION, write_durably


def link_fragments(source: Table, table: Table, schema: pa.Schema, fragments: Iterable[FragmentText]) -> bool:
    """Let a table use the files of fragments that were written in mode "overwrite" to the folder of another one.

    Returns False if it cannot, and then they have to be written: on an object store or another file system, with blobs,
    and if the columns of the table have other numbers, as after a change of its schema.
    """
    if not (is_local_uri(source.uri) and is_local_uri(table.uri) and _is_laid_out_alike(table, schema)):
        return False
    here, there = (Path(branch_uri(each.uri, each.branch)) for each in (source, table))
    files = [data_paths(file.path)[0] for fragment in decode_fragments(fragments) for file in fragment.files]
    with write_durably("table.stage", table.subject):
        (there / "data").mkdir(parents=True, exist_ok=True)
        try:
            for file in files:
                os.link(here / file, there / file)
        except OSError:
            # No version shows what was linked so far; cleanup deletes it.
            return False
    return True


def _is_laid_out_alike(table: Table, schema: pa.Schema) -> bool:
    columns = cast("list[pa.Field[pa.DataType]]", list(schema))
    if table.dataset.data_storage_version != STORAGE_VERSION or any(map(is_blob, columns)):
        return False
    return has_first_field_ids(table.dataset, schema)
