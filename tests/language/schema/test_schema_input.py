"""Bad input: a positioned error or a right answer, soon, and never a traceback."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from omnigraph.errors import ParameterError, SchemaError, SourceTooLarge
from omnigraph.language.schema import Schema, check_schema, parse_schema
from omnigraph.language.schema.check import MAX_INJECTED_PROPERTIES
from omnigraph.language.schema.codes import MAX_PROBLEMS
from omnigraph.language.source import MAX_SOURCE_BYTES, Source
from tests.selection import daily

SECONDS = 30
"""Far above what any of these takes, far below what a quadratic step would."""


def test_all_problems_are_reported_and_shown() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema("node A {\n  id: String\n  size: [Blob]\n}\nedge E: A -> B\n")
    assert [problem.code for problem in caught.value.problems] == ["S103", "S108", "S104"]
    assert "<text>:5:14  S104  there is no node type B\n  5 | edge E: A -> B\n" in str(caught.value)


def test_problems_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.pg"
    file.write_text("node A { x: }\n")
    (problem,) = check_schema(file)
    assert problem.position.file == str(file)


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (b"node A { }\n// \xff\n", 2, 4, "invalid UTF-8 byte 0xff"),
        (b"node A { \0 }\n", 1, 10, "NUL"),
        (b"{" * 200, 1, 101, "nested"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, line: int, column: int, words: str) -> None:
    file = tmp_path / "bad.pg"
    file.write_bytes(data)
    (problem,) = check_schema(file)
    assert (problem.code, problem.position.line, problem.position.column) == ("S000", line, column)
    assert words in problem.message


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "large.pg"
    file.write_bytes(b" " * 10_000_000)
    with pytest.raises(SourceTooLarge):
        parse_schema(file)


def test_a_word_is_neither_a_file_nor_a_schema() -> None:
    with pytest.raises(ParameterError):
        parse_schema("people")


def test_an_empty_text_is_an_empty_schema() -> None:
    assert not list(parse_schema(Source("")).catalog.types())


@pytest.mark.slow
def test_ten_thousand_types() -> None:
    text = "".join(
        f"node N{number} {{ code: String @key  size: I32?  @range(size, 0..9) }}\nedge E{number}: N{number} -> N0\n"
        for number in range(5_000)
    )
    schema = within_seconds(text)
    assert len(list(schema.catalog.types())) == 10_000


HOPELESS = {
    "unknown": "".join(f"node Vessel{n} {{ }}\nedge E{n}: Vesel{n} -> V\n" for n in range(5_000)),
    "syntax": "node A { , }\n" * 20_000,
    "keys": "node A { " + " ".join(f"p{n}: I32 @key" for n in range(20_000)) + " }",
    "card": "edge A: B -> C @card(\n" * 20_000,
    "blanks": "node A { x: I32 @" + " " * 1_000_000,
    "comments": "node A { x: I32 @ " + "/* " * 500_000,
    "string": 'node A @a("' + r"\n" * 500_000,
    "dimension": "node A { x: Vector(" + "9" * 1_000_000 + ") }",
    "bound": "node A { x: I64  @range(x, " + "9" * 1_000_000 + "..) }",
    "interfaces": "interface I { "
    + " ".join(f"p{n}: I32" for n in range(1_000))
    + " }\n"
    + "".join(f"node A{n} implements I {{ }}\n" for n in range(1_000)),
}


# Many names are looked for in "unknown" too, and a text without an end is "blanks" too.
@pytest.mark.parametrize("name", daily(HOPELESS, HOPELESS.keys() - {"keys", "comments"}))
def test_hopeless_texts_are_answered_soon(name: str) -> None:
    text = HOPELESS[name]
    assert len(text) < MAX_SOURCE_BYTES
    started = time.process_time()
    problems = check_schema(Source(text))
    assert 1 <= len(problems) <= MAX_PROBLEMS
    assert time.process_time() - started < SECONDS


def test_a_small_text_cannot_ask_for_billions_of_properties() -> None:
    interface = "interface I { " + " ".join(f"p{n}: I32" for n in range(1_000)) + " }\n"
    nodes = [f"node A{n} implements I {{ }}\n" for n in range(MAX_INJECTED_PROPERTIES // 1_000 + 1)]
    (problem,) = check_schema(interface + "".join(nodes))
    assert problem.code == "S112"
    assert problem.position.line == len(nodes) + 1


def test_threads_share_the_parser() -> None:
    texts = [f"node A{number} {{ x: enum(v{number}, w) @description({number}) }}\n" for number in range(8)]
    found: dict[int, Schema] = {}

    def parse(number: int) -> None:
        for _ in range(20):
            found[number] = parse_schema(texts[number])

    threads = [threading.Thread(target=parse, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [list(found[number].catalog.nodes) for number in range(8)] == [[f"A{number}"] for number in range(8)]


def within_seconds(text: str) -> Schema:
    started = time.process_time()
    schema = parse_schema(text)
    assert time.process_time() - started < SECONDS
    return schema
