"""Resolution files: a dry run writes one, a person decides the conflicts in it, and a merge reads it.

A file is YAML, so JSON works too. It names the two commits it was written for, and lists each conflict with its three
images and a ``choose``: ``ours``, ``theirs``, or values by property; ``null`` leaves it undecided. All problems of a
file are raised together, with their lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO, TypeAlias, cast

import yaml
from yaml.composer import ComposerError
from yaml.constructor import SafeConstructor
from yaml.error import Mark, MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, SequenceNode

from omnigraph.arguments import check_path
from omnigraph.errors import Conflict, ConflictKey, NotFound, ParameterError, ValidationError, Violation
from omnigraph.language.schema import TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass

ResolutionInput: TypeAlias = "str | Path | Mapping[str, object]"
"""A resolution: the path of its file, or its content."""

_TOP_KEYS: Final = ("version", "graph", "source", "target", "by", "conflicts")
_IDENTIFYING_KEYS: Final = ("kind", "type", "id")
_INFORMATIVE_KEYS: Final = ("table_key", "properties", "message", "base", "ours", "theirs")
_HEADER: Final = """\
# Decide each conflict: choose ours (the branch that is merged into), theirs (what is merged into it),
# or give values, such as {age: 42}. A conflict with null is not decided yet.
"""


@dataclass(frozen=True, slots=True)
class ResolutionEntry:
    """The decision about one conflict. Without properties it applies to all conflicts of its kind, type and id.

    Without a table key, as in files of earlier releases, it applies to a node type and an edge type of that name.
    """

    kind: str
    type: str
    id: str
    choose: object
    properties: tuple[str, ...] | None = None
    line: int | None = None
    table_key: str | None = None

    def applies_to(self, conflict: ConflictKey) -> bool:
        """Whether the entry is about a conflict."""
        is_of_type = conflict.table_key in (
            TableKey.candidates(self.type) if self.table_key is None else (self.table_key,)
        )
        is_same = is_of_type and (self.kind, self.id) == (conflict.kind, conflict.id)
        return is_same and self.properties in (None, conflict.properties)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A whole resolution. ``source`` and ``target`` are the commits it was written for, ``by`` the granularity."""

    name: str | None
    source: str | None
    target: str | None
    entries: tuple[ResolutionEntry, ...]
    by: str | None = None

    def to_violation(self, entry: ResolutionEntry, message: str, property_: str | None = None) -> Violation:
        """Return a problem of an entry as a violation."""
        return Violation(entry.type, "choose", message, self.name, entry.line, entry.id, property_)


# --------------------------------------------------------------------------------------------- writing


def write_resolution(
    file: TextIO,
    graph: str,
    source: str,
    target: str,
    by: str,
    conflicts: Iterable[Conflict],
    known: Resolution | None = None,
) -> None:
    """Write a file with the conflicts to decide. Decisions that are already made stay."""
    entries = [{**conflict.to_json(), "choose": None} for conflict in conflicts]
    kept = [] if known is None else [_dump_entry(entry) for entry in known.entries if entry.choose is not None]
    header = {"version": 1, "graph": graph, "source": source, "target": target, "by": by}
    file.write(_HEADER)
    yaml.safe_dump({**header, "conflicts": [*kept, *entries]}, file, sort_keys=False, allow_unicode=True, width=120)


def _dump_entry(entry: ResolutionEntry) -> dict[str, object]:
    optional: dict[str, object] = {} if entry.properties is None else {"properties": list(entry.properties)}
    if entry.table_key is not None:
        optional = {"table_key": entry.table_key, **optional}
    return {"kind": entry.kind, "type": entry.type, "id": entry.id, **optional, "choose": entry.choose}


# --------------------------------------------------------------------------------------------- reading


def read_resolution(resolution: ResolutionInput) -> Resolution:
    """Read a resolution from a file or an object of the same form. Raise ``ValidationError`` with all problems."""
    content, lines = read_resolution_document(resolution)
    name = None if isinstance(resolution, Mapping) else str(resolution)
    return _ResolutionParser(name, lines).parse(content)


def read_resolution_document(resolution: ResolutionInput) -> tuple[object, dict[int, int]]:
    """Return the content of a resolution, unchecked, and the lines of its parts."""
    if isinstance(resolution, Mapping):
        return resolution, {}
    name = str(resolution)
    check_path("resolve", resolution)
    try:
        text = Path(resolution).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no such file: {name}", hint="a dry run writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a file that a dry run wrote, as UTF-8"
        raise ParameterError(f"{name} cannot be read: {error}", hint=hint) from error
    loader = _ResolutionLoader(text)
    try:
        node = loader.get_single_node()
        lines: dict[int, int] = {}
        content = None if node is None else _construct(loader, node, lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise build_resolution_error(
            [Violation("", "yaml", str(error.problem), name, None if mark is None else mark.line + 1)]
        ) from None
    except (YAMLError, ValueError) as error:
        raise build_resolution_error([Violation("", "yaml", str(error), name)]) from None
    return content, lines


class _ResolutionLoader(yaml.SafeLoader):
    """Refuses aliases: with them a small file could expand without end."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = cast("Mark", self.peek_event().start_mark)
            raise ComposerError(None, None, "an alias cannot be used here; write the value itself", mark)
        return super().compose_node(parent, index)


def _construct(loader: SafeConstructor, node: Node, lines: dict[int, int]) -> object:
    """Construct the object of a node, and record the line of each mapping by its identity."""
    if isinstance(node, MappingNode):
        pairs = cast("list[tuple[Node, Node]]", node.value)
        value: object = {
            cast("object", loader.construct_object(key, deep=True)): _construct(loader, value, lines)
            for key, value in pairs
        }
    elif isinstance(node, SequenceNode):
        value = [_construct(loader, each, lines) for each in cast("list[Node]", node.value)]
    else:
        return cast("object", loader.construct_object(node, deep=True))
    lines[id(value)] = cast("Mark", node.start_mark).line + 1
    return value


class _ResolutionParser:
    """Parses one file and collects its problems."""

    def __init__(self, name: str | None, lines: Mapping[int, int]) -> None:
        self._name = name
        self._lines = lines
        self._problems: list[Violation] = []

    def parse(self, value: object) -> Resolution:
        if not isinstance(value, Mapping):
            raise build_resolution_error([Violation("", "form", "it is not a mapping with 'conflicts'", self._name, 1)])
        top = cast("Mapping[str, object]", value)
        self._report_unknown(top, _TOP_KEYS, "")
        listed = top.get("conflicts")
        if not isinstance(listed, list | tuple):
            self._add_problem(top, "", "'conflicts' must be a list")
            listed = ()
        entries = tuple(self._parse_entries(cast("Sequence[object]", listed)))
        source, target = (self._parse_commit(top, name) for name in ("source", "target"))
        if self._problems:
            raise build_resolution_error(self._problems)
        by = top.get("by")
        return Resolution(self._name, source, target, entries, None if by is None else str(by))

    def _parse_commit(self, top: Mapping[str, object], name: str) -> str | None:
        value = top.get(name)
        if value is None and self._name is not None:
            self._add_problem(top, "", f"'{name}' is missing: the commit that the file was written for")
        return None if value is None else str(value)

    def _parse_entries(self, listed: Sequence[object]) -> Iterator[ResolutionEntry]:
        seen: set[tuple[object, ...]] = set()
        for number, each in enumerate(listed, 1):
            if not isinstance(each, Mapping):
                self._problems.append(Violation("", "form", f"conflict {number} is not a mapping", self._name))
                continue
            value = cast("Mapping[str, object]", each)
            entry = self._parse_entry(number, value)
            if entry is None:
                continue
            key = (entry.kind, entry.table_key or entry.type, entry.id, entry.properties)
            if key in seen:
                self._add_problem(value, entry.type, f"conflict {number} is listed twice")
            seen.add(key)
            yield entry

    def _parse_entry(self, number: int, value: Mapping[str, object]) -> ResolutionEntry | None:
        type_ = str(value.get("type", ""))
        self._report_unknown(value, (*_IDENTIFYING_KEYS, *_INFORMATIVE_KEYS, "choose"), type_)
        missing = [name for name in _IDENTIFYING_KEYS if value.get(name) is None]
        if missing:
            self._add_problem(value, type_, f"conflict {number} has no {', '.join(missing)}")
            return None
        if "choose" not in value:
            self._add_problem(value, type_, f"conflict {number} has no 'choose'")
            return None
        properties = value.get("properties")
        names = tuple(map(str, cast("Sequence[object]", properties))) if isinstance(properties, list | tuple) else None
        kind, id_ = str(value["kind"]), str(value["id"])
        table_key = self._parse_table_key(number, value, type_)
        return ResolutionEntry(kind, type_, id_, value["choose"], names, self._lines.get(id(value)), table_key)

    def _parse_table_key(self, number: int, value: Mapping[str, object], type_: str) -> str | None:
        table_key = value.get("table_key")
        if table_key is None:
            return None
        if table_key not in TableKey.candidates(type_)[1:]:
            names = " or ".join(TableKey.candidates(type_)[1:])
            self._add_problem(value, type_, f"conflict {number} has table_key '{table_key}'; it must be {names}")
        return str(table_key)

    def _report_unknown(self, value: Mapping[str, object], known: Sequence[str], type_: str) -> None:
        for name in value:
            if name not in known:
                hint = suggest_similar(str(name), known) or f"use {', '.join(known)}"
                self._add_problem(value, type_, f"unknown key '{name}': {hint}")

    def _add_problem(self, value: object, type_: str, message: str) -> None:
        self._problems.append(Violation(type_, "form", message, self._name, self._lines.get(id(value))))


def build_resolution_error(problems: Sequence[Violation]) -> ValidationError:
    """Build the error for a file that cannot be used."""
    first = problems[0]
    where = "" if first.file is None else f"{first.file}{'' if first.line is None else f':{first.line}'}: "
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ValidationError(f"{where}{first.message}{more}", problems, hint="a dry run writes a file to start from")
