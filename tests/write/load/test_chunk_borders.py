"""Chunk borders are invisible: every reader of files gives the same rows and problems, wherever its chunks end."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast, get_args

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.language.schema import parse_schema
from omnigraph.storage.columns import to_list
from omnigraph.write.load import (
    DataFile,
    LoadInput,
    RawBatch,
    RejectedRecord,
    TypedTable,
    divide_file,
    find_files,
    ignore_bytes,
    map_columns,
    parse_file_options,
    read_file_part,
    read_file_schema,
    read_sample,
    read_table_content,
    resolve_tables,
    validate_batch,
)
from omnigraph.write.load.inputs import arrow_files, open_tables, read_records, sources
from omnigraph.write.load.inputs.table_files import _COMPRESSED, FileFormat  # pyright: ignore[reportPrivateUsage]  all
from tests.selection import sized

CATALOG: Final = parse_schema("node Item { code: String @key  size: I32?  note: String? }").catalog
DRESSES: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": lambda content: content,
    ".gz": gzip.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}

CSV_TEXTS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "quotes": ('code,size,note\na,1,"x ""y"", z"\nb,2,5" of "it"\n"c\nd",3,""\n', {}),
    "open quote": ('code,size,note\na,1,"x\nb,2,y\nc,3,z\n', {}),
    "open quote before others": ('code,size,note\na,1,"x\nb,2,"y"\nc,3,z\n', {}),
    "text after a quote": ('code,size,note\n"a"x,1,\nb,2,y\n"c""d" ,3,\n', {}),
    "windows": ('\ufeffcode,size,note\r\na,1,"x\r\ny"\r\n\r\nb,z,é\r\nc,3\r\n', {}),
    "old mac": ('code,size,note\ra,1,"x\ry"\r\rb,z,é\rc,3\rd,4,€', {}),
    "mixed line ends": ("\n\r\n,,\ncode,size,note\r\n\ra,1,x\n\r\nb,2,y\r\rc,z,3\n\r", {}),
    "escape": ('code,size,note\na,1,"x\\"y\\\\"\nb,2,p\\,q\\\nr\nc,z,"\\\r\n"\n', {"escape": "\\"}),
    "without a header": ("\n a ,1,x\nb,z,é\n", {"header": "false"}),
    "single quotes": ("code\tsize\tnote\n'a\tb'\t1\t\"\nc\tz\t'd\n", {"quote": "'", "sep": "\\t"}),
    "broken header": ('code,"size,note\na,1,x\n', {}),
    "utf-16": ('code,size,note\n"å\n",1,€\nb,z,\U0001f600\n', {"encoding": "utf-16"}),
    "latin-1": ("code,size,note\nå,1,x\nb,z,ü\n", {"encoding": "latin-1"}),
    "shift_jis": ('code,size,note\n表,1,"ソ\n"\nb,z,能\n', {"encoding": "shift_jis"}),
    "another encoding": ("code,size,note\nå,1,x\nb,2\nü,z,c\n", {}),
}
OBJECTS: Final = (
    '\ufeff{"code": "a", "size": 1, "note": "é\\n"}\n\n{"code": "b"\n{"code": "c", "size": "z"}\r\n[{"code": "d"}]\n'
    '{"code": "\U0001f600", "size": 2}'
)
RECORDS: Final = "".join(f'{{"type": "Item", "data": {line}}}\n' for line in OBJECTS.removeprefix("\ufeff").split("\n"))


def write_csv(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    for number, (name, (text, options)) in enumerate(CSV_TEXTS.items()):
        path = folder / f"{number}.csv"
        path.write_bytes(text.encode("latin-1" if name == "another encoding" else options.get("encoding", "utf-8")))
        yield path, options


def write_objects(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    texts = (OBJECTS, RECORDS, f"[{OBJECTS}]", '[\n  {"code": "a"},\n  {"code": "b"}\n]\n')
    for number, text in enumerate(texts):
        path = folder / f"{number}.jsonl"
        path.write_text(text, "utf-8", newline="")
        yield path, {}


def make_table() -> pa.Table:
    return pa.table({"code": ["a", "b", "é", None], "size": [1, 2, None, 4], "note": [None, "x\n", "€", ""]})


def write_parquet(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    for size in range(1, 5):
        pq.write_table(make_table(), folder / f"{size}.parquet", row_group_size=size)
        yield folder / f"{size}.parquet", {}


def write_arrow(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    for kind, open_writer in (("arrow", ipc.new_file), ("arrows", ipc.new_stream)):
        for size in range(1, 5):
            path = folder / f"{size}.{kind}"
            with open_writer(str(path), make_table().schema) as writer:
                writer.write_table(make_table(), max_chunksize=size)
            yield path, {}


FILES: Final[Mapping[str, Callable[[Path], Iterator[tuple[Path, Mapping[str, str]]]]]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "jsonl": write_objects,
}
DIVIDED_BY_THE_WRITER: Final = ("parquet", "arrow")
"""The file itself has chunks: rows of all its files are the same."""


def find_table(path: Path, options: Mapping[str, str]) -> TypedTable:
    columns = {"Item": {"code": "_c0", "size": "_c1", "note": "_c2"}} if "header" in options else {}
    (table,) = resolve_tables(CATALOG, LoadInput(nodes={"Item": path}, columns=columns, file_options=options))
    return table


def read_file(path: Path, options: Mapping[str, str]) -> object:
    """Return what a load reads from a file, or its error."""
    try:
        (opened,) = open_tables(CATALOG, [find_table(path, options)])
        return list_rows(opened.read(ignore_bytes))
    except OmniGraphError as error:
        return str(error)


def read_content(path: Path, options: Mapping[str, str]) -> object:
    """Return what a task of Spark reads from the content of a remote file, or its error."""
    try:
        return list_rows(read_table_content(CATALOG, find_table(path, options), str(path), path.read_bytes()))
    except OmniGraphError as error:
        return str(error)


def read_first(path: Path, options: Mapping[str, str]) -> object:
    """Return the rows by which a schema is proposed, or the error."""
    try:
        (file,) = find_files([path], parse_file_options(options)[0]).files
        return read_sample(file, 2).to_pylist()
    except OmniGraphError as error:
        return str(error)


def read_parts(path: Path, options: Mapping[str, str]) -> object:
    """Return what the tasks of Spark read from a Parquet or Arrow file, part by part."""
    table = find_table(path, options)
    file = cast("DataFile", table.rows)
    columns, _ = map_columns(CATALOG, table.selection, read_file_schema(file))
    parts = divide_file(file, columns.chosen.values())
    return list_rows(batch for part in parts for batch in read_file_part("x", part, columns))


def read_graph_records(path: Path, options: Mapping[str, str]) -> object:  # noqa: ARG001  such a file has none
    """Return what a load reads from a file of records."""
    return list_rows(read_records(CATALOG, path))


def list_rows(parts: Iterable[RawBatch | RejectedRecord]) -> list[tuple[object, ...]]:
    """Return rows and problems in the order of their lines."""
    found: list[tuple[object, ...]] = []
    for part in parts:
        rejected = [part] if isinstance(part, RejectedRecord) else []
        if not isinstance(part, RejectedRecord):
            batch = validate_batch(part)
            rejected = list(batch.rejected)
            found += zip(to_list(batch.lines), batch.rows.to_pylist(), strict=True)
        found += [
            (each.line, record.record, each.rule, each.message, each.value)
            for record in rejected
            for each in record.violations
        ]
    return sorted(found, key=lambda row: (cast("int", row[0]), repr(row)))


# --------------------------------------------------------------------------------------------- the law

READERS: Final[Mapping[str, Sequence[Callable[[Path, Mapping[str, str]], object]]]] = {
    "csv": [read_file, read_content, read_first],
    "jsonl": [read_file, read_content, read_first, read_graph_records],
    "parquet": [read_file, read_first, read_parts],
    "arrow": [read_file, read_content, read_first, read_parts],
}


def test_every_format_and_every_compression_is_here() -> None:
    assert set(FILES) == set(READERS) == set(get_args(FileFormat))
    assert set(DRESSES) == {"", *_COMPRESSED}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("format_", [name for name in FILES if name not in DIVIDED_BY_THE_WRITER])
def test_rows_and_problems_do_not_depend_on_where_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, dress: str
) -> None:
    for plain, options in FILES[format_](tmp_path):
        content = DRESSES[dress](plain.read_bytes())
        path = plain.with_name(plain.name + dress)
        path.write_bytes(content)
        expected = [read(path, options) for read in READERS[format_]]
        assert expected[0] == expected[1], "the engines agree"
        for size in range(1, len(content), sized(7 if dress else 5, 1)):
            monkeypatch.setattr(sources, "BLOCK_BYTES", size)
            assert [read(path, options) for read in READERS[format_]] == expected, (plain.name, size)
        monkeypatch.undo()


@pytest.mark.parametrize("format_", DIVIDED_BY_THE_WRITER)
def test_rows_and_problems_do_not_depend_on_the_chunks_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    outcomes: list[object] = []
    for path, options in FILES[format_](tmp_path):
        for size in range(1, make_table().num_rows + 1):
            monkeypatch.setattr(arrow_files, "_FILE_BATCH_ROWS", size)
            outcomes.append([read(path, options) for read in READERS[format_]])
    assert all(outcome == outcomes[0] for outcome in outcomes)


class Trickle(io.RawIOBase):
    """A stream that hands over one byte at a time."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002  it may give less
        return self._content.read(1)


@pytest.mark.parametrize("dress", DRESSES)
def test_a_stream_may_hand_over_few_bytes_at_a_time(dress: str) -> None:
    content = DRESSES[dress](RECORDS.encode())
    assert list_rows(read_records(CATALOG, Trickle(content))) == list_rows(read_records(CATALOG, io.BytesIO(content)))
