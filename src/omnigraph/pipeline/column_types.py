"""What is known about columns before Spark starts: the names and types that files tell, and what an expression gives.

Nothing here guesses: a column or an expression that only Spark understands is of no known type, and checked by Spark.
"""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from omnigraph.pipeline.file import Input, PipelineFile, View
from omnigraph.pipeline.yaml_reader import Text

Types: TypeAlias = "pa.DataType | None"

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
_EVERYTHING: Final = re.compile(
    r"\s*select\s+\*\s+from\s+(?P<name>[A-Za-z_]\w*)\s*(?:(?:where|order\s+by|limit)\b.*)?", re.IGNORECASE | re.DOTALL
)
_SET_OPERATION: Final = re.compile(r"\b(?:union|intersect|except|minus)\b", re.IGNORECASE)
# Words that are no columns, though they look like them; Spark has them without parentheses.
_WORDS: Final = frozenset(
    {"current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp"}
    | {"current_timezone", "current_user", "localtimestamp", "session_user", "user"}
)
_LITERALS: Final[Mapping[str, pa.DataType]] = {"true": pa.bool_(), "false": pa.bool_(), "null": pa.null()}
_LARGEST_INT: Final = 2**31 - 1
_LARGEST_LONG: Final = 2**63 - 1
# What these do to the first line is left to Spark.
_CSV_OPTIONS: Final = frozenset(
    {"sep", "delimiter", "header", "encoding", "charset", "quote", "inferschema", "nullvalue", "mode", "dateformat"}
    | {"timestampformat", "emptyvalue", "pathglobfilter"}
)


class Unreadable(Exception):
    """A file is not of the format that it should have. Caught where its place in the pipeline is known."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a view, by their names in lower case; Spark finds them in any case."""

    types: Mapping[str, Types]
    names: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], types: Sequence[Types]) -> Columns | None:
        """None if two names differ in case only: what Spark makes of those depends on the format."""
        found = dict(zip((name.lower() for name in names), types, strict=True))
        return cls(found, tuple(names)) if len(found) == len(names) else None


@dataclass(frozen=True, slots=True)
class Given:
    """What an expression gives: the type of its values where that is known, and a column that it wants in vain."""

    type: Types = None
    unknown_column: str | None = None


# --------------------------------------------------------------------------------------------- files


def local_files(file: PipelineFile, path: Text) -> list[Path] | None:
    """The files that a path or pattern means; None if they are not on this machine, or only Spark can tell."""
    pattern = file.local_pattern(path)
    if pattern is None or re.search(r"[{\\^]", path.value):
        # Here a pattern means something else to Python than to Spark.
        return None
    found = glob.glob(pattern)  # noqa: PTH207  a pattern may be absolute
    return sorted(each for name in found for each in _data_files(Path(name)))


def columns_of_input(file: PipelineFile, source: Input) -> Columns | None:
    """The columns of a source of local files; None where only Spark knows them."""
    if source.path is None or source.format is None:
        return None
    options = {name.lower(): option.value for name, option in source.options.items()}
    files = local_files(file, source.path)
    if not files or options.keys() & {"mergeschema", "recursivefilelookup"}:
        return None
    if any("=" in part for path in files for part in path.parts[:-1]):
        # Folders such as day=7 are columns too.
        return None
    match source.format.value.lower():
        case "parquet" | "orc" as format_:
            return _stored_columns(files[0], format_)
        case "csv":
            return _csv_columns(files[0], options)
        case "text":
            return Columns({"value": pa.string()}, ("value",))
        case _:
            return None


def _data_files(path: Path) -> list[Path]:
    """What Spark reads of a path: the file, or all files below a folder, without those that are hidden from it."""
    if not path.is_dir():
        return [] if _is_hidden(path.name) else [path]
    below = (each for each in path.rglob("*") if each.is_file())
    return [each for each in below if not any(map(_is_hidden, each.relative_to(path).parts))]


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _stored_columns(path: Path, format_: str) -> Columns | None:
    # Imported here, because few pipelines need both.
    try:
        if format_ == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(path)
        else:
            import pyarrow.orc as orc

            schema = orc.ORCFile(path).schema
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"{path.name} is no {format_} file: {str(error).splitlines()[0]}") from error
    return Columns.of(schema.names, [_as_spark_reads(type_) for type_ in schema.types])


def _as_spark_reads(type_: pa.DataType) -> Types:
    """A stored type, where Spark reads it as what it is."""
    plain = (
        pa.types.is_string,
        pa.types.is_boolean,
        pa.types.is_signed_integer,
        pa.types.is_floating,
        pa.types.is_date32,
    )
    return type_ if any(test(type_) for test in plain) else None


def _csv_columns(path: Path, options: Mapping[str, str]) -> Columns | None:
    separator = options.get("sep", options.get("delimiter", ","))
    quote = options.get("quote", '"')
    if not options.keys() <= _CSV_OPTIONS or len(separator) != 1 or len(quote) != 1:
        return None
    try:
        with path.open(encoding=options.get("encoding", options.get("charset", "utf-8-sig")), newline="") as lines:
            first = next(csv.reader(lines, delimiter=separator, quotechar=quote), list[str]())
    except (OSError, UnicodeError, LookupError, csv.Error):
        # Compressed, perhaps.
        return None
    if options.get("header", "false").lower() != "true":
        first = [f"_c{place}" for place in range(len(first))]
    infers = options.get("inferschema", "false").lower() == "true"
    return Columns.of(first, [None if infers else pa.string()] * len(first)) if all(first) else None


# --------------------------------------------------------------------------------------------- views and expressions


def columns_of_view(view: View, known: Mapping[str, Columns | None]) -> Columns | None:
    """The columns of a view that only leaves out rows of another."""
    match = _EVERYTHING.fullmatch(view.sql.value.rstrip().removesuffix(";"))
    if match is None or _SET_OPERATION.search(view.sql.value):
        return None
    return known.get(match["name"].lower())


def given_by(expression: str, view: str, columns: Columns | None) -> Given:
    """What an expression over a view gives, as far as it can be seen."""
    text = expression.strip()
    cast_ = _CAST.fullmatch(text)
    if cast_ is not None and _is_whole(cast_["inner"]):
        inner = given_by(cast_["inner"], view, columns)
        return Given(_type_named(cast_["type"]), inner.unknown_column)
    name = _NAME.fullmatch(text)
    if name is not None and (literal := _LITERALS.get(text.lower())) is not None:
        return Given(literal)
    if name is not None:
        return _column(name, view, columns)
    typed = _TYPED_TEXT.fullmatch(text)
    if typed is not None:
        return Given(_TYPES[typed["type"].lower()])
    if _TEXT.fullmatch(text):
        return Given(pa.string())
    return Given(_integer(int(text)) if _INTEGER.fullmatch(text) else None)


def _column(name: re.Match[str], view: str, columns: Columns | None) -> Given:
    prefix, plain, quoted = name["view"], name["plain"], name["quoted"]
    if columns is None or (prefix is not None and prefix.lower() != view.lower()):
        # Behind an unknown prefix may be a field of a column.
        return Given()
    column = plain or quoted.replace("``", "`")
    if column.lower() in columns.types:
        return Given(columns.types[column.lower()])
    return Given() if column.lower() in _WORDS else Given(unknown_column=column)


def _integer(value: int) -> Types:
    if abs(value) <= _LARGEST_INT:
        return pa.int32()
    return pa.int64() if abs(value) <= _LARGEST_LONG else None


def _type_named(name: str) -> Types:
    array = _ARRAY.fullmatch(name.strip())
    if array is None:
        return _TYPES.get(name.strip().lower())
    item = _type_named(array[1])
    return None if item is None else pa.list_(item)


def _is_whole(inner: str) -> bool:
    """Whether the parentheses of a text close each other: else it is the middle of ``cast(a) || cast(b)``."""
    depth = 0
    for char in re.sub(r"'[^']*'|`[^`]*`", "", inner):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0
