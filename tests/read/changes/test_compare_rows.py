"""What changed in a table: against a model over random histories, and the traps one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.changes import candidates, compare_rows, id_ranges
from omnigraph.read.changes.candidates import find_candidates
from omnigraph.read.changes.compare_rows import ChangedRows, Op
from omnigraph.read.changes.compare_snapshots import find_changed_tables
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.tables import ROW_ADDRESS, Access, Table, fragments, open_table
from tests.read.changes.table_histories import (
    KEY,
    NAN,
    POOLS,
    SCHEMA,
    History,
    Row,
    State,
    as_table,
    change,
    compare,
    expected_changes,
    read_parts,
    replace,
    some_row,
    summarize_changes,
    write,
)
from tests.selection import sized
from tests.storage.tables.sample_tables import put, upsert


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty graph, to be copied."""
    path = tmp_path_factory.mktemp("template") / "things.og"
    omnigraph.init(path, SCHEMA)
    return path


@pytest.fixture
def history(template: Path, tmp_path: Path) -> History:
    return History(_copied(template, tmp_path))


def _copied(template: Path, folder: Path) -> Graph:
    return omnigraph.open(copytree(template, folder / "things.og"))


@pytest.fixture
def small() -> Iterator[None]:
    """Everything in tiny pieces, through files."""
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        yield


def make_small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(id_ranges, "HELD_BYTES", 200)
    patch.setattr(compare_rows, "ROWS_AT_ONCE", 2)
    patch.setattr(candidates, "ROWS_AT_ONCE", 3)
    patch.setattr(fragments, "_FEW", 1)


def check_history(template: Path, seed: int, steps: int, *, in_small_pieces: bool) -> None:
    chance = Random(seed)  # noqa: S311  no secret
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if in_small_pieces:
            make_small(patch)
        history = History(_copied(template, Path(folder)))
        write(history, None, {f"t{number:02}": some_row(chance) for number in range(0, 20, 2)}, tables.append)
        for _ in range(steps):
            change(history, chance)
        for _ in range(2 * steps):
            before, after = chance.choice(history.states), chance.choice(history.states)
            compare(history, before, after)
            check_places(before.table, after.table)


def check_places(before: Table, after: Table) -> None:
    """A row is said to be in the same file as before if and only if it is."""
    was, is_ = lying(before), lying(after)
    found, there = fragments.map_addresses(np.array(list(was), np.uint64), before, after)
    assert {new: id_ for new, id_, known in zip(found.tolist(), was.values(), there, strict=True) if known} == {
        address: id_ for address, id_ in is_.items() if file_of(after, address) in {file_of(before, old) for old in was}
    }


def lying(table: Table) -> dict[int, str]:
    """The ids of all rows by their addresses."""
    rows = table.scan(["id"], with_row_address=True).read_all()
    addresses, ids = rows[ROW_ADDRESS].to_numpy().tolist(), cast("list[str]", rows["id"].to_pylist())
    return dict(zip(addresses, ids, strict=True))


def file_of(table: Table, address: int) -> tuple[object, ...]:
    """The files that a row lies in, and where."""
    files = {each.id: each.files for each in fragments.list_fragments(table)}
    return files[address >> 32], address & 0xFFFFFFFF


@pytest.mark.costly
@given(seed=st.integers(0, 2**32 - 1), in_small_pieces=st.booleans())
@settings(max_examples=sized(2, 6))
def test_a_diff_says_what_the_model_says(template: Path, seed: int, in_small_pieces: bool) -> None:
    check_history(template, seed, 10, in_small_pieces=in_small_pieces)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), in_small_pieces=st.booleans())
@settings(max_examples=40)
def test_a_diff_says_what_the_model_says_of_many_histories(
    template: Path,
    seed: int,
    in_small_pieces: bool,
) -> None:
    check_history(template, seed, 25, in_small_pieces=in_small_pieces)


# --------------------------------------------------------------------------------------------- one by one


def filled(history: History, *ids: str) -> dict[str, Row]:
    """Rows with values in every column, one commit for each."""
    rows: dict[str, Row] = {id_: {name: pool[0] for name, pool in POOLS.items()} for id_ in ids}
    for id_, row in rows.items():
        write(history, None, {id_: row}, tables.append)
    return rows


def changes(history: History, before: State, after: State) -> list[ChangedRows]:
    return read_parts(history.snapshot(before), history.snapshot(after))


def ids_of(part: ChangedRows) -> list[str]:
    return cast("list[str]", to_list(column_of(part.rows, "id")))


def ops(history: History, before: State, after: State) -> dict[str, Op]:
    return {id_: part.op for part in changes(history, before, after) for id_ in ids_of(part)}


def test_rows_that_are_written_again_as_they_were_do_not_show(history: History) -> None:
    rows = filled(history, "a", "b", "c")
    before = history.heads[None]
    write(history, None, {"a": rows["a"], "b": {**rows["b"], "picture": b"another"}}, replace)
    assert ops(history, before, history.heads[None]) == {"b": Op.UPDATED}
    whole = history.heads[None]
    history.put(None, tables.overwrite(whole.table, as_table(history.graph, whole.rows)), whole.rows)
    assert ops(history, whole, history.heads[None]) == {}


def test_a_compaction_does_not_show_and_its_rows_are_not_read(history: History) -> None:
    rows = filled(history, "a", "b", "c")
    before = history.heads[None]
    history.put(None, tables.compact(before.table), rows)
    after = history.heads[None]
    assert after.table.version > before.table.version
    was, is_ = find_candidates(before.table, after.table)
    assert (was.parts, is_.parts) == ((), ())
    write(history, None, {"b": {**rows["b"], "count": None}}, replace)
    was, is_ = find_candidates(before.table, history.heads[None].table)
    assert (was.num_rows, is_.num_rows) == (1, 1)


def test_two_forks_that_count_alike_are_not_taken_for_one(history: History) -> None:
    """The same row id and the same version, written on two branches, are two states of a row."""
    rows = filled(history, "a", "b", "c")
    names: list[str | None] = []
    for count in (100, 200):
        history.fork(None)
        names.append(f"b{len(history.heads) - 1}")
        write(history, names[-1], {"b": {**rows["b"], "count": count}}, upsert)
        history.put(names[-1], tables.compact(history.heads[names[-1]].table), history.heads[names[-1]].rows)
    one, other = (history.heads[name] for name in names)
    assert one.table.version == other.table.version
    compare(history, one, other)
    assert ops(history, one, other) == {"b": Op.UPDATED}
    # What they share is known from before they parted, without a look at the rows.
    assert [side.num_rows for side in find_candidates(one.table, other.table)] == [1, 1]


def test_what_a_restore_takes_back_shows(history: History) -> None:
    rows = filled(history, "a", "b")
    older = history.heads[None]
    write(history, None, {"a": {**rows["a"], "count": 77}}, replace)
    newer = history.heads[None]
    history.put(None, tables.restore(newer.table, older.table.version), older.rows)
    history.put(None, tables.compact(history.heads[None].table), older.rows)
    assert ops(history, newer, history.heads[None]) == {"a": Op.UPDATED}
    assert ops(history, older, history.heads[None]) == {}


def test_a_table_without_stable_row_ids_is_compared_by_value(history: History, tmp_path: Path) -> None:
    """Its rows all claim to be of version 1: nothing can be concluded from that."""
    rows = filled(history, "a", "b")
    uri = str(tmp_path / "old.lance")
    changed = {**rows, "b": {**rows["b"], "count": 99}}
    for mode, written in (("create", rows), ("overwrite", changed)):
        lance.write_dataset(as_table(history.graph, written), uri, mode=mode, data_storage_version="2.2")
    before, after = (State(open_table(uri, None, version), {}) for version in (1, 2))
    assert not before.table.has_stable_row_ids
    assert ops(history, before, after) == {"b": Op.UPDATED}


@pytest.mark.parametrize(
    ("column", "one", "other", "same"),
    [
        ("share", -0.0, 0.0, True),
        ("share", NAN, NAN, True),
        ("share", NAN, None, False),
        ("count", 0, None, False),
        ("big", 2**64 - 1, 2**64 - 2, False),
        ("at", 1, 2, False),
        ("tags", (), None, False),
        ("tags", ("a", "b"), ("ab",), False),
        ("tags", ("a", "bc"), ("ab", "c"), False),
        ("marks", (NAN, -0.0), (NAN, 0.0), True),
        ("place", (0.0, 1.0), (-0.0, 1.0), True),
        ("place", (0.0, 1.0), None, False),
        ("picture", b"", None, False),
        ("picture", b"same size", b"size same", False),
        ("picture", b"x" * 70_000, b"x" * 70_000, True),
    ],
)
def test_values(history: History, column: str, one: object, other: object, same: bool) -> None:
    row = dict.fromkeys(POOLS)
    beside = {"z": {name: pool[0] for name, pool in POOLS.items()}}
    write(history, None, {"a": {**row, column: one}, **beside}, tables.append)
    before = history.heads[None]
    write(history, None, {"a": {**row, column: other}, **beside}, replace)
    assert ops(history, before, history.heads[None]) == ({} if same else {"a": Op.UPDATED})


def test_blobs_outside_of_the_graph_are_what_their_uris_say(history: History, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "other")]
    for file in files:
        file.write_bytes(b"the same")
    states: list[State] = []
    for uri in (files[0], files[0], files[1]):
        row = {**dict.fromkeys(POOLS), "picture": uri.as_uri()}
        history.put(None, replace(history.heads[None].table, as_table(history.graph, {"a": row})), {})
        states.append(history.heads[None])
    assert ops(history, states[0], states[1]) == {}
    (part,) = changes(history, *states[1:])
    assert part.before is not None
    assert part.after is not None
    images = [cast("dict[str, object]", image["picture"][0].as_py()) for image in (part.before, part.after)]
    assert [image["uri"] for image in images] == [file.as_uri() for file in files]


def test_a_column_that_a_table_lacks_counts_as_null(history: History, tmp_path: Path) -> None:
    nothing: Row = dict.fromkeys(POOLS)
    rows: dict[str, Row] = {"a": nothing, "b": {**nothing, "count": 1}}
    whole = as_table(history.graph, rows)
    older = tables.create_table(str(tmp_path / "older.lance"), whole.drop_columns(["count", "picture"]), "test")
    empty = tables.create_table(str(tmp_path / "newer.lance"), whole.slice(0, 0), "test")
    newer = put(empty, tables.append(empty, whole))
    parts = changes(history, State(older, {}), State(newer, {}))
    assert summarize_changes(parts) == expected_changes({"b": nothing}, {"b": rows["b"]})
    (part,) = parts
    assert part.before is not None
    assert part.before.schema == arrow_schema(history.graph.schema.catalog.nodes["Thing"])


def test_a_type_that_one_side_has_not(history: History) -> None:
    rows = filled(history, "a", "b")
    full = history.snapshot(history.heads[None])
    without = dataclasses.replace(full, pins={})
    for before, after, op in ((without, full, Op.INSERTED), (full, without, Op.DELETED)):
        assert find_changed_tables(before, after) == (KEY,)
        (part,) = read_parts(before, after)
        assert (part.op, part.num_rows) == (op, len(rows))
        (part,) = read_parts(before, after, KEY, ["id", "count"])
        assert part.rows.schema.names == ["id", "count"]


@pytest.mark.usefixtures("small")
def test_parts_are_small_and_their_ids_in_order(history: History) -> None:
    filled(history, "c", "a", "e", "b", "d")
    parts = changes(history, history.states[0], history.heads[None])
    assert [id_ for part in parts for id_ in ids_of(part)] == ["a", "b", "c", "d", "e"]
    assert max(part.num_rows for part in parts) <= 2


def test_tables_that_did_not_change_are_not_opened(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node A { name: String @key }\nnode B { name: String @key }")
    graph.mutate('query q() { insert A { name: "a" } }')
    before = graph.snapshot()
    graph.mutate('query q() { insert B { name: "b" } }')
    after = graph.snapshot()
    # Writers have opened some of them.
    before._opened.clear()
    after._opened.clear()
    assert find_changed_tables(before, after) == ("node:B",)
    assert read_parts(before, after, "node:A") == []
    assert [*before._opened, *after._opened] == []
    assert len(read_parts(before, after, "node:B")) == 1


def test_what_is_read_follows_what_changed(tmp_path: Path) -> None:
    """Ten rows of 200,000 were touched, and then all of them were moved by a compaction."""
    count, step = 200_000, 20_000
    chance = Random(7)  # noqa: S311  no secret
    texts = pa.array([chance.randbytes(30).hex() for _ in range(count)])
    ids = [f"p{number:06}" for number in range(count)]
    uri = str(tmp_path / "people.lance")
    everybody = pa.table({"id": ids, "name": ids, "text": texts})
    first = tables.create_table(uri, everybody.slice(0, step), "test")
    for start in range(step, count, step):
        first = put(first, tables.append(first, everybody.slice(start, step)))
    new = pa.table({"id": ids[::step], "name": ids[::step], "text": ["new"] * 10})
    second = put(first, upsert(first, new))
    third = put(second, tables.compact(second))
    graph = omnigraph.init(tmp_path / "g.og", "node P { name: String @key  text: String }")

    def read_bytes(*versions: int) -> tuple[int, int]:
        access = Access()
        old, new = (open_table(uri, None, version, access) for version in versions)
        before, after = (graph.snapshot().with_tables({"node:P": table}) for table in (old, new))
        old.storage_calls()
        changed = sum(part.num_rows for part in read_parts(before, after, "node:P"))
        return changed, old.storage_calls().read_bytes

    whole = open_table(uri, None, first.version)
    whole.scan().read_all()
    size = whole.storage_calls().read_bytes
    assert size > 5_000_000
    for versions in ((first.version, second.version), (first.version, third.version), (third.version, first.version)):
        changed, read = read_bytes(*versions)
        assert changed == 10
        assert read < size / 20, (versions, read, size)
    changed, read = read_bytes(second.version, third.version)
    assert (changed, read < size / 100) == (0, True)
