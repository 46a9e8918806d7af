"""What the graph of another system becomes here: types with their properties, and where their rows come from.

The same proposal is written as a schema and as a pipeline file. Both have a comment on each guess.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, format_schema
from omnigraph.language.source import Source
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.table_profile import make_property_name
from omnigraph.storage.location import has_scheme

_WORD: Final = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class ImportedProperty:
    """A property, and the SQL expression that computes it from the rows of its type."""

    name: str
    type: ValueType
    expression: str
    notes: tuple[str, ...] = ()
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class ImportedSource:
    """Files that Spark reads."""

    name: str
    format: str
    path: str
    options: Mapping[str, str | bool] = field(default_factory=dict[str, str | bool])


@dataclass(frozen=True, slots=True)
class ImportedView:
    """An SQL query over sources and earlier views."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """A node type, and the view with its rows."""

    name: str
    view: str
    properties: tuple[ImportedProperty, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedEdge:
    """An edge type, the view with its rows, and the expressions of its ends."""

    name: str
    from_type: str
    to_type: str
    view: str
    from_: str
    to: str
    properties: tuple[ImportedProperty, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportProposal:
    """The types of a foreign graph, and how their rows are read. ``origin`` says what it is, in a few words."""

    origin: str
    sources: tuple[ImportedSource, ...]
    views: tuple[ImportedView, ...]
    nodes: tuple[ImportedNode, ...]
    edges: tuple[ImportedEdge, ...]
    notes: tuple[str, ...] = ()
    """What no type says."""

    def render_schema(self) -> str:
        """Return the schema as text, with a comment on each guess."""
        layout = format_schema(Source("\n".join(_to_one_line(line) for line in self._list_schema_lines())))
        assert isinstance(layout, str), layout
        return layout

    def _list_schema_lines(self) -> Iterator[str]:
        yield f"// Proposed from {self.origin}. Each comment says what a line comes from: check it before you use it."
        yield from (f"// {note}" for note in self.notes)
        for each in (*self.nodes, *self.edges):
            yield ""
            yield from (f"// {note}" for note in each.notes)
            is_edge = isinstance(each, ImportedEdge)
            head = f"edge {each.name}: {each.from_type} -> {each.to_type}" if is_edge else f"node {each.name}"
            body = [_render_property(own) for own in each.properties]
            yield from [head] if is_edge and not body else [f"{head} {{", *body, "}"]
        yield ""

    def render_pipeline(self, graph: str, folder: Path, catalog: Catalog) -> str:
        """Return the pipeline file for a graph with these types; paths are relative to the folder."""
        nodes = [each for each in self.nodes if each.name in catalog.nodes]
        edges = [each for each in self.edges if catalog.find_edge(each.name) is not None]
        if not nodes and not edges:
            names = ", ".join(each.name for each in (*self.nodes, *self.edges))
            raise ParameterError(
                f"the schema has none of the types that the files would become: {names}",
                hint="let omnigraph schema infer propose the schema",
            )
        known = {each.name: set(catalog.nodes[each.name].properties) for each in nodes}
        for edge in edges:
            declared = catalog.find_edge(edge.name)
            known[edge.name] = set() if declared is None else set(declared.properties)
        lines = [
            f"# Proposed from {self.origin}. Check the expressions, then: omnigraph pipeline plan FILE",
            "version: 1",
            f"graph: {_quote(graph)}",
            "load: {mode: merge}",
            *self._list_source_lines(folder),
            *(["views:"] if self.views else []),
            *(f"  {view.name}: {_quote(view.sql)}" for view in self.views),
            *(["nodes:"] if nodes else []),
            *(line for each in nodes for line in _list_mapping_lines(each, known[each.name])),
            *(["edges:"] if edges else []),
            *(line for each in edges for line in _list_mapping_lines(each, known[each.name])),
        ]
        left = [each.name for each in (*self.nodes, *self.edges) if each.name not in known]
        lines += [f"# the schema has no type {name}" for name in left]
        return "\n".join(_to_one_line(line) for line in lines) + "\n"

    def _list_source_lines(self, folder: Path) -> Iterator[str]:
        yield "sources:"
        for source in self.sources:
            is_whole = Path(source.path).is_absolute() or has_scheme(source.path)
            yield f"  {source.name}:"
            yield f"    format: {source.format}"
            yield f"    path: {_quote(source.path if is_whole else os.path.relpath(source.path, folder))}"
            if source.options:
                options = ", ".join(f"{name}: {_quote(value)}" for name, value in source.options.items())
                yield f"    options: {{{options}}}"


def _render_property(given: ImportedProperty) -> str:
    comment = f" // {'; '.join(given.notes)}" if given.notes else ""
    return f"  {given.name}: {given.type}{' @key' if given.is_key else ''}{comment}"


def _list_mapping_lines(given: ImportedNode | ImportedEdge, known: set[str]) -> Iterator[str]:
    yield f"  {given.name}:"
    yield from (f"    # {note}" for note in given.notes)
    yield f"    view: {given.view}"
    if isinstance(given, ImportedEdge):
        yield f"    from: {_quote(given.from_)}"
        yield f"    to: {_quote(given.to)}"
    mapped = [each for each in given.properties if each.name in known]
    if mapped:
        yield "    columns:"
    yield from (f"      {each.name}: {_quote(each.expression)}" for each in mapped)
    left = [each.name for each in given.properties if each.name not in known]
    if left:
        yield f"    # not used: {', '.join(left)}"


def _to_one_line(line: str) -> str:
    # The name of a file or a column may hold anything, and a comment ends with its line.
    return re.sub(r"[\r\n\0]", " ", line)


def _quote(value: str | bool) -> str:  # noqa: FBT001  an option of a source
    return json.dumps(value, ensure_ascii=False)


def refuse_hidden_files(files: Iterable[str]) -> None:
    """Refuse files that Spark passes over: those whose names begin with a dot or an underscore."""
    hidden = [each for each in files if Path(each).name.startswith((".", "_"))]
    if hidden:
        raise ParameterError(f"Spark does not read files with such names: {', '.join(hidden)}", hint="rename them")


# --------------------------------------------------------------------------------------------- names


class NameRegister:
    """Gives each type a name of its own; case counts for nobody."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def choose(self, name: str) -> str:
        """Return the name, with a number if it was given before."""
        number, found = 2, name
        while found.lower() in self._taken:
            number, found = number + 1, f"{name}{number}"
        self._taken.add(found.lower())
        return found


def make_type_name(text: str, fallback: str) -> str:
    """Return a type name for a label of another system: ``ACTED_IN`` gives ``ActedIn``."""
    words = [word.capitalize() if word.isupper() and len(word) > 1 else word for word in _WORD.findall(text)]
    found = "".join(word[:1].upper() + word[1:] for word in words)
    return (found if found[0].isalpha() else f"T{found}") if found else fallback


def choose_property_name(text: str, type_name: str, taken: Sequence[str]) -> str:
    """Return a property name: ``firstName`` gives ``first_name``. ``id`` is taken by the system."""
    name = make_property_name(text, taken)
    return make_property_name(f"{type_name.lower()}_id", taken) if name == "id" else name


def make_view_name(text: str, ending: str) -> str:
    """Return a name for a source or a view: ``ActedIn`` gives ``acted_in_rows``."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    name = "_".join(word.lower() for word in _WORD.findall(split)) or "table"
    return f"{name if name[0].isalpha() else f't_{name}'}_{ending}"
