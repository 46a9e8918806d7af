"""Pipeline files: what is read, how it is mapped to types, where it goes, and what must hold afterwards.

Here a file is held only against itself. What its words mean for a graph is looked at in ``pipeline_plan``, what its SQL
means in ``pipeline_frames``.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from yaml.nodes import MappingNode, Node, SequenceNode

from omnigraph.errors import PipelineError, Problem
from omnigraph.language.source import Source, Span, read_source, span_field
from omnigraph.pipeline import codes
from omnigraph.pipeline.yaml_reader import Entry, Reading, Secrets, Text, span_of

Kind: TypeAlias = Literal["node", "edge"]
EndName: TypeAlias = Literal["from", "to"]
Mode: TypeAlias = Literal["append", "merge", "overwrite"]
OnError: TypeAlias = Literal["fail", "quarantine"]

VERSION: Final = "1"
FILE_FORMATS: Final = frozenset({"csv", "json", "orc", "parquet", "text"})
"""Formats of files: without a path there is nothing to read."""
MAIN: Final = Text("main", "main")
_KEYS: Final = ("version", "graph", "load", "sources", "views", "nodes", "edges", "checks")
_ENDS: Final[tuple[EndName, ...]] = ("from", "to")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_GLOB: Final = re.compile(r"([*?\[\]{}\\])")


@dataclass(frozen=True, slots=True)
class Input:
    """A source: files or tables in a format that Spark reads, or a query of Spark's own catalog."""

    name: str
    format: Text | None = None
    path: Text | None = None
    options: Mapping[str, Text] = field(default_factory=dict[str, Text])
    sql: Text | None = None
    span: Span = span_field()

    @property
    def place(self) -> Span:
        """Where to point at when it cannot be read."""
        found = self.path or self.sql or self.format
        return self.span if found is None else found.span


@dataclass(frozen=True, slots=True)
class View:
    """A query over the sources and the views above it."""

    name: str
    sql: Text
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Column:
    """What a property, or a part of a key, is computed from. ``span`` is where its name stands."""

    name: str
    expression: Text
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class End:
    """What an end of an edge is computed from: one expression, several in a list, or one for each part of the key."""

    name: EndName
    form: Literal["one", "list", "parts"]
    columns: tuple[Column, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Target:
    """A type, and the view whose rows become its rows."""

    kind: Kind
    type_name: str
    view: Text | None
    columns: tuple[Column, ...]
    ends: tuple[End, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Check:
    """A query that must find nothing when everything is loaded."""

    file: Text
    name: Text | None
    params: Mapping[str, object] = field(repr=False)
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Destination:
    """How rows are loaded, and into which branch."""

    mode: Mode = "append"
    branch: Text = MAIN
    origin: Text | None = None
    on_error: OnError = "fail"
    merge_into: Text | None = None


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A pipeline as it is written. What was wrong with the text is among the ``problems``, and left out here."""

    source: Source
    folder: Path
    problems: tuple[Problem, ...]
    graph: Text | None = None
    load: Destination = Destination()
    inputs: tuple[Input, ...] = ()
    views: tuple[View, ...] = ()
    targets: tuple[Target, ...] = ()
    checks: tuple[Check, ...] = ()
    secrets: Secrets = field(default=Secrets(), repr=False)

    @property
    def name(self) -> str:
        """The file, as it was given."""
        return self.source.name or "<text>"

    def problem(self, code: str, message: str, span: Span, hint: str | None = None) -> Problem:
        """A problem at a place of this file."""
        return self.source.problem(code, message, span, hint)

    def local_pattern(self, path: Text) -> str | None:
        """Where a path points to on this machine, as a pattern; None if it points elsewhere."""
        if _SCHEME.match(path.value):
            return path.value.removeprefix("file://") if path.value.startswith("file:///") else None
        # Only what stands in the file may be a pattern, not the folder that happens to hold it.
        return str(Path(glob.escape(str(self.folder))) / path.value)

    def is_relative(self, path: Text) -> bool:
        """Whether a path is meant beside the file; any other is looked up by Spark, in whatever file system it has."""
        return not (_SCHEME.match(path.value) or Path(path.value).is_absolute())

    def address(self, path: Text) -> str:
        """A path as Spark opens it. A relative one is a file of this machine, whatever Spark's own file system is."""
        if not self.is_relative(path):
            return path.value
        folder = _GLOB.sub(r"\\\1", str(self.folder.absolute()))
        return f"file://{folder}/{path.value}"

    def graph_uri(self) -> str | None:
        """Where the graph is; never to be shown, since the file may take it from the environment."""
        return None if self.graph is None else self._beside(self.graph.value)

    def shown(self, path: Text) -> str:
        """A path as whoever gave the name of the file can use it."""
        return self._beside(path.written)

    def _beside(self, path: str) -> str:
        return path if _SCHEME.match(path) else os.path.normpath(self.folder / path)


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> PipelineFile:
    """Read a file; what is wrong with it is in ``problems``. Only what is no YAML at all is raised."""
    text = read_source(path, path.suffix)
    if isinstance(text, Problem):
        raise PipelineError([replace(text, code=codes.SYNTAX)])
    reading = Reading(text, os.environ if environment is None else environment)
    root = reading.root()
    if root is None:
        if not reading.problems:
            reading.problem(codes.SYNTAX, "the file is empty", Span(0, 1), "begin with version: 1")
        raise PipelineError(reading.problems)
    found = _Parser(reading, path.parent).pipeline(root)
    ordered = sorted(found.problems, key=lambda each: (each.position.line, each.position.column))
    return replace(found, problems=tuple(ordered))


class _Parser:
    """The parts of a file, each read as far as it can be."""

    def __init__(self, reading: Reading, folder: Path) -> None:
        self._reading = reading
        self._folder = folder
        self._names: dict[str, str] = {}

    def pipeline(self, root: Node) -> PipelineFile:
        reading = self._reading
        found = reading.fields(root, "a pipeline", _KEYS, ("version", "graph"))
        if "version" in found:
            self._version(found["version"])
        sections = {name: found[name] for name in _KEYS if name in found}
        file = PipelineFile(
            reading.source,
            self._folder,
            (),
            reading.text(found["graph"], "graph") if "graph" in found else None,
            self._load(sections["load"]) if "load" in sections else Destination(),
            tuple(self._inputs(sections)),
            tuple(self._views(sections)),
            (*self._targets(sections, "nodes", "node"), *self._targets(sections, "edges", "edge")),
            tuple(self._checks(sections)),
        )
        if not ("nodes" in found or "edges" in found):
            reading.problem(
                codes.MISSING_KEY, "a pipeline needs 'nodes' or 'edges'", _begin(root), "say what is loaded"
            )
        return replace(file, problems=tuple(reading.problems), secrets=reading.secrets)

    def _version(self, node: Node) -> None:
        version = self._reading.setting(node, "version")
        if version is not None and version.value != VERSION:
            self._reading.problem(
                codes.WRONG_VALUE, f"version {version} is not known", version.span, f"this release reads {VERSION}"
            )

    def _load(self, node: Node) -> Destination:
        reading = self._reading
        found = reading.fields(node, "load", ("mode", "branch", "from", "on_error", "merge_into"))
        texts = {
            name: reading.text(found[name], f"load.{name}")
            for name in ("branch", "from", "merge_into")
            if name in found
        }
        modes: tuple[Mode, ...] = ("append", "merge", "overwrite")
        manners: tuple[OnError, ...] = ("fail", "quarantine")
        mode = reading.choice(found["mode"], "load.mode", modes) if "mode" in found else None
        on_error = reading.choice(found["on_error"], "load.on_error", manners) if "on_error" in found else None
        return Destination(
            cast("Mode", mode or "append"),
            texts.get("branch") or MAIN,
            texts.get("from"),
            cast("OnError", on_error or "fail"),
            texts.get("merge_into"),
        )

    # ------------------------------------------------------------------------------------- sources and views

    def _inputs(self, sections: Mapping[str, Node]) -> Iterator[Input]:
        for entry in self._section(sections, "sources"):
            self._take_name(entry, "source")
            yield self._input(entry)

    def _input(self, entry: Entry) -> Input:
        reading, what = self._reading, f"source '{entry.name}'"
        found = reading.fields(entry.value, what, ("format", "path", "options", "sql"))
        texts = {name: reading.text(found[name], f"{what}: {name}") for name in found if name != "options"}
        options: dict[str, Text] = {}
        for option in reading.entries(found["options"], f"{what}: options") if "options" in found else ():
            setting = reading.setting(option.value, f"option '{option.name}'")
            options |= {} if setting is None else {option.name: setting}
        self._check_input(entry, what, found, texts.get("format"))
        return Input(entry.name, texts.get("format"), texts.get("path"), options, texts.get("sql"), entry.span)

    def _check_input(self, entry: Entry, what: str, found: Mapping[str, Node], format_: Text | None) -> None:
        reading = self._reading
        if not isinstance(entry.value, MappingNode):
            return
        if "sql" in found:
            for name in ("format", "path", "options"):
                if name in found:
                    message = f"{what} has 'sql' and '{name}'"
                    reading.problem(
                        codes.WRONG_VALUE, message, span_of(found[name]), f"'sql' stands alone: remove {name}"
                    )
        elif "format" not in found:
            hint = "add format: csv, json, parquet, orc, jdbc or any other that Spark reads; or sql:"
            reading.problem(codes.MISSING_KEY, f"{what} needs 'format' or 'sql'", entry.span, hint)
        elif format_ is not None and format_.value.lower() in FILE_FORMATS and "path" not in found:
            reading.problem(codes.MISSING_KEY, f"{what} needs 'path'", entry.span, f"say where its {format_} files are")

    def _views(self, sections: Mapping[str, Node]) -> Iterator[View]:
        for entry in self._section(sections, "views"):
            self._take_name(entry, "view")
            sql = self._reading.text(entry.value, f"view '{entry.name}'")
            if sql is not None:
                yield View(entry.name, sql, entry.span)

    def _take_name(self, entry: Entry, kind: str) -> None:
        if not _NAME.fullmatch(entry.name):
            message = f"'{entry.name}' cannot be the name of a {kind}"
            self._reading.problem(codes.BAD_NAME, message, entry.span, "use letters, digits and '_', no digit first")
            return
        # Spark finds names in any case.
        known = self._names.setdefault(entry.name.lower(), f"{kind} '{entry.name}'")
        if known != f"{kind} '{entry.name}'":
            message = f"{kind} '{entry.name}' has the name of {known}"
            self._reading.problem(codes.BAD_NAME, message, entry.span, "choose another name")

    # ------------------------------------------------------------------------------------- types

    def _targets(self, sections: Mapping[str, Node], section: str, kind: Kind) -> Iterator[Target]:
        for entry in self._section(sections, section):
            yield self._target(entry, kind)

    def _target(self, entry: Entry, kind: Kind) -> Target:
        reading, what = self._reading, f"{kind} '{entry.name}'"
        ends = _ENDS if kind == "edge" else ()
        found = reading.fields(entry.value, what, ("view", *ends, "columns"), ("view", *ends))
        view = reading.text(found["view"], f"{what}: view") if "view" in found else None
        columns = self._columns(found["columns"], f"{what}: columns") if "columns" in found else ()
        made = tuple(self._end(name, found[name], what) for name in ends if name in found)
        return Target(kind, entry.name, view, tuple(columns), made, entry.span)

    def _columns(self, node: Node, what: str) -> Iterator[Column]:
        for entry in self._reading.entries(node, what):
            expression = self._reading.expression(entry.value, f"'{entry.name}'")
            if expression is not None:
                yield Column(entry.name, expression, entry.span)

    def _end(self, name: EndName, node: Node, what: str) -> End:
        span = span_of(node)
        if isinstance(node, MappingNode):
            return End(name, "parts", tuple(self._columns(node, f"{what}: {name}")), span)
        listed = isinstance(node, SequenceNode)
        items = self._reading.items(node, name) if listed else [node]
        expressions = [self._reading.expression(item, f"'{name}'") for item in items]
        columns = tuple(Column(name, each, each.span) for each in expressions if each is not None)
        return End(name, "list" if listed else "one", columns, span)

    # ------------------------------------------------------------------------------------- checks

    def _checks(self, sections: Mapping[str, Node]) -> Iterator[Check]:
        reading = self._reading
        for item in reading.items(sections["checks"], "checks") if "checks" in sections else ():
            found = reading.fields(item, "a check", ("file", "name", "params"), ("file",))
            file = reading.text(found["file"], "file") if "file" in found else None
            name = reading.text(found["name"], "name") if "name" in found else None
            entries = reading.entries(found["params"], "params") if "params" in found else ()
            params = {entry.name: reading.value(entry.value, f"parameter '{entry.name}'") for entry in entries}
            if file is not None:
                yield Check(file, name, params, span_of(found["name"] if "name" in found else found["file"]))

    def _section(self, sections: Mapping[str, Node], name: str) -> list[Entry]:
        return self._reading.entries(sections[name], name) if name in sections else []


def _begin(node: Node) -> Span:
    start = span_of(node).start
    return Span(start, start + 1)
