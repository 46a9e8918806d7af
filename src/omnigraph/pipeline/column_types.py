"""Infer columns and types before Spark starts: from the schemas of local files, and from simple SQL expressions.

Nothing is guessed: the type of a column or expression that only Spark can evaluate is None, and Spark checks it later.
"""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.file import PipelineFile, PipelineSource, PipelineView
from omnigraph.pipeline.yaml_reader import TemplateText

ColumnType: TypeAlias = "pa.DataType | None"

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
_NAME: Final = re.compile(r"(?:(?P<view>[A-Za-z_]\w*)\.)?(?:(?P<plain>[A-Za-z_]\w*)|`(?P<quoted>(?:[^`]|``)+)`)")
_CAST: Final = re.compile(r"(?:try_)?cast\s*\((?P<inner>.*)\s+as\s+(?P<type>[\w<>() ,]+)\)", re.IGNORECASE | re.DOTALL)
_ARRAY: Final = re.compile(r"array\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?\d+")
_TEXT: Final = re.compile(r"'[^'\\]*'")
_TYPED_TEXT: Final = re.compile(r"(?P<type>date|timestamp)\s*'[^']*'", re.IGNORECASE)
_SELECT_ALL: Final = re.compile(
    r"\s*select\s+\*\s+from\s+(?P<name>[A-Za-z_]\w*)\s*(?:(?:where|order\s+by|limit)\b.*)?", re.IGNORECASE | re.DOTALL
)
_SET_OPERATION: Final = re.compile(r"\b(?:union|intersect|except|minus)\b", re.IGNORECASE)
# They look like columns, but Spark evaluates them as functions.
_FUNCTIONS_WITHOUT_PARENTHESES: Final = frozenset(
    {"current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp"}
    | {"current_timezone", "current_user", "localtimestamp", "session_user", "user"}
)
_LITERALS: Final[Mapping[str, pa.DataType]] = {"true": pa.bool_(), "false": pa.bool_(), "null": pa.null()}
_LARGEST_INT: Final = 2**31 - 1
_LARGEST_LONG: Final = 2**63 - 1
# With any other option, Spark has to read the first line.
_CSV_OPTIONS: Final = frozenset(
    {"sep", "delimiter", "header", "encoding", "charset", "quote", "inferschema", "nullvalue", "mode", "dateformat"}
    | {"timestampformat", "emptyvalue", "pathglobfilter", "escape"}
)


class UnreadableFile(Exception):
    """A file does not have the expected format. The caller knows its place in the pipeline and reports it."""


@dataclass(frozen=True, slots=True)
class ViewColumns:
    """The columns of a view. Types are by name in lower case, because Spark ignores the case of names."""

    types: Mapping[str, ColumnType]
    names: tuple[str, ...]

    @classmethod
    def from_names(cls, names: Sequence[str], types: Sequence[ColumnType]) -> ViewColumns | None:
        """Return the columns, or None if two names differ only in case: Spark treats those differently by format."""
        found = dict(zip((name.lower() for name in names), types, strict=True))
        return cls(found, tuple(names)) if len(found) == len(names) else None


@dataclass(frozen=True, slots=True)
class ExpressionInfo:
    """What is known of an expression: the type of its values, and the column that it is, if it is nothing but one.

    ``unknown_column`` is the name of a column that does not exist.
    """

    type: ColumnType = None
    unknown_column: str | None = None
    column: str | None = None


# --------------------------------------------------------------------------------------------- files


def find_local_files(file: PipelineFile, path: TemplateText) -> list[Path] | None:
    """Return the files of a path or pattern, or None if they are not on this machine or only Spark can tell."""
    pattern = file.local_pattern(path)
    if pattern is None or re.search(r"[{\\^]", path.value):
        # Python and Spark interpret such patterns differently.
        return None
    found = glob.glob(pattern)  # noqa: PTH207  a pattern may be absolute
    return sorted(each for name in found for each in _list_data_files(Path(name)))


def read_source_columns(file: PipelineFile, source: PipelineSource) -> ViewColumns | None:
    """Read the columns of a source from its local files; None if only Spark knows them."""
    if source.path is None or source.format is None:
        return None
    options = {name.lower(): option.value for name, option in source.options.items()}
    files = find_local_files(file, source.path)
    if not files or options.keys() & {"mergeschema", "recursivefilelookup"}:
        return None
    if any("=" in part for path in files for part in path.parts[:-1]):
        # Partition folders such as day=7 add columns.
        return None
    match source.format.value.lower():
        case "parquet" | "orc" as format_:
            return _read_file_columns(files[0], format_)
        case "csv":
            return _read_csv_columns(files[0], options)
        case "text":
            return ViewColumns({"value": pa.string()}, ("value",))
        case _:
            return None


def _list_data_files(path: Path) -> list[Path]:
    """List the files that Spark reads for a path: the file, or all files below a folder that are not hidden."""
    if not path.is_dir():
        return [] if _is_hidden(path.name) else [path]
    below = (each for each in path.rglob("*") if each.is_file())
    return [each for each in below if not any(map(_is_hidden, each.relative_to(path).parts))]


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _read_file_columns(path: Path, format_: str) -> ViewColumns | None:
    # Imported here, because few pipelines use both formats.
    try:
        if format_ == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(path)
        else:
            import pyarrow.orc as orc

            schema = orc.ORCFile(path).schema
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{path.name} is not a valid {format_} file: {str(error).splitlines()[0]}") from error
    return ViewColumns.from_names(schema.names, [_to_spark_type(type_) for type_ in schema.types])


def _to_spark_type(type_: pa.DataType) -> ColumnType:
    """Return a stored type if Spark reads it unchanged, else None."""
    plain = (
        pa.types.is_string,
        pa.types.is_boolean,
        pa.types.is_signed_integer,
        pa.types.is_floating,
        pa.types.is_date32,
    )
    return type_ if any(test(type_) for test in plain) else None


def _read_csv_columns(path: Path, options: Mapping[str, str]) -> ViewColumns | None:
    separator = options.get("sep", options.get("delimiter", ","))
    quote = options.get("quote", '"')
    if not options.keys() <= _CSV_OPTIONS or len(separator) != 1 or len(quote) != 1:
        return None
    try:
        with path.open(encoding=options.get("encoding", options.get("charset", "utf-8-sig")), newline="") as lines:
            records = csv.reader(lines, delimiter=separator, quotechar=quote)
            # Spark skips blank lines.
            first = next((record for record in records if len(record) > 1 or "".join(record).strip()), list[str]())
    except (OSError, UnicodeError, LookupError, csv.Error):
        # It may be compressed.
        return None
    if options.get("header", "false").lower() != "true":
        first = [f"_c{place}" for place in range(len(first))]
    infers = options.get("inferschema", "false").lower() == "true"
    return ViewColumns.from_names(first, [None if infers else pa.string()] * len(first)) if all(first) else None


# --------------------------------------------------------------------------------------------- views and expressions


def infer_view_columns(view: PipelineView, known: Mapping[str, ViewColumns | None]) -> ViewColumns | None:
    """Return the columns of a view that selects all columns of another; None for any other view."""
    match = _SELECT_ALL.fullmatch(view.sql.value.rstrip().removesuffix(";"))
    if match is None or _SET_OPERATION.search(view.sql.value):
        return None
    return known.get(match["name"].lower())


def infer_expression(expression: str, view: str, columns: ViewColumns | None) -> ExpressionInfo:
    """Infer the type of an expression over a view, as far as possible without Spark."""
    text = expression.strip()
    cast_ = _CAST.fullmatch(text)
    if cast_ is not None and _is_balanced(cast_["inner"]):
        inner = infer_expression(cast_["inner"], view, columns)
        return ExpressionInfo(_parse_type(cast_["type"]), inner.unknown_column)
    name = _NAME.fullmatch(text)
    if name is not None and (literal := _LITERALS.get(text.lower())) is not None:
        return ExpressionInfo(literal)
    if name is not None:
        return _infer_column(name, view, columns)
    typed = _TYPED_TEXT.fullmatch(text)
    if typed is not None:
        return ExpressionInfo(_TYPES[typed["type"].lower()])
    if _TEXT.fullmatch(text):
        return ExpressionInfo(pa.string())
    return ExpressionInfo(_integer_type(int(text)) if _INTEGER.fullmatch(text) else None)


def _infer_column(name: re.Match[str], view: str, columns: ViewColumns | None) -> ExpressionInfo:
    prefix, plain, quoted = name["view"], name["plain"], name["quoted"]
    if columns is None or (prefix is not None and prefix.lower() != view.lower()):
        # With another prefix it may be a field of a struct column.
        return ExpressionInfo()
    column = plain or quoted.replace("``", "`")
    if column.lower() in columns.types:
        (found,) = (name for name in columns.names if name.lower() == column.lower())
        return ExpressionInfo(columns.types[column.lower()], column=found)
    return (
        ExpressionInfo() if column.lower() in _FUNCTIONS_WITHOUT_PARENTHESES else ExpressionInfo(unknown_column=column)
    )


def _integer_type(value: int) -> ColumnType:
    if abs(value) <= _LARGEST_INT:
        return pa.int32()
    return pa.int64() if abs(value) <= _LARGEST_LONG else None


def _parse_type(name: str) -> ColumnType:
    array = _ARRAY.fullmatch(name.strip())
    if array is None:
        return _TYPES.get(name.strip().lower())
    item = _parse_type(array[1])
    return None if item is None else pa.list_(item)


def _is_balanced(inner: str) -> bool:
    """Return whether parentheses are balanced; otherwise the text is the middle of ``cast(a) || cast(b)``."""
    depth = 0
    for char in re.sub(r"'[^']*'|`[^`]*`", "", inner):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0
