"""Files beside an edge table that hold the ends of the edges of one fragment as numbers.

A file says for each row of a fragment which row of which node fragment its source and its destination are. Lance never
changes a file of rows, so this stays true; whether these nodes are still there is for the reader to find out. The files
are derived: anyone may delete them, no version refers to them, and one that is not whole counts as missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias, TypedDict, cast

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

LEAST_NUMBERED_ROWS: Final = 10_000
"""Fragments with fewer rows have no file: their ids are located in a few milliseconds."""
_MAGIC: Final = b"OGENDS01"
_PREFIX_BYTES: Final = len(_MAGIC) + 8
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


@dataclass(frozen=True, slots=True, eq=False)
class StoredEnds:
    """The ends of all rows of a fragment, also of deleted ones.

    A number counts the rows of the listed node fragments, one after another. It is -1 where no node was known.
    """

    sources: RowNumbers
    destinations: RowNumbers
    source_rows: tuple[NodeRows, ...]
    destination_rows: tuple[NodeRows, ...]


class _Header(TypedDict):
    edges: list[str]
    rows: int
    sources: list[list[object]]
    destinations: list[list[object]]


def read_end_file(table: Table, fragment: TableFragment) -> StoredEnds | None:
    """Return the stored ends of a fragment; None without a file, or if it is not whole or of something else."""
    objects = _open_objects(table)
    if objects is None:
        return None
    try:
        data = objects.get(_path_of(fragment))
    except StorageError:
        # What cannot be read is as good as missing: the table itself holds the same.
        return None
    return None if data is None else decode_ends(data, fragment)


def write_end_file(table: Table, fragment: TableFragment, ends: StoredEnds) -> None:
    """Write the ends of a fragment, in place of an earlier file."""
    objects = _open_objects(table)
    if objects is not None:
        objects.put(_path_of(fragment), encode_ends(ends, fragment))


def _open_objects(table: Table) -> Objects | None:
    """Return the objects of a table; None if only Lance can find its folder."""
    try:
        return Objects(locate(table.uri, table.access.storage_options))
    except ParameterError:
        return None


def _path_of(fragment: TableFragment) -> str:
    """Name the file after the first file of rows, with which cleanup removes it, and after all that hold ends."""
    stem = fragment.identity_files[0].partition(".")[0]
    digest = blake2b(repr(fragment.identity_files).encode(), digest_size=8).hexdigest()
    return f"{END_FILES_FOLDER}/{stem}.{digest}"


# --------------------------------------------------------------------------------------------- the format


def encode_ends(ends: StoredEnds, fragment: TableFragment) -> bytes:
    """Return the content of a file: a header with all that identifies it, and the two columns."""
    header = orjson.dumps(
        _Header(
            edges=list(fragment.identity_files),
            rows=len(ends.sources),
            sources=_list_rows(ends.source_rows),
            destinations=_list_rows(ends.destination_rows),
        )
    )
    # The columns begin at a multiple of eight, where they can be used as they are.
    header += b" " * (-len(header) % 8)
    body = b"".join([header, ends.sources.astype("<i4").tobytes(), ends.destinations.astype("<i4").tobytes()])
    return b"".join([_MAGIC, len(header).to_bytes(4, "little"), zlib.crc32(body).to_bytes(4, "little"), body])


def _list_rows(rows: Sequence[NodeRows]) -> list[list[object]]:
    return [[list(each.files), each.count] for each in rows]


def decode_ends(data: bytes, fragment: TableFragment) -> StoredEnds | None:
    """Return the ends in the content of a file; None if it is not whole, or not that of the fragment."""
    if len(data) < _PREFIX_BYTES or data[: len(_MAGIC)] != _MAGIC:
        return None
    size, checksum = (int.from_bytes(data[at : at + 4], "little") for at in (len(_MAGIC), len(_MAGIC) + 4))
    count = fragment.physical_rows
    begin = _PREFIX_BYTES + size
    if len(data) != begin + 8 * count or zlib.crc32(memoryview(data)[_PREFIX_BYTES:]) != checksum:
        return None
    # The checksum is right, so this is what was written.
    header = cast("_Header", orjson.loads(data[_PREFIX_BYTES:begin]))
    if (header["edges"], header["rows"]) != (list(fragment.identity_files), count):
        return None
    sources, destinations = (np.frombuffer(data, "<i4", count, begin + 4 * count * at) for at in (0, 1))
    return StoredEnds(sources, destinations, _parse_rows(header["sources"]), _parse_rows(header["destinations"]))


def _parse_rows(listed: list[list[object]]) -> tuple[NodeRows, ...]:
    return tuple(NodeRows(tuple(cast("list[str]", files)), cast(int, count)) for files, count in listed)
