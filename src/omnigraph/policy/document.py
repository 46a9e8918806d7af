"""A YAML file as plain values, with the position of each, so that problems of values are shown in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import Final, TypeAlias, cast

from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from omnigraph.errors import ConfigError, Position, Problem
from omnigraph.lazy_dataclass import dataclass
from omnigraph.yaml_nodes import MalformedYaml, compose_yaml

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys of mappings and indexes of lists."""

SYNTAX: Final = "R000"
UNKNOWN_KEY: Final = "R101"
MISSING_KEY: Final = "R102"
REPEATED_KEY: Final = "R103"
WRONG_VALUE: Final = "R104"
_MAX_BYTES: Final = 2 << 20


@dataclass(slots=True)
class Document:
    """The values of a file, and the problems that were found in it so far."""

    text: str
    file: str | None
    root: object = None
    problems: list[Problem] = field(default_factory=list[Problem])
    places: dict[Path, Node] = field(default_factory=dict[Path, Node])
    keys: dict[Path, Node] = field(default_factory=dict[Path, Node])

    def add_problem(self, path: Path, message: str, hint: str | None = None, code: str = WRONG_VALUE) -> None:
        """Record a problem of the value at a path, or of its key if the key is not known."""
        node = self.keys.get(path) if code == UNKNOWN_KEY else self.places.get(path)
        node = node or self.places.get(path)
        start = 0 if node is None else cast(int, node.start_mark.index)
        end = start + 1 if not isinstance(node, ScalarNode) else max(start + 1, cast(int, node.end_mark.index))
        self.problems.append(Problem(code, message, _position_at(self.text, self.file, start, end), hint))

    def raise_problems(self) -> None:
        """Raise one error with all problems, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)

    def mapping(self, path: Path, value: object, what: str) -> Mapping[str, object]:
        """Return a mapping; anything else is a problem."""
        if isinstance(value, dict):
            return cast("Mapping[str, object]", value)
        self.add_problem(path, f"{what} must be a mapping")
        return {}

    def fields(
        self, path: Path, value: object, what: str, known: Sequence[str], required: Sequence[str] = ()
    ) -> Mapping[str, object]:
        """Return a mapping with known keys; other keys and missing ones are problems."""
        found = self.mapping(path, value, what)
        for name in found:
            if name not in known:
                hint = suggest(name, known)
                self.add_problem((*path, name), f"{what} has no key '{name}'", hint, UNKNOWN_KEY)
        if isinstance(value, dict):
            for name in required:
                if name not in found:
                    self.add_problem(path, f"{what} needs '{name}'", f"add {name}:", MISSING_KEY)
        return {name: each for name, each in found.items() if name in known}

    def items(self, path: Path, value: object, what: str) -> Sequence[object]:
        """Return a list; anything else is a problem."""
        if isinstance(value, list):
            return cast("Sequence[object]", value)
        self.add_problem(path, f"{what} must be a list")
        return []

    def text_of(self, path: Path, value: object, what: str) -> str | None:
        """Return a text that is not empty; anything else is a problem."""
        if isinstance(value, str) and value.strip():
            return value
        hint = None if isinstance(value, str) else "write it in quotes"
        self.add_problem(path, f"{what} must be a text" if hint else f"{what} is empty", hint)
        return None

    def texts_of(self, path: Path, value: object, what: str) -> list[tuple[Path, str]]:
        """Return a list of texts with their places."""
        found = [
            ((*path, index), self.text_of((*path, index), each, f"an entry of {what}"))
            for index, each in enumerate(self.items(path, value, what))
        ]
        return [(place, text) for place, text in found if text is not None]

    def choice(self, path: Path, value: object, what: str, words: Sequence[str]) -> str | None:
        """Return one of some words; anything else is a problem."""
        if value in words:
            return cast(str, value)
        self.add_problem(path, f"{what} is '{value}'", suggest(str(value), words))
        return None


def suggest(word: str, known: Sequence[str]) -> str:
    """Return the hint for a word that is not known."""
    close = get_close_matches(word, known, 1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"


def read_document(text: str, file: str | None) -> Document:
    """Read a text as YAML. One that is no YAML raises ``ConfigError`` with the place."""
    document = Document(text, file)
    if len(text) > _MAX_BYTES:
        _add_at(document, 0, f"the file has more than {_MAX_BYTES:,} characters")
    else:
        _compose(document)
    document.raise_problems()
    return document


def _compose(document: Document) -> None:
    try:
        root = compose_yaml(document.text)
    except MalformedYaml as error:
        _add_at(document, error.at, error.message)
        return
    if root is None:
        _add_at(document, 0, "the file is empty")
    else:
        document.root = _to_value(document, (), root)


def _to_value(document: Document, path: Path, node: Node) -> object:
    document.places[path] = node
    if isinstance(node, SequenceNode):
        return [
            _to_value(document, (*path, index), each) for index, each in enumerate(cast("Sequence[Node]", node.value))
        ]
    if not isinstance(node, MappingNode):
        return cast(object, SafeConstructor().construct_object(node, deep=True))
    found: dict[str, object] = {}
    for key, each in cast("Sequence[tuple[Node, Node]]", node.value):
        name = str(cast(object, key.value))
        document.keys[(*path, name)] = key
        if name in found:
            document.add_problem((*path, name), f"'{name}' is given twice", "remove one", REPEATED_KEY)
        found[name] = _to_value(document, (*path, name), each)
    return found


def _add_at(document: Document, start: int, message: str) -> None:
    document.problems.append(Problem(SYNTAX, message, _position_at(document.text, document.file, start, start + 1)))


def _position_at(text: str, file: str | None, start: int, end: int) -> Position:
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", begin)
    line = text[begin : stop if stop >= 0 else len(text)].rstrip("\r")
    column = start - begin + 1
    end_column = max(column + 1, min(end - begin + 1, len(line) + 1))
    return Position(file, text.count("\n", 0, start) + 1, column, end_column, line)
