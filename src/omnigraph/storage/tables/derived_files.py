"""Files beside a table that hold numbers derived from its files of rows: a header, then numbers of 32 bits.

Lance never changes a file of rows, so what is derived from some of them stays true. Anyone may delete a derived file,
no version refers to one, and one that is not whole counts as missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import orjson

from omnigraph.errors import ParameterError, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals import END_FILES_FOLDER
from omnigraph.storage.location import locate
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables.fragments import TableFragment
from omnigraph.storage.tables.table import Table

RowNumbers: TypeAlias = npt.NDArray[np.int32]

_MAGIC_BYTES: Final = 8
_PREFIX_BYTES: Final = _MAGIC_BYTES + 8
"""The magic bytes, the length of the header and the checksum of all that follows it."""


@dataclass(frozen=True, slots=True)
class NodeRows:
    """The rows of one node fragment, with those that are deleted: the files that hold their ids, and their number."""

    files: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, fragment: TableFragment) -> NodeRows:
        """Return the rows of a fragment."""
        return cls(fragment.identity_files, fragment.physical_rows)


def read_derived_file(table: Table, path: str, magic: bytes) -> tuple[dict[str, object], RowNumbers] | None:
    """Return the header and the numbers of a file; None without one, or if it is not whole."""
    objects = open_objects(table)
    if objects is None:
        return None
    try:
        data = objects.get(path)
    except StorageError:
        # What cannot be read is as good as missing: the table itself holds the same.
        return None
    return None if data is None else decode_numbers(data, magic)


def write_derived_file(
    table: Table, path: str, magic: bytes, header: dict[str, object], columns: Sequence[RowNumbers]
) -> None:
    """Write a file, in place of an earlier one."""
    objects = open_objects(table)
    if objects is not None:
        objects.put(path, encode_numbers(magic, header, columns))


def open_objects(table: Table) -> Objects | None:
    """Return the objects of a table; None if only Lance can find its folder."""
    try:
        return Objects(locate(table.uri, table.access.storage_options))
    except ParameterError:
        return None


def derived_path(fragment: TableFragment) -> str:
    """Name a file after the first file of rows, with which cleanup removes it, and after all that hold ids and ends."""
    stem = fragment.identity_files[0].partition(".")[0]
    digest = blake2b(repr(fragment.identity_files).encode(), digest_size=8).hexdigest()
    return f"{END_FILES_FOLDER}/{stem}.{digest}"


# --------------------------------------------------------------------------------------------- the format


def encode_numbers(magic: bytes, header: dict[str, object], columns: Sequence[RowNumbers]) -> bytes:
    """Return the content of a file: a header with all that identifies it, and columns of numbers."""
    text = orjson.dumps(header)
    # The columns begin at a multiple of eight, where they can be used as they are.
    text += b" " * (-len(text) % 8)
    parts = [text, *(each.astype("<i4").tobytes() for each in columns)]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([magic, len(text).to_bytes(4, "little"), checksum.to_bytes(4, "little"), *parts])


def decode_numbers(data: bytes, magic: bytes) -> tuple[dict[str, object], RowNumbers] | None:
    """Return the header and all numbers in the content of a file; None if it is not whole, or not of this kind."""
    if len(data) < _PREFIX_BYTES or data[:_MAGIC_BYTES] != magic:
        return None
    size, checksum = (int.from_bytes(data[at : at + 4], "little") for at in (_MAGIC_BYTES, _MAGIC_BYTES + 4))
    begin = _PREFIX_BYTES + size
    if len(data) < begin or (len(data) - begin) % 4 or zlib.crc32(memoryview(data)[_PREFIX_BYTES:]) != checksum:
        return None
    # The checksum is right, so this is what was written.
    header = cast("dict[str, object]", orjson.loads(data[_PREFIX_BYTES:begin]))
    return header, np.frombuffer(data, "<i4", offset=begin)


def list_node_rows(rows: Sequence[NodeRows]) -> list[list[object]]:
    """Return node rows as a header has them."""
    return [[list(each.files), each.count] for each in rows]


def parse_node_rows(listed: object) -> tuple[NodeRows, ...]:
    """Return the node rows that a header lists."""
    return tuple(
        NodeRows(tuple(cast("list[str]", files)), cast(int, count))
        for files, count in cast("list[list[object]]", listed)
    )
