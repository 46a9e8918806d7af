"""Inputs of a load: files, streams, records and frames, read once and piece by piece as columns."""

from omnigraph.write.load.inputs.arrow_files import FilePart, divide_file, join_parts, read_file_schema
from omnigraph.write.load.inputs.column_selection import ColumnNames, ColumnSelection
from omnigraph.write.load.inputs.csv_format import CsvFormat
from omnigraph.write.load.inputs.data_frames import (
    ARROW_VALUES,
    BATCH_ROWS,
    ArrowStream,
    ArrowValues,
    ColumnMapping,
    UnreadRows,
    can_be_end,
    open_frame,
    read_frame,
    translate_frame_errors,
)
from omnigraph.write.load.inputs.load_input import (
    LoadInput,
    TableInput,
    TypedTable,
    list_table_files,
    list_types_with_assumed_ids,
    refuse_empty_reader,
    refuse_files_without_records,
    refuse_problems,
    resolve_tables,
)
from omnigraph.write.load.inputs.record_splitter import RecordIsOpen, count_lines
from omnigraph.write.load.inputs.records import ObjectReader, parse_block, read_records
from omnigraph.write.load.inputs.samples import read_sample
from omnigraph.write.load.inputs.sources import LineBlock, RecordSource, ignore_bytes, open_chunks, read_blocks
from omnigraph.write.load.inputs.table_files import (
    DataFile,
    FileOptions,
    expand_path,
    find_files,
    parse_file_options,
)
from omnigraph.write.load.inputs.table_reader import (
    CsvParser,
    OpenedTable,
    TextPart,
    map_columns,
    open_csv,
    open_csv_file,
    open_tables,
    read_file_part,
    read_table_content,
)

__all__ = [
    "ARROW_VALUES",
    "BATCH_ROWS",
    "ArrowStream",
    "ArrowValues",
    "ColumnMapping",
    "ColumnNames",
    "ColumnSelection",
    "CsvFormat",
    "CsvParser",
    "DataFile",
    "FileOptions",
    "FilePart",
    "LineBlock",
    "LoadInput",
    "ObjectReader",
    "OpenedTable",
    "RecordIsOpen",
    "RecordSource",
    "TableInput",
    "TextPart",
    "TypedTable",
    "UnreadRows",
    "can_be_end",
    "count_lines",
    "divide_file",
    "expand_path",
    "find_files",
    "ignore_bytes",
    "join_parts",
    "list_table_files",
    "list_types_with_assumed_ids",
    "map_columns",
    "open_chunks",
    "open_csv",
    "open_csv_file",
    "open_frame",
    "open_tables",
    "parse_block",
    "parse_file_options",
    "read_blocks",
    "read_file_part",
    "read_file_schema",
    "read_frame",
    "read_records",
    "read_sample",
    "read_table_content",
    "refuse_empty_reader",
    "refuse_files_without_records",
    "refuse_problems",
    "resolve_tables",
    "translate_frame_errors",
]
