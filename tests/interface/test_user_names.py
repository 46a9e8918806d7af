"""User names never collide with ours: properties, aliases, variables and parameters may have any name of the code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import Json, MergeConflicts, SchemaError
from omnigraph.language.schema import parse_schema
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import ROW_ADDRESS, ROW_CREATED_AT, ROW_ID, ROW_UPDATED_AT
from omnigraph.write.load.matching import column_updates, match_candidates
from omnigraph.write.load.rows import row_buffer
from omnigraph.write.merge import MergeBy
from tests.selection import daily, sized
from tests.user_names import (
    KEYED,
    KINDS,
    LINK,
    LOOSE,
    Model,
    NamedGraph,
    Row,
    find_differences,
    list_records,
    list_schemas,
    make_first_rows,
    read_rows,
)

SCHEMAS: Final = list_schemas()
Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return the graph of a schema with its first rows; each is made once."""
    folder = tmp_path_factory.mktemp("names")
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = folder / f"{len(made)}.og"
            world = SCHEMAS[name]
            omnigraph.init(made[name], world.schema).load(list_records(world, make_first_rows(world)))
        return made[name]

    return make


@pytest.fixture(params=daily(SCHEMAS, ["known"]))
def named(request: pytest.FixtureRequest, templates: Folder, tmp_path: Path) -> NamedGraph:
    """A graph whose properties have these names, with four rows of each type."""
    name = cast(str, request.param)
    shutil.copytree(templates(name), tmp_path / "graph.og")
    world = SCHEMAS[name]
    return NamedGraph(world, omnigraph.open(tmp_path / "graph.og"), make_first_rows(world))


@pytest.fixture(params=daily(["held", "divided", "columns"], ["divided"]))
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load with rows in memory, staged in files and matched in parts, or written as columns."""
    if request.param == "divided":
        monkeypatch.setattr(row_buffer, "MAX_BUFFERED_BYTES", 0)
        monkeypatch.setattr(match_candidates, "ROWS_IN_A_PART", 1)
    if request.param == "columns":
        monkeypatch.setattr(column_updates, "LEAST_ROWS", 1)


def test_the_schemas_have_every_word_of_the_code() -> None:
    names = {name for world in SCHEMAS.values() for name in world.names}
    assert len(names) > 1000
    assert {"address", "__given", "run", "where", "partition", "weight"} <= names
    assert all(len(world.kinds) >= 7 * len(KINDS) for world in SCHEMAS.values())


@pytest.mark.parametrize("column", [*InternalColumn, ROW_ID, ROW_ADDRESS, ROW_CREATED_AT, ROW_UPDATED_AT])
def test_no_property_can_have_the_name_of_an_internal_column(column: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(f"node Thing {{ {column}: String }}")


# --------------------------------------------------------------------------------------------- loads


@pytest.mark.usefixtures("size")
def test_loads(named: NamedGraph, tmp_path: Path) -> None:
    world, graph, model = named.world, named.graph, named.model
    named.check()
    graph.load(change_rows(named, 1, new=True), mode="merge", identity=world.identity)
    named.check()
    # Rows that are there already: found by all of their values.
    same = [world.make_records(type_, model[type_][row_id]) for type_, row_id in ((LOOSE, "l2"), (LINK, "e2"))]
    assert graph.load(same, mode="merge").commit is None
    graph.load(update_halves(named, 2), mode="update", identity=world.identity)
    named.check()
    update_from_tables(named, 3)
    named.check()
    # Objects of one type, which are not taken for records.
    objects = tmp_path / "objects.jsonl"
    rows = [world.make_row(number, 4) for number in (1, 2)]
    objects.write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph.load(nodes={KEYED: objects}, mode="merge")
    model[KEYED] |= {world.key_of(number): row for number, row in zip((1, 2), rows, strict=True)}
    named.check()
    graph.create_branch("other")
    replaced: Model = {**model, KEYED: {world.key_of(n): world.make_row(n, 5) for n in range(5)}}
    graph.load(list_records(world, {KEYED: replaced[KEYED]}), mode="overwrite", branch="other")
    named.check("other", replaced)
    named.check()


def change_rows(named: NamedGraph, turn: int, *, new: bool) -> list[Row]:
    """Change row 1 of each type, and perhaps add row 9; return records without ids."""
    world, model = named.world, named.model
    for number in (1, 9) if new else (1,):
        model[KEYED][world.key_of(number)] = world.make_row(number, turn)
    model[LOOSE]["l1"] = world.make_row(1, turn)
    model[LINK]["e1"] |= world.make_row(1, turn)
    rows = [(KEYED, model[KEYED][world.key_of(number)]) for number in ((1, 9) if new else (1,))]
    return [world.make_records(*each) for each in (*rows, (LOOSE, model[LOOSE]["l1"]), (LINK, model[LINK]["e1"]))]


def update_halves(named: NamedGraph, turn: int) -> list[Row]:
    """Change half of the properties of row 2 of each type, and set one of row 3 to null; return partial records."""
    world, model = named.world, named.model
    key, unique, member = world.identifying
    half, other = world.halves()
    changes = world.make_row(2, turn, half)
    rows = {KEYED: model[KEYED][world.key_of(2)], LOOSE: model[LOOSE]["l2"], LINK: model[LINK]["e2"]}
    records: list[Row] = []
    for (type_, row), name in zip(rows.items(), (key, unique, member), strict=True):
        row |= changes
        ends = {end: row[end] for end in ("from", "to") if end in row}
        records.append(world.make_records(type_, {**changes, name: row[name], **ends}))
    model[LOOSE]["l3"][other[0]] = None
    return [*records, world.make_records(LOOSE, {other[0]: None}, "l3")]


def update_from_tables(named: NamedGraph, turn: int) -> None:
    """Change all properties of rows 0 and 3 of each type, from Arrow tables."""
    world, model = named.world, named.model
    key, *_ = world.identifying
    for type_, prefix in ((KEYED, ""), (LOOSE, "l"), (LINK, "e")):
        rows: list[Row] = []
        for number in (0, 3):
            row_id = f"{prefix}{number}" if prefix else world.key_of(number)
            values = world.make_row(number, turn)
            model[type_][row_id] |= values
            rows.append(values if type_ == KEYED else {"id": row_id, **values})
        table = pa.Table.from_pylist(rows)
        assert key in table.column_names
        tables = {type_: table}
        if type_ == LINK:
            named.graph.load(edges=tables, mode="update")
        else:
            named.graph.load(nodes=tables, mode="update")


def test_quarantined_records(named: NamedGraph, tmp_path: Path) -> None:
    world, graph, model = named.world, named.graph, named.model
    wrong, (changed, *_) = world.list_of("I64")[0], world.halves()[0]
    rows = [world.make_row(number, 1) for number in (20, 21, 22)]
    rows[1][wrong] = "no number"
    loaded = graph.load(
        [world.make_records(KEYED, row) for row in rows], on_error="quarantine", rejects=tmp_path / "whole.jsonl"
    )
    assert loaded.rejected == 1
    assert read_rejects(tmp_path / "whole.jsonl") == [world.make_records(KEYED, rows[1])]
    for number in (20, 22):
        model[KEYED][world.key_of(number)] = world.make_row(number, 1)
    key, *_ = world.identifying
    partial = [{key: world.key_of(number), **world.make_row(number, 2, [changed])} for number in (2, 99)]
    graph.load(
        [world.make_records(KEYED, row) for row in partial],
        mode="update",
        on_error="quarantine",
        rejects=tmp_path / "partial.jsonl",
    )
    model[KEYED][world.key_of(2)] |= partial[0]
    assert read_rejects(tmp_path / "partial.jsonl") == [world.make_records(KEYED, partial[1])]
    named.check()


def read_rejects(path: Path) -> list[Json]:
    records = [json.loads(line)["record"] for line in path.read_text().splitlines()]
    return [json.loads(record) if isinstance(record, str) else record for record in records]


# --------------------------------------------------------------------------------------------- mutations


def test_mutations(named: NamedGraph) -> None:
    world, graph, model = named.world, named.graph, named.model
    key, *_ = world.identifying
    values, inserted = world.make_row(3, 1), world.make_row(7, 1)
    kinds = {name: kind for name, kind in world.kinds.items() if kind != "Blob"}
    declared = ", ".join(f"${name}: {kind}" for name, kind in kinds.items())
    assigned = ", ".join(f"{name}: ${name}" for name in kinds if name != key)
    graph.mutate(
        f"query q({declared}) {{ {make_update(KEYED, assigned)} where {key} = ${key} }}",
        params={name: values[name] for name in kinds},
    )
    model[KEYED][world.key_of(3)] |= {name: values[name] for name in kinds}
    with graph.transaction() as work:
        work.mutate(
            f"query q({declared}) {{ insert {KEYED} {{ {', '.join(f'{name}: ${name}' for name in kinds)} }} }}",
            params={name: inserted[name] for name in kinds},
        )
    model[KEYED][world.key_of(7)] = {name: inserted[name] if name in kinds else None for name in world.names}
    named.check()
    graph.mutate(f"query q($k: String) {{ delete {KEYED} where {key} = $k }}", params={"k": world.key_of(7)})
    del model[KEYED][world.key_of(7)]
    named.check()


def test_mutations_with_a_match(named: NamedGraph) -> None:
    """Each text becomes another text of a variable that has the name of a third one."""
    world, row = named.world, named.model[LOOSE]["l1"]
    _, unique, _ = world.identifying
    texts = world.list_of("String")
    for variable in texts[:3]:
        before = dict(row)
        moved = dict(zip(texts, [*texts[1:], texts[0]], strict=True))
        assigned = ", ".join(f"{name}: ${variable}.{source}" for name, source in moved.items())
        named.graph.mutate(
            f"query q($k: String) {{ match {{ ${variable}: {LOOSE} {{ {unique}: $k }} }} "
            f"{make_update(f'${variable}', assigned)} }}",
            params={"k": row[unique]},
        )
        row |= {name: before[source] for name, source in moved.items()}
    named.check()


def make_update(target: str, assigned: str) -> str:
    return " ".join(("update", target, "set {", assigned, "}"))


# --------------------------------------------------------------------------------------------- history


@pytest.mark.parametrize("by", ["row", "property"])
def test_merges(named: NamedGraph, by: MergeBy) -> None:
    world, graph = named.world, named.graph
    graph.create_branch("theirs")
    ours = 0 if by == "property" else 1
    for branch, number, names in (("theirs", 0, world.halves()[0]), ("main", ours, world.halves()[1])):
        changes = world.make_row(number, 1, names)
        for type_, row_id in ((KEYED, world.key_of(number)), (LOOSE, f"l{number}"), (LINK, f"e{number}")):
            named.model[type_][row_id] |= changes
            key = {world.identifying[0]: row_id} if type_ == KEYED else {"id": row_id}
            graph.load(**as_table(type_, {**key, **changes}), mode="update", branch=branch)
    graph.merge("theirs", by=by)
    named.check()


def as_table(type_: str, row: Row) -> dict[str, Any]:
    return {"edges" if type_ == LINK else "nodes": {type_: pa.Table.from_pylist([row])}}


def test_conflicts(named: NamedGraph) -> None:
    world, graph, key = named.world, named.graph, named.world.key_of(0)
    graph.create_branch("theirs")
    ours, theirs = world.make_row(0, 1), world.make_row(0, 2)
    graph.load([world.make_records(KEYED, ours)], mode="merge")
    graph.load([world.make_records(KEYED, theirs)], mode="merge", branch="theirs")
    with pytest.raises(MergeConflicts):
        graph.merge("theirs")
    graph.merge("theirs", prefer="theirs")
    named.model[KEYED][key] = theirs
    named.check()


def test_diffs_and_reverts(named: NamedGraph) -> None:
    world, graph, model = named.world, named.graph, named.model
    before, parent = deepcopy(model), graph.commits()[0].id
    model[LOOSE]["l0"] = world.make_row(0, 1)
    changed = {name for name in world.names if before[LOOSE]["l0"][name] != model[LOOSE]["l0"][name]}
    commit = graph.load([world.make_records(LOOSE, model[LOOSE]["l0"], "l0")], mode="update").commit
    assert commit is not None
    seen = [
        *graph.diff(parent, commit.id).records(),
        *(entity for block in graph.changes(f"after:{parent}") for entity in block.records()),
    ]
    for record in cast("list[dict[str, Any]]", seen):
        assert (record["type"], record["id"], set(record["changed"])) == (LOOSE, "l0", changed)
        assert without_id(record["before"]) == before[LOOSE]["l0"]
        assert without_id(record["after"]) == model[LOOSE]["l0"]
    assert len(seen) == 2
    assert set(graph.history(LOOSE, "l0")[0].change.changed) == changed
    named.check()
    graph.revert(commit.id)
    named.check(model=before)


def without_id(image: Mapping[str, Json]) -> Row:
    return {name: value for name, value in image.items() if name != "id"}


# --------------------------------------------------------------------------------------------- reads


def test_aliases(named: NamedGraph) -> None:
    """Each property is returned under the name of the next one."""
    world, rows = named.world, named.model[KEYED]
    names = [name for name, kind in world.kinds.items() if kind != "Blob"]
    renamed = dict(zip(names, [*names[1:], names[0]], strict=True))
    key, *_ = world.identifying
    shown = ", ".join(f"$x.{name} as {alias}" for name, alias in renamed.items())
    found = named.graph.query(
        f"query q() {{ match {{ $x: {KEYED} }} return {{ {shown} }} order {{ {renamed[key]} }} }}"
    )
    assert found.to_json()["rows"] == [
        {alias: rows[row_id][name] for name, alias in renamed.items()} for row_id in sorted(rows)
    ]


def test_aliases_of_sorted_groups_that_do_not_fit_into_memory(named: NamedGraph) -> None:
    """Groups are sorted in files, with columns named as the user says."""
    names, number = named.world.names, named.world.list_of("I64")[0]
    named.graph.load([{"type": LOOSE, "data": {number: place % 300}} for place in range(600)])
    stored = [(cast(int, row[number]), 1) for row in named.model[LOOSE].values()]
    expected = sorted([*stored, *((value, 2) for value in range(300))], reverse=True)
    for begin in range(0, sized(4, len(names) - 4), 4):
        alias, second, third, count = names[begin : begin + 4]
        shown = ", ".join(f"$x.{number} as {name}" for name in (alias, second, third))
        found = named.graph.query(
            f"query q() {{ match {{ $x: {LOOSE} }} return {{ {shown}, count($x) as {count} }} "
            f"order {{ {alias} desc }} }}",
            memory=30_000,
        )
        assert [tuple(row.values()) for row in found.rows] == [(value, value, value, rows) for value, rows in expected]


def test_variables_and_parameters(named: NamedGraph) -> None:
    world, model, key = named.world, named.model, named.world.identifying[0]
    names = [name for name, kind in world.kinds.items() if kind != "Blob"]
    node, edge = model[KEYED][world.key_of(2)], model[LINK]["e2"]
    for one, two, three in zip(names[::3], names[1::3], names[2::3], strict=False):
        found = named.graph.query(
            f"query q(${three}: String) {{ match {{ ${one}: {KEYED} {{ {key}: ${three} }}  ${one} ${two}: link $_ }} "
            f"return {{ ${one}.{two} as {three}, ${two}.{one} as {two}, ${one} as {one} }} }}",
            params={three: world.key_of(2)},
        )
        assert found.to_json()["rows"] == [{three: node[two], two: edge[one], one: world.key_of(2)}]


def test_filters(named: NamedGraph) -> None:
    rows = named.model[KEYED]
    chosen = rows[named.world.key_of(2)]
    for name, kind in named.world.kinds.items():
        if kind in ("[String]", "Blob"):
            continue
        value = date.fromisoformat(cast(str, chosen[name])) if kind == "Date" else chosen[name]
        found = named.graph.nodes(KEYED, {name: value}, ["id"]).to_arrow().to_pylist()
        assert sorted(cast(str, row["id"]) for row in found) == sorted(
            row_id for row_id, row in rows.items() if row[name] == chosen[name]
        ), name


def test_exports(named: NamedGraph, tmp_path: Path) -> None:
    # CSV has the bytes of blobs without a mark, so a load would take them for addresses.
    blobs = named.world.list_of("Blob")
    without_blobs = deepcopy(named.model)
    for row in (row for rows in without_blobs.values() for row in rows.values()):
        row |= dict.fromkeys(blobs)
    for format_ in ("jsonl", "csv", "parquet"):
        target = tmp_path / f"export.{format_}"
        named.graph.export(target, format=cast(Any, format_))
        copy = omnigraph.init(tmp_path / f"{format_}.og", named.world.schema)
        if format_ == "jsonl":
            copy.load(target)
        else:
            files = {type_: find_file(target, type_) for type_ in (KEYED, LOOSE, LINK)}
            edge = {LINK: files.pop(LINK)}
            ignored: dict[str, list[str]] = dict.fromkeys((KEYED, LOOSE, LINK), blobs if format_ == "csv" else [])
            copy.load(nodes=files, edges=edge, ignore=ignored)
        expected = without_blobs if format_ == "csv" else named.model
        differences = list(find_differences(read_rows(copy), expected))
        assert not differences, (format_, differences[:5])


def find_file(folder: Path, type_: str) -> str:
    return next(str(path) for path in folder.rglob("*") if type_ in path.name)


def test_analytics(named: NamedGraph) -> None:
    world, graph = named.world, named.graph
    floats = world.list_of("F64")
    for name in floats[: sized(2, len(floats))]:
        # What a rank is does not depend on names.
        ranks = graph.analytics.project([KEYED, LOOSE], [LINK]).pagerank()
        expected = {(row["type"], row["id"]): row[ranks.values[0]] for row in ranks.rows}
        ranks.write(name, overwrite=True)
        for type_ in (KEYED, LOOSE):
            for row_id, row in named.model[type_].items():
                row[name] = cast(float, expected[type_, row_id])
    named.check()
    for weight in floats:
        loaded = graph.to_networkx([KEYED, LOOSE], [LINK], weight=weight)
        weights = sorted(cast(float, data["weight"]) for *_, data in loaded.edges(data=True))
        assert weights == sorted(cast(float, row[weight]) for row in named.model[LINK].values())


def test_schema_changes_and_upkeep(named: NamedGraph) -> None:
    world, graph = named.world, named.graph
    graph.apply_schema(world.schema.replace(f"node {KEYED} {{", f"node {KEYED} {{\n  new_one: I64?"))
    for row in named.model[KEYED].values():
        row["new_one"] = None
    named.check()
    graph.optimize()
    named.check()
    assert graph.verify().is_sound
