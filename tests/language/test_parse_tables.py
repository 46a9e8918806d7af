"""Parse tables are kept in a file: it changes no tree, and a file that is torn, missing or unwritable does no harm."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lark
import pytest
from lark import Token, Transformer

from omnigraph.language import syntax
from omnigraph.language.schema.parser import _TreeBuilder  # pyright: ignore[reportUnknownVariableType]  Lark leaves its wrapper untyped

PACKAGE = "omnigraph.language.schema"
TEXT = 'node A @description("a") { x: String @key  y: [I64]? }  edge E: A -> A { z: enum(a, b) }'


def load() -> lark.Lark:
    return syntax.load_lark(PACKAGE, cast("Transformer[Token, object]", _TreeBuilder()))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "grammar.tables"
    monkeypatch.setattr(syntax, "_choose_tables_file", lambda _package, _grammar: file)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    return file


def test_a_parser_from_kept_tables_gives_the_same_tree(tables: Path) -> None:
    built = load()
    assert list(tables.parent.iterdir()) == [tables]
    read = load()
    assert type(read) is not type(built)
    assert read.parse(TEXT) == built.parse(TEXT)
    with pytest.raises(lark.UnexpectedToken) as wrong:
        read.parse("node A { x String }")
    assert wrong.value.column == 12


@pytest.mark.parametrize("length", [0, 1, 20_000])
def test_a_torn_file_is_written_again(tables: Path, length: int) -> None:
    load()
    tables.write_bytes(tables.read_bytes()[:length])
    assert type(load()) is lark.Lark
    assert type(load()) is not lark.Lark


def test_a_folder_that_cannot_be_written_is_left(tables: Path) -> None:
    tables.parent.rmdir()
    assert type(load()) is lark.Lark
    assert not tables.exists()


def test_another_grammar_has_another_file() -> None:
    names = {syntax._choose_tables_file(PACKAGE, grammar).name for grammar in ("a", "b", "a")}
    assert len(names) == 2
