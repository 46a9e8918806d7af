"""Violations grouped by type, rule, property and value, with exact counts and the first places.

Counting takes as much memory for a hundred million violations as for a thousand. Of a rule with very many values some
are counted one by one, and the others together. Counts of several tasks are added, and stay exact: a value that one
task has not counted by itself is counted with the others.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast

from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.errors import Json, Violation

MAX_KINDS: Final = 100
"""Types, rules and properties that are counted by themselves."""
MAX_COUNTED_VALUES: Final = 100
"""Values of a type, rule and property that are counted by themselves."""
MAX_GROUPED_VALUES: Final = 5
"""Values of a type, rule and property that are groups of their own: the most frequent ones."""
MAX_PLACES: Final = 3
MAX_KNOWN_IDS: Final = 5_000
"""The most ids of a type that are kept, so that violations that follow from them are not reported too."""
MAX_LINES: Final = 40
"""The most groups that a printed report shows."""

Block: TypeAlias = "int | None"
"""Where the part of a file begins in which the line of a violation counts."""
Locate: TypeAlias = "Callable[[Violation, Block], Violation]"
"""Completes the place of a violation."""


@dataclass(frozen=True, slots=True)
class ViolationGroup:
    """Violations of one type, rule and property that say the same about one value, or about all further values."""

    type: str
    rule: str
    property: str | None
    value: Json
    message: str
    count: int
    first: tuple[Violation, ...]
    """The first three of them."""
    table_key: str | None = None

    def rewrite(self, rewrite: Callable[[Violation], Violation]) -> ViolationGroup:
        """Return the group with each of its first violations changed."""
        first = tuple(map(rewrite, self.first))
        more = self.message.removeprefix(self.first[0].message)
        return replace(self, first=first, message=f"{first[0].message}{more}")

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``groups``."""
        return {
            "type": self.type,
            "table_key": self.table_key,
            "rule": self.rule,
            "property": self.property,
            "value": self.value,
            "message": self.message,
            "count": self.count,
            "first": [violation.to_json() for violation in self.first],
        }


@dataclass(slots=True)
class _Tally:
    """How many violations there are, and the first of them."""

    count: int = 0
    first: list[tuple[Violation, Block]] = field(default_factory=list["tuple[Violation, Block]"])

    def add(self, other: _Tally) -> None:
        self.count += other.count
        self.first += other.first[: MAX_PLACES - len(self.first)]


Key = TypeVar("Key")


@dataclass(slots=True)
class _BoundedCounts(Generic[Key]):
    """Tallies by key, at most ``limit`` of them, and one of all others. Each is exact."""

    limit: int
    by_key: dict[Key, _Tally] = field(default_factory=dict["Key", _Tally])
    others: _Tally = field(default_factory=_Tally)

    def add(self, key: Key, tally: _Tally) -> None:
        known = self.by_key.get(key)
        # Once a key was counted among the others, a new key may be one of them.
        if known is None and not self.others.count and len(self.by_key) < self.limit:
            known = self.by_key[key] = _Tally()
        (self.others if known is None else known).add(tally)

    def merge(self, other: _BoundedCounts[Key]) -> None:
        """Add the counts of another part of the violations, which follows."""
        is_complete = not self.others.count
        if other.others.count:
            for key in [key for key in self.by_key if key not in other.by_key]:
                self.others.add(self.by_key.pop(key))
        for key, tally in other.by_key.items():
            if is_complete and len(self.by_key) < self.limit:
                self.by_key.setdefault(key, _Tally())
            self.by_key.get(key, self.others).add(tally)
        self.others.add(other.others)


_Kind: TypeAlias = "tuple[str, str | None, str, str | None]"
"""A type, its table, a rule and a property."""


class ViolationCounts:
    """Counts violations by kind and value. It pickles, and counts of parts can be merged in order."""

    def __init__(self) -> None:
        self._kinds: _BoundedCounts[_Kind] = _BoundedCounts(MAX_KINDS)
        self._values: dict[_Kind, _BoundedCounts[str]] = {}
        self._ids: dict[str, set[str]] = {}

    @property
    def total(self) -> int:
        """The number of violations."""
        return sum(each.count for each in (*self._kinds.by_key.values(), self._kinds.others))

    def add(self, violation: Violation, block: Block = None) -> None:
        """Count a violation."""
        kind = _kind_of(violation)
        tally = _Tally(1, [(violation, block)])
        self._kinds.add(kind, tally)
        if kind in self._kinds.by_key:
            values = self._values.setdefault(kind, _BoundedCounts(MAX_COUNTED_VALUES))
            values.add(repr(violation.value), tally)
        if violation.table_key is not None and violation.id is not None:
            self._add_ids(violation.table_key, (violation.id,))

    def merge(self, other: ViolationCounts) -> None:
        """Add the counts of another part of the violations, which follows."""
        self._kinds.merge(other._kinds)
        for kind, values in other._values.items():
            if kind in self._kinds.by_key:
                self._values.setdefault(kind, _BoundedCounts(MAX_COUNTED_VALUES)).merge(values)
        self._values = {kind: values for kind, values in self._values.items() if kind in self._kinds.by_key}
        for key, ids in other._ids.items():
            self._add_ids(key, ids)

    @property
    def ids(self) -> dict[str, frozenset[str]]:
        """The ids that violations are about, by table key; of very many, the first."""
        return {key: frozenset(ids) for key, ids in self._ids.items()}

    def _add_ids(self, table_key: str, ids: Iterable[str]) -> None:
        known = self._ids.setdefault(table_key, set())
        known.update(islice(ids, max(0, MAX_KNOWN_IDS - len(known))))

    def to_groups(self, locate: Locate | None = None) -> tuple[ViolationGroup, ...]:
        """Return the groups, the most serious first, and in each kind those with the most violations."""
        found = [group for kind in self._kinds.by_key for group in _to_groups(kind, self._values[kind], locate)]
        if self._kinds.others.count:
            found.append(_to_group(("", None, "", None), None, self._kinds.others, locate, ", and other rules"))
        return sort_violation_groups(found)


def encode_counts(counts: ViolationCounts) -> str:
    """Return counts as text, which a task reports."""
    return b64encode(pickle.dumps(counts)).decode()


def decode_counts(text: str) -> ViolationCounts:
    """Decode the counts that a task of this process has reported."""
    return cast("ViolationCounts", pickle.loads(b64decode(text)))  # noqa: S301  it comes from a task of the same load


def count_violations(violations: Iterable[Violation]) -> ViolationCounts:
    """Count violations that are at hand."""
    counts = ViolationCounts()
    for each in violations:
        counts.add(each)
    return counts


def sort_violation_groups(groups: Iterable[ViolationGroup]) -> tuple[ViolationGroup, ...]:
    """Return groups, the most serious kind first, and each kind with its most frequent value first."""
    by_kind: dict[_Kind, list[ViolationGroup]] = {}
    for each in groups:
        by_kind.setdefault(_kind_of(each), []).append(each)
    ordered = sorted(
        by_kind.items(),
        key=lambda item: (_rank_rule(item[0][2]), -sum(each.count for each in item[1]), item[0][0], item[0][3] or ""),
    )
    return tuple(group for _, found in ordered for group in found)


def _kind_of(found: ViolationGroup | Violation) -> _Kind:
    return found.type, found.table_key, found.rule, found.property


def _to_groups(kind: _Kind, values: _BoundedCounts[str], locate: Locate | None) -> Iterable[ViolationGroup]:
    ordered = sorted(values.by_key.values(), key=lambda each: -each.count)
    is_complete = len(ordered) <= MAX_GROUPED_VALUES and not values.others.count
    # Of very many values that occur once, none is worth a line.
    singled = ordered[:MAX_GROUPED_VALUES] if is_complete or (ordered and ordered[0].count > 1) else []
    for each in singled:
        violation, _ = each.first[0]
        yield _to_group(kind, violation.value, each, locate)
    others = _Tally()
    for each in (*ordered[len(singled) :], values.others):
        others.add(each)
    if others.count:
        yield _to_group(kind, None, others, locate, ", and other values")


def _to_group(kind: _Kind, value: Json, tally: _Tally, locate: Locate | None, more: str = "") -> ViolationGroup:
    type_, table_key, rule, name = kind
    first = tuple(each if locate is None else locate(each, block) for each, block in tally.first)
    return ViolationGroup(type_, rule, name, value, f"{first[0].message}{more}", tally.count, first, table_key)


def _rank_rule(rule: str) -> int:
    """Return how serious a broken rule is: a key, an end, a value that is required, a type, any other."""
    if rule.startswith("@key") or rule == "id":
        return 0
    if rule.startswith("edge "):
        return 1
    if rule == "required":
        return 2
    return 4 if rule.startswith("@") else 3


# --------------------------------------------------------------------------------------------- as text


def render_groups(groups: Sequence[ViolationGroup]) -> list[str]:
    """Return a line for each group: how many violations, what they say, and where the first are."""
    shown = _choose_shown(groups)
    width = max((len(f"{each.count:,}") for each in shown), default=0)
    lines = [f"{each.count:>{width},}  {each.message}{_format_places(each.first)}" for each in shown]
    hidden = [each for each in groups if each not in shown]
    if hidden:
        lines.append(f"and {sum(each.count for each in hidden):,} in {len(hidden):,} more groups")
    return lines


def _choose_shown(groups: Sequence[ViolationGroup]) -> list[ViolationGroup]:
    """Return as many groups as a text may show: of each kind the first, then the second, in their order."""
    ranks: dict[_Kind, int] = {}
    ranked: list[tuple[int, int]] = []
    for at, each in enumerate(groups):
        kind = _kind_of(each)
        ranks[kind] = ranks.get(kind, -1) + 1
        ranked.append((ranks[kind], at))
    return [groups[at] for at in sorted(at for _, at in sorted(ranked)[:MAX_LINES])]


def _format_places(violations: Sequence[Violation]) -> str:
    """Return the places of some violations, such as ``  (a.csv:2, 5, b.csv:7)``; nothing if no place is known."""
    places: list[str] = []
    before: str | None = None
    for each in violations:
        if each.line is None and each.file is None:
            continue
        file = each.file or "record"
        line = "" if each.line is None else str(each.line)
        place = line if line and places and file == before else f"{file}:{line}" if line else file
        if place not in places:
            places.append(place)
        before = file
    return f"  ({', '.join(places)})" if places else ""
