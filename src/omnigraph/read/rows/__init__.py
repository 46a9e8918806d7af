"""Read rows without a query: scans, one entity, its neighbors, blobs, and exports."""

from omnigraph.read.rows.conditions import Filter, parse_filter
from omnigraph.read.rows.export import ExportResult, Format, Target, export_lines, export_to, plan_export
from omnigraph.read.rows.export_files import create_file
from omnigraph.read.rows.neighbors import Direction, find_neighbors
from omnigraph.read.rows.public_values import to_json_rows, to_public_batch, to_public_schema, to_python_rows
from omnigraph.read.rows.scan import Key, Scan, get_entity, scan_edges, scan_nodes
from omnigraph.read.rows.stored_blobs import (
    EXTERNAL_BLOB,
    INLINE_PREFIX,
    BlobDescriptor,
    BlobValue,
    blob_to_text,
    descriptors_of,
    estimate_blob_sizes,
    make_blob_value,
    measure_blob,
    read_blob,
    read_stored_bytes,
    read_writable_blobs,
    to_blob_array,
)
from omnigraph.read.rows.type_rows import (
    PUBLIC_NAMES,
    TypeRows,
    blob_properties_of,
    open_type_rows,
    public_schema_of,
    require_edge_type,
    require_node_type,
    require_type,
    value_columns_of,
)

__all__ = [
    "EXTERNAL_BLOB",
    "INLINE_PREFIX",
    "PUBLIC_NAMES",
    "BlobDescriptor",
    "BlobValue",
    "Direction",
    "ExportResult",
    "Filter",
    "Format",
    "Key",
    "Scan",
    "Target",
    "TypeRows",
    "blob_properties_of",
    "blob_to_text",
    "create_file",
    "descriptors_of",
    "estimate_blob_sizes",
    "export_lines",
    "export_to",
    "find_neighbors",
    "get_entity",
    "make_blob_value",
    "measure_blob",
    "open_type_rows",
    "parse_filter",
    "plan_export",
    "public_schema_of",
    "read_blob",
    "read_stored_bytes",
    "read_writable_blobs",
    "require_edge_type",
    "require_node_type",
    "require_type",
    "scan_edges",
    "scan_nodes",
    "to_blob_array",
    "to_json_rows",
    "to_public_batch",
    "to_public_schema",
    "to_python_rows",
    "value_columns_of",
]
