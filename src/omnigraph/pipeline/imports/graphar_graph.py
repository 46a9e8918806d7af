"""A graph in the form of Apache GraphAr as a proposed schema and pipeline: its YAML files say all that is needed.

Vertices have numbers of their own, by which edges name them; here the primary property is the key, and the proposed
views look it up. Only the form is read, not the library: chunks of Parquet, in folders that the YAML files name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import yaml

from omnigraph.errors import NotFound, ParameterError, ValidationError, Violation
from omnigraph.language.types import Scalar, ValueType
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
)
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
    """Read the YAML files of a graph. All that cannot be loaded is listed together, with its file."""
    reader = _GraphReader(read_text)
    folder = posixpath.dirname(path)
    graph = reader.read_file(path)
    root = posixpath.join(folder, reader.text(graph, "prefix", path, default=""))
    vertices = [
        reader.read_vertices(posixpath.join(folder, each), root) for each in reader.names(graph, "vertices", path)
    ]
    edges = [reader.read_edges(posixpath.join(folder, each), root) for each in reader.names(graph, "edges", path)]
    known = {each.type for each in vertices}
    for edge in edges:
        for type_ in dict.fromkeys((edge.from_type, edge.to_type)):
            if type_ not in known:
                reader.add("graphar_vertices", f"the graph has no vertices of the type '{type_}'", edge.file)
    if reader.problems:
        raise ValidationError(f"the files of {path} have {len(reader.problems):,} problems", reader.problems)
    return GraphArGraph(path, tuple(vertices), tuple(edges))


@dataclass(slots=True)
class _GraphReader:
    """Reads YAML files, and gathers what is wrong with them."""

    read_text: Callable[[str], str]
    problems: list[Violation] = field(default_factory=list[Violation])

    def add(self, rule: str, message: str, file: str, line: int | None = None) -> None:
        self.problems.append(Violation("", rule, message, file, line))

    def read_file(self, path: str) -> Mapping[str, object]:
        text = self.read_text(path)
        try:
            node = compose_yaml(text)
        except MalformedYaml as error:
            self.add("graphar_yaml", error.message, path, text.count("\n", 0, error.at) + 1)
            return {}
        found = None if node is None else cast("object", yaml.SafeLoader("").construct_document(node))
        if not isinstance(found, dict):
            self.add("graphar_yaml", "there are no keys with values", path)
            return {}
        return cast("Mapping[str, object]", found)

    def text(self, given: Mapping[str, object], key: str, file: str, default: str | None = None) -> str:
        value = given.get(key, default)
        if isinstance(value, str):
            return value
        self.add("graphar_key", f"'{key}' is {'missing' if value is None else value!r}; it is a text", file)
        return ""

    def names(self, given: Mapping[str, object], key: str, file: str) -> list[str]:
        return [each for each in self._list(given, key, file) if isinstance(each, str)]

    def _list(self, given: Mapping[str, object], key: str, file: str) -> list[object]:
        value = given.get(key)
        if value is None:
            return []
        if isinstance(value, list):
            return cast("list[object]", value)
        self.add("graphar_key", f"'{key}' is {value!r}; it is a list", file)
        return []

    def _objects(self, given: Mapping[str, object], key: str, file: str) -> list[Mapping[str, object]]:
        found = self._list(given, key, file)
        return [cast("Mapping[str, object]", each) for each in found if isinstance(each, dict)]

    def read_vertices(self, file: str, root: str) -> GraphArVertices:
        given = self.read_file(file)
        size = given.get("chunk_size")
        if not isinstance(size, int) or size < 1:
            self.add("graphar_key", f"'chunk_size' is {size!r}; it is a number above 0", file)
            size = 1
        folder = posixpath.join(root, self.text(given, "prefix", file))
        type_ = self.text(given, "type", file)
        return GraphArVertices(type_, file, size, self._read_groups(given, folder, file))

    def read_edges(self, file: str, root: str) -> GraphArEdges:
        given = self.read_file(file)
        names = [self.text(given, key, file) for key in ("src_type", "edge_type", "dst_type")]
        folder = posixpath.join(root, self.text(given, "prefix", file))
        lists = self._objects(given, "adj_lists", file)
        if not lists:
            self.add("graphar_edges", "there are no 'adj_lists'", file)
            lists = [{"file_type": "parquet"}]
        # Each holds all edges; the first by source is as good as any.
        chosen = next((each for each in lists if each.get("ordered") and each.get("aligned_by") == "src"), lists[0])
        self._check_type(chosen, file)
        end = "dest" if chosen.get("aligned_by") == "dst" else "source"
        default = f"ordered_by_{end}/" if chosen.get("ordered") else f"unordered_by_{end}/"
        inside = posixpath.join(folder, self.text(chosen, "prefix", file, default=default))
        return GraphArEdges(
            "_".join(names),
            names[1],
            names[0],
            names[2],
            file,
            bool(given.get("directed", True)),
            posixpath.join(inside, "adj_list"),
            self._read_groups(given, inside, file),
        )

    def _check_type(self, given: Mapping[str, object], file: str) -> None:
        kind = given.get("file_type")
        if kind != "parquet":
            self.add("graphar_file_type", f"'file_type' is {kind!r}; only chunks of 'parquet' are read", file)

    def _read_groups(self, given: Mapping[str, object], folder: str, file: str) -> tuple[GraphArGroup, ...]:
        found: list[GraphArGroup] = []
        for group in self._objects(given, "property_groups", file):
            self._check_type(group, file)
            properties = [
                GraphArProperty(name, type_, each.get("is_primary") is True)
                for each in self._objects(group, "properties", file)
                if (name := self.text(each, "name", file)) and (type_ := self._read_type(each, name, file)) is not None
            ]
            default = "_".join(each.name for each in properties) + "/"
            inside = posixpath.join(folder, self.text(group, "prefix", file, default=default))
            found.append(GraphArGroup(inside, tuple(properties)))
        return tuple(found)

    def _read_type(self, given: Mapping[str, object], name: str, file: str) -> ValueType | None:
        text = str(given.get("data_type", "")).lower()
        is_list = text.startswith(_LIST) and text.endswith(">")
        scalar = _SCALARS.get(text.removeprefix(_LIST).removesuffix(">") if is_list else text)
        if scalar is None:
            known = ", ".join(_SCALARS)
            self.add("graphar_type", f"'{name}' has the type '{text}'; known are {known} and lists of them", file)
            return None
        is_nullable = given.get("is_primary") is not True and given.get("is_nullable") is not False
        return ValueType(scalar, nullable=is_nullable, is_list=is_list)


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
        ImportedNode(names[each.type], sources[each.type], tuple(_import_vertex(each, names[each.type])), (each.file,))
        for each in graph.vertices
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
