"""Loads: read records and frames of any size once, check them against every rule, and commit them as one commit."""

from omnigraph.write.load.column_selection import ColumnNames
from omnigraph.write.load.conversion import can_convert
from omnigraph.write.load.data_frames import BATCH_ROWS, ArrowStream, ColumnMapping, can_be_end, open_frame
from omnigraph.write.load.delimited_text import find_record_end
from omnigraph.write.load.identity import Identity, RowIdentity, resolve_identity
from omnigraph.write.load.identity_matching import add_blob_digests, assign_counterparts, match_stored_rows
from omnigraph.write.load.incoming_rows import (
    FragmentTarget,
    IncomingRows,
    InMemoryRows,
    NumberedRows,
    StagedRows,
    UnmatchedRecords,
    attach_blobs,
    to_reader,
)
from omnigraph.write.load.load_input import (
    LoadInput,
    TableInput,
    TypedTable,
    list_table_files,
    refuse_problems,
    resolve_tables,
)
from omnigraph.write.load.load_operation import LOCAL_LOAD_ENGINE, LoadMode, stage_rows
from omnigraph.write.load.match_candidates import (
    INCOMING_DIGESTS,
    MatchBasis,
    StoredRows,
    addresses_of,
    can_match_by_lookup,
    keep_common,
)
from omnigraph.write.load.partial_rows import (
    GIVEN,
    Mask,
    RowForm,
    completed_schema,
    list_value_columns,
    partial_schema,
    schema_of,
)
from omnigraph.write.load.positions import GeneratedIds, RecordPosition, RowNumbers, RowPositions
from omnigraph.write.load.quarantine import (
    MAX_VIOLATIONS,
    RejectsLine,
    RejectsTarget,
    ViolationCollector,
    choose_rejects_target,
    to_rejects_line,
)
from omnigraph.write.load.records import ObjectReader, parse_block
from omnigraph.write.load.row_admission import IncomingTable
from omnigraph.write.load.row_buffer import MAX_BUFFERED_BYTES
from omnigraph.write.load.row_updates import (
    UNMATCHED,
    NotFoundCause,
    RowAddresses,
    RowCompletion,
    UnmatchedRows,
    complete_rows,
    locate_stored,
    mark_named,
)
from omnigraph.write.load.run import (
    Engine,
    IndexPolicy,
    LoadContext,
    LoadOptions,
    LoadResult,
    OnError,
    ParsedInput,
    load,
)
from omnigraph.write.load.samples import read_sample
from omnigraph.write.load.sources import LineBlock, RecordSource, ignore_bytes
from omnigraph.write.load.table_files import (
    DataFile,
    FileOptions,
    expand_path,
    find_files,
    parse_file_options,
    read_file_schema,
)
from omnigraph.write.load.table_reader import CsvParser, map_columns, open_csv, open_csv_file, read_table_content
from omnigraph.write.load.text_values import convert_texts
from omnigraph.write.load.validation import RawBatch, RejectedRecord, ValidatedBatch, validate_batch

__all__ = [
    "BATCH_ROWS",
    "GIVEN",
    "INCOMING_DIGESTS",
    "LOCAL_LOAD_ENGINE",
    "MAX_BUFFERED_BYTES",
    "MAX_VIOLATIONS",
    "UNMATCHED",
    "ArrowStream",
    "ColumnMapping",
    "ColumnNames",
    "CsvParser",
    "DataFile",
    "Engine",
    "FileOptions",
    "FragmentTarget",
    "GeneratedIds",
    "Identity",
    "InMemoryRows",
    "IncomingRows",
    "IncomingTable",
    "IndexPolicy",
    "LineBlock",
    "LoadContext",
    "LoadInput",
    "LoadMode",
    "LoadOptions",
    "LoadResult",
    "Mask",
    "MatchBasis",
    "NotFoundCause",
    "NumberedRows",
    "ObjectReader",
    "OnError",
    "ParsedInput",
    "RawBatch",
    "RecordPosition",
    "RecordSource",
    "RejectedRecord",
    "RejectsLine",
    "RejectsTarget",
    "RowAddresses",
    "RowCompletion",
    "RowForm",
    "RowIdentity",
    "RowNumbers",
    "RowPositions",
    "StagedRows",
    "StoredRows",
    "TableInput",
    "TypedTable",
    "UnmatchedRecords",
    "UnmatchedRows",
    "ValidatedBatch",
    "ViolationCollector",
    "add_blob_digests",
    "addresses_of",
    "assign_counterparts",
    "attach_blobs",
    "can_be_end",
    "can_convert",
    "can_match_by_lookup",
    "choose_rejects_target",
    "complete_rows",
    "completed_schema",
    "convert_texts",
    "expand_path",
    "find_files",
    "find_record_end",
    "ignore_bytes",
    "keep_common",
    "list_table_files",
    "list_value_columns",
    "load",
    "locate_stored",
    "map_columns",
    "mark_named",
    "match_stored_rows",
    "open_csv",
    "open_csv_file",
    "open_frame",
    "parse_block",
    "parse_file_options",
    "partial_schema",
    "read_file_schema",
    "read_sample",
    "read_table_content",
    "refuse_problems",
    "resolve_identity",
    "resolve_tables",
    "schema_of",
    "stage_rows",
    "to_reader",
    "to_rejects_line",
    "validate_batch",
]
