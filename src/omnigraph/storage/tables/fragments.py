"""The fragments of one table version: compare them by metadata, and read rows of a few of them.

Lance never changes a file and gives each a unique name, across branches. Two fragments with the same data files hold
the same rows, minus those in their deletion files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata, LanceFragment

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Rows, column_of
from omnigraph.storage.lance_internals import DeletionFile, identify_data_file, read_deletions, read_field_ids
from omnigraph.storage.tables.table import BYTES_AT_ONCE, ROW_ADDRESS, ROW_ID, ROW_UPDATED_AT, Table, branch_uri

Numbers: TypeAlias = npt.NDArray[np.uint64]

_ROWS_AT_ONCE: Final = 8192
_ROWS_LISTED: Final = 4096
_FEW: Final = 16
"""Up to one row in this many is fetched individually; for more the whole fragment is read."""

_FEW_FRAGMENTS: Final = 4
_SMALL_FRAGMENT: Final = 256
"""Up to so many fragments of so many rows are fetched one by one: a scan costs more than they hold."""

_KNOWN_FRAGMENTS: Final = 4096
_IDENTITY_COLUMNS: Final = ("id", "src", "dst")

_DETACHED: Final = 2**63
"""Versions from here on are detached: row ids and row versions are meaningless in them."""


@dataclass(frozen=True, slots=True)
class TableFragment:
    """One fragment of a table version: its data files, its deletion file and the number of remaining rows."""

    id: int
    files: tuple[str, ...]
    deletion_file: DeletionFile | None
    num_rows: int
    identity_files: tuple[str, ...]
    """The names of those of its files that hold ids and ends. New values of other columns are in other files."""

    @property
    def physical_rows(self) -> int:
        """The number of its rows, with those that are deleted."""
        return self.num_rows + (0 if self.deletion_file is None else self.deletion_file.num_rows)

    @property
    def deletions(self) -> str | None:
        """The unique path of its deletion file."""
        return None if self.deletion_file is None else self.deletion_file.path


def list_fragments(table: Table) -> tuple[TableFragment, ...]:
    """Return the fragments of a table in order. Only metadata is read."""
    with table.reading():
        # Files of branches that this one was forked from are given by the number of their folder.
        roots = {base_id: base.path for base_id, base in table.dataset.base_paths().items()}
        own = branch_uri(table.uri, table.branch)
        found = [each.metadata for each in table.dataset.get_fragments()]
        has_columns_apart = any(len(each.files) > 1 for each in found)
        identity = _list_identity_fields(table) if has_columns_apart else frozenset[int]()
        return tuple(_fragment(each, roots, own, identity) for each in found)


def _list_identity_fields(table: Table) -> frozenset[int]:
    numbers = read_field_ids(table.dataset)
    return frozenset(numbers[name] for name in _IDENTITY_COLUMNS if name in numbers)


def _fragment(found: FragmentMetadata, roots: Mapping[int, str], own: str, identity: frozenset[int]) -> TableFragment:
    if found.deletion_file is None and len(found.files) == 1 and not found.overlays:
        return _make_plain(found.id, identify_data_file(found.files[0]), found.num_rows)
    files = (*map(identify_data_file, found.files), *(repr(each) for each in found.overlays or ()))
    holders = (
        _name_of(file)
        for each, file in zip(found.files, files, strict=False)
        if len(found.files) == 1 or not identity.isdisjoint(each.fields)
    )
    of_ids = (*holders, *files[len(found.files) :])
    deletions = found.deletion_file
    if deletions is None:
        return TableFragment(found.id, files, None, found.num_rows, of_ids)
    root = own if deletions.base_id is None else roots[deletions.base_id]
    file = DeletionFile(root, deletions.path(found.id), deletions.num_deleted_rows)
    return TableFragment(found.id, files, file, found.num_rows, of_ids)


@lru_cache(_KNOWN_FRAGMENTS)
def _make_plain(number: int, file: str, num_rows: int) -> TableFragment:
    """Make a fragment of one file from which nothing was deleted. The next version has most of them too."""
    return TableFragment(number, (file,), None, num_rows, (_name_of(file),))


def _name_of(file: str) -> str:
    """Return the name of a file without the numbers of its columns, of which other files may serve some by now."""
    return file.partition(" ")[0]


def read_deleted_offsets(table: Table, fragments: Sequence[TableFragment]) -> list[Numbers]:
    """Return the offsets of the deleted rows of each fragment, sorted. No rows are read."""
    files = [each.deletion_file for each in fragments if each.deletion_file is not None]
    found = dict(zip(files, read_deletions(files, table.access.storage_options), strict=True))
    return [_deleted_offsets_of(table, each, found) for each in fragments]


def _deleted_offsets_of(table: Table, fragment: TableFragment, found: Mapping[DeletionFile, Numbers | None]) -> Numbers:
    file = fragment.deletion_file
    if file is None:
        return np.zeros(0, np.uint64)
    offsets = found[file]
    if offsets is not None:
        return offsets
    everything = np.arange(fragment.num_rows + file.num_rows, dtype=np.uint64)
    return np.setdiff1d(everything, read_row_offsets(table, fragment), assume_unique=True)


def have_same_layout(one: Table, other: Table) -> bool:
    """Return whether two versions have the same rows at the same addresses. Only metadata is read."""
    ones, others = ([(each.id, each.files, each.deletions) for each in list_fragments(table)] for table in (one, other))
    return ones == others


def map_addresses(addresses: Numbers, before: Table, after: Table) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Map row addresses of one version to another; return them with a mask of those that are still in the same file.

    The others were rewritten or deleted. Only metadata and deletion files are read.
    """
    if not len(addresses):
        return addresses, np.zeros(0, np.bool_)
    order = np.argsort(addresses)
    owners, starts = np.unique(addresses[order] >> np.uint64(32), return_index=True)
    positions = dict(zip(owners.tolist(), np.split(order, starts[1:]), strict=True))
    news = {each.files: each for each in list_fragments(after)}
    pairs = [(old, news[old.files]) for old in list_fragments(before) if old.id in positions and old.files in news]
    thinned = [new for old, new in pairs if new.deletions != old.deletions]
    deleted = dict(zip((each.id for each in thinned), read_deleted_offsets(after, thinned), strict=True))
    found, there = addresses & np.uint64(0xFFFFFFFF), np.zeros(len(addresses), np.bool_)
    for old, new in pairs:
        at = positions[old.id]
        there[at] = ~np.isin(found[at], deleted[new.id]) if new.id in deleted else True
        found[at] |= np.uint64(new.id << 32)
    return found, there


def read_row_offsets(table: Table, fragment: TableFragment) -> Numbers:
    """Return the offsets of the remaining rows of a fragment, sorted. No rows are read."""
    found = table.scan([], with_row_address=True, in_fragments=[fragment.id]).read_all()
    return _numbers(found, ROW_ADDRESS) & np.uint64(0xFFFFFFFF)


class RowVersions(NamedTuple):
    """The offset, the row id and the last writing version of each row of a fragment.

    Row ids and versions are valid only with stable row ids.
    """

    offsets: Numbers
    ids: Numbers
    versions: Numbers


def read_row_versions(table: Table, fragment: TableFragment) -> RowVersions:
    """Return offsets, row ids and versions of the rows of a fragment. No other column is read."""
    found = table.scan([ROW_UPDATED_AT], with_row_id=True, with_row_address=True, in_fragments=[fragment.id]).read_all()
    addresses, ids, versions = (_numbers(found, name) for name in (ROW_ADDRESS, ROW_ID, ROW_UPDATED_AT))
    return RowVersions(addresses & np.uint64(0xFFFFFFFF), ids, versions)


def read_rows(
    table: Table, parts: Iterable[tuple[TableFragment, Numbers | None]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows with their addresses in small batches: all rows of a fragment, or those at some offsets."""
    few: list[tuple[TableFragment, Numbers]] = []
    count = 0
    for fragment, offsets in parts:
        if offsets is None or len(offsets) * _FEW > fragment.num_rows:
            yield from _read_whole(table, fragment, columns, offsets)
            continue
        if count + len(offsets) > _ROWS_LISTED:
            yield from _read_few(table, few, columns)
            few, count = [], 0
        few.append((fragment, offsets))
        count += len(offsets)
    yield from _read_few(table, few, columns)


def are_few_small(fragments: Collection[TableFragment]) -> bool:
    """Whether fragments are so few and small that :func:`take_fragment` is cheaper than a scan."""
    return len(fragments) <= _FEW_FRAGMENTS and all(
        each.num_rows <= _SMALL_FRAGMENT and each.deletion_file is None for each in fragments
    )


def take_fragment(table: Table, fragment: TableFragment, columns: Sequence[str]) -> pa.Table:
    """Fetch the rows of a small fragment from which nothing was deleted, in order."""
    found = table.access.written.find(fragment.files, table.dataset, columns)
    if found is not None:
        return found
    with table.reading():
        return _get_fragments(table, [fragment])[0].take(list(range(fragment.num_rows)), columns=list(columns))


def _read_whole(
    table: Table, fragment: TableFragment, columns: Sequence[str], offsets: Numbers | None
) -> Iterator[pa.RecordBatch]:
    for batch in _scan_fragments(table, [fragment], columns):
        if offsets is None:
            yield batch
            continue
        found = np.isin(_numbers(batch, ROW_ADDRESS) & np.uint64(0xFFFFFFFF), offsets, assume_unique=True)
        if found.any():
            yield batch.filter(pa.array(found))


def _read_few(
    table: Table, parts: Sequence[tuple[TableFragment, Numbers]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Fetch individual rows from several fragments at once."""
    if not parts:
        return
    fragments = [fragment for fragment, _ in parts]
    addresses = np.concatenate([np.sort(offsets) | np.uint64(fragment.id << 32) for fragment, offsets in parts])
    # Lance's own take searches the deletions for every row.
    for begin in range(0, len(addresses), _ROWS_LISTED):
        listed = ", ".join(map(str, addresses[begin : begin + _ROWS_LISTED].tolist()))
        yield from _scan_fragments(table, fragments, columns, f"{ROW_ADDRESS} IN ({listed})")


def _scan_fragments(
    table: Table, fragments: Sequence[TableFragment], columns: Sequence[str], filter_: str | None = None
) -> Iterator[pa.RecordBatch]:
    with table.reading():
        yield from table.dataset.scanner(
            fragments=_get_fragments(table, fragments),
            columns=list(columns),
            filter=filter_,
            with_row_address=True,
            batch_size=_ROWS_AT_ONCE,
            batch_size_bytes=BYTES_AT_ONCE,
            batch_readahead=1,
            io_buffer_size=2 * BYTES_AT_ONCE,
        ).to_batches()


def _get_fragments(table: Table, fragments: Sequence[TableFragment]) -> list[LanceFragment]:
    found = [table.dataset.get_fragment(each.id) for each in fragments]
    there = [each for each in found if each is not None]
    if len(there) < len(found):
        missing = {each.id for each in fragments} - {each.fragment_id for each in there}
        raise ValueError(f"{table.subject} has no fragment {missing} at version {table.version}")
    return there


def _numbers(rows: Rows, column: str) -> Numbers:
    return column_of(rows, column).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)


def find_last_shared_version(before: Table, after: Table) -> float:
    """Return the last version that two tables share. Up to it a row id and a version name one state of a row.

    Within one branch all versions are shared. Branches continue the numbers of the version that they were forked from,
    so equal numbers after the fork mean different things. -1 if nothing is shared or known.
    """
    if before.uri != after.uri or not (before.has_stable_row_ids and after.has_stable_row_ids):
        return -1
    if max(before.version, after.version) >= _DETACHED:
        return -1
    if before.branch == after.branch:
        return float("inf")
    refs = before.list_forks()
    if any(branch is not None and branch not in refs for branch in (before.branch, after.branch)):
        return -1
    paths = [() if branch is None else refs[branch].identifier for branch in (before.branch, after.branch)]
    return _find_fork_version(*paths)


def _find_fork_version(one: Collection[tuple[int, str]], other: Collection[tuple[int, str]]) -> float:
    """Return the version where two paths of forks diverge. A step is a fork version and a branch identifier."""
    ones, others = list(one), list(other)
    while ones and others and ones[0] == others[0]:
        del ones[0], others[0]
    return min((steps[0][0] for steps in (ones, others) if steps), default=float("inf"))
