"""Read YAML with source positions, and collect problems at the places where they occur.

Reading does not stop at a problem: the bad value is recorded and skipped, so that one run reports all problems. Texts
may contain environment variables as ``${NAME}``; messages always show the text as written, not the values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Final, cast

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from omnigraph.errors import Json, OmniGraphError, Problem, ValidationError
from omnigraph.language.source import Source, Span, span_field, suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline import codes
from omnigraph.yaml_nodes import MalformedYaml, compose_yaml

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CORE: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "timestamp": "a date",
    "seq": "a list",
    "map": "a mapping",
}


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A text of the file: as written, which may be shown, and with its variables replaced, which may be secret."""

    written: str
    value: str = field(repr=False)
    span: Span = span_field()

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces the values of environment variables in messages by the names of the variables."""

    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def redact(self, text: str) -> str:
        """Replace the values of variables in a text by their names."""
        # The longest first: one value may contain another.
        for name, value in sorted(self.values.items(), key=lambda each: -len(each[1])):
            text = text.replace(value, f"${{{name}}}") if value else text
        return text

    @contextmanager
    def redact_errors(self) -> Generator[None]:
        """Redact OmniGraph errors that leave the block, and drop their causes, which could show a value."""
        try:
            yield
        except OmniGraphError as error:
            if not self.values:
                raise
            self._redact_error(error)
            raise error from None

    def _redact_error(self, error: OmniGraphError) -> None:
        error.message = self.redact(error.message)
        error.args = (error.message,)
        error.hint = error.hint and self.redact(error.hint)
        error.details = {name: self._redact_json(value) for name, value in error.details.items()}
        if isinstance(error, ValidationError):
            error.rewrite_violations(
                lambda each: replace(each, file=each.file and self.redact(each.file), message=self.redact(each.message))
            )

    def _redact_json(self, value: Json) -> Json:
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {name: self._redact_json(each) for name, each in value.items()}
            case list() | tuple():
                return [self._redact_json(each) for each in cast("list[Json]", value)]
            case _:
                return value


@dataclass(frozen=True, slots=True)
class YamlEntry:
    """One key of a mapping, and its value."""

    name: str
    span: Span
    value: Node


class YamlReader:
    """Reads the values of one file with an environment, and collects the problems."""

    def __init__(self, source: Source, environment: Mapping[str, str]) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self._environment = environment
        self._used: dict[str, str] = {}

    @property
    def redactor(self) -> Redactor:
        """A redactor of the variables that were used so far."""
        return Redactor(dict(self._used))

    def add_problem(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record a problem."""
        self.problems.append(self.source.problem(code, message, span, hint))

    def compose(self) -> Node | None:
        """Parse the text into a node tree; None after a syntax error, or if the file is empty."""
        try:
            return compose_yaml(self.source.text)
        except MalformedYaml as error:
            self.add_problem(codes.SYNTAX, error.message, Span(error.at, error.at + 1), error.hint)
        return None

    # ------------------------------------------------------------------------------------- mappings and lists

    def read_entries(self, node: Node, what: str) -> list[YamlEntry]:
        """Return the entries of a mapping in order; keys are taken as they are written."""
        if not isinstance(node, MappingNode):
            self._add_wrong_kind(node, what, "a mapping")
            return []
        found: dict[str, YamlEntry] = {}
        for key, value in cast("Sequence[tuple[Node, Node]]", node.value):
            if not isinstance(key, ScalarNode):
                self._add_wrong_kind(key, "a key", "a text")
                continue
            name = cast(str, key.value)
            if name in found:
                self.add_problem(codes.REPEATED_KEY, f"'{name}' is given twice in {what}", node_span(key), "remove one")
                continue
            found[name] = YamlEntry(name, node_span(key), value)
        return list(found.values())

    def read_fields(
        self, node: Node, what: str, known: Iterable[str], required: Collection[str] = ()
    ) -> dict[str, Node]:
        """Return the values of a mapping with known keys; other keys are problems."""
        allowed = tuple(known)
        found: dict[str, Node] = {}
        for entry in self.read_entries(node, what):
            if entry.name in allowed:
                found[entry.name] = entry.value
                continue
            hint = suggest_similar(entry.name, allowed) or f"the keys are {', '.join(allowed)}"
            self.add_problem(codes.UNKNOWN_KEY, f"{what} has no key '{entry.name}'", entry.span, hint)
        if isinstance(node, MappingNode):
            for name in required:
                if name not in found:
                    self.add_problem(
                        codes.MISSING_KEY, f"{what} needs '{name}'", start_of(node_span(node)), f"add {name}:"
                    )
        return found

    def read_items(self, node: Node, what: str) -> Iterator[Node]:
        """Yield the items of a list."""
        if isinstance(node, SequenceNode):
            yield from cast("Sequence[Node]", node.value)
        else:
            self._add_wrong_kind(node, what, "a list")

    # ------------------------------------------------------------------------------------- texts and values

    def read_text(self, node: Node, what: str) -> TemplateText | None:
        """Return a text that is not empty."""
        if _kind_of(node) != "str":
            self._add_wrong_kind(node, what, "a text")
            return None
        if not cast(str, node.value).strip():
            self.add_problem(codes.WRONG_VALUE, f"{what} is empty", node_span(node))
            return None
        return self._fill_variables(node)

    def read_setting(self, node: Node, what: str) -> TemplateText | None:
        """Return a text, a number, or true or false, as the text that Spark expects."""
        kind = _kind_of(node)
        if kind == "bool":
            word = "true" if self.read_value(node, what) else "false"
            return TemplateText(word, word, node_span(node))
        if kind not in ("str", "int", "float"):
            self._add_wrong_kind(node, what, "a text, a number, or true or false")
            return None
        return self._fill_variables(node)

    def read_expression(self, node: Node, what: str) -> TemplateText | None:
        """Return an SQL expression, which may also be a number, or true or false."""
        kind = _kind_of(node)
        if kind in ("int", "float", "bool"):
            return self.read_setting(node, what)
        if kind == "timestamp":
            written = cast(str, node.value)
            self.add_problem(
                codes.WRONG_KIND, f"{what} is a YAML date", node_span(node), f"write it as SQL: \"date '{written}'\""
            )
            return None
        return self.read_text(node, what)

    def read_choice(self, node: Node, what: str, words: Sequence[str]) -> str | None:
        """Return one of some words."""
        text = self.read_text(node, what)
        if text is None or text.value in words:
            return text and text.value
        hint = suggest_similar(text.value, words) or f"use {', '.join(words)}"
        self.add_problem(codes.WRONG_VALUE, f"{what} is '{text}'", text.span, hint)
        return None

    def read_value(self, node: Node, what: str) -> object:
        """Return a value of any kind, for the parameter of a query."""
        if isinstance(node, SequenceNode):
            return [self.read_value(each, what) for each in cast("Sequence[Node]", node.value)]
        if isinstance(node, MappingNode):
            return {entry.name: self.read_value(entry.value, what) for entry in self.read_entries(node, what)}
        if _kind_of(node) == "str":
            return self._fill_variables(node).value
        try:
            return cast(object, SafeConstructor().construct_object(node, deep=True))
        except (ConstructorError, ValueError):
            self.add_problem(codes.WRONG_VALUE, f"{what} cannot be read", node_span(node), "write it in quotes")
            return None

    def _fill_variables(self, node: Node) -> TemplateText:
        span = node_span(node)
        written = cast(str, node.value)
        for name in dict.fromkeys(cast("list[str]", _VARIABLE.findall(written))):
            if name in self._environment:
                self._used[name] = self._environment[name]
            else:
                message = f"the variable {name} is not set"
                self.add_problem(codes.NO_VARIABLE, message, span, f"set {name} in the environment of the command")
        # A variable that is not set stays as written; the pipeline does not run then.
        filled = _VARIABLE.sub(lambda match: self._environment.get(match.group(1), match.group()), written)
        return TemplateText(written, filled, span)

    def _add_wrong_kind(self, node: Node, what: str, expected: str) -> None:
        found = _KINDS.get(_kind_of(node), f"of the type {node.tag}")
        hint = "write it in quotes" if isinstance(node, ScalarNode) and expected == "a text" else None
        if _kind_of(node) == "null":
            # The most frequent cause: an expression that YAML cuts at a comma.
            hint = "inside { } a text with a comma must be in quotes"
        self.add_problem(codes.WRONG_KIND, f"{what} is {found}; it must be {expected}", start_of(node_span(node)), hint)


def node_span(node: Node) -> Span:
    """The span of a node."""
    start, end = cast(int, node.start_mark.index), cast(int, node.end_mark.index)
    return Span(start, max(start + 1, end))


def _kind_of(node: Node) -> str:
    return node.tag.removeprefix(_CORE)


def start_of(span: Span) -> Span:
    """The first character of a span. A whole mapping or list would underline lines that are not wrong."""
    return Span(span.start, span.start + 1)
