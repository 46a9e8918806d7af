"""Sets of rows of a fragment by their offsets, as Lance writes them; and the deletion files, which hold such sets.

Lance itself gives them only by listing all remaining rows. The formats are public: few offsets in an Arrow file, many
in a 32-bit Roaring bitmap. For a file that is missing or not understood the caller asks Lance instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.location import locate
from omnigraph.storage.objects import Objects
from omnigraph.worker_threads import WorkerThreads

Offsets: TypeAlias = npt.NDArray[np.uint64]

_FILES_AT_ONCE: Final = 16
_ARROW: Final = ".arrow"
_ROARING: Final = ".bin"

_WITHOUT_RUNS: Final = 12346
_WITH_RUNS: Final = 12347
_MIN_CONTAINERS_WITH_OFFSETS: Final = 4
"""A bitmap with runs lists the offsets of its containers only if it has at least this many."""
_LARGEST_ARRAY: Final = 4096
_BITMAP_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """One deletion file: the folder of the branch that wrote it, its path there and the number of deleted rows."""

    root: str
    path: str
    num_rows: int


def read_deletions(files: Sequence[DeletionFile], storage_options: Mapping[str, str]) -> list[Offsets | None]:
    """Return the sorted offsets in each file; None for a file that is missing or not understood."""
    stores = {root: _store(root, storage_options) for root in dict.fromkeys(file.root for file in files)}
    of_files = [stores[file.root] for file in files]
    if all(store is None or store.location.is_local for store in of_files):
        return list(map(_read, of_files, files))
    with WorkerThreads(min(len(files), _FILES_AT_ONCE)) as pool:
        return list(pool.map(_read, of_files, files))


def _store(root: str, storage_options: Mapping[str, str]) -> Objects | None:
    """Return the store of a folder; None if only Lance can read it."""
    try:
        return Objects(locate(root, storage_options))
    except ParameterError:
        return None


def _read(store: Objects | None, file: DeletionFile) -> Offsets | None:
    data = None if store is None else store.get(file.path)
    if data is None:
        return None
    try:
        found = decode_deletions(data, file.path)
    except (pa.ArrowInvalid, ValueError, IndexError):
        return None
    return found if len(found) == file.num_rows else None


def decode_deletions(data: bytes, path: str) -> Offsets:
    """Return the sorted offsets in a deletion file. Its name gives the format."""
    if path.endswith(_ARROW):
        # Threads take longer to begin than to read a few numbers.
        rows = ipc.open_file(pa.BufferReader(data), options=ipc.IpcReadOptions(use_threads=False)).read_all()
        return np.sort(rows.column(0).to_numpy().astype(np.uint64))
    if path.endswith(_ROARING):
        return _decode_roaring(data)
    raise ValueError(f"'{path}' is not a deletion file")


# --------------------------------------------------------------------------------------------- Roaring bitmaps


def _decode_roaring(data: bytes) -> Offsets:
    """Decode a 32-bit Roaring bitmap in its portable form: one container for each upper half that occurs."""
    cookie = int.from_bytes(data[:4], "little")
    if cookie == _WITHOUT_RUNS:
        count, at = int.from_bytes(data[4:8], "little"), 8
        has_runs = np.zeros(count, np.bool_)
    elif cookie & 0xFFFF == _WITH_RUNS:
        count, at = (cookie >> 16) + 1, 4
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, at)
        has_runs = np.unpackbits(flags, bitorder="little")[:count].astype(np.bool_)
        at += len(flags)
    else:
        raise ValueError(f"{cookie} is not the cookie of a bitmap")
    described = np.frombuffer(data, "<u2", 2 * count, at).astype(np.int64).reshape(count, 2)
    at += 4 * count
    if cookie == _WITHOUT_RUNS or count >= _MIN_CONTAINERS_WITH_OFFSETS:
        at += 4 * count
    found: list[Offsets] = [np.zeros(0, np.uint64)]
    for (upper, last), in_runs in zip(described.tolist(), has_runs.tolist(), strict=True):
        lower, at = _decode_runs(data, at) if in_runs else _decode_container(data, at, last + 1)
        found.append(lower | np.uint64(upper << 16))
    return np.concatenate(found)


def encode_offsets(offsets: Offsets) -> bytes:
    """Encode sorted offsets as a 32-bit Roaring bitmap in its portable form."""
    uppers, starts = np.unique(offsets >> np.uint64(16), return_index=True)
    containers = [_encode_container(each) for each in np.split(offsets & np.uint64(0xFFFF), starts[1:])]
    counts = np.diff([*starts.tolist(), len(offsets)])
    head = np.array([_WITHOUT_RUNS, len(uppers)], "<u4").tobytes()
    described = np.stack([uppers.astype("<u2"), (counts - 1).astype("<u2")], axis=1).tobytes()
    first = len(head) + len(described) + 4 * len(uppers)
    places = np.cumsum([first, *map(len, containers)])[:-1].astype("<u4").tobytes()
    return b"".join([head, described, places, *containers])


def _encode_container(lower: Offsets) -> bytes:
    if len(lower) <= _LARGEST_ARRAY:
        return lower.astype("<u2").tobytes()
    bits = np.zeros(8 * _BITMAP_BYTES, np.bool_)
    bits[lower] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _decode_runs(data: bytes, at: int) -> tuple[Offsets, int]:
    """Decode a container of runs: pairs of a first number and the count of those that follow it."""
    count = int(np.frombuffer(data, "<u2", 1, at)[0])
    starts, lengths = np.frombuffer(data, "<u2", 2 * count, at + 2).astype(np.int64).reshape(count, 2).T
    lengths = lengths + 1
    ends = np.cumsum(lengths)
    lower = np.arange(int(lengths.sum())) + np.repeat(starts - (ends - lengths), lengths)
    return lower.astype(np.uint64), at + 2 + 4 * count


def _decode_container(data: bytes, at: int, count: int) -> tuple[Offsets, int]:
    """Decode an array or a bitmap container: few numbers are listed, many are bits."""
    if count <= _LARGEST_ARRAY:
        return np.frombuffer(data, "<u2", count, at).astype(np.uint64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITMAP_BYTES, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint64), at + _BITMAP_BYTES
