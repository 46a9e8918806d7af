"""A dump of Neo4j, CSV files with the headers of ``neo4j-admin``, as a proposed schema and pipeline.

The first label of a node is its type, and so is the type of a relationship, once for each pair of node types that it
connects. Values are compared with the types of the headers, so that a dump that cannot be loaded is refused here.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Final, cast

import pyarrow as pa

from omnigraph.errors import NotFound, ParameterError, ValidationError, Violation
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.imports.import_proposal import (
    ImportedEdge,
    ImportedNode,
    ImportedProperty,
    ImportedSource,
    ImportedView,
    ImportProposal,
    NameRegister,
    choose_property_name,
    make_type_name,
    make_view_name,
    quote_column,
    quote_sql_text,
)
from omnigraph.pipeline.imports.neo4j_headers import Header, HeaderField, is_neo4j_header, parse_neo4j_header
from omnigraph.pipeline.table_profile import MAX_ROWS
from omnigraph.storage.columns import Values
from omnigraph.write.load import MAX_VIOLATIONS, FileOptions, convert_texts, expand_path

ARRAY_DELIMITER: Final = ";"
_SQL_TYPES: Final = {
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
}
_ENDS_AND_ID: Final = ("ID", "START_ID", "END_ID")
"""Roles whose columns are the same in all files of a type, whatever their names."""
_GROUP: Final = re.compile(r"(?:(?P<types>[^=,/\\]+)=)?(?P<files>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one group of files: a header, and the first rows with their places."""

    files: tuple[str, ...]
    labels: tuple[str, ...]
    """The labels, or the type, that stood before the files."""
    header: Header
    rows: list[list[str | None]]
    places: list[tuple[str, int]]
    is_complete: bool
    source: str

    @property
    def label(self) -> str:
        count = f"{len(self.rows):,} row{'' if len(self.rows) == 1 else 's'}"
        return f"{','.join(self.files)}: {count if self.is_complete else f'the first {count}'}"

    def list_column(self, place: int) -> list[str | None]:
        return [row[place] for row in self.rows]


@dataclass(slots=True)
class _Part:
    """Rows of one group that belong to one type, and the SQL condition that selects them."""

    rows: _Rows
    numbers: list[int]
    condition: str | None
    extra_labels: bool = False


@dataclass(slots=True)
class _NodeType:
    """A node type while it is put together."""

    name: str
    parts: list[_Part] = field(default_factory=list["_Part"])


@dataclass(slots=True)
class _EdgeType:
    """An edge type while it is put together: one type of relationships between two node types."""

    name: str
    from_: _NodeType
    to: _NodeType
    parts: list[_Part] = field(default_factory=list["_Part"])


# --------------------------------------------------------------------------------------------- reading


def is_neo4j_dump(paths: Sequence[str], options: FileOptions) -> bool:
    """Whether one of the files has a header of ``neo4j-admin``."""
    for path in paths:
        _, files = _split_group(path)
        first = next(iter(expand_path(files[0])), None)
        if first is not None and "://" not in first and first.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
            names = next(_read_records(first, options), (list[str](), 0))[0]
            if is_neo4j_header(names):
                return True
    return False


def _split_group(path: str) -> tuple[tuple[str, ...], list[str]]:
    """Split ``Label:Other=header.csv,part.csv``, as it stands after ``--nodes=``, into labels and files."""
    found = _GROUP.fullmatch(path)
    if found is None or Path(path).exists():
        return (), [path]
    return tuple(each for each in (found["types"] or "").split(":") if each), found["files"].split(",")


def _read_records(path: str, options: FileOptions) -> Iterator[tuple[list[str], int]]:
    """Yield the records of a file, each with the line that it ends at."""
    is_tabbed = ".tsv" in Path(path).suffixes and not options.has_separator
    coding, errors = options.csv.encoding, "surrogateescape"
    with Path(path).open("rb") as file, ExitStack() as stack:
        data = stack.enter_context(gzip.open(file)) if path.endswith(".gz") else file
        text = stack.enter_context(TextIOWrapper(cast("IO[bytes]", data), encoding=coding, errors=errors, newline=""))
        separator = "\t" if is_tabbed else options.csv.separator
        quoting = csv.QUOTE_NONE if options.csv.quote is None else csv.QUOTE_MINIMAL
        quote, escape = options.csv.quote, options.csv.escape
        reader = csv.reader(text, delimiter=separator, quotechar=quote, escapechar=escape, quoting=quoting)
        try:
            for record in reader:
                yield record, reader.line_num
        except csv.Error as error:
            raise ParameterError(f"{path}, line {reader.line_num}: {error}") from error


class _DumpReader:
    """Reads groups of files, and collects what is wrong with them."""

    def __init__(self, options: FileOptions, array_delimiter: str) -> None:
        self.problems: list[Violation] = []
        self._options = options
        self._delimiter = array_delimiter
        self._sources = NameRegister()

    def read(self, path: str) -> _Rows | None:
        labels, given = _split_group(path)
        files = [file for each in given for file in expand_path(each)]
        missing = [each for each in given if not expand_path(each)]
        if missing:
            raise NotFound("; ".join(f"there is no file '{each}'" for each in missing))
        records = ((*record, file) for file in files for record in _read_records(file, self._options))
        names = next(records, (list[str](), 0, ""))[0]
        type_name = labels[0] if labels else ""
        if not is_neo4j_header(names):
            message = "the other files are of neo4j-admin; this header has no :ID, :START_ID, :LABEL or :TYPE"
            self.problems.append(Violation(type_name, "neo4j_roles", message, files[0], 1, value=",".join(names)))
            return None
        header, wrong = parse_neo4j_header(files[0], names, type_name)
        self.problems += wrong
        rows: list[list[str | None]] = []
        places: list[tuple[str, int]] = []
        for record, line, file in islice(records, MAX_ROWS + 1):
            if record == names or not record:
                # neo4j-admin may repeat the header in each file.
                continue
            if len(record) != len(names):
                message = f"the record has {len(record)} values, and the header {len(names)} fields"
                self.problems.append(Violation(type_name, "neo4j_columns", message, file, line, value=",".join(record)))
                continue
            rows.append([value or None for value in record])
            places.append((file, line))
        source = self._sources.choose(make_view_name(Path(files[-1]).name.split(".")[0], "rows"))
        is_complete = len(rows) <= MAX_ROWS
        found = _Rows(tuple(files), labels, header, rows[:MAX_ROWS], places[:MAX_ROWS], is_complete, source)
        self._check_values(found, type_name)
        return found

    def _check_values(self, found: _Rows, type_name: str) -> None:
        """Compare the values with the types of the header."""
        for each in found.header.fields:
            values = found.list_column(each.place)
            if each.role in ("ID", "START_ID", "END_ID"):
                for number in (number for number, value in enumerate(values) if value is None):
                    self._add(found, number, type_name, each, "neo4j_id", f"{each.text} is empty", None)
            owners = [(number, value) for number, value in enumerate(values) if value is not None]
            item_type = each.type
            if each.type.is_list:
                split = [(number, item) for number, value in owners for item in value.split(self._delimiter)]
                owners, item_type = split, replace(each.type, is_list=False)
            if item_type.scalar is Scalar.STRING or each.role == "IGNORE":
                continue
            texts = cast("Values", pa.array([value for _, value in owners], pa.string()))
            for mismatch in convert_texts(texts, item_type).mismatches:
                number, value = owners[mismatch.row]
                message = f"'{value}' is no {item_type}, which '{each.text}' says"
                self._add(found, number, type_name, each, "neo4j_value", message, value)

    def _add(
        self, rows: _Rows, number: int, type_: str, field_: HeaderField, rule: str, message: str, value: str | None
    ) -> None:
        file, line = rows.places[number]
        self.problems.append(Violation(type_, rule, message, file, line, property=field_.text, value=value))

    def add_dangling(self, rows: _Rows, number: int, type_: str, field_: HeaderField) -> None:
        """Note a relationship whose end is no node of the dump."""
        value = rows.rows[number][field_.place]
        message = f"no node has the id '{value}'" + (f" of the space {field_.space}" if field_.space else "")
        self._add(rows, number, type_, field_, "neo4j_end", message, value)

    def add_repeated(self, rows: _Rows, number: int, type_: str, field_: HeaderField) -> None:
        """Note a node whose id another one has."""
        value = rows.rows[number][field_.place]
        self._add(rows, number, type_, field_, "neo4j_id", f"the id '{value}' is there twice", value)


# --------------------------------------------------------------------------------------------- types


def propose_neo4j(paths: Sequence[str], options: FileOptions, array_delimiter: str | None = None) -> ImportProposal:
    """Propose types for a dump. Each path is a file, or several as ``neo4j-admin`` takes them: ``A=header.csv,a.csv``.

    :class:`ValidationError` lists everything in the first rows that cannot be loaded.
    """
    delimiter = array_delimiter or ARRAY_DELIMITER
    if len(delimiter) != 1 or delimiter in "\\^]'":
        raise ParameterError(f"array_delimiter is {delimiter!r}", hint="give one character, such as ; or |")
    reader = _DumpReader(options, delimiter)
    groups = [found for path in paths if (found := reader.read(path)) is not None]
    builder = _TypeBuilder(reader, delimiter)
    if not reader.problems:
        builder.add_nodes([each for each in groups if each.header.is_of_nodes])
        builder.add_edges([each for each in groups if not each.header.is_of_nodes])
    if reader.problems:
        shown = reader.problems[:MAX_VIOLATIONS]
        raise ValidationError(f"the dump has {len(reader.problems):,} problems", shown)
    return builder.build(groups, options)


class _TypeBuilder:
    """Assigns rows to types, and says how each type is read."""

    def __init__(self, reader: _DumpReader, array_delimiter: str) -> None:
        self._reader = reader
        self._delimiter = array_delimiter
        self._names = NameRegister()
        self._nodes: dict[str, _NodeType] = {}
        self._edges: dict[tuple[str, str, str], _EdgeType] = {}
        self._spaces: dict[str, dict[str, _NodeType]] = {}
        """The node types of the ids of each space, as far as rows were looked at."""
        self._is_complete: dict[str, bool] = {}
        self._views: list[ImportedView] = []

    def add_nodes(self, groups: Sequence[_Rows]) -> None:
        for group in groups:
            (own,) = group.header.list_role("ID")
            space = self._spaces.setdefault(own.space, {})
            self._is_complete[own.space] = self._is_complete.get(own.space, True) and group.is_complete
            for label, part in self._split_by_label(group).items():
                node = self._nodes.setdefault(label, _NodeType(""))
                if not node.name:
                    node.name = self._names.choose(make_type_name(label, "Node"))
                node.parts.append(part)
                for number in part.numbers:
                    id_ = cast("str", group.rows[number][own.place])
                    if id_ in space:
                        self._reader.add_repeated(group, number, node.name, own)
                    space[id_] = node

    def _split_by_label(self, group: _Rows) -> dict[str, _Part]:
        """Return the rows of each first label."""
        fields = group.header.list_role("LABEL")
        everything = list(range(len(group.rows)))
        if not fields or group.labels:
            label = group.labels[0] if group.labels else Path(group.files[0]).name.split(".")[0]
            return {label: _Part(group, everything, None, extra_labels=len(group.labels) > 1 or bool(fields))}
        found: dict[str, _Part] = {}
        for number, text in enumerate(group.list_column(fields[0].place)):
            labels = (text or "").split(self._delimiter)
            part = found.setdefault(labels[0] or Path(group.files[0]).name.split(".")[0], _Part(group, [], None))
            part.numbers.append(number)
            part.extra_labels = part.extra_labels or len(labels) > 1
        if len(found) > 1:
            column = quote_column(fields[0].text)
            for label, part in found.items():
                part.condition = f"split({column}, '[{self._delimiter}]')[0] = {quote_sql_text(label)}"
        return found

    def add_edges(self, groups: Sequence[_Rows]) -> None:
        for group in groups:
            (start,), (end,) = group.header.list_role("START_ID"), group.header.list_role("END_ID")
            unknown = [each for each in (start, end) if each.space not in self._spaces]
            if unknown:
                for each in unknown:
                    spaces = ", ".join(f"'{space}'" for space in self._spaces) or "none"
                    message = f"no file of nodes has ids of the space '{each.space}'; there are {spaces}"
                    self._reader.problems.append(
                        Violation("", "neo4j_space", message, group.files[0], 1, property=each.text, value=each.space)
                    )
                continue
            for type_, numbers in self._split_by_type(group).items():
                self._add_pairs(group, type_, numbers, start, end)

    def _split_by_type(self, group: _Rows) -> dict[str, list[int]]:
        fields = group.header.list_role("TYPE")
        if not fields or group.labels:
            return {group.labels[0]: list(range(len(group.rows)))}
        found: dict[str, list[int]] = {}
        for number, text in enumerate(group.list_column(fields[0].place)):
            if text is None:
                file, line = group.places[number]
                message = "the relationship has no type"
                self._reader.problems.append(Violation("", "neo4j_type", message, file, line, property=":TYPE"))
                continue
            found.setdefault(text, []).append(number)
        return found

    def _add_pairs(
        self, group: _Rows, type_: str, numbers: Sequence[int], start: HeaderField, end: HeaderField
    ) -> None:
        """Divide relationships of one type by the node types that they connect."""
        pairs: dict[tuple[str, str], list[int]] = {}
        for number in numbers:
            nodes = [self._find_end(group, number, type_, each) for each in (start, end)]
            if nodes[0] is not None and nodes[1] is not None:
                pairs.setdefault((nodes[0].name, nodes[1].name), []).append(number)
        by_name = {node.name: node for node in self._nodes.values()}
        types = group.header.list_role("TYPE")
        has_other_types = bool(types) and not group.labels
        for (from_, to), mine in pairs.items():
            condition = f"{quote_column(types[0].text)} = {quote_sql_text(type_)}" if has_other_types else None
            edge = self._edges.setdefault((type_, from_, to), _EdgeType("", by_name[from_], by_name[to]))
            edge.parts.append(_Part(group, mine, condition))

    def _find_end(self, group: _Rows, number: int, type_: str, end: HeaderField) -> _NodeType | None:
        types = self._spaces[end.space]
        found = types.get(cast("str", group.rows[number][end.place]))
        if found is not None:
            return found
        if self._is_complete[end.space]:
            self._reader.add_dangling(group, number, type_, end)
            return None
        alone = {node.name: node for node in types.values()}
        return next(iter(alone.values())) if len(alone) == 1 else None

    # ------------------------------------------------------------------------------------- as a proposal

    def build(self, groups: Sequence[_Rows], options: FileOptions) -> ImportProposal:
        sources = tuple(self._list_sources(groups, options))
        nodes = [self._build_node(each) for each in self._nodes.values()]
        counts = Counter(type_ for type_, _, _ in self._edges)
        for (type_, from_, to), edge in self._edges.items():
            name = make_type_name(type_, "Link")
            edge.name = self._names.choose(name if counts[type_] == 1 else f"{from_}{name}{to}")
        edges = [self._build_edge(type_, each) for (type_, _, _), each in self._edges.items()]
        return ImportProposal("a dump of Neo4j", sources, tuple(self._views), tuple(nodes), tuple(edges))

    def _list_sources(self, groups: Sequence[_Rows], options: FileOptions) -> Iterator[ImportedSource]:
        for group in groups:
            is_one = len(group.files) == 1
            given: dict[str, str | bool] = {"header": is_one, "escape": options.csv.escape or '"'}
            separator = "\t" if ".tsv" in Path(group.files[0]).suffixes else options.csv.separator
            given |= {} if separator == "," else {"sep": separator}
            given |= {} if options.csv.encoding == "utf-8" else {"encoding": options.csv.encoding}
            if is_one:
                yield ImportedSource(group.source, "csv", group.files[0], given)
                continue
            folder = str(Path(group.files[0]).parent)
            if any(str(Path(each).parent) != folder for each in group.files):
                raise ParameterError(
                    f"{', '.join(group.files)} lie in several folders", hint="put a header and its files into one"
                )
            names = ",".join(Path(each).name for each in group.files)
            yield ImportedSource(f"{group.source}_files", "csv", str(Path(folder) / f"{{{names}}}"), given)
            columns = [f"_c{each.place} AS {quote_column(each.text)}" for each in group.header.fields]
            first = f"_c0 <> {quote_sql_text(group.header.fields[0].text)} OR _c0 IS NULL"
            sql = f"SELECT {', '.join(columns)} FROM {group.source}_files WHERE {first}"  # noqa: S608  it is shown
            self._views.append(ImportedView(group.source, sql))

    def _view_of(self, name: str, parts: Sequence[_Part], joins: str = "") -> str:
        """Return the view with the rows of a type: the source itself, or a view that selects them."""
        alone = parts[0]
        if len(parts) == 1 and alone.condition is None and not joins:
            return alone.rows.source
        first = alone.rows.header
        columns = {
            (each.role, "") if each.role in _ENDS_AND_ID else (None, each.text): each.text for each in first.fields
        }
        for part in parts[1:]:
            columns |= {(None, each.text): each.text for each in part.rows.header.properties}
        selects: list[str] = []
        for part in parts:
            own = {
                (each.role, "") if each.role in _ENDS_AND_ID else (None, each.text): each.text
                for each in part.rows.header.fields
            }
            wanted = [
                f"{f'r.{quote_column(own[key])}' if key in own else 'CAST(NULL AS string)'} AS {quote_column(text)}"
                for key, text in columns.items()
            ]
            chosen = "r.*" if len(parts) == 1 else ", ".join(wanted)
            where = "" if part.condition is None else f" WHERE {part.condition}"
            selects.append(f"SELECT {chosen} FROM {part.rows.source} r{joins}{where}")  # noqa: S608  it is shown
        view = make_view_name(name, "view")
        self._views.append(ImportedView(view, " UNION ALL ".join(selects)))
        return view

    def _build_node(self, node: _NodeType) -> ImportedNode:
        (own,) = node.parts[0].rows.header.list_role("ID")
        notes = [part.rows.label for part in node.parts]
        if any(part.extra_labels for part in node.parts):
            notes.append("the first label is the type" + ("" if self._find_labels(node) else "; others are not kept"))
        key_name = choose_property_name(own.name or "id", node.name, [])
        key_notes = [f"column '{own.text}'", *([] if own.name else ["an id that Neo4j would not keep"])]
        key = ImportedProperty(key_name, own.type, _express(own, self._delimiter), tuple(key_notes), is_key=True)
        properties = [key, *self._build_properties(node.name, node.parts, [key_name])]
        labels = self._find_labels(node)
        if labels is not None:
            name = choose_property_name("labels", node.name, [each.name for each in properties])
            split = f"split({quote_column(labels.text)}, '[{self._delimiter}]')"
            kind = ValueType(Scalar.STRING, nullable=True, is_list=True)
            properties.append(ImportedProperty(name, kind, split, (f"column '{labels.text}': all labels",)))
        return ImportedNode(node.name, self._view_of(node.name, node.parts), tuple(properties), tuple(notes))

    def _find_labels(self, node: _NodeType) -> HeaderField | None:
        """Return the column with the labels of the nodes, if some have several."""
        fields = [each for part in node.parts if part.extra_labels for each in part.rows.header.list_role("LABEL")]
        return fields[0] if fields else None

    def _build_edge(self, type_: str, edge: _EdgeType) -> ImportedEdge:
        (start,) = edge.parts[0].rows.header.list_role("START_ID")
        (end,) = edge.parts[0].rows.header.list_role("END_ID")
        joins = "".join(
            f" LEFT SEMI JOIN {self._nodes_view(node)} {letter}"
            f" ON r.{quote_column(each.text)} = {letter}.{quote_column(_id_field(node).text)}"
            for each, node, letter in ((start, edge.from_, "a"), (end, edge.to, "b"))
            if len({other.name for other in self._spaces[each.space].values()}) > 1
        )
        notes = [*(part.rows.label for part in edge.parts), f"relationships of the type {type_}"]
        if joins:
            notes.append(f"only those from {edge.from_.name} to {edge.to.name}: their ids share a space with others")
        view = self._view_of(edge.name, edge.parts, joins)
        from_, to = (
            _express(replace(each, type=_id_field(node).type), self._delimiter)
            for each, node in ((start, edge.from_), (end, edge.to))
        )
        properties = tuple(self._build_properties(edge.name, edge.parts, []))
        return ImportedEdge(edge.name, edge.from_.name, edge.to.name, view, from_, to, properties, tuple(notes))

    def _nodes_view(self, node: _NodeType) -> str:
        name = make_view_name(node.name, "view")
        return name if any(view.name == name for view in self._views) else node.parts[0].rows.source

    def _build_properties(
        self, type_name: str, parts: Sequence[_Part], taken: Sequence[str]
    ) -> Iterator[ImportedProperty]:
        names = list(taken)
        declared: dict[str, HeaderField] = {}
        for part in parts:
            for each in part.rows.header.properties:
                declared.setdefault(each.text, each)
        for each in declared.values():
            counts = [_count_empty(part, each.text) for part in parts]
            empty, rows = sum(count for count, _ in counts), sum(count for _, count in counts)
            is_seen_whole = all(part.condition is not None and part.rows.is_complete for part in parts)
            if rows and empty == rows and is_seen_whole:
                # The column is that of another type in the same file.
                continue
            name = choose_property_name(each.name, type_name, names)
            names.append(name)
            notes = [*([] if name == each.text else [f"column '{each.text}'"]), *each.notes]
            type_ = each.type
            if empty or not rows:
                type_ = type_.as_nullable()
                notes.append(f"empty in {empty:,} of {rows:,} rows" if rows else "no rows")
            yield ImportedProperty(name, type_, _express(each, self._delimiter), tuple(notes))


def _id_field(node: _NodeType) -> HeaderField:
    return node.parts[0].rows.header.list_role("ID")[0]


def _count_empty(part: _Part, text: str) -> tuple[int, int]:
    """Return how many rows of a part have no value in a column, and how many rows there are."""
    place = next((each.place for each in part.rows.header.fields if each.text == text), None)
    if place is None:
        return len(part.numbers), len(part.numbers)
    return sum(part.rows.rows[number][place] is None for number in part.numbers), len(part.numbers)


def _express(given: HeaderField, delimiter: str) -> str:
    """Return the expression of a column as a value of its type."""
    column, sql = quote_column(given.text), _SQL_TYPES.get(given.type.scalar)
    if not given.type.is_list:
        return column if sql is None else f"cast({column} AS {sql})"
    parts = f"split({column}, '[{delimiter}]')"
    return parts if sql is None else f"transform({parts}, x -> cast(x AS {sql}))"
