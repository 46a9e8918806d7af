"""Who decides the conflicts of a merge: a file entry by entry, and for the rest a side that is preferred.

Entries are checked against the conflicts that they meet: values must fit the property, and all that is at odds must be
given. What is wrong is gathered, and told together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from omnigraph.errors import Conflict, ParameterError, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ValueMismatch, convert_value
from omnigraph.read.rows import to_blob_array
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values
from omnigraph.write.blobs import NotBase64, parse_blob
from omnigraph.write.merge.conflict_images import stored_name
from omnigraph.write.merge.deltas import Choice
from omnigraph.write.merge.resolution_file import Resolution, ResolutionEntry, build_resolution_error
from omnigraph.write.merge.three_way import ConflictKind, MergeBy

PreferredSide: TypeAlias = Literal["ours", "theirs"]
_END: ValueType = ValueType(Scalar.STRING)
_Problem: TypeAlias = "tuple[int | None, str, str | None, str]"
"""The line and the id of an entry, the property that it is about, and what is wrong."""


@dataclass(frozen=True, slots=True)
class ResolverNotes:
    """The places of entries that met a conflict, and what is wrong with them."""

    matched: frozenset[int]
    problems: Mapping[_Problem, Violation]


class ConflictResolver:
    """The decisions of one merge, and what was found wrong with them."""

    def __init__(self, resolution: Resolution | None, prefer: PreferredSide | None) -> None:
        self._resolution = resolution
        self._prefer: PreferredSide | None = prefer
        self._matched: set[int] = set()
        """The places of entries that met a conflict."""
        self._problems: dict[_Problem, Violation] = {}

    def refuse_stale(self, source: str, target: str, by: MergeBy) -> None:
        """Refuse a file that was written for other commits than those that are merged, or another granularity."""
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
                    f"which stands at {now} now",
                    hint="run the merge with --dry-run --out again",
                    details={"side": side, "written_for": written, "now": now},
                )

    def choose(self, conflict: Conflict, type_: NodeType | EdgeType) -> Choice | None:
        """What was decided about a conflict; None if nothing was."""
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
        """Raise everything that is wrong with the file.

        ``possible`` are the conflicts that there are before anything is decided, ``open_`` those that are left.
        """
        if self._resolution is None:
            return
        conflicts = list(possible)
        for place, entry in enumerate(self._resolution.entries):
            if place not in self._matched and not any(entry.applies_to(conflict) for conflict in conflicts):
                self._add_problem(entry, f"there is no such conflict: {entry.kind} of {entry.type} '{entry.id}'")
        for conflict in open_ or ():
            left = self._match_entry(conflict)
            if left is not None and left.choose is None:
                self._add_problem(left, f"it is left open: {conflict.message}")
        if self._problems:
            raise build_resolution_error(list(self._problems.values()))

    def notes(self) -> ResolverNotes:
        """What was met and found wrong so far."""
        return ResolverNotes(frozenset(self._matched), dict(self._problems))

    def add_notes(self, notes: ResolverNotes) -> None:
        """Add what a copy of this met and found wrong, which decided a part of the conflicts elsewhere."""
        self._matched |= notes.matched
        self._problems.update(notes.problems)

    @property
    def has_unmatched_entries(self) -> bool:
        """Whether an entry met no conflict so far."""
        return self._resolution is not None and len(self._matched) < len(self._resolution.entries)

    def _match_entry(self, conflict: Conflict) -> ResolutionEntry | None:
        if self._resolution is None:
            return None
        for place, entry in enumerate(self._resolution.entries):
            if entry.applies_to(conflict):
                self._matched.add(place)
                return entry
        return None

    def _convert_values(
        self, entry: ResolutionEntry, conflict: Conflict, type_: NodeType | EdgeType, given: Mapping[object, object]
    ) -> Choice:
        """The values of an entry as columns. What is wrong is noted, and ours stands in for it."""
        before = len(self._problems)
        names = {str(name): value for name, value in given.items()}
        is_row = conflict.kind in (ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE)
        for name in conflict.properties if is_row else ():
            if name not in names:
                self._add_problem(entry, f"'{name}' is at odds, and no value is given for it", name)
        found: dict[str, Values] = {}
        for name, value in names.items():
            column = self._convert_value(entry, type_, name, value)
            if column is not None:
                found[stored_name(name)] = column
        return found if len(self._problems) == before else "ours"

    def _convert_value(
        self, entry: ResolutionEntry, type_: NodeType | EdgeType, name: str, value: object
    ) -> Values | None:
        declared = self._declared_type(entry, type_, name)
        if declared is None:
            return None
        try:
            if declared.scalar is Scalar.BLOB:
                return to_blob_array([None if value is None else parse_blob(str(value))])
            return arrow_values(declared, [convert_value(value, declared)])
        except ValueMismatch as mismatch:
            self._add_problem(entry, f"'{name}': {mismatch.message}, {mismatch.hint}", name)
        except NotBase64 as error:
            self._add_problem(entry, f"'{name}': what follows base64: is not that ({error})", name)
        return None

    def _declared_type(self, entry: ResolutionEntry, type_: NodeType | EdgeType, name: str) -> ValueType | None:
        """The type of a property that may be given; the ends of an edge are texts."""
        if isinstance(type_, EdgeType) and name in ("from", "to"):
            return _END
        if isinstance(type_, NodeType) and name in (type_.key or ()):
            self._add_problem(entry, f"'{name}' is the key of {type_.name} and cannot be given", name)
            return None
        declared = type_.properties.get(name)
        if declared is None:
            hint = suggest_similar(name, type_.properties)
            self._add_problem(entry, f"{type_.name} has no property '{name}'{f': {hint}' if hint else ''}", name)
            return None
        return declared.type

    def _add_problem(self, entry: ResolutionEntry, message: str, property_: str | None = None) -> None:
        assert self._resolution is not None
        problem = self._resolution.to_violation(entry, message, property_)
        self._problems[entry.line, entry.id, property_, message] = problem
