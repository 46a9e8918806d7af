"""Resolve the conflicts of a merge: by the entries of a resolution file, and by a preferred side for the rest.

An entry is checked when it matches a conflict: values must fit the property, and every property in conflict needs a
value. All problems are collected and raised together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from omnigraph.errors import UNDECIDED, Conflict, ConflictKey, ParameterError, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ValueMismatch, convert_value
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import to_blob_array
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values
from omnigraph.write.merge.conflict_images import to_column_name
from omnigraph.write.merge.deltas import Choice, PreferredSide
from omnigraph.write.merge.resolution_file import Resolution, ResolutionEntry, build_resolution_error
from omnigraph.write.merge.three_way import ConflictKind, MergeBy
from omnigraph.write.row_values import InvalidBlob, parse_blob

_END: ValueType = ValueType(Scalar.STRING)
_Problem: TypeAlias = "tuple[int | None, str, str | None, str]"
"""The line and id of an entry, the property, and the message. Equal problems are reported once."""


@dataclass(frozen=True, slots=True)
class ResolverNotes:
    """The indexes of entries that matched a conflict, and the problems found, to be sent between processes."""

    matched: frozenset[int]
    problems: Mapping[_Problem, Violation]


class ConflictResolver:
    """The decisions about the conflicts of one merge, and the problems found in them."""

    def __init__(self, resolution: Resolution | None, prefer: PreferredSide | None) -> None:
        self._resolution = resolution
        self._prefer: PreferredSide | None = prefer
        self._matched: set[int] = set()
        """The indexes of entries that matched a conflict."""
        self._problems: dict[_Problem, Violation] = {}
        self._entries: dict[tuple[str, str], list[tuple[int, ResolutionEntry]]] = {}
        """The entries with their indexes, by the kind and the id of their conflict."""
        for index, entry in enumerate(() if resolution is None else resolution.entries):
            self._entries.setdefault((entry.kind, entry.id), []).append((index, entry))

    def refuse_stale(self, source: str, target: str, by: MergeBy) -> None:
        """Refuse a file that was written for other commits, or for another granularity."""
        resolution = self._resolution
        if resolution is None:
            return
        if resolution.by not in (None, by):
            raise ParameterError(
                f"{resolution.name or 'the resolution'} was written for a merge by {resolution.by}, not by {by}",
                hint=f"merge by {resolution.by}, or run the merge with --dry-run --out again",
            )
        for side, written, now in (("source", resolution.source, source), ("target", resolution.target, target)):
            if written is not None and written != now:
                raise ParameterError(
                    f"{resolution.name or 'the resolution'} is stale: it was written for {side} {written}, "
                    f"which is at {now} now",
                    hint="run the merge with --dry-run --out again",
                    details={"side": side, "written_for": written, "now": now},
                )

    def choose(self, conflict: ConflictKey, type_: NodeType | EdgeType) -> Choice | None:
        """Return the decision about a conflict; None if there is none."""
        entry = self._match_entry(conflict)
        if entry is None or entry.choose is None:
            return self._prefer
        match entry.choose:
            case "ours":
                return "ours"
            case "theirs":
                return "theirs"
            case Mapping():
                return self._convert_values(entry, conflict, type_, cast("Mapping[object, object]", entry.choose))
            case _:
                self._add_problem(entry, f"choose is {entry.choose!r}; it may be ours, theirs, or values by property")
                return "ours"

    def refuse_invalid(self, possible: Iterable[Conflict], open_: Iterable[Conflict] | None) -> None:
        """Raise all problems of the file.

        ``possible`` are the conflicts before anything is decided, ``open_`` the unresolved ones.
        """
        if self._resolution is None:
            return
        for key in (conflict.key for conflict in possible):
            self._matched |= {index for index, entry in self._list_entries(key) if entry.applies_to(key)}
        for index, entry in enumerate(self._resolution.entries):
            if index not in self._matched:
                self._add_problem(entry, f"there is no such conflict: {entry.kind} of {entry.type} '{entry.id}'")
        for conflict in open_ or ():
            undecided = self._match_entry(conflict.key)
            if undecided is not None and undecided.choose is None:
                self._add_problem(undecided, f"it is undecided: {conflict.message}", rule=UNDECIDED)
        if self._problems:
            raise build_resolution_error(list(self._problems.values()))

    def to_notes(self) -> ResolverNotes:
        """Return what was matched and found so far."""
        return ResolverNotes(frozenset(self._matched), dict(self._problems))

    def add_notes(self, notes: ResolverNotes) -> None:
        """Add the notes of a copy that resolved a part of the conflicts in another process."""
        self._matched |= notes.matched
        self._problems.update(notes.problems)

    @property
    def has_unmatched_entries(self) -> bool:
        """Whether an entry has matched no conflict so far."""
        return self._resolution is not None and len(self._matched) < len(self._resolution.entries)

    def _list_entries(self, conflict: ConflictKey) -> Sequence[tuple[int, ResolutionEntry]]:
        return self._entries.get((conflict.kind, conflict.id), ())

    def _match_entry(self, conflict: ConflictKey) -> ResolutionEntry | None:
        for index, entry in self._list_entries(conflict):
            if entry.applies_to(conflict):
                self._matched.add(index)
                return entry
        return None

    def _convert_values(
        self, entry: ResolutionEntry, conflict: ConflictKey, type_: NodeType | EdgeType, given: Mapping[object, object]
    ) -> Choice:
        """Convert the values of an entry to columns. If there is a problem, record it and return "ours" instead."""
        before = len(self._problems)
        names = {str(name): value for name, value in given.items()}
        is_row = conflict.kind in (ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE)
        for name in conflict.properties if is_row else ():
            if name not in names:
                self._add_problem(entry, f"'{name}' is in conflict, but no value is given", name)
        columns: dict[str, Values] = {}
        for name, value in names.items():
            column = self._convert_value(entry, type_, name, value)
            if column is not None:
                columns[to_column_name(name)] = column
        return columns if len(self._problems) == before else "ours"

    def _convert_value(
        self, entry: ResolutionEntry, type_: NodeType | EdgeType, name: str, value: object
    ) -> Values | None:
        target = self._declared_type(entry, type_, name)
        if target is None:
            return None
        try:
            if target.scalar is Scalar.BLOB:
                return to_blob_array([None if value is None else parse_blob(str(value))])
            return arrow_values(target, [convert_value(value, target)])
        except ValueMismatch as mismatch:
            self._add_problem(entry, f"'{name}': {mismatch.message}, {mismatch.hint}", name)
        except InvalidBlob as error:
            self._add_problem(entry, f"'{name}': {error}", name)
        return None

    def _declared_type(self, entry: ResolutionEntry, type_: NodeType | EdgeType, name: str) -> ValueType | None:
        """Return the type of a property that may be given. The ends of an edge are strings."""
        if isinstance(type_, EdgeType) and name in ("from", "to"):
            return _END
        if isinstance(type_, NodeType) and name in (type_.key or ()):
            self._add_problem(entry, f"'{name}' is the key of {type_.name} and cannot be changed", name)
            return None
        property_ = type_.properties.get(name)
        if property_ is None:
            hint = suggest_similar(name, type_.properties)
            self._add_problem(entry, f"{type_.name} has no property '{name}'{f': {hint}' if hint else ''}", name)
            return None
        return property_.type

    def _add_problem(
        self, entry: ResolutionEntry, message: str, property_: str | None = None, *, rule: str | None = None
    ) -> None:
        assert self._resolution is not None
        problem = self._resolution.to_violation(entry, message, property_)
        problem = problem if rule is None else replace(problem, rule=rule)
        self._problems[entry.line, entry.id, property_, message] = problem
