"""Parse pipeline files: sources, views, mappings to types, load settings and checks.

Only the file itself is checked here. ``pipeline/planner.py`` checks it against a graph, and ``spark/pipeline`` checks
its SQL.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from yaml.nodes import MappingNode, Node, SequenceNode

from omnigraph.errors import PipelineError, Problem
from omnigraph.language.source import Source, Span, read_source, span_field
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline import codes
from omnigraph.pipeline.yaml_reader import Redactor, TemplateText, YamlEntry, YamlReader, node_span, start_of
from omnigraph.storage.location import has_scheme, strip_file_scheme

if TYPE_CHECKING:
    from omnigraph.write.load import LoadMode, OnError

EntityKind: TypeAlias = Literal["node", "edge"]
EndName: TypeAlias = Literal["from", "to"]

VERSION: Final = "1"
FILE_FORMATS: Final = frozenset({"csv", "graphar", "json", "orc", "parquet", "rdf", "text"})
"""Formats that need a path."""
MAIN: Final = TemplateText("main", "main")
_KEYS: Final = ("version", "graph", "load", "sources", "views", "nodes", "edges", "checks")
_SWITCHES: Final = ("allow_empty", "allow_missing_blobs")
_LOAD_KEYS: Final = ("mode", "branch", "from", "on_error", "merge_into", "identity", "txn", *_SWITCHES)
_ENDS: Final[tuple[EndName, ...]] = ("from", "to")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GLOB: Final = re.compile(r"([*?\[\]{}\\])")


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """A source: files or tables in a format that Spark reads, or an SQL query on the catalog of Spark."""

    name: str
    format: TemplateText | None = None
    path: TemplateText | None = None
    options: Mapping[str, TemplateText] = field(default_factory=dict[str, TemplateText])
    sql: TemplateText | None = None
    span: Span = span_field()

    @property
    def error_span(self) -> Span:
        """The span to show if the source cannot be read."""
        found = self.path or self.sql or self.format
        return self.span if found is None else found.span


@dataclass(frozen=True, slots=True)
class PipelineView:
    """An SQL query over the sources and the views above it."""

    name: str
    sql: TemplateText
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class PropertyMapping:
    """A property, or a part of a key, and the expression that computes it. ``span`` is that of its name."""

    name: str
    expression: TemplateText
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EndMapping:
    """An end of an edge, and what computes it: one expression, a list of them, or one for each part of the key."""

    name: EndName
    form: Literal["one", "list", "parts"]
    columns: tuple[PropertyMapping, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TypeMapping:
    """A type, and the view whose rows become entities of the type."""

    kind: EntityKind
    type_name: str
    view: TemplateText | None
    columns: tuple[PropertyMapping, ...]
    ends: tuple[EndMapping, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class PipelineCheck:
    """A query that must return no rows after the load."""

    file: TemplateText
    name: TemplateText | None
    params: Mapping[str, object] = field(repr=False)
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TypeIdentity:
    """The columns by which a merge or an update finds the stored rows of a type."""

    type_name: str
    columns: tuple[str, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The ``load`` section: how rows are loaded, and into which branch."""

    mode: LoadMode = "append"
    branch: TemplateText = MAIN
    origin: TemplateText | None = None
    on_error: OnError = "fail"
    merge_into: TemplateText | None = None
    identities: tuple[TypeIdentity, ...] = ()
    txn: tuple[str, int] | None = field(default=None, repr=False)
    """The application and the number of the run; a run that is on the target already loads nothing."""
    allow_empty: bool = False
    """Whether an overwrite may leave a type without rows."""
    allow_missing_blobs: bool = False

    @property
    def target(self) -> TemplateText:
        """The branch that has the rows in the end."""
        return self.merge_into or self.branch

    @property
    def start(self) -> TemplateText | None:
        """Where the branch begins, if the run creates it."""
        return self.origin or self.merge_into


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A pipeline as written. Parts that could not be parsed are missing, and are among the ``problems``."""

    document: Source
    folder: Path
    problems: tuple[Problem, ...]
    graph: TemplateText | None = None
    load: LoadSettings = LoadSettings()
    sources: tuple[PipelineSource, ...] = ()
    views: tuple[PipelineView, ...] = ()
    mappings: tuple[TypeMapping, ...] = ()
    checks: tuple[PipelineCheck, ...] = ()
    redactor: Redactor = field(default=Redactor(), repr=False)

    @property
    def name(self) -> str:
        """The path of the file, as given."""
        return self.document.name or "<text>"

    @property
    def message(self) -> str:
        """The message of the commits that load the file."""
        return f"pipeline {Path(self.name).name}"

    def problem(self, code: str, message: str, span: Span, hint: str | None = None) -> Problem:
        """Return a problem at a span of this file."""
        return self.document.problem(code, message, span, hint)

    def local_pattern(self, path: TemplateText) -> str | None:
        """Return a path on this machine as a glob pattern, or None if it is elsewhere."""
        if has_scheme(path.value):
            local = strip_file_scheme(path.value)
            return None if has_scheme(local) else local
        # Only the path in the file may be a pattern, not the folder of the file.
        return str(Path(glob.escape(str(self.folder))) / path.value)

    def is_relative(self, path: TemplateText) -> bool:
        """Return whether a path is relative to the file. Spark resolves other paths in its own file system."""
        return not (has_scheme(path.value) or Path(path.value).is_absolute())

    def spark_path(self, path: TemplateText) -> str:
        """Return a path for Spark. A relative path is on this machine, whatever file system Spark uses by default."""
        if not self.is_relative(path):
            return path.value
        folder = _GLOB.sub(r"\\\1", str(self.folder.absolute()))
        return f"file://{folder}/{path.value}"

    def graph_uri(self) -> str | None:
        """Return the location of the graph. Never show it: it may contain values of environment variables."""
        return None if self.graph is None else self._resolve(self.graph.value)

    def display_path(self, path: TemplateText) -> str:
        """Return a path relative to the working directory, as written in the file."""
        return self._resolve(path.written)

    def _resolve(self, path: str) -> str:
        return path if has_scheme(path) else os.path.normpath(self.folder / path)


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> PipelineFile:
    """Parse a file; its problems are in ``problems``. A file that is not YAML raises :class:`PipelineError`."""
    text = read_source(path, path.suffix)
    if isinstance(text, Problem):
        raise PipelineError([replace(text, code=codes.SYNTAX)])
    reader = YamlReader(text, os.environ if environment is None else environment)
    root = reader.compose()
    if root is None:
        if not reader.problems:
            reader.add_problem(codes.SYNTAX, "the file is empty", Span(0, 1), "start with version: 1")
        raise PipelineError(reader.problems)
    found = _PipelineParser(reader, path.parent).parse(root)
    ordered = sorted(found.problems, key=lambda each: (each.position.line, each.position.column))
    return replace(found, problems=tuple(ordered))


class _PipelineParser:
    """Parses the sections of a file, each as far as possible."""

    def __init__(self, reader: YamlReader, folder: Path) -> None:
        self._reader = reader
        self._folder = folder
        self._names: dict[str, str] = {}
        self._required_ends: tuple[EndName, ...] = _ENDS

    def parse(self, root: Node) -> PipelineFile:
        reader = self._reader
        found = reader.read_fields(root, "a pipeline", _KEYS, ("version", "graph"))
        if "version" in found:
            self._check_version(found["version"])
        sections = {name: found[name] for name in _KEYS if name in found}
        load = self._parse_load(sections["load"]) if "load" in sections else LoadSettings()
        # The rows of an update may be named by their ids.
        self._required_ends = () if load.mode == "update" else _ENDS
        file = PipelineFile(
            reader.source,
            self._folder,
            (),
            reader.read_text(found["graph"], "graph") if "graph" in found else None,
            load,
            tuple(self._parse_sources(sections)),
            tuple(self._parse_views(sections)),
            (*self._parse_mappings(sections, "nodes", "node"), *self._parse_mappings(sections, "edges", "edge")),
            tuple(self._parse_checks(sections)),
        )
        if not ("nodes" in found or "edges" in found):
            reader.add_problem(
                codes.MISSING_KEY, "a pipeline needs 'nodes' or 'edges'", start_of(node_span(root)), "map a type"
            )
        return replace(file, problems=tuple(reader.problems), redactor=reader.redactor)

    def _check_version(self, node: Node) -> None:
        version = self._reader.read_setting(node, "version")
        if version is not None and version.value != VERSION:
            self._reader.add_problem(
                codes.WRONG_VALUE, f"version {version} is not supported", version.span, f"use version {VERSION}"
            )

    def _parse_load(self, node: Node) -> LoadSettings:
        reader = self._reader
        found = reader.read_fields(node, "load", _LOAD_KEYS)
        texts = {
            name: reader.read_text(found[name], f"load.{name}")
            for name in ("branch", "from", "merge_into")
            if name in found
        }
        modes: tuple[LoadMode, ...] = ("append", "merge", "update", "overwrite")
        on_errors: tuple[OnError, ...] = ("fail", "quarantine")
        mode = reader.read_choice(found["mode"], "load.mode", modes) if "mode" in found else None
        on_error = reader.read_choice(found["on_error"], "load.on_error", on_errors) if "on_error" in found else None
        return LoadSettings(
            cast("LoadMode", mode or "append"),
            texts.get("branch") or MAIN,
            texts.get("from"),
            cast("OnError", on_error or "fail"),
            texts.get("merge_into"),
            tuple(self._parse_identities(found["identity"])) if "identity" in found else (),
            self._parse_txn(found["txn"]) if "txn" in found else None,
            "allow_empty" in found and self._parse_switch(found["allow_empty"], "load.allow_empty"),
            "allow_missing_blobs" in found
            and self._parse_switch(found["allow_missing_blobs"], "load.allow_missing_blobs"),
        )

    def _parse_switch(self, node: Node, what: str) -> bool:
        setting = self._reader.read_setting(node, what)
        if setting is not None and setting.value not in ("true", "false"):
            problem = f"{what} is '{setting}'"
            self._reader.add_problem(codes.WRONG_VALUE, problem, setting.span, "use true or false")
        return setting is not None and setting.value == "true"

    def _parse_identities(self, node: Node) -> Iterator[TypeIdentity]:
        reader = self._reader
        for entry in reader.read_entries(node, "load.identity"):
            items = reader.read_items(entry.value, f"the identity of '{entry.name}'")
            texts = [reader.read_text(item, f"the identity of '{entry.name}'") for item in items]
            columns = tuple(text.value for text in texts if text is not None)
            if len(columns) == len(texts) and isinstance(entry.value, SequenceNode):
                yield TypeIdentity(entry.name, columns, entry.span)

    def _parse_txn(self, node: Node) -> tuple[str, int] | None:
        reader = self._reader
        found = reader.read_fields(node, "load.txn", ("app", "number"), ("app", "number"))
        app = reader.read_text(found["app"], "load.txn.app") if "app" in found else None
        number = reader.read_setting(found["number"], "load.txn.number") if "number" in found else None
        if app is None or number is None:
            return None
        if not (number.value.isascii() and number.value.isdecimal()):
            hint = "give a number that grows with every run, such as ${RUN}"
            reader.add_problem(codes.WRONG_VALUE, f"load.txn.number is '{number}'", number.span, hint)
            return None
        return app.value, int(number.value)

    # ------------------------------------------------------------------------------------- sources and views

    def _parse_sources(self, sections: Mapping[str, Node]) -> Iterator[PipelineSource]:
        for entry in self._section_entries(sections, "sources"):
            self._register_name(entry, "source")
            yield self._parse_source(entry)

    def _parse_source(self, entry: YamlEntry) -> PipelineSource:
        reader, what = self._reader, f"source '{entry.name}'"
        found = reader.read_fields(entry.value, what, ("format", "path", "options", "sql"))
        texts = {name: reader.read_text(found[name], f"{what}: {name}") for name in found if name != "options"}
        options: dict[str, TemplateText] = {}
        for option in reader.read_entries(found["options"], f"{what}: options") if "options" in found else ():
            setting = reader.read_setting(option.value, f"option '{option.name}'")
            options |= {} if setting is None else {option.name: setting}
        self._check_source(entry, what, found, texts.get("format"))
        return PipelineSource(entry.name, texts.get("format"), texts.get("path"), options, texts.get("sql"), entry.span)

    def _check_source(
        self, entry: YamlEntry, what: str, found: Mapping[str, Node], format_: TemplateText | None
    ) -> None:
        reader = self._reader
        if not isinstance(entry.value, MappingNode):
            return
        if "sql" in found:
            for name in ("format", "path", "options"):
                if name in found:
                    message = f"{what} has 'sql' and '{name}'"
                    reader.add_problem(
                        codes.WRONG_VALUE, message, node_span(found[name]), f"'sql' cannot be combined: remove {name}"
                    )
        elif "format" not in found:
            hint = "add format: csv, json, parquet, orc, jdbc or any other that Spark reads; or sql:"
            reader.add_problem(codes.MISSING_KEY, f"{what} needs 'format' or 'sql'", entry.span, hint)
        elif format_ is not None and format_.value.lower() in FILE_FORMATS and "path" not in found:
            reader.add_problem(
                codes.MISSING_KEY, f"{what} needs 'path'", entry.span, f"give the path of its {format_} files"
            )

    def _parse_views(self, sections: Mapping[str, Node]) -> Iterator[PipelineView]:
        for entry in self._section_entries(sections, "views"):
            self._register_name(entry, "view")
            sql = self._reader.read_text(entry.value, f"view '{entry.name}'")
            if sql is not None:
                yield PipelineView(entry.name, sql, entry.span)

    def _register_name(self, entry: YamlEntry, kind: str) -> None:
        if not _NAME.fullmatch(entry.name):
            message = f"'{entry.name}' cannot be the name of a {kind}"
            self._reader.add_problem(codes.BAD_NAME, message, entry.span, "use letters, digits and '_', no digit first")
            return
        # Spark ignores the case of names.
        known = self._names.setdefault(entry.name.lower(), f"{kind} '{entry.name}'")
        if known != f"{kind} '{entry.name}'":
            message = f"{kind} '{entry.name}' has the name of {known}"
            self._reader.add_problem(codes.BAD_NAME, message, entry.span, "choose another name")

    # ------------------------------------------------------------------------------------- types

    def _parse_mappings(self, sections: Mapping[str, Node], section: str, kind: EntityKind) -> Iterator[TypeMapping]:
        for entry in self._section_entries(sections, section):
            yield self._parse_mapping(entry, kind)

    def _parse_mapping(self, entry: YamlEntry, kind: EntityKind) -> TypeMapping:
        reader, what = self._reader, f"{kind} '{entry.name}'"
        ends = _ENDS if kind == "edge" else ()
        required = self._required_ends if kind == "edge" else ()
        found = reader.read_fields(entry.value, what, ("view", *ends, "columns"), ("view", *required))
        view = reader.read_text(found["view"], f"{what}: view") if "view" in found else None
        columns = self._parse_columns(found["columns"], f"{what}: columns") if "columns" in found else ()
        end_mappings = tuple(self._parse_end(name, found[name], what) for name in ends if name in found)
        return TypeMapping(kind, entry.name, view, tuple(columns), end_mappings, entry.span)

    def _parse_columns(self, node: Node, what: str) -> Iterator[PropertyMapping]:
        for entry in self._reader.read_entries(node, what):
            expression = self._reader.read_expression(entry.value, f"'{entry.name}'")
            if expression is not None:
                yield PropertyMapping(entry.name, expression, entry.span)

    def _parse_end(self, name: EndName, node: Node, what: str) -> EndMapping:
        span = node_span(node)
        if isinstance(node, MappingNode):
            return EndMapping(name, "parts", tuple(self._parse_columns(node, f"{what}: {name}")), span)
        listed = isinstance(node, SequenceNode)
        items = self._reader.read_items(node, name) if listed else [node]
        expressions = [self._reader.read_expression(item, f"'{name}'") for item in items]
        columns = tuple(PropertyMapping(name, each, each.span) for each in expressions if each is not None)
        return EndMapping(name, "list" if listed else "one", columns, span)

    # ------------------------------------------------------------------------------------- checks

    def _parse_checks(self, sections: Mapping[str, Node]) -> Iterator[PipelineCheck]:
        reader = self._reader
        for item in reader.read_items(sections["checks"], "checks") if "checks" in sections else ():
            found = reader.read_fields(item, "a check", ("file", "name", "params"), ("file",))
            file = reader.read_text(found["file"], "file") if "file" in found else None
            name = reader.read_text(found["name"], "name") if "name" in found else None
            entries = reader.read_entries(found["params"], "params") if "params" in found else ()
            params = {entry.name: reader.read_value(entry.value, f"parameter '{entry.name}'") for entry in entries}
            if file is not None:
                yield PipelineCheck(file, name, params, node_span(found["name"] if "name" in found else found["file"]))

    def _section_entries(self, sections: Mapping[str, Node], name: str) -> list[YamlEntry]:
        return self._reader.read_entries(sections[name], name) if name in sections else []
