"""Which columns of a table are read as which properties of its type.

A target is what a column is read as: a property, ``id``, an end (``from``, ``to``), or one part of the key of an end
(``to.line``). A column is read by its own name; its case is ignored if only one column and one target have the name. A
column that a target is read from, or that is ignored, is read as nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.write.load.rows import RowForm

ColumnNames: TypeAlias = "Mapping[str, str | Sequence[str]]"
"""The column that each target is read from; for an end also several columns, one for each part of the key."""

ALL_OTHERS: Final = "*"
"""Ignores every column that is not a target."""


@dataclass(frozen=True, slots=True)
class ColumnSelection:
    """The columns that are read for each target, where their names differ, and the columns that are ignored.

    ``form`` says whether the columns give whole rows.
    """

    type: NodeType | EdgeType
    targets: frozenset[str]
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: frozenset[str] = frozenset()
    form: RowForm = RowForm.WHOLE

    @property
    def ignores_others(self) -> bool:
        """Whether every column that is not a target is ignored."""
        return ALL_OTHERS in self.ignored

    def choose(self, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the column of each target in a table with these columns, and the problems."""
        chosen: dict[str, str] = {}
        problems: list[str] = []
        for target, column in self.columns.items():
            if column in names:
                chosen[target] = column
            else:
                problems.append(_describe_missing(self.type, target, column, names))
        used = {*self.columns.values(), *self.ignored}
        free = [name for name in names if name not in used]
        targets = self._match_names(free)
        for name in free:
            if name in targets:
                chosen[targets[name]] = name
            elif not self.ignores_others:
                problems.append(self.describe_unused(name))
        problems += [
            f"column '{name}' occurs twice" for name in dict.fromkeys(chosen.values()) if _is_twice(name, names)
        ]
        return chosen, problems

    def _match_names(self, names: Sequence[str]) -> dict[str, str]:
        """Return the target of each column that has its name, or the only one that has it in another case."""
        free = self.targets - self.columns.keys()
        found = {name: name for name in names if name in free}
        columns, targets = _group_by_folded_name(names), _group_by_folded_name(free - found.keys())
        for folded, same in targets.items():
            others = [name for name in columns.get(folded, ()) if name not in found]
            if len(same) == len(others) == 1:
                found[others[0]] = same[0]
        return found

    def describe_unused(self, name: str) -> str:
        """Describe a column that is not read, and not ignored either."""
        if name in self.columns:
            return f"column '{name}' is not used: {self.type.name}.{name} is read from '{self.columns[name]}'"
        same = _group_by_folded_name(self.targets).get(name.casefold())
        if same is not None:
            return (
                f"column '{name}' is not used: other columns or properties are called {' or '.join(sorted(same))} too"
            )
        hint = suggest_similar(name, self.targets)
        return f"no property '{name}'" + (f", {hint}" if hint else "")


def _group_by_folded_name(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names that differ only in case, by the name that they have without it."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(name.casefold(), []).append(name)
    return found


def _is_twice(name: str, names: Sequence[str]) -> bool:
    return sum(each == name for each in names) > 1


def _describe_missing(type_: NodeType | EdgeType, target: str, column: str, names: Iterable[str]) -> str:
    hint = suggest_similar(column, names)
    return f"no column '{column}' for {type_.name}.{target}" + (f", {hint}" if hint else "")


# --------------------------------------------------------------------------------------------- what is given


def select_columns(
    catalog: Catalog,
    type_: NodeType | EdgeType,
    given: ColumnNames,
    ignored: Iterable[str],
    form: RowForm = RowForm.WHOLE,
) -> tuple[ColumnSelection, list[str]]:
    """Return the selection of a type, and the problems of what is given for it."""
    ends = list_ends(catalog, type_)
    targets = frozenset(
        {"id", *type_.properties, *ends, *(f"{end}.{part}" for end, node in ends.items() for part in node.key or ())}
    )
    columns: dict[str, str] = {}
    problems: list[str] = []
    for target, names in given.items():
        if target not in targets:
            hint = suggest_similar(target, targets)
            problems.append(f"{type_.name} has no property '{target}'" + (f", {hint}" if hint else ""))
        elif isinstance(names, str):
            columns[target] = names
        elif target in ends:
            parts = assign_key_parts(sorted(ends[target].key or ()), names)
            problems += _describe_wrong_key(type_, target, ends[target], names) if parts is None else ()
            columns |= {} if parts is None else {f"{target}.{part}": name for part, name in parts.items()}
        else:
            problems.append(f"{type_.name}.{target} is read from one column, not from {len(names)}")
    return ColumnSelection(type_, targets, columns, frozenset(ignored), form), problems


def list_ends(catalog: Catalog, type_: NodeType | EdgeType) -> dict[str, NodeType]:
    """Return the node types at the ends of an edge, by the names of the ends; nothing for a node."""
    if isinstance(type_, NodeType):
        return {}
    nodes = {"src": catalog.nodes[type_.from_type], "dst": catalog.nodes[type_.to_type]}
    return {PUBLIC_NAMES[end]: node for end, node in nodes.items()}


def assign_key_parts(key: Sequence[str], columns: Sequence[str]) -> dict[str, str] | None:
    """Return the column of each part of a key: by name if the names are those of the parts, else in sorted order.

    None if there are more or fewer columns than parts.
    """
    if len(columns) != len(key):
        return None
    return (
        {name: name for name in columns} if set(columns) == set(key) else dict(zip(sorted(key), columns, strict=True))
    )


def _describe_wrong_key(type_: NodeType | EdgeType, target: str, node: NodeType, names: Sequence[str]) -> Iterator[str]:
    key = ", ".join(sorted(node.key or ()))
    has = f"its key is {key}" if key else "it has no key: give the column of its id"
    yield f"{type_.name}.{target} does not match the key of {node.name}: there are {len(names)} columns, {has}"
