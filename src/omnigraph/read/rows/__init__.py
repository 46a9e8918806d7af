"""Reading without a query: the rows of a type, one entity, its neighbours, its blobs, and exports."""

from omnigraph.read.rows.blobs import (
    EXTERNAL,
    INLINE,
    BlobValue,
    Descriptor,
    blob_array,
    blob_sizes,
    blob_text,
    blob_value,
    descriptors_of,
    measured_blob,
    read_blob,
    stored_bytes,
    whole_blobs,
)
from omnigraph.read.rows.conditions import Filter, conditions_of
from omnigraph.read.rows.export import ExportResult, Format, Target, export_lines, export_of, export_to
from omnigraph.read.rows.export_files import new_file
from omnigraph.read.rows.neighbors import Direction, find_neighbors
from omnigraph.read.rows.scan import Key, Scan, get, scan_edges, scan_nodes
from omnigraph.read.rows.type_rows import (
    SHOWN,
    TypeRows,
    blobs_of,
    edge_type,
    node_type,
    readable,
    rows_of,
    shown_schema,
    type_of,
)
from omnigraph.read.rows.values import json_rows, python_rows, result_schema, shown

__all__ = [
    "EXTERNAL",
    "INLINE",
    "SHOWN",
    "BlobValue",
    "Descriptor",
    "Direction",
    "ExportResult",
    "Filter",
    "Format",
    "Key",
    "Scan",
    "Target",
    "TypeRows",
    "blob_array",
    "blob_sizes",
    "blob_text",
    "blob_value",
    "blobs_of",
    "conditions_of",
    "descriptors_of",
    "edge_type",
    "export_lines",
    "export_of",
    "export_to",
    "find_neighbors",
    "get",
    "json_rows",
    "measured_blob",
    "new_file",
    "node_type",
    "python_rows",
    "read_blob",
    "readable",
    "result_schema",
    "rows_of",
    "scan_edges",
    "scan_nodes",
    "shown",
    "shown_schema",
    "stored_bytes",
    "type_of",
    "whole_blobs",
]
