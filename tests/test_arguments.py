"""Arguments of a wrong type are refused at the door, by name, and nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

import pytest

import omnigraph
from omnigraph.arguments import check_arguments, check_calls, check_path, check_text
from omnigraph.errors import ParameterError
from tests.graphs import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "node Port { code: String @key }"


class Writable(Protocol):
    def write(self) -> None: ...


@check_arguments
def call(
    text: str = "",
    number: int | None = None,
    share: float = 0.5,
    names: Collection[str] | None = None,
    values: Mapping[str, object] | None = None,
    pair: tuple[str, int] | None = None,
    word: Literal["a", "b"] = "a",
    at: str | int | datetime = 1,
    age: timedelta | None = None,
    path: str | Path = "",
    stream: str | Writable = "",
    session: SparkSession | None = None,
    *,
    flag: bool = False,
) -> str:
    """Return something."""
    del text, number, share, names, values, pair, word, at, age, path, stream, session, flag
    return "called"


RIGHT: list[Mapping[str, object]] = [
    {},
    {"text": "x", "number": 3, "share": 1, "flag": True},
    {"names": ["a"]},
    {"names": ("a", "b")},
    {"names": {"a"}},
    {"names": {"a": 1}},
    {"values": {"a": object()}},
    {"pair": ("a", 1)},
    {"word": "c"},
    {"at": datetime.now()},
    {"age": timedelta(1), "path": Path("x")},
    {"stream": 5},
    {"session": 5},
]
WRONG: list[tuple[Mapping[str, object], str]] = [
    ({"text": 5}, "text is 5 (give a text)"),
    ({"text": None}, "text is None (give a text)"),
    ({"number": True}, "number is True (give a whole number or None)"),
    ({"number": 1.0}, "number is 1.0 (give a whole number or None)"),
    ({"share": "x"}, "share is 'x' (give a number)"),
    ({"names": "Port"}, "names is 'Port' (give a list, such as ['Port'])"),
    ({"names": [5]}, "names is [5] (give a list of texts or None)"),
    ({"names": {1: 2}}, "names is {1: 2} (give a list of texts or None)"),
    ({"names": iter(["a"])}, "(give a list of texts or None)"),
    ({"names": b"ab"}, "names is b'ab' (give a list of texts or None)"),
    ({"values": {1: 2}}, "values is {1: 2} (give a mapping with texts as keys or None)"),
    ({"values": ["a"]}, "values is ['a'] (give a mapping with texts as keys or None)"),
    ({"pair": ("a", "b")}, "pair is ('a', 'b') (give a tuple of a text and a whole number or None)"),
    ({"pair": ("a",)}, "pair is ('a',) (give a tuple of a text and a whole number or None)"),
    ({"word": 5}, 'word is 5 (give "a" or "b")'),
    ({"at": 1.5}, "at is 1.5 (give a text, a whole number or a datetime)"),
    ({"age": 5}, "age is 5 (give a timedelta or None)"),
    ({"path": b"x"}, "path is b'x' (give a text or a Path)"),
    ({"flag": "no"}, "flag is 'no' (give True or False)"),
    ({"text": "x" * 9, "flag": 1}, "flag is 1 (give True or False)"),
]


@pytest.mark.parametrize("given", RIGHT, ids=lambda given: "-".join(given))
def test_what_the_annotations_allow(given: Mapping[str, object]) -> None:
    assert cast("Callable[..., str]", call)(**given) == "called"


@pytest.mark.parametrize(("given", "said"), WRONG, ids=range(len(WRONG)))
def test_what_they_do_not_allow(given: Mapping[str, object], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        cast("Callable[..., str]", call)(**given)
    assert said in str(caught.value)
    assert caught.value.details == {"function": "call", "parameter": list(given)[-1]}


def test_positions_count_like_names() -> None:
    assert call("x", 5) == "called"
    with pytest.raises(ParameterError, match="number is 'y'"):
        cast("Callable[..., str]", call)("x", "y")


def test_python_refuses_what_it_always_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        cast("Callable[..., str]", call)(nothing=5)


def test_all_public_methods_of_a_class_are_checked() -> None:
    @check_calls
    class Door:
        def knock(self, times: int) -> int:
            return times

        def _open(self, key: int) -> object:
            return key

    door = Door()
    assert door.knock(3) == 3
    assert door._open(cast(int, "key")) == "key"
    with pytest.raises(ParameterError, match="times is 'three'"):
        door.knock(cast(int, "three"))


@pytest.mark.parametrize("name", ["actor", "message"])
@pytest.mark.parametrize("value", [5, {"a": 1}, ["x"], "\ud800", b"x"], ids=repr)
def test_nothing_is_stored_that_cannot_be_read_again(tmp_path: Path, name: str, value: object) -> None:
    """A mapping was stored as the actor of a commit, and its branch could not be read any more."""
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    before = written(graph)
    with pytest.raises(ParameterError, match=f"{name} is"):
        cast("Callable[..., object]", graph.mutate)('query q() { insert Port { code: "a" } }', **{name: value})
    assert written(graph) == before
    assert graph.verify().findings == ()


def test_init_and_open_are_checked_too(tmp_path: Path) -> None:
    for wrong in ({"actor": 5}, {"actor": "\ud800"}, {"storage_options": {1: 2}}):
        with pytest.raises(ParameterError):
            cast("Callable[..., object]", omnigraph.init)(tmp_path / "graph.og", SCHEMA, **wrong)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParameterError, match="uri is 5"):
        cast("Callable[..., object]", omnigraph.open)(5)


def test_texts_and_paths() -> None:
    check_text("it", None)
    check_text("it", "ü")
    check_path("it", "a/ü")
    with pytest.raises(ParameterError, match=r"it is .*half of a surrogate pair"):
        check_text("it", "a\udcff")
    for path in ("", "a\0b", "\ud800"):
        with pytest.raises(ParameterError, match=r"it is .* no file can be called"):
            check_path("it", path)
