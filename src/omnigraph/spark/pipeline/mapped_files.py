"""Mappings whose Parquet files a load reads by name: plain columns of a source, without any SQL.

Tasks read such files by themselves, so no row travels from Java to Python. Every other mapping is a DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.column_types import find_local_files
from omnigraph.pipeline.file import PipelineFile
from omnigraph.pipeline.planner import PipelinePlan, PlannedMapping, PlannedSource
from omnigraph.storage.location import has_scheme, strip_file_scheme
from omnigraph.write.load import DataFile, read_file_schema

_PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True)
class MappedFiles:
    """Parquet files of one type: the column of each target, and all columns, none of which is read by its own name."""

    paths: tuple[str, ...]
    columns: Mapping[str, str]
    ignored: frozenset[str]


def find_mapped_files(plan: PipelinePlan, mapping: PlannedMapping) -> MappedFiles | None:
    """Return the files of a mapping, if they hold exactly what Spark would read; else None."""
    name = mapping.view.value.lower()
    source = next((each for each in plan.sources if each.source.name.lower() == name), None)
    chosen = {each.name: each.column for each in mapping.columns if each.column is not None}
    if source is None or len(chosen) != len(mapping.columns):
        return None
    files = _list_parquet_files(plan.file, source)
    schemas = [read_file_schema(DataFile(str(path), _PARQUET)) for path in files]
    # Spark takes the columns of one file for those of all.
    types = {tuple(_type_of(schema, column) for column in chosen.values()) for schema in schemas}
    if len(types) != 1 or not all(type_ is not None and _is_read_alike(type_) for type_ in next(iter(types))):
        return None
    names = frozenset(name for schema in schemas for name in schema.names)
    return MappedFiles(tuple(str(path.absolute()) for path in files), chosen, names)


def _list_parquet_files(file: PipelineFile, source: PlannedSource) -> list[Path]:
    """Return the files of a source of plain Parquet files on this machine; none for any other source."""
    format_, path = source.source.format, source.source.path
    if path is None or format_ is None or format_.value.lower() != _PARQUET or source.source.options:
        return []
    # Spark resolves an absolute path without a scheme in its own file system.
    is_local = file.is_relative(path) or not has_scheme(strip_file_scheme(path.value))
    return (find_local_files(file, path) or []) if is_local and source.columns is not None else []


def _type_of(schema: pa.Schema, column: str) -> pa.DataType | None:
    return schema.types[schema.names.index(column)] if schema.names.count(column) == 1 else None


def _is_read_alike(type_: pa.DataType) -> bool:
    """Return whether Spark reads the values of a Parquet column as Arrow does, whatever its settings are."""
    if pa.types.is_list(type_):
        return _is_read_alike(cast("pa.ListType[pa.DataType]", type_).value_type)
    if pa.types.is_timestamp(type_):
        return type_.tz is not None and type_.unit in ("ms", "us")
    plain = (pa.types.is_string, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_floating)
    return any(test(type_) for test in (*plain, pa.types.is_date32))
