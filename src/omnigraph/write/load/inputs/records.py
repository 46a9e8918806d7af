"""Read graph records: ``{"type": T, "data": {...}}`` and ``{"edge": E, "from": id, "to": id, "data": {...}}``.

One JSON object per line. Lines are parsed one by one; then the records of each type in a block become columns at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Final, NoReturn, TypeAlias, cast

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, parse_default
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.columns import Values, compute, to_list
from omnigraph.write.load.inputs.column_selection import ColumnSelection, list_ends
from omnigraph.write.load.inputs.sources import (
    Block,
    ByteCounter,
    LineBlock,
    Record,
    RecordSource,
    ignore_bytes,
    read_blocks,
)
from omnigraph.write.load.inputs.unparsed_numbers import find_lost_digits, show_value
from omnigraph.write.load.rows import (
    ColumnConversion,
    Mask,
    RawBatch,
    RejectedRecord,
    RowError,
    RowForm,
    convert_values,
    format_value,
    note_conversion,
    resolve_end_ids,
    to_row_errors,
)
from omnigraph.write.rules import REQUIRED, format_ends, format_key, shorten

RECORD: Final = "record"
"""The rule that a line breaks if it is not a record at all."""
KNOWN_TYPES: Final = "known types"
KNOWN_PROPERTIES: Final = "known properties"

_NODE_FIELDS: Final = frozenset({"type", "data"})
_EDGE_FIELDS: Final = frozenset({"edge", "from", "to", "data"})
_RECORD_FORM: Final = 'write {"type": "T", "data": {...}} or {"edge": "E", "from": "id", "to": "id", "data": {...}}'
_OBJECT_FORM: Final = ', or name the type of the objects in a file: load(nodes={"T": file}), --node T=FILE'
_TEXT: Final = ValueType(Scalar.STRING)
_NO_DATA: Final[Record] = {}
_ABSENT: Final = object()
"""Stands for an end that a record does not mention."""

ParsedRecords: TypeAlias = RawBatch | RejectedRecord


class _InvalidRecord(Exception):
    """Raised for a line that is not a loadable record."""

    def __init__(self, message: str, type_: NodeType | EdgeType | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.type = type_

    def to_violation(self, file: str | None, line: int) -> Violation:
        """Return the violation of the line."""
        name, table_key = ("", None) if self.type is None else (self.type.name, self.type.table_key)
        return Violation(name, RECORD, self.message, file, line, table_key=table_key)


class _UnknownType(_InvalidRecord):
    """Raised for a record of a type that the schema does not have."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    def to_violation(self, file: str | None, line: int) -> Violation:
        """Return the violation of the line."""
        return Violation(self.name, KNOWN_TYPES, self.message, file, line)


@dataclass(slots=True)
class _RecordGroup:
    """The records of one type in one block: their numbers in the block, their data, and the ends of edges."""

    type: NodeType | EdgeType
    fields: frozenset[str]
    numbers: list[int] = field(default_factory=list[int])
    data: list[Record] = field(default_factory=list[Record])
    sources: list[object] = field(default_factory=list[object])
    targets: list[object] = field(default_factory=list[object])


def read_records(
    catalog: Catalog,
    source: RecordSource,
    count_bytes: ByteCounter = ignore_bytes,
    form: RowForm = RowForm.WHOLE,
) -> Iterator[ParsedRecords]:
    """Yield the rows of a source, in batches of one type, and the invalid records."""
    for block in read_blocks(source, count_bytes):
        yield from parse_block(catalog, block, form=form)


def parse_block(
    catalog: Catalog,
    block: Block,
    to_record: Callable[[Record], Record] | None = None,
    form: RowForm = RowForm.WHOLE,
) -> Iterator[ParsedRecords]:
    """Yield the rows of one block, in batches of one type, and its invalid records.

    ``to_record`` makes graph records of other objects.
    """
    groups = _RecordGroups(catalog)
    file, read = (block.file, block.lines) if isinstance(block, LineBlock) else (None, block.records)
    for number, each in enumerate(read):
        try:
            record = _parse_line(each) if isinstance(each, bytes) else each
            if record is not None:
                groups.add(number, record if to_record is None else to_record(record))
        except _InvalidRecord as error:
            yield RejectedRecord(_format_record(each), (error.to_violation(file, block.first + number),))
    for group in groups.list_groups():
        yield _to_raw_batch(catalog, block, file, group, form)


class ObjectReader:
    """Makes graph records of plain objects, which hold the properties of one type and the ends of edges."""

    def __init__(self, catalog: Catalog, selection: ColumnSelection) -> None:
        self._selection = selection
        self._type = selection.type
        self._chosen: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}
        ends = list_ends(catalog, selection.type)
        self._keys = {end: node.key[0] for end, node in ends.items() if node.key is not None and len(node.key) == 1}

    def __call__(self, given: Record) -> Record:
        """Return the graph record of an object."""
        names = tuple(given)
        chosen = self._chosen.get(names) or self._chosen.setdefault(names, self._choose(names))
        values = {target: given[name] for target, name in chosen}
        if isinstance(values.get("data"), Mapping) and ("type" in values or "edge" in values):
            raise _InvalidRecord("this is a graph record; load its file without the name of a type", self._type)
        if isinstance(self._type, NodeType):
            return {"type": self._type.name, "data": values}
        return {"edge": self._type.name, **self._take_ends(values), "data": values}

    def _choose(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Choose the fields to read. What is neither a target nor ignored is read too, so that it is reported."""
        selection = self._selection
        chosen, _ = selection.choose(names)
        known = {*chosen.values(), *selection.ignored}
        others = [] if selection.ignores_others else [name for name in names if name not in known]
        unused = next((name for name in others if name in selection.targets), None)
        if unused is not None:
            raise _InvalidRecord(selection.describe_unused(unused), self._type)
        return (*chosen.items(), *((name, name) for name in others))

    def _take_ends(self, values: dict[str, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for end in PUBLIC_NAMES.values():
            parts = {name.removeprefix(f"{end}."): name for name in values if name.startswith(f"{end}.")}
            if end in values:
                found[end] = self._to_end(end, values.pop(end))
            elif parts:
                found[end] = {part: values.pop(name) for part, name in parts.items()}
        return found

    def _to_end(self, end: str, value: object) -> object:
        """Return an end; a number is the value of the only key of the node."""
        if end not in self._keys or value is None or isinstance(value, str | Mapping):
            return cast(object, value)
        return {self._keys[end]: value}


def _format_record(read: bytes | Record) -> str:
    if isinstance(read, bytes):
        return read.decode("utf-8", "replace").rstrip("\r")
    try:
        options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
        return orjson.dumps(dict(read), default=str, option=options).decode()
    except orjson.JSONEncodeError:
        # Numbers of more than 64 bits and half characters, which only the slower one writes.
        return json.dumps(dict(read), default=str, skipkeys=True)


# --------------------------------------------------------------------------------------------- one record


def _parse_line(line: bytes) -> Record | None:
    """Parse a line as a JSON object. Return None for a blank line."""
    try:
        record: object = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not line.strip():
            return None
        raise _InvalidRecord(f"not JSON: {error.msg}, at character {error.pos + 1} of the line") from None
    if type(record) is not dict:
        raise _InvalidRecord(f"not a JSON object; {_RECORD_FORM}")
    found = cast("dict[str, object]", record)
    data = found.get("data")
    keys = len(found) + (len(cast(Record, data)) if type(data) is dict else 0)
    # The parser silently keeps the last of two equal keys. If there are as many colons as keys, no key is repeated.
    if line.count(b":") != keys and _may_repeat_a_key(line, keys):
        _refuse_repeated_keys(line)
    return found


def _may_repeat_a_key(line: bytes, keys: int) -> bool:
    """Whether a key may be repeated. Strings may hold colons, so count those after a quote if no blank precedes one."""
    return line.count(b'":') != keys or b" :" in line or b"\t:" in line or b"\r:" in line


def _refuse_repeated_keys(line: bytes) -> None:
    def check_object(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated = next(name for at, name in enumerate(names) if name in names[:at])
            raise _InvalidRecord(f"'{format_value(repeated)}' occurs twice in one object; keep one of them")

    json.loads(line, object_pairs_hook=check_object)


class _RecordGroups:
    """The records of a block, grouped by type. Each spelling of a type name is looked up once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._nodes: dict[str, _RecordGroup] = {}
        self._edges: dict[str, _RecordGroup] = {}

    def list_groups(self) -> Iterable[_RecordGroup]:
        """Return each group once."""
        return {group.type.table_key: group for group in (*self._nodes.values(), *self._edges.values())}.values()

    def add(self, number: int, record: Record) -> None:
        """Add a record to the group of its type."""
        name = record.get("type")
        if name is not None:
            group = self._nodes.get(name) if type(name) is str else None
            group = group or self._find_node_group(name)
        else:
            name = record.get("edge")
            group = self._edges.get(name) if type(name) is str else None
            group = group or self._find_edge_group(name)
            group.sources.append(record.get("from", _ABSENT))
            group.targets.append(record.get("to", _ABSENT))
        data = record.get("data", _NO_DATA)
        if not (record.keys() <= group.fields and (type(data) is dict or isinstance(data, Mapping))):
            self._raise_invalid(group, record)
        group.numbers.append(number)
        group.data.append(cast(Record, data))

    def _raise_invalid(self, group: _RecordGroup, record: Record) -> NoReturn:
        if isinstance(group.type, EdgeType):
            group.sources.pop()
            group.targets.pop()
        if "type" in record and "edge" in record:
            raise _InvalidRecord(f"both 'type' and 'edge': a record is a node or an edge; {_RECORD_FORM}", group.type)
        unknown = next((name for name in record if name not in group.fields), None)
        if unknown is None:
            raise _InvalidRecord("'data' is not an object", group.type)
        hint = suggest_similar(unknown, sorted(group.fields)) or "properties go into 'data'"
        raise _InvalidRecord(f"unknown field '{format_value(unknown)}'; {hint}", group.type)

    def _find_node_group(self, name: object) -> _RecordGroup:
        found = self._catalog.nodes.get(name) if isinstance(name, str) else None
        if found is None:
            raise _build_unknown_type_error("node", name, self._catalog.nodes)
        return self._nodes.setdefault(found.name, _RecordGroup(found, _NODE_FIELDS))

    def _find_edge_group(self, name: object) -> _RecordGroup:
        if name is None:
            raise _InvalidRecord(f"neither 'type' nor 'edge'; {_RECORD_FORM}{_OBJECT_FORM}")
        found = self._catalog.find_edge(name) if isinstance(name, str) else None
        if found is None:
            raise _build_unknown_type_error("edge", name, self._catalog.edges)
        group = self._edges.setdefault(found.name, _RecordGroup(found, _EDGE_FIELDS))
        return self._edges.setdefault(cast(str, name), group)


def _build_unknown_type_error(kind: str, name: object, known: Mapping[str, object]) -> _UnknownType:
    if not isinstance(name, str):
        return _UnknownType(f"the name of the {kind} type is not a text")
    hint = suggest_similar(name, known)
    return _UnknownType(f"no {kind} type '{format_value(name)}'" + (f"; {hint}" if hint else ""), shorten(name))


# --------------------------------------------------------------------------------------------- many records


def _to_raw_batch(catalog: Catalog, block: Block, file: str | None, group: _RecordGroup, form: RowForm) -> RawBatch:
    type_ = group.type
    errors = _find_unknown_properties(type_, group.data)
    columns: dict[str, Values] = {}
    if any("id" in data for data in group.data):
        converted = convert_values([data.get("id") for data in group.data], _TEXT)
        columns["id"] = converted.values
        errors += to_row_errors("id", str(_TEXT), converted)
    conversions: dict[str, ColumnConversion] = {}
    for each in type_.properties.values():
        values = _read_property(each, group.data, form)
        converted = find_lost_digits(block, group.numbers, each, convert_values(values, each.type))
        columns[each.name] = converted.values
        note_conversion(conversions, each.name, converted, partial(show_value, block, group.numbers, each, values))
        errors += to_row_errors(each.name, str(each.type), converted)
    absent = None if form is RowForm.WHOLE else _find_absent(group)
    if isinstance(type_, EdgeType):
        for column, ends in _ends_of(group).items():
            node = catalog.nodes[type_.from_type if column == "src" else type_.to_type]
            given = [None if end is _ABSENT else end for end in ends]
            errors += _find_missing_ends(type_, column, given if absent is None else ends)
            columns[column] = _convert_ends(type_, node, column, given, errors)
    lines = compute("add", pa.array(group.numbers, pa.int64()), pa.scalar(block.first))
    return RawBatch(type_, columns, errors, file, lines, _make_formatter(block, group.numbers), absent, conversions)


def _ends_of(group: _RecordGroup) -> dict[str, list[object]]:
    return {"src": group.sources, "dst": group.targets} if isinstance(group.type, EdgeType) else {}


def _find_absent(group: _RecordGroup) -> dict[str, Mask]:
    """Return the values that the records do not mention, by column."""
    masks = {name: np.array([name not in record for record in group.data]) for name in group.type.properties}
    masks |= {column: np.array([end is _ABSENT for end in ends]) for column, ends in _ends_of(group).items()}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _make_formatter(block: Block, numbers: Sequence[int]) -> Callable[[int], str]:
    records = block.lines if isinstance(block, LineBlock) else block.records
    return lambda row: _format_record(records[numbers[row]])


def _read_property(each: Property, data: Sequence[Record], form: RowForm) -> list[object]:
    """Return the values of a property, with its default where a record of a whole row does not name it."""
    name = each.name
    if each.default is None or form is RowForm.PARTIAL:
        return [record.get(name) for record in data]
    default = parse_default(each.default, each.type)
    return [record.get(name, default) for record in data]


def _find_unknown_properties(type_: NodeType | EdgeType, data: Sequence[Record]) -> list[RowError]:
    known = {*type_.properties, "id"}
    return [
        RowError(row, name, KNOWN_PROPERTIES, _describe_unknown_property(type_, name), format_value(record[name]))
        for row, record in enumerate(data)
        if not record.keys() <= known
        for name in record
        if name not in known
    ]


def _describe_unknown_property(type_: NodeType | EdgeType, name: object) -> str:
    hint = suggest_similar(str(name), type_.properties)
    return f"{type_.name} has no property '{format_value(name)}'" + (f"; {hint}" if hint else "")


def _convert_ends(
    edge: EdgeType, node: NodeType, column: str, values: Sequence[object], errors: list[RowError]
) -> Values:
    """Convert one end of each edge: the id of a node, or an object with its key values."""
    name = PUBLIC_NAMES[column]
    kinds = set(map(type, values))
    if not kinds <= {str, type(None)}:
        values = _replace_keys(node, name, values, errors)
    converted = convert_values(values, _TEXT)
    errors += to_row_errors(name, format_ends(edge), converted)
    return converted.values


def _find_missing_ends(edge: EdgeType, column: str, values: Sequence[object]) -> list[RowError]:
    name = PUBLIC_NAMES[column]
    message = f"{format_ends(edge)}: '{name}' is missing"
    return [RowError(row, name, REQUIRED, message) for row, value in enumerate(values) if value is None]


def _replace_keys(node: NodeType, name: str, values: Sequence[object], errors: list[RowError]) -> list[object]:
    """Replace objects of key values by node ids."""
    key = node.key or ()
    found = list(values)
    rows: list[int] = []
    for row, value in enumerate(values):
        if isinstance(value, Mapping):
            found[row] = None
            if key and set(cast(Record, value)) == set(key):
                rows.append(row)
            else:
                hint = f"give the id of a {node.name}" + (f", or an object of {', '.join(key)}" if key else "")
                message = f"'{name}' is not a key of {node.name}; {hint}"
                errors.append(RowError(row, name, format_key(node), message, format_value(cast(object, value))))
    objects = [cast(Record, values[row]) for row in rows]
    parts = {part: convert_values([each[part] for each in objects], node.properties[part].type) for part in key}
    ids, key_errors = resolve_end_ids(node, name, parts)
    errors += [replace(error, row=rows[error.row]) for error in key_errors]
    for row, id_ in zip(rows, to_list(ids), strict=True):
        found[row] = id_
    return found
