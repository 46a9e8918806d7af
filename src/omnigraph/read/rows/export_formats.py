"""The formats of an export: JSONL, Parquet and CSV. A load reads each of them back to the same rows.

Rows are read in pieces of bounded size, with their blobs, and each piece is converted column by column. In every format
a blob is a string that a load accepts: ``base64:`` and its bytes, or the URI of an external object, which is not
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Unsupported
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.rows.public_values import to_json_values, to_public_batch
from omnigraph.read.rows.stored_blobs import estimate_blob_sizes, read_blob_texts, split_by_bytes
from omnigraph.read.rows.type_rows import TypeRows, blob_properties_of, public_schema_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, add_quotes, column_of, compute, find_true, quote_json

PIECE_BYTES: Final = 16 * 1024 * 1024
"""The approximate size of a piece; a row is never divided."""


def read_export_rows(rows: TypeRows) -> Iterator[pa.RecordBatch]:
    """Yield all rows in all columns of their table, with blobs as strings."""
    columns, blobs = arrow_schema(rows.type).names, set(blob_properties_of(rows.type))
    for batch in rows.read(columns, with_address=bool(blobs), one_by_one=True):
        for piece in _split_batch(batch, blobs):
            if rows.table is None or not blobs:
                yield piece
                continue
            found = [
                read_blob_texts(rows.table, name, piece) if name in blobs else column_of(piece, name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(found, names=columns)


def _split_batch(batch: pa.RecordBatch, blobs: set[str]) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    sizes = np.full(batch.num_rows, batch.nbytes / batch.num_rows)
    for name in blobs:
        sizes += estimate_blob_sizes(batch, name)
    for piece in split_by_bytes(sizes, PIECE_BYTES):
        yield batch.slice(piece.start, piece.stop - piece.start)


# --------------------------------------------------------------------------------------------- JSONL

_LARGE: Final = pa.large_string()
_TEXT: Final = ValueType(Scalar.STRING)
_WHOLE_NUMBER: Final = r"^-?\d+$"
_NOT_FINITE_HINT: Final = 'JSON has no such number; format="parquet" can hold it'


def to_json_lines(type_: NodeType | EdgeType, rows: pa.RecordBatch) -> Values:
    """Return one line of JSON for each row, with its newline. Blob columns must hold their text form.

    Nulls are written: a load would give a property that is left out its default.
    """
    name = _quote(type_.name)
    if isinstance(type_, EdgeType):
        opening = [f'{{"edge":{name},"from":', "src", ',"to":', "dst", ',"data":{"id":', "id"]
    else:
        opening = [f'{{"type":{name},"data":{{"id":', "id"]
    properties = [part for column in type_.properties for part in (f",{_quote(column)}:", column)]
    parts = [*opening, *properties]
    texts = [_literal(text) for text in parts[::2]]
    values = [_to_json_texts(type_, rows, column) for column in parts[1::2]]
    pairs = [part for pair in zip(texts, values, strict=True) for part in pair]
    return compute("binary_join_element_wise", *pairs, _literal("}}\n"), _literal(""))


def join_lines(lines: Values) -> memoryview:
    """Return all lines as one piece of UTF-8, without a copy: Arrow stores them one after the other."""
    _, offsets, data = lines.buffers()
    if not len(lines) or offsets is None or data is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()


def _literal(text: str) -> pa.Scalar[pa.DataType]:
    return cast("pa.Scalar[pa.DataType]", pa.scalar(text, _LARGE))


# --------------------------------------------------------------------------------------------- values


def _to_json_texts(type_: NodeType | EdgeType, rows: pa.RecordBatch, column: str) -> Values:
    """Convert a column to the JSON texts of its values."""
    declared = type_.properties[column].type if column in type_.properties else _TEXT
    values = column_of(rows, column)
    try:
        texts = _format_lists(values, declared) if _has_items(declared) else _format_scalars(values, declared.scalar)
    except _NotFinite:
        raise Unsupported(f"{type_.name} has a '{column}' that is not finite", hint=_NOT_FINITE_HINT) from None
    return compute("coalesce", texts.cast(_LARGE), _literal("null"))


class _NotFinite(Exception):
    """A column holds NaN or an infinity, which JSON cannot write."""


def _has_items(type_: ValueType) -> bool:
    return type_.is_list or type_.scalar is Scalar.VECTOR


def _format_scalars(values: Values, scalar: Scalar) -> Values:
    match scalar:
        case Scalar.STRING | Scalar.BLOB:
            return quote_json(values)
        case Scalar.F32 | Scalar.F64 | Scalar.VECTOR:
            return _format_floats(values)
        case Scalar.DATE:
            return add_quotes(values.cast(pa.string()))
        case Scalar.DATETIME:
            return _format_instants(values)
        case _:
            return values.cast(pa.string())


def _format_floats(values: Values) -> Values:
    """Return the shortest texts that read back to the same values. An F32 is widened, because a load reads an F64."""
    if len(find_true(compute("invert", compute("is_finite", values)))):
        raise _NotFinite
    texts = values.cast(pa.float64()).cast(pa.string())
    # Without a decimal point it would be read as an integer, and -0 would lose its sign.
    whole = compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(_WHOLE_NUMBER))
    return compute("if_else", whole, compute("binary_join_element_wise", texts, ".0", ""), texts)


def _format_instants(values: Values) -> Values:
    texts = values.cast(pa.timestamp("ms")).cast(pa.string())
    with_t = compute("binary_replace_slice", texts, options=pc.ReplaceSliceOptions(10, 11, "T"))
    return add_quotes(compute("binary_join_element_wise", with_t, "Z", ""))


def _format_lists(values: Values, type_: ValueType) -> Values:
    items = _format_scalars(compute("list_flatten", values), type_.scalar)
    items = compute("coalesce", items, pa.scalar("null", items.type))
    lengths = compute("coalesce", compute("list_value_length", values), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    joined = compute("binary_join", cast("Values", pa.ListArray.from_arrays(offsets, items)), ",")
    listed = compute("binary_join_element_wise", "[", joined, "]", "")
    return compute("if_else", compute("is_valid", values), listed, pa.scalar(None, pa.string()))


# --------------------------------------------------------------------------------------------- Parquet

FILE_BYTES: Final = 512 * 1024 * 1024
"""The size of a file, before compression, after which the next one begins."""
_GROUP_BYTES: Final = 32 * 1024 * 1024


def write_parquet(key: TableKey, reader: pa.RecordBatchReader, folder: Path) -> int:
    """Write all rows of a type into a folder of its own and return their number. There is at least one file."""
    # Imported here: it is slow, and an export as JSONL does not need it.
    import pyarrow.parquet as pq

    directory = folder / key.kind / key.type_name
    directory.mkdir(parents=True)
    groups = _collect_row_groups(reader)
    count, number, group = 0, 0, next(groups, reader.schema.empty_table())
    while group is not None:
        with pq.ParquetWriter(directory / f"{number:05}.parquet", reader.schema, compression="zstd") as writer:
            size = 0
            while group is not None and size < FILE_BYTES:
                writer.write_table(group)
                count, size = count + group.num_rows, size + group.nbytes
                group = next(groups, None)
        number += 1
    return count


def write_csv_table(key: TableKey, reader: pa.RecordBatchReader, folder: Path) -> int:
    """Write all rows of a type into one file and return their number. An empty text is quoted, and a null is not."""
    from pyarrow import csv

    (folder / key.kind).mkdir(parents=True, exist_ok=True)
    types = [_csv_type_of(type_) for type_ in reader.schema.types]
    schema = pa.schema(list(zip(reader.schema.names, types, strict=True)))
    count = 0
    with csv.CSVWriter(folder / key.kind / f"{key.type_name}.csv", schema) as writer:
        for piece in reader:
            columns = cast("list[Values]", piece.columns)
            written = [_to_csv_column(column, type_) for column, type_ in zip(columns, types, strict=True)]
            writer.write_table(pa.Table.from_arrays(written, schema=schema))
            count += piece.num_rows
    return count


def _csv_type_of(type_: pa.DataType) -> pa.DataType:
    is_plain = pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return type_ if is_plain else pa.large_string()


def _to_csv_column(column: Values, type_: pa.DataType) -> Values:
    """Convert a column: numbers stay numbers, strings and times are written as in JSON, and lists as JSON."""
    if column.type == type_:
        return column
    values = to_json_values(column)
    return pa.array([v if v is None or isinstance(v, str) else orjson.dumps(v).decode() for v in values], type_)


TABLE_WRITERS: Final[Mapping[str, Callable[[TableKey, pa.RecordBatchReader, Path], int]]] = {
    "parquet": write_parquet,
    "csv": write_csv_table,
}
"""How the rows of a type are written into a folder, by format."""


def open_export_reader(rows: TypeRows) -> pa.RecordBatchReader:
    """Open all rows of a type as Arrow: the public columns, with blobs as strings."""
    schema = _export_schema_of(rows)
    pieces = (to_public_batch(piece, schema) for piece in read_export_rows(rows))
    return pa.RecordBatchReader.from_batches(schema, pieces)


def _export_schema_of(rows: TypeRows) -> pa.Schema:
    schema, blobs = public_schema_of(rows.type, arrow_schema(rows.type).names), blob_properties_of(rows.type)
    for name in blobs:
        nullable = rows.type.properties[name].type.nullable
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.large_string(), nullable))
    return schema


def _collect_row_groups(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield the rows in tables of the size of a row group."""
    collected: list[pa.RecordBatch] = []
    for piece in reader:
        collected.append(piece)
        if sum(each.nbytes for each in collected) >= _GROUP_BYTES:
            yield pa.Table.from_batches(collected, reader.schema)
            collected = []
    if collected:
        yield pa.Table.from_batches(collected, reader.schema)
