"""A graph in the form of Apache GraphAr as a proposed schema and pipeline: its YAML files say all that is needed.

Vertices have numbers of their own, by which edges name them; here the primary property is the key, and the proposed
views look it up. Only the form is read, not the library: chunks of Parquet, in folders that the YAML files name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, cast

import yaml
from yaml.error import YAMLError
from yaml.nodes import MappingNode, Node, SequenceNode

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
)
from omnigraph.pipeline.proposal_sql import quote_column
from omnigraph.yaml_nodes import MalformedYaml, compose_yaml

GRAPHAR: Final = "graphar"
"""The format of a source in a pipeline; its path is that of the file ``*.graph.yml``."""
VERTEX_INDEX: Final = "_graphArVertexIndex"
SOURCE_INDEX: Final = "_graphArSrcIndex"
DESTINATION_INDEX: Final = "_graphArDstIndex"
_ENDING: Final = ".graph.yml"
_SCALARS: Final = {
    "bool": Scalar.BOOL,
    "int32": Scalar.I32,
    "int64": Scalar.I64,
    "float": Scalar.F32,
    "double": Scalar.F64,
    "string": Scalar.STRING,
    "date": Scalar.DATE,
    "timestamp": Scalar.DATETIME,
}
_LIST: Final = "list<"


@dataclass(frozen=True, slots=True)
class GraphArProperty:
    """A property as a YAML file declares it."""

    name: str
    type: ValueType
    is_primary: bool


@dataclass(frozen=True, slots=True)
class GraphArGroup:
    """Properties whose values are in the same files, below a folder."""

    folder: str
    properties: tuple[GraphArProperty, ...]


@dataclass(frozen=True, slots=True)
class GraphArVertices:
    """The vertices of one type."""

    type: str
    file: str
    chunk_size: int
    groups: tuple[GraphArGroup, ...]
    has_labels: bool

    @property
    def properties(self) -> list[GraphArProperty]:
        """All properties, in the order of their groups."""
        return [each for group in self.groups for each in group.properties]

    @property
    def key(self) -> str:
        """The column that tells them apart: the primary property, or their number."""
        return next((each.name for each in self.properties if each.is_primary), VERTEX_INDEX)


@dataclass(frozen=True, slots=True)
class GraphArEdges:
    """The edges of one type between two types of vertices."""

    name: str
    type: str
    from_type: str
    to_type: str
    file: str
    is_directed: bool
    adjacency: str
    """The folder of the ends of the edges."""
    groups: tuple[GraphArGroup, ...]


@dataclass(frozen=True, slots=True)
class GraphArGraph:
    """What the YAML files of a graph say."""

    path: str
    vertices: tuple[GraphArVertices, ...]
    edges: tuple[GraphArEdges, ...]


# --------------------------------------------------------------------------------------------- reading


def is_graphar(paths: Sequence[str]) -> bool:
    """Whether one of the paths is the file of a graph, or a folder with one."""
    return any(each.endswith(_ENDING) or _list_graph_files(each) for each in paths)


def _list_graph_files(path: str) -> list[str]:
    return sorted(str(each) for each in Path(path).glob(f"*{_ENDING}")) if Path(path).is_dir() else []


def read_local_text(path: str) -> str:
    """Read a file; one that is missing is named."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise NotFound(f"there is no file '{path}': {error.strerror}") from error


def read_graphar(path: str, read_text: Callable[[str], str]) -> GraphArGraph:
    """Read the YAML files of a graph. All that cannot be loaded is listed together, with its file and line."""
    reader = _GraphReader(read_text)
    folder = posixpath.dirname(path)
    # Without the file of the graph there is nothing else to look at.
    graph = reader.parse(path, read_text(path)) or _YamlObject(path, 1, {}, {})
    root = posixpath.join(folder, reader.text(graph, "prefix", default=""))
    files = {
        key: [reader.read_file(posixpath.join(folder, name), path, line) for name, line in reader.names(graph, key)]
        for key in ("vertices", "edges")
    }
    vertices = [reader.read_vertices(each, root) for each in files["vertices"] if each is not None]
    edges = [(each, reader.read_edges(each, root)) for each in files["edges"] if each is not None]
    known = {each.type for each in vertices}
    # A file that could not be read may have any type.
    if None not in files["vertices"]:
        for given, edge in edges:
            for key, type_ in (("src_type", edge.from_type), ("dst_type", edge.to_type)):
                if type_ and type_ not in known:
                    reader.add("graphar_vertices", f"the graph has no vertices of the type '{type_}'", given, key)
    if reader.problems:
        raise ValidationError(f"the files of {path} have {len(reader.problems):,} problems", reader.problems)
    return GraphArGraph(path, tuple(vertices), tuple(edge for _, edge in edges))


@dataclass(frozen=True, slots=True)
class _YamlObject:
    """Keys with values, as a file has them: lists, objects, and what a scalar means."""

    file: str
    line: int
    values: Mapping[str, object]
    lines: Mapping[str, int]
    """The line of each key."""

    def get(self, key: str) -> object:
        return self.values.get(key)


@dataclass(frozen=True, slots=True)
class _YamlText:
    """A text in a list, with its line."""

    text: str
    line: int


def _convert_node(node: Node, file: str) -> object:
    line = node.start_mark.line + 1
    if isinstance(node, MappingNode):
        pairs = {str(key.value): (value, key.start_mark.line + 1) for key, value in node.value}
        values = {key: _convert_node(value, file) for key, (value, _) in pairs.items()}
        return _YamlObject(file, line, values, {key: line for key, (_, line) in pairs.items()})
    if isinstance(node, SequenceNode):
        found = [(each, _convert_node(each, file)) for each in node.value]
        return [
            _YamlText(value, each.start_mark.line + 1) if isinstance(value, str) else value for each, value in found
        ]
    try:
        return cast("object", yaml.SafeLoader("").construct_document(node))
    except (ValueError, YAMLError):
        # It looks like a date, or has a tag of its own: what is written there is a text.
        return str(node.value)


@dataclass(slots=True)
class _GraphReader:
    """Reads YAML files, and gathers what is wrong with them."""

    read_text: Callable[[str], str]
    problems: list[Violation] = field(default_factory=list[Violation])

    def add(self, rule: str, message: str, given: _YamlObject, key: str = "") -> None:
        """Note a problem of a key, or of a whole object if it does not have the key."""
        self.problems.append(Violation("", rule, message, given.file, given.lines.get(key, given.line)))

    def read_file(self, path: str, named_in: str, line: int) -> _YamlObject | None:
        """Read a file that another one names; None if that cannot be done."""
        try:
            text = self.read_text(path)
        except NotFound as error:
            self.problems.append(Violation("", "graphar_file", error.message, named_in, line))
            return None
        return self.parse(path, text)

    def parse(self, path: str, text: str) -> _YamlObject | None:
        """Return what a file says; None if it says nothing that can be read."""
        try:
            node = compose_yaml(text)
        except MalformedYaml as error:
            line = text.count("\n", 0, error.at) + 1
            self.problems.append(Violation("", "graphar_yaml", error.message, path, line))
            return None
        found = None if node is None else _convert_node(node, path)
        if isinstance(found, _YamlObject):
            return found
        self.problems.append(Violation("", "graphar_yaml", "there are no keys with values", path, 1))
        return None

    def text(self, given: _YamlObject, key: str, default: str | None = None) -> str:
        value = given.get(key)
        value = default if value is None else value
        if isinstance(value, str):
            return value
        self.add("graphar_key", f"'{key}' is {_describe(value)}; it is a text", given, key)
        return ""

    def names(self, given: _YamlObject, key: str) -> list[tuple[str, int]]:
        """Return the texts of a list, with their lines."""
        return [(each.text, each.line) for each in self._list(given, key) if isinstance(each, _YamlText)]

    def _list(self, given: _YamlObject, key: str) -> list[object]:
        value = given.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return cast("list[object]", value)
        self.add("graphar_key", f"'{key}' is {_describe(value)}; it is a list", given, key)
        return []

    def _objects(self, given: _YamlObject, key: str) -> list[_YamlObject]:
        return [each for each in self._list(given, key) if isinstance(each, _YamlObject)]

    def read_vertices(self, given: _YamlObject, root: str) -> GraphArVertices:
        size = given.get("chunk_size")
        if not isinstance(size, int) or size < 1:
            self.add("graphar_key", f"'chunk_size' is {_describe(size)}; it is a number above 0", given, "chunk_size")
            size = 1
        folder = posixpath.join(root, self.text(given, "prefix"))
        groups = self._read_groups(given, folder)
        if not groups:
            told = "there are no 'property_groups', whose files say which vertices there are"
            self.add("graphar_vertices", told, given, "property_groups")
        return GraphArVertices(self.text(given, "type"), given.file, size, groups, bool(self._list(given, "labels")))

    def read_edges(self, given: _YamlObject, root: str) -> GraphArEdges:
        names = [self.text(given, key) for key in ("src_type", "edge_type", "dst_type")]
        folder = posixpath.join(root, self.text(given, "prefix"))
        lists = self._objects(given, "adj_lists")
        if not lists:
            self.add("graphar_edges", "there are no 'adj_lists'", given, "adj_lists")
            lists = [_YamlObject(given.file, given.line, {"file_type": "parquet"}, {})]
        # Each holds all edges; the first by source is as good as any.
        chosen = next((each for each in lists if each.get("ordered") and each.get("aligned_by") == "src"), lists[0])
        self._check_type(chosen)
        end = "dest" if chosen.get("aligned_by") == "dst" else "source"
        default = f"ordered_by_{end}/" if chosen.get("ordered") else f"unordered_by_{end}/"
        inside = posixpath.join(folder, self.text(chosen, "prefix", default=default))
        is_directed = given.get("directed")
        return GraphArEdges(
            "_".join(names),
            names[1],
            names[0],
            names[2],
            given.file,
            is_directed is None or bool(is_directed),
            posixpath.join(inside, "adj_list"),
            self._read_groups(given, inside),
        )

    def _check_type(self, given: _YamlObject) -> None:
        kind = given.get("file_type")
        if kind != "parquet":
            told = f"'file_type' is {_describe(kind)}; only chunks of 'parquet' are read"
            self.add("graphar_file_type", told, given, "file_type")

    def _read_groups(self, given: _YamlObject, folder: str) -> tuple[GraphArGroup, ...]:
        found: list[GraphArGroup] = []
        for group in self._objects(given, "property_groups"):
            self._check_type(group)
            properties = [
                GraphArProperty(name, type_, each.get("is_primary") is True)
                for each in self._objects(group, "properties")
                if (name := self.text(each, "name")) and (type_ := self._read_type(each, name)) is not None
            ]
            default = "_".join(each.name for each in properties) + "/"
            inside = posixpath.join(folder, self.text(group, "prefix", default=default))
            found.append(GraphArGroup(inside, tuple(properties)))
        return tuple(found)

    def _read_type(self, given: _YamlObject, name: str) -> ValueType | None:
        text = str(given.get("data_type") or "").lower()
        is_list = text.startswith(_LIST) and text.endswith(">")
        scalar = _SCALARS.get(text.removeprefix(_LIST).removesuffix(">") if is_list else text)
        if scalar is None:
            told = f"'{name}' has the type '{text}'; known are {', '.join(_SCALARS)} and lists of them"
            self.add("graphar_type", told, given, "data_type")
            return None
        is_nullable = given.get("is_primary") is not True and given.get("is_nullable") is not False
        return ValueType(scalar, nullable=is_nullable, is_list=is_list)


def _describe(value: object) -> str:
    if value is None:
        return "missing"
    return (
        "a list" if isinstance(value, list) else "keys with values" if isinstance(value, _YamlObject) else repr(value)
    )


# --------------------------------------------------------------------------------------------- as a proposal


def propose_graphar(paths: Sequence[str]) -> ImportProposal:
    """Propose types for one graph: the file ``*.graph.yml``, or the folder that it is in."""
    files = [file for path in paths for file in (_list_graph_files(path) or [path])]
    if len(files) != 1:
        raise ParameterError(f"a graph of GraphAr is one file; there are {len(files)}", hint=f"name one *{_ENDING}")
    graph = read_graphar(files[0], read_local_text)
    register = NameRegister()
    names = {each.type: register.choose(make_type_name(each.type, "Node")) for each in graph.vertices}
    sources = {each.type: make_view_name(names[each.type], "vertices") for each in graph.vertices}
    edges, views, edge_sources = list[ImportedEdge](), list[ImportedView](), list[ImportedSource]()
    kinds = [each.type for each in graph.edges]
    by_type = {each.type: each for each in graph.vertices}
    for each in graph.edges:
        from_, to = names[each.from_type], names[each.to_type]
        own = make_type_name(each.type, "Link")
        name = register.choose(own if kinds.count(each.type) == 1 else f"{from_}{own}{to}")
        source, view = make_view_name(name, "edges"), make_view_name(name, "view")
        edge_sources.append(ImportedSource(source, GRAPHAR, graph.path, {"edges": each.name}))
        ends = [quote_column(by_type[type_].key) for type_ in (each.from_type, each.to_type)]
        # A number without a vertex gives an end that is null, which the load refuses.
        sql = (
            f"SELECT e.*, a.{ends[0]} AS _from_key, b.{ends[1]} AS _to_key FROM {source} e"  # noqa: S608  it is shown
            f" LEFT JOIN {sources[each.from_type]} a ON e.{SOURCE_INDEX} = a.{VERTEX_INDEX}"
            f" LEFT JOIN {sources[each.to_type]} b ON e.{DESTINATION_INDEX} = b.{VERTEX_INDEX}"
        )
        views.append(ImportedView(view, sql))
        notes = [each.file, *([] if each.is_directed else ["not directed; an edge leads from its first end"])]
        properties = _import_properties([one for group in each.groups for one in group.properties], name, [])
        edges.append(ImportedEdge(name, from_, to, view, "_from_key", "_to_key", tuple(properties), tuple(notes)))
    nodes = [
        ImportedNode(names[each.type], sources[each.type], tuple(_import_vertex(each, names[each.type])), tuple(notes))
        for each in graph.vertices
        for notes in [[each.file, *(["its labels are not read"] if each.has_labels else [])]]
    ]
    given = [
        ImportedSource(sources[each.type], GRAPHAR, graph.path, {"vertices": each.type}) for each in graph.vertices
    ]
    return ImportProposal("a graph of GraphAr", (*given, *edge_sources), tuple(views), tuple(nodes), tuple(edges))


def _import_vertex(vertices: GraphArVertices, type_name: str) -> list[ImportedProperty]:
    if vertices.key != VERTEX_INDEX:
        return _import_properties(vertices.properties, type_name, [])
    number = ValueType(Scalar.I64, nullable=False, is_list=False)
    key = ImportedProperty("vertex", number, VERTEX_INDEX, ("no property is primary: its number",), is_key=True)
    return [key, *_import_properties(vertices.properties, type_name, [key.name])]


def _import_properties(
    given: Sequence[GraphArProperty], type_name: str, taken: Sequence[str]
) -> list[ImportedProperty]:
    names, found = list(taken), list[ImportedProperty]()
    for each in given:
        name = choose_property_name(each.name, type_name, names)
        names.append(name)
        notes = () if name == each.name else (f"property '{each.name}'",)
        found.append(ImportedProperty(name, each.type, quote_column(each.name), notes, is_key=each.is_primary))
    return found
