"""Graph records as rows: ``{"type": T, "data": {...}}`` and ``{"edge": E, "from": id, "to": id, "data": {...}}``.

One JSON object per line. Lines are parsed one by one, then the rows of each type in a block become columns at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias, cast

import orjson
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, default_value
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.rows import SHOWN
from omnigraph.storage.columns import Values, compute, to_list
from omnigraph.write.load.conversion import from_values
from omnigraph.write.load.validation import Draft, Fault, Rejected, end_ids, faults_of, shown
from omnigraph.write.load.sources import Block, Lines, Record, Source, read_blocks
from omnigraph.write.rules import REQUIRED, ends_text, key_text, shortened

RECORD: Final = "record"
"""The rule that anything breaks which is no record at all."""
KNOWN_TYPES: Final = "known types"
KNOWN_PROPERTIES: Final = "known properties"

_NODE_FIELDS: Final = frozenset({"type", "edge", "data"})
_EDGE_FIELDS: Final = frozenset({"edge", "from", "to", "data"})
_FORM: Final = 'write {"type": "T", "data": {...}} or {"edge": "E", "from": "id", "to": "id", "data": {...}}'
_TEXT: Final = ValueType(Scalar.STRING)
_NOTHING: Final[Record] = {}

Found: TypeAlias = Draft | Rejected


class _NotARecord(Exception):
    """Why a line is no record that can be loaded."""

    def __init__(self, message: str, type_: str = "", rule: str = RECORD) -> None:
        super().__init__(message)
        self.message = message
        self.type = type_
        self.rule = rule


@dataclass(slots=True)
class _Group:
    """The records of one type in one block: for each its number in the block, its data, and the ends of an edge."""

    type: NodeType | EdgeType
    fields: frozenset[str]
    numbers: list[int] = field(default_factory=list[int])
    data: list[Record] = field(default_factory=list[Record])
    sources: list[object] = field(default_factory=list[object])
    targets: list[object] = field(default_factory=list[object])


def read_records(catalog: Catalog, source: Source) -> Iterator[Found]:
    """The rows of a source, in batches of one type, and the records that are none."""
    for block in read_blocks(source):
        yield from found_in(catalog, block)


def found_in(catalog: Catalog, block: Block) -> Iterator[Found]:
    """The rows of one block, and the records in it that are none."""
    groups = _Groups(catalog)
    file, read = (block.file, block.lines) if isinstance(block, Lines) else (None, block.records)
    for number, each in enumerate(read):
        try:
            record = _parsed(each) if isinstance(each, bytes) else each
            if record is not None:
                groups.add(number, record)
        except _NotARecord as error:
            violation = Violation(error.type, error.rule, error.message, file, block.first + number)
            yield Rejected(_text(each), (violation,))
    for group in groups.found():
        yield _draft(catalog, block, file, group)


def _text(read: bytes | Record) -> str:
    if isinstance(read, bytes):
        return read.decode("utf-8", "replace").rstrip("\r")
    return orjson.dumps(dict(read), default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()


# --------------------------------------------------------------------------------------------- one record


def _parsed(line: bytes) -> Record | None:
    """The object on a line; None on a blank one."""
    try:
        record: object = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not line.strip():
            return None
        raise _NotARecord(f"not JSON: {error.msg}, at character {error.pos + 1} of the line") from None
    if type(record) is not dict:
        raise _NotARecord(f"not a JSON object; {_FORM}")
    found = cast("dict[str, object]", record)
    data = found.get("data")
    keys = len(found) + (len(cast(Record, data)) if type(data) is dict else 0)
    # The parser keeps the last of two equal keys without a word. As many colons as keys: no key stands twice.
    if line.count(b":") != keys and _may_repeat_a_key(line, keys):
        _refuse_repeated_keys(line)
    return found


def _may_repeat_a_key(line: bytes, keys: int) -> bool:
    """Colons may also stand in texts: then those right after a quote are counted, if there are none after a blank."""
    return line.count(b'":') != keys or b" :" in line or b"\t:" in line or b"\r:" in line


def _refuse_repeated_keys(line: bytes) -> None:
    def checked(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated = next(name for at, name in enumerate(names) if name in names[:at])
            raise _NotARecord(f"'{shown(repeated)}' stands twice in one object; keep one of them")

    json.loads(line, object_pairs_hook=checked)


class _Groups:
    """The records of a block, put together by type. Types are looked up once for each spelling of their names."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._nodes: dict[str, _Group] = {}
        self._edges: dict[str, _Group] = {}

    def found(self) -> Iterable[_Group]:
        """Each group once."""
        return {group.type.table_key: group for group in (*self._nodes.values(), *self._edges.values())}.values()

    def add(self, number: int, record: Record) -> None:
        """Put a record to the others of its type; ``type`` wins over ``edge``."""
        name = record.get("type")
        if name is not None:
            group = self._nodes.get(name) if type(name) is str else None
            group = group or self._node_group(name)
        else:
            name = record.get("edge")
            group = self._edges.get(name) if type(name) is str else None
            group = group or self._edge_group(name)
            group.sources.append(record.get("from"))
            group.targets.append(record.get("to"))
        data = record.get("data", _NOTHING)
        if not (record.keys() <= group.fields and (type(data) is dict or isinstance(data, Mapping))):
            self._refuse(group, record)
        group.numbers.append(number)
        group.data.append(cast(Record, data))

    def _refuse(self, group: _Group, record: Record) -> NoReturn:
        if isinstance(group.type, EdgeType):
            group.sources.pop()
            group.targets.pop()
        unknown = next((name for name in record if name not in group.fields), None)
        if unknown is None:
            raise _NotARecord("'data' is not an object", group.type.name)
        hint = suggest_similar(unknown, sorted(group.fields)) or "properties go into 'data'"
        raise _NotARecord(f"unknown field '{shown(unknown)}'; {hint}", group.type.name)

    def _node_group(self, name: object) -> _Group:
        found = self._catalog.nodes.get(name) if isinstance(name, str) else None
        if found is None:
            raise _unknown_type("node", name, self._catalog.nodes)
        return self._nodes.setdefault(found.name, _Group(found, _NODE_FIELDS))

    def _edge_group(self, name: object) -> _Group:
        if name is None:
            raise _NotARecord(f"neither 'type' nor 'edge'; {_FORM}")
        found = self._catalog.edge(name) if isinstance(name, str) else None
        if found is None:
            raise _unknown_type("edge", name, self._catalog.edges)
        group = self._edges.setdefault(found.name, _Group(found, _EDGE_FIELDS))
        return self._edges.setdefault(cast(str, name), group)


def _unknown_type(kind: str, name: object, known: Mapping[str, object]) -> _NotARecord:
    if not isinstance(name, str):
        return _NotARecord(f"the name of the {kind} type is not a text", rule=KNOWN_TYPES)
    hint = suggest_similar(name, known)
    return _NotARecord(f"no {kind} type '{shown(name)}'" + (f"; {hint}" if hint else ""), shortened(name), KNOWN_TYPES)


# --------------------------------------------------------------------------------------------- many records


def _draft(catalog: Catalog, block: Block, file: str | None, group: _Group) -> Draft:
    type_ = group.type
    faults = _unknown_properties(type_, group.data)
    columns: dict[str, Values] = {}
    if any("id" in data for data in group.data):
        converted = from_values([data.get("id") for data in group.data], _TEXT)
        columns["id"] = converted.values
        faults += faults_of("id", str(_TEXT), converted)
    for each in type_.properties.values():
        converted = from_values(_given(each, group.data), each.type)
        columns[each.name] = converted.values
        faults += faults_of(each.name, str(each.type), converted)
    if isinstance(type_, EdgeType):
        columns["src"] = _end(type_, catalog.nodes[type_.from_type], "src", group.sources, faults)
        columns["dst"] = _end(type_, catalog.nodes[type_.to_type], "dst", group.targets, faults)
    lines = compute("add", pa.array(group.numbers, pa.int64()), pa.scalar(block.first))
    return Draft(type_, columns, faults, file, lines, _texts(block, group.numbers))


def _texts(block: Block, numbers: Sequence[int]) -> Callable[[int], str]:
    records = block.lines if isinstance(block, Lines) else block.records
    return lambda row: _text(records[numbers[row]])


def _given(each: Property, data: Sequence[Record]) -> list[object]:
    """What the records say about a property, and its default where they say nothing."""
    name = each.name
    if each.default is None:
        return [record.get(name) for record in data]
    default = default_value(each.default, each.type)
    return [record.get(name, default) for record in data]


def _unknown_properties(type_: NodeType | EdgeType, data: Sequence[Record]) -> list[Fault]:
    known = {*type_.properties, "id"}
    return [
        Fault(row, name, KNOWN_PROPERTIES, _no_such_property(type_, name), shown(record[name]))
        for row, record in enumerate(data)
        if not record.keys() <= known
        for name in record
        if name not in known
    ]


def _no_such_property(type_: NodeType | EdgeType, name: object) -> str:
    hint = suggest_similar(str(name), type_.properties)
    return f"{type_.name} has no property '{shown(name)}'" + (f"; {hint}" if hint else "")


def _end(edge: EdgeType, node: NodeType, column: str, values: Sequence[object], faults: list[Fault]) -> Values:
    """One end of each edge: the id of a node, or an object of the values of its key."""
    name = SHOWN[column]
    kinds = set(map(type, values))
    if type(None) in kinds:
        message = f"{ends_text(edge)}: '{name}' is missing"
        faults += [Fault(row, name, REQUIRED, message) for row, value in enumerate(values) if value is None]
    if not kinds <= {str, type(None)}:
        values = _with_key_ids(node, name, values, faults)
    converted = from_values(values, _TEXT)
    faults += faults_of(name, ends_text(edge), converted)
    return converted.values


def _with_key_ids(node: NodeType, name: str, values: Sequence[object], faults: list[Fault]) -> list[object]:
    """The same values, with ids in place of objects."""
    key = node.key or ()
    found = list(values)
    rows: list[int] = []
    for row, value in enumerate(values):
        if isinstance(value, Mapping):
            found[row] = None
            if key and set(cast(Record, value)) == set(key):
                rows.append(row)
            else:
                wanted = f"give the id of a {node.name}" + (f", or an object of {', '.join(key)}" if key else "")
                message = f"'{name}' is no key of {node.name}; {wanted}"
                faults.append(Fault(row, name, key_text(node), message, shown(cast(object, value))))
    objects = [cast(Record, values[row]) for row in rows]
    parts = {part: from_values([each[part] for each in objects], node.properties[part].type) for part in key}
    ids, wrong = end_ids(node, name, parts)
    faults += [replace(fault, row=rows[fault.row]) for fault in wrong]
    for row, id_ in zip(rows, to_list(ids), strict=True):
        found[row] = id_
    return found
