"""Record sources: read files, open streams and Python records in blocks, never as a whole.

A file may be compressed with gzip or zstd, as its first bytes tell, and may begin with a byte order mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import RawIOBase
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import pyarrow as pa

from omnigraph.errors import NotFound, ParameterError, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.location import parse_local_path

BLOCK_BYTES: Final = 8 * 1024 * 1024
BLOCK_RECORDS: Final = 32_768

_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_NOT_A_SOURCE: Final = (Mapping, bytes, bytearray)
_ARROW_STREAM: Final = "__arrow_c_stream__"
_CODECS: Final[Mapping[bytes, Literal["gzip", "zstd"]]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC_BYTES: Final = max(map(len, _CODECS))


@runtime_checkable
class Readable(Protocol):
    """An open text or binary file."""

    def read(self, size: int = -1, /) -> bytes | str:
        """Return up to ``size`` bytes or characters; nothing at the end."""
        ...


_ELSEWHERE: Final = 'give a local path, or engine="spark", which reads what Spark can'

_ONE_FILE: Final = (str, os.PathLike, Readable)

Record: TypeAlias = Mapping[str, object]
RecordSource: TypeAlias = str | os.PathLike[str] | Readable | Iterable[str | os.PathLike[str] | Readable | Record]


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines of a file, including blank ones. ``first`` is the number of the first line, from 1."""

    file: str | None
    first: int
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Records given as Python objects. ``first`` is the number of the first record, from 1."""

    first: int
    records: list[Record]


Block: TypeAlias = LineBlock | RecordBlock

ByteCounter: TypeAlias = Callable[[int], object]
"""Is called with the number of bytes that were read from a file, before they are decompressed."""


def ignore_bytes(count: int) -> None:
    """Count nothing."""


def read_blocks(source: RecordSource, count_bytes: ByteCounter = ignore_bytes) -> Iterator[Block]:
    """Yield everything in a source, in order."""
    return _read_parts(_split_source(source), count_bytes)


def _split_source(source: object) -> Iterable[object]:
    if isinstance(source, _ONE_FILE):
        return [cast(object, source)]
    if (
        isinstance(source, Iterable)
        and not isinstance(source, _NOT_A_SOURCE)
        and not hasattr(cast(object, source), _ARROW_STREAM)
    ):
        return cast("Iterable[object]", source)
    raise ParameterError(
        f"records cannot be read from {type(cast(object, source)).__name__}",
        hint='give a path, an open file or a list of records; frames go to nodes={"Type": ...} and edges={...}',
    )


def _read_parts(parts: Iterable[object], count_bytes: ByteCounter) -> Iterator[Block]:
    count = 0
    for are_records, group in groupby(parts, lambda part: isinstance(part, Mapping)):
        if are_records:
            for block in _batch_records(cast("Iterable[Record]", group)):
                yield RecordBlock(count + 1, block)
                count += len(block)
            continue
        for part in group:
            yield from _read_file(part, count_bytes)


def _batch_records(records: Iterable[Record]) -> Iterator[list[Record]]:
    block: list[Record] = []
    for record in records:
        block.append(record)
        if len(block) == BLOCK_RECORDS:
            yield block
            block = []
    if block:
        yield block


def _read_file(part: object, count_bytes: ByteCounter) -> Iterator[LineBlock]:
    if isinstance(part, str | os.PathLike):
        path = parse_local_path(cast("str | os.PathLike[str]", part), "source", _ELSEWHERE)
        with open_chunks(path, count_bytes) as chunks:
            yield from _split_lines(str(path), strip_byte_order_mark(str(path), chunks))
    elif isinstance(part, Readable):
        name = getattr(part, "name", None)
        named = name if isinstance(name, str) else None
        with _translate_read_errors(named or "the stream"):
            shown = named or "the stream"
            chunks = read_chunks(_CountedStream(part, count_bytes))
            yield from _split_lines(named, strip_byte_order_mark(shown, chunks))
    else:
        raise ParameterError(
            f"a source holds {type(part).__name__}", hint="give paths, open files, or records as dictionaries"
        )


@contextmanager
def open_chunks(path: Path, count_bytes: ByteCounter) -> Generator[Iterator[bytes]]:
    """Open a file; the context gives its bytes in chunks, decompressed."""
    with _translate_read_errors(str(path)), path.open("rb") as file:
        yield read_chunks(_CountedStream(file, count_bytes))


@contextmanager
def _translate_read_errors(name: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"there is no file '{name}'", hint="check the path") from error
    except IsADirectoryError as error:
        raise ParameterError(f"'{name}' is a folder", hint="give its files") from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"{name} is not UTF-8: {error.reason}", hint="open it in binary mode, as UTF-8") from error
    except OSError as error:
        raise StorageError(f"{name} cannot be read: {error}", hint="it may be cut off or damaged") from error


def read_chunks(stream: Readable) -> Iterator[bytes]:
    """Yield the bytes of a stream, decompressed."""
    head = _read_head(stream)
    for magic, codec in _CODECS.items():
        if head.startswith(magic):
            inner = pa.CompressedInputStream(pa.PythonFile(_ResumedStream(head, stream)), codec)
            yield from read_chunks(cast(Readable, inner))
            return
    while head:
        yield head
        head = _to_bytes(stream.read(BLOCK_BYTES))


def _read_head(stream: Readable) -> bytes:
    """Read the first bytes of a stream, which may hand over few at a time: enough to tell how it is compressed."""
    head = b""
    while len(head) < _MAGIC_BYTES and (chunk := _to_bytes(stream.read(BLOCK_BYTES))):
        head += chunk
    return head


def strip_byte_order_mark(name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a text in UTF-8 without the byte order mark; refuse UTF-16."""
    head = b""
    while len(head) < len(_BOM) and (chunk := next(chunks, None)) is not None:
        head += chunk
    if head.startswith(_UTF_16):
        raise ParameterError(f"{name} is UTF-16", hint="save it as UTF-8")
    if head:
        yield head.removeprefix(_BOM)
    yield from chunks


def _to_bytes(chunk: bytes | str) -> bytes:
    return chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk


@dataclass(frozen=True, slots=True)
class _CountedStream:
    """A stream that reports how much of it was read."""

    stream: Readable
    count_bytes: ByteCounter

    def read(self, size: int = -1, /) -> bytes | str:
        """Return up to ``size`` bytes or characters."""
        found = self.stream.read(size)
        self.count_bytes(len(found))
        return found


class _ResumedStream(RawIOBase):
    """A stream whose first bytes were already read."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        """Return the bytes already read, then those of the stream."""
        if self._head:
            size = len(self._head) if size < 0 else size
            chunk, self._head = self._head[:size], self._head[size:]
            return chunk
        return _to_bytes(self._stream.read(size))


def _split_lines(file: str | None, chunks: Iterator[bytes]) -> Iterator[LineBlock]:
    """Split chunks into whole lines. A line that spans many chunks is joined only once."""
    pieces: list[bytes] = []
    first = 1
    for chunk in chunks:
        end = chunk.rfind(b"\n")
        if end < 0:
            pieces.append(chunk)
            continue
        lines = b"".join([*pieces, chunk[:end]]).split(b"\n")
        yield LineBlock(file, first, lines)
        first += len(lines)
        pieces = [chunk[end + 1 :]]
    rest = b"".join(pieces)
    if rest:
        yield LineBlock(file, first, [rest])
