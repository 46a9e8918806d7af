"""Compiled queries are kept: one text under one catalog is compiled once, and none is taken for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.errors import NotFound, QueryError
from omnigraph.language.query import _MAX_CACHED_LENGTH, compile_query
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.schema import parse_schema

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($name: String) { insert Person { name: $name } }"
GROW = "query grow($name: String) { update Person set { age: 1 } where name = $name }"


def test_the_same_text_is_compiled_once_for_each_catalog() -> None:
    catalog = parse_schema(SCHEMA).catalog
    kept = compile_query(ADD, catalog)
    assert compile_query(ADD, catalog) is kept
    assert compile_query(ADD, catalog, "add") is not kept
    same = compile_query(ADD, parse_schema(SCHEMA).catalog)
    assert (same, same is kept) == (kept, False)


def test_another_schema_checks_the_text_anew() -> None:
    assert isinstance(compile_query(ADD, parse_schema(SCHEMA).catalog).typed, TypedMutation)
    with pytest.raises(QueryError):
        compile_query(ADD, parse_schema("node City { name: String @key }").catalog)


def test_each_query_of_a_text_is_kept_by_its_name() -> None:
    catalog = parse_schema(SCHEMA).catalog
    assert [compile_query(f"{ADD} {GROW}", catalog, name).name for name in ("add", "grow", "add")] == [
        "add",
        "grow",
        "add",
    ]
    for _ in range(2):
        with pytest.raises(NotFound):
            compile_query(f"{ADD} {GROW}", catalog)


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    catalog, file = parse_schema(SCHEMA).catalog, tmp_path / "people.gq"
    file.write_text(ADD)
    assert compile_query(file, catalog).name == "add"
    file.write_text(ADD.replace("add", "join"))
    assert compile_query(file, catalog).name == "join"


def test_a_mistake_keeps_the_name_of_its_own_file(tmp_path: Path) -> None:
    catalog = parse_schema(SCHEMA).catalog
    for name in ("one.gq", "two.gq"):
        (tmp_path / name).write_text(ADD.replace("Person", "Persn"))
        with pytest.raises(QueryError) as wrong:
            compile_query(tmp_path / name, catalog)
        assert str(tmp_path / name) in str(wrong.value)


def test_a_long_text_is_not_kept() -> None:
    catalog, text = parse_schema(SCHEMA).catalog, f"{ADD}\n//{'x' * _MAX_CACHED_LENGTH}"
    first = compile_query(text, catalog)
    again = compile_query(text, catalog)
    assert (again, again is first) == (first, False)


def test_threads_get_what_they_asked_for() -> None:
    catalog = parse_schema(SCHEMA).catalog
    names = [f"add{number % 7}" for number in range(70)]

    def compiled(name: str) -> str:
        return compile_query(ADD.replace("add", name), catalog).name

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compiled, names)) == names
