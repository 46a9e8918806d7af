"""Random schema changes beside a model: the rows agree, on main and on a branch, now and at every commit.

The model holds rows by property. For each property, a schema change keeps it, renames it, or adds it as null or filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import SchemaError, ValidationError
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from tests.selection import sized
from tests.write.evolve.people_graph import load

NAMES: Final = ("p", "q", "r")
TYPES: Final = ("Ant", "Bee")
FORMS: Final = ("I32?", "I64?", 'I32 @default("7")', 'I64 @default("8")', "I32", "String?")

Rows = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A node type: the form of each property, and the previous name of one of them."""

    properties: Mapping[str, str]
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])

    def text(self, name: str) -> str:
        """Return its text in a schema."""
        lines = [
            f"  {each}: {form}" + (f' @rename_from("{self.renamed[each]}")' if each in self.renamed else "")
            for each, form in self.properties.items()
        ]
        return "\n".join([f"node {name} {{", "  code: String @key", *lines, "}"])


Kinds = Mapping[str, Kind]


def text_of(kinds: Kinds) -> str:
    """Return the schema text. One type always stays, so that the schema is not refused as unrelated."""
    return "\n".join(["node Root { code: String @key }", *(kind.text(name) for name, kind in kinds.items())])


def moved(rows: Mapping[str, Rows], old: Kinds, new: Kinds) -> dict[str, Rows]:
    """Return the rows after a schema change that has no obstacle."""
    found: dict[str, Rows] = {}
    for name, kind in new.items():
        known = old[name].properties if name in old else dict[str, str]()
        found[name] = {
            code: {each: _moved(row, known, each, kind) for each in kind.properties}
            for code, row in (rows[name] if name in old else {}).items()
        }
    return found


def _moved(row: Mapping[str, object], known: Mapping[str, str], name: str, kind: Kind) -> object:
    was = name if name in known else kind.renamed.get(name)
    return default_of(kind.properties[name]) if was is None else row[was]


def default_of(form: str) -> int | None:
    """Return the value of a row that has none."""
    return {"I32 @d": 7, "I64 @d": 8}.get(form[:6])


def is_required(form: str) -> bool:
    """Whether a property may not be null."""
    return not form.endswith("?")


@st.composite
def next_kinds(draw: st.DrawFn, old: Kinds) -> Kinds:
    """Draw a schema that differs from another in a few places."""
    found: dict[str, Kind] = {}
    for name in TYPES:
        if not draw(st.integers(0, 5)):
            continue
        properties = dict(old[name].properties) if name in old else {}
        renamed: dict[str, str] = {}
        for each in draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True)):
            form = draw(st.sampled_from((None, *FORMS)))
            if form is None:
                properties.pop(each, None)
            else:
                properties[each] = form
        free = [
            each
            for each in NAMES
            if each not in properties and each not in (old[name].properties if name in old else {})
        ]
        stay = [each for each in properties if name in old and each in old[name].properties]
        if free and stay and draw(st.integers(0, 3)) == 0:
            renamed[free[0]] = stay[0]
            properties[free[0]] = properties.pop(stay[0])
        found[name] = Kind(properties, renamed)
    return found


def shown(graph: Graph, kinds: Kinds, branch: str = MAIN, at: str | None = None) -> dict[str, Rows]:
    """Return all rows by type and key."""
    found: dict[str, Rows] = {}
    for name in kinds:
        rows = graph.nodes(name, branch=branch, at=at).to_arrow().to_pylist()
        found[name] = {row.pop("code"): {key: value for key, value in row.items() if key != "id"} for row in rows}
    return found


def add(data: st.DataObject, graph: Graph, kinds: Kinds, rows: dict[str, Rows], branch: str) -> None:
    """Add one row of some type on a branch."""
    draw = data.draw
    if not kinds:
        return
    name = draw(st.sampled_from(sorted(kinds)))
    code = f"{branch}{sum(map(len, rows.values()))}-{draw(st.integers(0, 2))}"
    given: dict[str, object] = {}
    row: dict[str, object] = {}
    for each, form in kinds[name].properties.items():
        value = "x" if form.startswith("String") else draw(st.integers(0, 3))
        if (is_required(form) and default_of(form) is None) or draw(st.booleans()):
            given[each] = row[each] = value
        else:
            row[each] = default_of(form)
    load(graph, {"type": name, "data": {"code": code, **given}}, branch=branch)
    rows[name][code] = row


def history(data: st.DataObject, folder: Path, length: int) -> None:
    """Change schemas and write rows in turn; compare everything after each step."""
    draw = data.draw
    kinds: Kinds = draw(next_kinds({}))
    kinds = {name: replace(kind, renamed={}) for name, kind in kinds.items()}
    graph = omnigraph.init(folder / "graph.og", text_of(kinds))
    rows = {name: Rows() for name in kinds}
    on_branch: dict[str, Rows] | None = None
    past: list[tuple[str, Kinds, dict[str, Rows]]] = []
    for _ in range(length):
        add(data, graph, kinds, rows, MAIN)
        past.append((graph.commits(limit=1)[0].id, kinds, {name: dict(each) for name, each in rows.items()}))
        if on_branch is None and draw(st.integers(0, 2)) == 0:
            graph.create_branch("dev")
            on_branch = {name: dict(each) for name, each in rows.items()}
        elif on_branch is not None and draw(st.booleans()):
            add(data, graph, kinds, on_branch, "dev")
        new: Kinds = draw(next_kinds(kinds))
        if on_branch is not None and any(kind.renamed for kind in new.values()):
            continue
        wanted = moved(rows, kinds, new)
        if not _applied(graph, new, wanted):
            continue
        rows, before = wanted, kinds
        on_branch = None if on_branch is None else moved(on_branch, before, new)
        kinds = {name: replace(kind, renamed={}) for name, kind in new.items()}
        graph.apply_schema(text_of(kinds))
        assert shown(graph, kinds) == rows
        if on_branch is not None:
            assert shown(graph, kinds, "dev") == on_branch
    for commit, then, had in past:
        assert shown(graph, then, at=commit) == had
    if on_branch is not None:
        # Rows there may break rules that were added later.
        graph.delete_branch("dev")
    assert graph.verify().findings == ()


def _applied(graph: Graph, new: Kinds, wanted: Mapping[str, Rows]) -> bool:
    """Apply a schema. It is refused exactly if it is unsupported, or a required value is null."""
    source = text_of(new)
    lacking = any(
        row[each] is None
        for name, kind in new.items()
        for row in wanted[name].values()
        for each, form in kind.properties.items()
        if is_required(form)
    )
    if not graph.plan_schema(source).supported:
        with pytest.raises(SchemaError):
            graph.apply_schema(source)
        return False
    if lacking:
        with pytest.raises(ValidationError):
            graph.apply_schema(source)
        return False
    graph.apply_schema(source)
    return True


@settings(max_examples=sized(5, 12))
@given(st.data())
def test_schemas_one_after_the_other(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        history(data, Path(folder), 3)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_many_schemas_one_after_the_other(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        history(data, Path(folder), 8)
