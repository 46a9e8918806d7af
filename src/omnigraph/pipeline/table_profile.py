"""Profile tables for a schema: the type of each column, whether it is empty somewhere, and whether it looks like a key.

A column has a type if every value of the sample can be loaded as that type. Nothing larger than a sample is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import NotFound, ParameterError
from omnigraph.language.schema import SYSTEM_COLUMNS
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.write.load import DataFile, FileOptions, convert_texts, find_files, read_sample

MAX_ROWS: Final = 200_000
"""The number of rows of a table that are looked at."""
_MAX_ENUM_VALUES: Final = 12
_ROWS_PER_ENUM_VALUE: Final = 4
_EARLY_ROWS: Final = 100
_ENUM_VALUE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_LEADING_ZERO: Final = r"^[+-]?0\d"
_ARRAY: Final = r"^\s*\["
_TEXT: Final = ValueType(Scalar.STRING)
_MIN_VECTOR: Final = 3
_SCALARS: Final = (Scalar.BOOL, Scalar.I64, Scalar.F64, Scalar.DATE, Scalar.DATETIME)
_ID_NAMES: Final = ("id", "code", "key", "uuid", "guid")
_ID_ENDINGS: Final = ("_id", "_code", "_key", "id")


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column: the property that it becomes, its type, and why. ``texts`` are its different values as texts."""

    column: str
    property_name: str
    type: ValueType | None
    reason: str
    is_unique: bool
    texts: frozenset[str]

    @property
    def looks_like_id(self) -> bool:
        """Whether the name is one that keys have."""
        return self.property_name in _ID_NAMES or self.property_name.endswith(_ID_ENDINGS)


@dataclass(frozen=True, slots=True)
class TableProfile:
    """A table: the path as given, its files, how many rows were looked at, and its columns.

    ``spans_lines``: a value of a text file has several lines.
    """

    path: str
    files: tuple[DataFile, ...]
    rows: int
    is_complete: bool
    columns: tuple[ColumnProfile, ...]
    spans_lines: bool = False

    @property
    def node_name(self) -> str:
        """The name of the node type that it may become."""
        return make_node_name(self.path)

    @property
    def label(self) -> str:
        """The table in comments: its path, and how many rows were looked at."""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"{self.path}: {rows}" if self.is_complete else f"{self.path}: the first {rows}"


def profile_tables(paths: Sequence[str], options: FileOptions) -> list[TableProfile]:
    """Profile the table of each path, which may be a pattern or a folder."""
    found = [(path, find_files([path], options)) for path in paths]
    problems = [problem for _, files in found for problem in files.problems]
    missing = [path for _, files in found for path in files.missing]
    if missing:
        raise NotFound("; ".join(f"there is no file '{path}'" for path in missing))
    if problems:
        raise ParameterError("; ".join(problems))
    return [_profile_table(path, files.files) for path, files in found]


def _profile_table(path: str, files: Sequence[DataFile]) -> TableProfile:
    sample = pa.table({})
    is_complete = True
    for file in files:
        rows = read_sample(file, MAX_ROWS + 1 - sample.num_rows)
        sample = rows if not sample.num_columns else _append_rows(sample, rows)
        if sample.num_rows > MAX_ROWS:
            sample, is_complete = sample.slice(0, MAX_ROWS), False
            break
    is_text = files[0].format == "csv"
    columns: list[ColumnProfile] = []
    for name in sample.schema.names:
        columns.append(_profile_column(name, sample, columns, is_text=is_text))
    texts = [column_of(sample, name).drop_null() for name in sample.schema.names] if is_text else []
    spans_lines = any(_matches_any(each, r"[\r\n]") for each in texts)
    return TableProfile(path, tuple(files), sample.num_rows, is_complete, tuple(columns), spans_lines)


def _append_rows(sample: pa.Table, rows: pa.Table) -> pa.Table:
    """Append the rows of another file, as far as its columns fit."""
    if set(rows.schema.names) != set(sample.schema.names):
        return sample
    try:
        return pa.concat_tables([sample, rows.select(sample.schema.names).cast(sample.schema)])
    except pa.ArrowInvalid:
        return sample


# --------------------------------------------------------------------------------------------- names


def make_node_name(path: str) -> str:
    """Return the name of a node type for a table: ``raw/order_items.csv`` gives ``OrderItem``."""
    words = _split_name(path)
    return _join_words([*words[:-1], _to_singular(words[-1])])


def make_edge_name(path: str) -> str:
    """Return the name of an edge type for a table: ``raw/calls_at.csv`` gives ``CallsAt``."""
    return _join_words(_split_name(path))


def _split_name(path: str) -> list[str]:
    given = Path(path)
    return _WORD.findall(given.name.split(".")[0]) or _WORD.findall(given.parent.name) or ["Table"]


def _join_words(words: Sequence[str]) -> str:
    found = "".join(word[:1].upper() + word[1:] for word in words)
    return found if found[0].isalpha() else f"T{found}"


def _to_singular(word: str) -> str:
    lower = word.lower()
    if lower == "people":
        return word[:1] + "erson"
    if lower.endswith("ies") and len(word) > len("ties"):
        return f"{word[:-3]}y"
    if lower.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if lower.endswith("s") and not lower.endswith(("ss", "us", "is")) else word


def make_property_name(column: str, taken: Sequence[str]) -> str:
    """Return a property name for a column: ``Full Name`` gives ``full_name``."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", column)
    name = "_".join(word.lower() for word in _WORD.findall(split)) or "column"
    name = name if name[0].isalpha() else f"c_{name}"
    name = f"{name}_value" if name in SYSTEM_COLUMNS and name != "id" else name
    number, found = 2, name
    while found in taken:
        number, found = number + 1, f"{name}_{number}"
    return found


# --------------------------------------------------------------------------------------------- columns


def _profile_column(name: str, sample: pa.Table, others: Sequence[ColumnProfile], *, is_text: bool) -> ColumnProfile:
    column = column_of(sample, name)
    property_ = make_property_name(name, [each.property_name for each in others])
    is_string = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_string:
        type_, reason = _infer_text_type(column.cast(pa.string()), is_csv=is_text)
    else:
        type_, reason = _infer_arrow_type(column)
    empty = column.null_count
    if type_ is not None and (empty or not len(column)):
        type_ = type_.as_nullable()
        reason = f"{reason}; empty in {empty:,} of {len(column):,} rows" if len(column) else f"{reason}; no rows"
    texts = _list_texts(column) if type_ is not None and _can_be_key(type_) else frozenset[str]()
    is_unique = bool(texts) and len(texts) == len(column) and not empty
    return ColumnProfile(name, property_, type_, reason.lstrip("; "), is_unique, texts)


def _can_be_key(type_: ValueType) -> bool:
    return not type_.is_list and type_.scalar in (Scalar.STRING, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64)


def _list_texts(column: Values) -> frozenset[str]:
    return frozenset(cast("list[str]", to_list(compute("unique", column.drop_null()).cast(pa.string()))))


def _infer_text_type(column: Values, *, is_csv: bool) -> tuple[ValueType, str]:
    """Return the type of texts, and the reason if it is not obvious."""
    values = column.drop_null()
    if not len(values):
        return _TEXT, "always empty"
    if _matches_any(values, _LEADING_ZERO) and not _matches_any(values, r"\."):
        return _TEXT, "digits with leading zeros are kept as a text"
    # In other formats than CSV, only dates are written as texts.
    for scalar in _SCALARS if is_csv else (Scalar.DATE, Scalar.DATETIME):
        if scalar is Scalar.BOOL and not _matches_any(values, "[^01]"):
            continue
        if _do_all_fit(values, ValueType(scalar)):
            return ValueType(scalar), ""
    if is_csv and _matches_any(values, _ARRAY):
        for item in (Scalar.STRING, Scalar.F64):
            if _do_all_fit(values, ValueType(item, is_list=True)):
                return ValueType(item, is_list=True), "JSON arrays"
    return _infer_enum(values)


def _infer_enum(values: Values) -> tuple[ValueType, str]:
    unique = sorted(cast("list[str]", to_list(compute("unique", values))))
    is_small = len(unique) <= _MAX_ENUM_VALUES and len(unique) * _ROWS_PER_ENUM_VALUE <= len(values)
    if is_small and all(_ENUM_VALUE.fullmatch(each) for each in unique):
        return replace(_TEXT, enum_values=tuple(unique)), f"{len(unique)} different values; String if others may come"
    return _TEXT, ""


def _matches_any(values: Values, pattern: str) -> bool:
    return bool(len(find_true(compute("match_substring_regex", values, options=pc.MatchSubstringOptions(pattern)))))


def _do_all_fit(values: Values, type_: ValueType) -> bool:
    # Most types are ruled out by the first values.
    return not any(convert_texts(part, type_).mismatches for part in (values.slice(0, _EARLY_ROWS), values))


def _infer_arrow_type(column: Values) -> tuple[ValueType | None, str]:
    found = column.type
    if pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found):
        return _infer_list_type(column)
    scalar = _find_scalar(found)
    if scalar is not None:
        return ValueType(scalar), ""
    if pa.types.is_null(found):
        return _TEXT, "always empty"
    if isinstance(found, pa.DictionaryType):
        return _infer_text_type(column.cast(pa.string()), is_csv=False)
    return None, f"a column of {found} has no type here"


def _infer_list_type(column: Values) -> tuple[ValueType | None, str]:
    item = cast("pa.ListType[pa.DataType]", column.type).value_type
    if pa.types.is_floating(item):
        lengths = cast("list[int]", to_list(compute("unique", compute("list_value_length", column.drop_null()))))
        if len(lengths) == 1 and lengths[0] >= _MIN_VECTOR:
            return ValueType(Scalar.VECTOR, dimension=lengths[0]), f"always {lengths[0]} numbers"
    scalar = _find_scalar(item)
    if scalar is not None and scalar is not Scalar.BLOB:
        return ValueType(scalar, is_list=True), ""
    return None, f"a column of {column.type} has no type here"


def _find_scalar(found: pa.DataType) -> Scalar | None:
    return Scalar.DATETIME if pa.types.is_timestamp(found) else _ARROW_SCALARS.get(found)


_ARROW_SCALARS: Final[Mapping[pa.DataType, Scalar]] = {
    pa.bool_(): Scalar.BOOL,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), Scalar.I32),
    pa.int64(): Scalar.I64,
    pa.uint32(): Scalar.U32,
    pa.uint64(): Scalar.U64,
    **dict.fromkeys((pa.float16(), pa.float32()), Scalar.F32),
    pa.float64(): Scalar.F64,
    pa.date32(): Scalar.DATE,
    pa.date64(): Scalar.DATETIME,
    **dict.fromkeys((pa.string(), pa.large_string()), Scalar.STRING),
    **dict.fromkeys((pa.binary(), pa.large_binary()), Scalar.BLOB),
}
