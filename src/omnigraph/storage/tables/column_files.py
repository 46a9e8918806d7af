"""Replace columns of rows in place: the new values of a fragment are a file of their own beside its other files.

Nothing else is written. The rows keep their ids, addresses and deletions, and indexes over other columns stay right.
Lance notes the new version for the rows whose values changed, and for no others, so that diffs find exactly these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
from lance.dataset import LanceOperation
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals import TOMBSTONE, encode_offsets, list_field_ids, number_new_fields
from omnigraph.storage.tables.fragments import Numbers
from omnigraph.storage.tables.staging import StagedChange
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.writes import find_fragment, stage_operation, write_column_file


@dataclass(frozen=True, slots=True)
class FragmentColumns:
    """New values for some columns of one fragment."""

    fragment_id: int
    offsets: Numbers
    """The rows whose values differ from the stored ones, by their offsets in the fragment, sorted."""
    rows: pa.RecordBatchReader
    """A row for each row of the fragment, in order: those that stay as they are too, and deleted ones."""


def replace_column_values(table: Table, columns: Sequence[str], parts: Iterable[FragmentColumns]) -> StagedChange:
    """Stage new values for columns of some fragments. No index may cover one of these columns."""
    field_ids = list_field_ids(table.dataset, columns)
    updated: list[FragmentMetadata] = []
    offsets: dict[int, bytes] = {}
    for part in parts:
        before = find_fragment(table, part.fragment_id).metadata
        written = write_column_file(table, part.rows, before.physical_rows)
        updated.append(_replace_files(before, _renumber(written, part.rows.schema, field_ids), field_ids))
        offsets[part.fragment_id] = encode_offsets(part.offsets)
    operation = LanceOperation.Update(
        updated_fragments=updated,
        fields_modified=field_ids,
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    return stage_operation(table, operation)


def _renumber(file: DataFile, schema: pa.Schema, field_ids: Sequence[int]) -> DataFile:
    """Give the fields of a file the numbers that they have in the table."""
    numbers = dict(zip(number_new_fields(schema), field_ids, strict=True))
    return replace_fields(file, [numbers[each] for each in file.fields])


def _replace_files(fragment: FragmentMetadata, new: DataFile, field_ids: Sequence[int]) -> FragmentMetadata:
    """Return a fragment that reads fields from a new file, without files that nothing is read from any more."""
    known = frozenset(field_ids)
    files = [
        replace_fields(file, [TOMBSTONE if each in known else each for each in file.fields]) for file in fragment.files
    ]
    kept = [file for file in files if any(each != TOMBSTONE for each in file.fields)]
    return replace(fragment, files=[*kept, new])


def replace_fields(file: DataFile, fields: list[int]) -> DataFile:
    """Return the same file with other numbers of fields."""
    return DataFile(
        str(file.path),
        fields,
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
        file.base_id,
    )
