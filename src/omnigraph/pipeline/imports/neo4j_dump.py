"""A dump of Neo4j, CSV files with the headers of ``neo4j-admin``, as a proposed schema and pipeline.

The first label of a node is its type, and so is the type of a relationship, once for each pair of node types that it
connects. Values are compared with the types of the headers, so that a dump that cannot be loaded is refused here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, cast

from omnigraph.errors import ParameterError, ValidationError, Violation
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
    refuse_hidden_files,
)
from omnigraph.pipeline.imports.neo4j_files import DumpReader, DumpRows, find_csv_format
from omnigraph.pipeline.imports.neo4j_headers import HeaderField, Role
from omnigraph.pipeline.imports.neo4j_views import (
    PairChoice,
    SharedEnd,
    select_ids,
    select_label,
    select_rows,
    select_type,
)
from omnigraph.pipeline.proposal_sql import list_csv_options, quote_column, quote_sql_text
from omnigraph.violation_groups import count_violations
from omnigraph.write.load import MAX_VIOLATIONS, FileOptions

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


@dataclass(slots=True)
class _Part:
    """Rows of one group that belong to one type, and the SQL condition that selects them."""

    rows: DumpRows
    numbers: list[int]
    condition: str | None
    extra_labels: bool = False
    pair: PairChoice | None = None


@dataclass(slots=True)
class _NodeType:
    """A node type while it is put together."""

    name: str
    label: str
    parts: list[_Part] = field(default_factory=list["_Part"])
    ids: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class _EdgeType:
    """An edge type while it is put together: one type of relationships between two node types."""

    name: str
    from_: _NodeType
    to: _NodeType
    parts: list[_Part] = field(default_factory=list["_Part"])


# --------------------------------------------------------------------------------------------- types


def propose_neo4j(paths: Sequence[str], options: FileOptions, array_delimiter: str | None = None) -> ImportProposal:
    """Propose types for a dump. Each path is a file, or several as ``neo4j-admin`` takes them: ``A=header.csv,a.csv``.

    :class:`ValidationError` lists everything in the first rows that cannot be loaded.
    """
    delimiter = array_delimiter or ARRAY_DELIMITER
    if len(delimiter) != 1 or delimiter in "\\^[]'":
        raise ParameterError(f"array_delimiter is {delimiter!r}", hint="give one character, such as ; or |")
    reader = DumpReader(options, delimiter)
    groups = [found for path in paths if (found := reader.read(path)) is not None]
    builder = _TypeBuilder(reader, delimiter)
    if not reader.problems:
        builder.add_nodes([each for each in groups if each.header.is_of_nodes])
        builder.add_edges([each for each in groups if not each.header.is_of_nodes])
    if reader.problems:
        shown = reader.problems[:MAX_VIOLATIONS]
        raise ValidationError(
            f"the dump has {len(reader.problems):,} problems",
            shown,
            groups=count_violations(reader.problems).to_groups(),
        )
    return builder.build(groups, options)


class _TypeBuilder:
    """Assigns rows to types, and says how each type is read."""

    def __init__(self, reader: DumpReader, array_delimiter: str) -> None:
        self._reader = reader
        self._delimiter = array_delimiter
        self._names = NameRegister()
        self._nodes: dict[str, _NodeType] = {}
        self._edges: dict[tuple[str, str, str], _EdgeType] = {}
        self._spaces: dict[str, dict[str, _NodeType]] = {}
        """The node types of the ids of each space, as far as rows were looked at."""
        self._owners: dict[str, dict[str, _NodeType]] = {}
        """The node types of each space, by their names."""
        self._is_complete: dict[str, bool] = {}
        self._ids: dict[str, list[str]] = {}
        """The queries for the ids of each space."""
        self._ids_names = NameRegister()
        self._ids_views: dict[str, ImportedView] = {}
        self._views: list[ImportedView] = []

    def add_nodes(self, groups: Sequence[DumpRows]) -> None:
        for group in groups:
            (own,) = group.header.list_role("ID")
            space = self._spaces.setdefault(own.space, {})
            self._is_complete[own.space] = self._is_complete.get(own.space, True) and group.is_complete
            for label, part in self._split_by_label(group).items():
                node = self._nodes.setdefault(label, _NodeType("", label))
                if not node.name:
                    node.name = self._names.choose(make_type_name(label, "Node"))
                node.parts.append(part)
                if part.numbers:
                    self._owners.setdefault(own.space, {})[node.name] = node
                for number in part.numbers:
                    id_ = cast("str", group.rows[number][own.place])
                    # Ids of two spaces may be equal, but not if the nodes are of one type.
                    if id_ in space or id_ in node.ids:
                        self._reader.add_repeated(group, number, node.name, own)
                    space[id_] = node
                    node.ids.add(id_)

    def _split_by_label(self, group: DumpRows) -> dict[str, _Part]:
        """Return the rows of each first label."""
        fields = group.header.list_role("LABEL")
        everything = list(range(len(group.rows)))
        unnamed = Path(group.files[0]).name.split(".")[0]
        if not fields or group.labels:
            label = group.labels[0] if group.labels else unnamed
            self._add_ids(group, quote_sql_text(label))
            return {label: _Part(group, everything, None, extra_labels=len(group.labels) > 1 or bool(fields))}
        found: dict[str, _Part] = {}
        for number, text in enumerate(group.list_column(fields[0].place)):
            labels = (text or "").split(self._delimiter)
            part = found.setdefault(labels[0] or unnamed, _Part(group, [], None))
            part.numbers.append(number)
            part.extra_labels = part.extra_labels or len(labels) > 1
        column = quote_column(fields[0].column)
        first = f"split({column}, '[{self._delimiter}]')[0]"
        label_of = f"coalesce(nullif({first}, ''), {quote_sql_text(unnamed)})" if unnamed in found else first
        self._add_ids(group, label_of)
        if len(found) > 1 or not group.is_complete:
            for label, part in found.items():
                part.condition = select_label(
                    group, column, self._delimiter, label_of, label, found, has_several=part.extra_labels
                )
        return found

    def _add_ids(self, group: DumpRows, label_of: str) -> None:
        (own,) = group.header.list_role("ID")
        self._ids.setdefault(own.space, []).append(select_ids(group, quote_column(own.column), label_of))

    def add_edges(self, groups: Sequence[DumpRows]) -> None:
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
            types, field_ = self._split_by_type(group), group.header.list_role("TYPE")
            for type_, numbers in types.items():
                condition = None
                if field_:
                    column = quote_column(field_[0].column)
                    named = f"coalesce({column}, {quote_sql_text(group.labels[0])})" if group.labels else column
                    condition = select_type(group, named, type_, types)
                self._add_pairs(group, type_, numbers, (start, end), condition)

    def _split_by_type(self, group: DumpRows) -> dict[str, list[int]]:
        """Return the rows of each type: that of the row, else the one before the name of the file."""
        fields = group.header.list_role("TYPE")
        if not fields:
            return {group.labels[0]: list(range(len(group.rows)))}
        found: dict[str, list[int]] = {}
        for number, given in enumerate(group.list_column(fields[0].place)):
            text = group.labels[0] if given is None and group.labels else given
            if text is None:
                file, line = group.places[number]
                message = "the relationship has no type"
                self._reader.problems.append(Violation("", "neo4j_type", message, file, line, property=":TYPE"))
                continue
            found.setdefault(text, []).append(number)
        return found

    def _add_pairs(
        self,
        group: DumpRows,
        type_: str,
        numbers: Sequence[int],
        ends: tuple[HeaderField, HeaderField],
        condition: str | None,
    ) -> None:
        """Divide relationships of one type, which a condition selects, by the node types that they connect."""
        pairs: dict[tuple[str, str], list[int]] = {}
        for number in numbers:
            nodes = [self._find_end(group, number, type_, each) for each in ends]
            if nodes[0] is not None and nodes[1] is not None:
                pairs.setdefault((nodes[0].label, nodes[1].label), []).append(number)
        is_complete = all(self._is_complete[each.space] for each in ends)
        if numbers and not pairs and not is_complete:
            self._reader.add_unconnected(group, numbers[0], type_)
        shared = [place for place, each in enumerate(ends) if self._is_space_shared(each.space)]
        views = tuple(
            SharedEnd("to" if place else "from", quote_column(ends[place].column), self._name_ids(ends[place].space))
            for place in shared
        )
        labels = {pair: tuple(pair[place] for place in shared) for pair in pairs}
        known = None if group.is_complete and is_complete else tuple(dict.fromkeys(labels.values()))
        for (from_, to), mine in pairs.items():
            nodes = self._nodes[from_], self._nodes[to]
            edge = self._edges.setdefault((type_, nodes[0].name, nodes[1].name), _EdgeType("", *nodes))
            pair = PairChoice(type_, views, labels[from_, to], known) if views else None
            edge.parts.append(_Part(group, mine, condition, pair=pair))

    def _name_ids(self, space: str) -> str:
        """Return the view with the ids of a space, which is made if it is used."""
        if space not in self._ids_views:
            name = self._ids_names.choose(make_view_name(space or "Node", "ids"))
            self._ids_views[space] = ImportedView(name, " UNION ALL ".join(self._ids[space]))
        return self._ids_views[space].name

    def _find_end(self, group: DumpRows, number: int, type_: str, end: HeaderField) -> _NodeType | None:
        types = self._spaces[end.space]
        found = types.get(cast("str", group.rows[number][end.place]))
        if found is not None:
            return found
        if self._is_complete[end.space]:
            self._reader.add_dangling(group, number, type_, end)
            return None
        owners = list(self._owners.get(end.space, {}).values())
        return owners[0] if len(owners) == 1 else None

    # ------------------------------------------------------------------------------------- as a proposal

    def build(self, groups: Sequence[DumpRows], options: FileOptions) -> ImportProposal:
        sources = tuple(self._list_sources(groups, options))
        self._views += self._ids_views.values()
        nodes = [self._build_node(each) for each in self._nodes.values()]
        counts = Counter(type_ for type_, _, _ in self._edges)
        for (type_, from_, to), edge in self._edges.items():
            name = make_type_name(type_, "Link")
            edge.name = self._names.choose(name if counts[type_] == 1 else f"{from_}{name}{to}")
        edges = [self._build_edge(type_, each) for (type_, _, _), each in self._edges.items()]
        notes = [f"{','.join(each.files)}: no rows, so no type" for each in groups if not self._is_used(each)]
        return ImportProposal("a dump of Neo4j", sources, tuple(self._views), tuple(nodes), tuple(edges), tuple(notes))

    def _is_used(self, group: DumpRows) -> bool:
        types = (*self._nodes.values(), *self._edges.values())
        return any(part.rows is group for each in types for part in each.parts)

    def _list_sources(self, groups: Sequence[DumpRows], options: FileOptions) -> Iterator[ImportedSource]:
        for group in groups:
            refuse_hidden_files(group.files)
            is_plain = len(group.files) == 1 and not group.header.has_own_names
            format_ = find_csv_format(group.files[0], options)
            given = list_csv_options(format_, has_header=is_plain, spans_lines=group.spans_lines)
            if group.spans_lines and group.ends_with_line_feeds:
                # Spark would take the first end of a line for that of all records, also if it is in a value.
                given["lineSep"] = "\n"
            if is_plain:
                yield ImportedSource(group.source, "csv", group.files[0], given)
                continue
            folder = str(Path(group.files[0]).parent)
            if any(str(Path(each).parent) != folder for each in group.files):
                raise ParameterError(
                    f"{', '.join(group.files)} lie in several folders", hint="put a header and its files into one"
                )
            names = [Path(each).name for each in group.files]
            path = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
            yield ImportedSource(f"{group.source}_files", "csv", str(Path(folder) / path), given)
            fields = group.header.columns
            columns = [f"_c{each.place} AS {quote_column(each.column)}" for each in fields]
            # A header may stand in each file; a row may have the text of one field by chance.
            header = " AND ".join(f"_c{each.place} <=> {quote_sql_text(each.text)}" for each in fields)
            sql = f"SELECT {', '.join(columns)} FROM {group.source}_files WHERE NOT ({header})"  # noqa: S608  it is shown
            self._views.append(ImportedView(group.source, sql))

    def _view_of(self, name: str, parts: Sequence[_Part]) -> str:
        """Return the view with the rows of a type: the source itself, or a view that selects them."""
        alone = parts[0]
        if len(parts) == 1 and alone.condition is None and alone.pair is None:
            return alone.rows.source
        columns = _name_columns(parts)
        selects: list[str] = []
        for part in parts:
            own = {_key_of(each): each.column for each in part.rows.header.columns}
            wanted = [
                f"{f'r.{quote_column(own[key])}' if key in own else 'CAST(NULL AS string)'} AS {quote_column(column)}"
                for key, column in columns.items()
            ]
            chosen = "r.*" if len(parts) == 1 else ", ".join(wanted)
            selects.append(select_rows(part.rows, chosen, part.condition, part.pair))
        view = make_view_name(name, "view")
        self._views.append(ImportedView(view, " UNION ALL ".join(selects)))
        return view

    def _build_node(self, node: _NodeType) -> ImportedNode:
        (own,) = node.parts[0].rows.header.list_role("ID")
        columns = _name_columns(node.parts)
        notes = [part.rows.label for part in node.parts]
        notes += [] if _says_label(node.name, node.label) else [f"nodes with the label {node.label}"]
        if any(part.extra_labels for part in node.parts):
            notes.append("the first label is the type" + ("" if self._find_labels(node) else "; others are not kept"))
        key_name = choose_property_name(own.name or "id", node.name, [])
        key_notes = [f"column '{own.text}'", *([] if own.name else ["an id that Neo4j would not keep"])]
        value = _express(own.type, columns["ID", ""], self._delimiter)
        key = ImportedProperty(key_name, own.type, value, tuple(key_notes), is_key=True)
        properties = [key, *self._build_properties(node.name, node.parts, [key_name])]
        labels = self._find_labels(node)
        if labels is not None:
            name = choose_property_name("labels", node.name, [each.name for each in properties])
            split = f"split({quote_column(columns['LABEL', ''])}, '[{self._delimiter}]')"
            kind = ValueType(Scalar.STRING, nullable=True, is_list=True)
            properties.append(ImportedProperty(name, kind, split, (f"column '{labels.text}': all labels",)))
        return ImportedNode(node.name, self._view_of(node.name, node.parts), tuple(properties), tuple(notes))

    def _find_labels(self, node: _NodeType) -> HeaderField | None:
        """Return the column with the labels of the nodes, if some have several."""
        fields = [each for part in node.parts if part.extra_labels for each in part.rows.header.list_role("LABEL")]
        return fields[0] if fields else None

    def _build_edge(self, type_: str, edge: _EdgeType) -> ImportedEdge:
        notes = [*(part.rows.label for part in edge.parts), f"relationships of the type {type_}"]
        if any(part.pair is not None for part in edge.parts):
            notes.append(f"only those from {edge.from_.name} to {edge.to.name}: their ids share a space with others")
        view = self._view_of(edge.name, edge.parts)
        ends: tuple[tuple[Role, _NodeType], ...] = ("START_ID", edge.from_), ("END_ID", edge.to)
        columns = _name_columns(edge.parts)
        from_, to = (_express(_id_type(node), columns[role, ""], self._delimiter) for role, node in ends)
        properties = tuple(self._build_properties(edge.name, edge.parts, []))
        return ImportedEdge(edge.name, edge.from_.name, edge.to.name, view, from_, to, properties, tuple(notes))

    def _is_space_shared(self, space: str) -> bool:
        return len(self._owners.get(space, {})) > 1

    def _build_properties(
        self, type_name: str, parts: Sequence[_Part], taken: Sequence[str]
    ) -> Iterator[ImportedProperty]:
        names = list(taken)
        columns = _name_columns(parts)
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
            value = _express(each.type, columns[_key_of(each)], self._delimiter)
            yield ImportedProperty(name, type_, value, tuple(notes))


def _id_type(node: _NodeType) -> ValueType:
    return node.parts[0].rows.header.list_role("ID")[0].type


def _says_label(name: str, label: str) -> bool:
    """Whether the name of a type has all letters of a label."""
    return name.lower() == re.sub(r"[\W_]", "", label).lower()


def _key_of(given: HeaderField) -> tuple[Role | None, str]:
    """Return what is the same for a column in all files of a type: its role, or what its header says."""
    return (None, given.text) if given.role is None else (given.role, "")


def _name_columns(parts: Sequence[_Part]) -> dict[tuple[Role | None, str], str]:
    """Return the columns of a type with their names in its view, which differ not only in case."""
    found: dict[tuple[Role | None, str], str] = {}
    register = NameRegister()
    for part in parts:
        for each in part.rows.header.columns:
            if _key_of(each) not in found:
                found[_key_of(each)] = register.choose(each.column)
    return found


def _count_empty(part: _Part, text: str) -> tuple[int, int]:
    """Return how many rows of a part have no value in a column, and how many rows there are."""
    place = next((each.place for each in part.rows.header.fields if each.text == text), None)
    if place is None:
        return len(part.numbers), len(part.numbers)
    return sum(part.rows.rows[number][place] is None for number in part.numbers), len(part.numbers)


def _express(type_: ValueType, column: str, delimiter: str) -> str:
    """Return the expression of a column as a value of its type."""
    name, sql = quote_column(column), _SQL_TYPES.get(type_.scalar)
    if not type_.is_list:
        return name if sql is None else f"cast({name} AS {sql})"
    parts = f"split({name}, '[{delimiter}]')"
    return parts if sql is None else f"transform({parts}, x -> cast(x AS {sql}))"
