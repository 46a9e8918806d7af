"""One Lance table at exactly one version: open it, read it, inspect its history.

A :class:`Table` never follows the HEAD of its dataset. Nothing in this module writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Final, Protocol, TypeVar, cast
from weakref import ref

import lance
import pyarrow as pa
from lance.dataset import Branch, LanceDataset, LanceOperation, Transaction

from omnigraph.deadlines import wait_for
from omnigraph.errors import ConflictError, GraphMoved, HistoryGone, NotFound, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lagging_columns import NO_LAG, ColumnLag
from omnigraph.storage.lance_internals import (
    BranchRef,
    ExplainedErrors,
    RefsMoved,
    build_scan,
    data_paths,
    find_missing_file,
    has_version_file,
    is_inside,
    list_version_numbers,
    print_transaction,
    read_field_ids,
    read_local_refs,
    read_version_hint,
    translate_errors,
    translate_raised,
)
from omnigraph.storage.tables.access import Access

Result = TypeVar("Result")

OPERATION_ID = "omnigraph:operation_id"
"""The transaction property that names the operation which made a Lance commit."""
_LOST_HINT = "check the path; if files are lost, restore them from a copy"

ROW_CREATED_AT = "_row_created_at_version"
ROW_UPDATED_AT = "_row_last_updated_at_version"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
_MAX_LISTINGS = 10
BYTES_AT_ONCE: Final = 16 << 20
"""About how large a batch of rows is, where memory must not depend on the width of the rows."""


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One Lance commit: the operation that made ``version``, and the id of the OmniGraph operation behind it."""

    version: int
    operation: str
    operation_id: str | None
    transaction_uuid: str
    restored: int | None = None
    """The version that a Restore returned to."""
    replaces_columns: bool = False
    """Whether it gave rows other values in their place."""


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One index of a table: its kind in Lance's words, in capitals, its columns and the number of rows it covers."""

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class StorageCalls:
    """The requests that Lance made to the storage."""

    reads: int
    read_bytes: int
    writes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Table:
    """One dataset at exactly (branch, version). ``uri`` is the dataset's root, whatever the branch.

    It can be pickled: another process opens the same version again.
    """

    uri: str
    branch: str | None
    version: int
    access: Access = field(repr=False)
    handle: LanceDataset = field(repr=False, compare=False)
    lag: ColumnLag = NO_LAG
    """How its columns differ from the properties that it is read with."""
    _known_schema: list[pa.Schema] = field(default_factory=list[pa.Schema], init=False, repr=False, compare=False)
    _known_types: list[Mapping[str, pa.DataType]] = field(
        default_factory=list[Mapping[str, pa.DataType]], init=False, repr=False, compare=False
    )

    @property
    def dataset(self) -> LanceDataset:
        """The Lance handle, for reading. Only ``writes`` and ``upkeep`` write through it."""
        # Lance's class has an untyped base, so a type checker takes the field itself for a descriptor.
        return cast("LanceDataset", self.handle)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.uri, self.branch, self.version, self.access, self.lag)

    def with_lag(self, lag: ColumnLag) -> Table:
        """Return the same table, read with a newer schema."""
        return replace(self, lag=lag)

    def with_own_handle(self) -> Table:
        """Return the same table through a separate handle, without asking the storage."""
        return replace(self, handle=self.dataset.checkout_version(self.version))

    def with_index_cache(self, size: int) -> Table:
        """Return the same table with caches of its own, which keep at most so many bytes of its indexes.

        The caches of a graph may grow to gigabytes: right for queries, too much for a lookup of many scattered values.
        """
        return _reopen(self.uri, self.branch, self.version, self.access.with_index_cache(size), self.lag)

    def make_opener(self) -> Callable[[], Table]:
        """Return a function that returns this table, and does not keep it open until then."""
        handle, lag = ref(self.dataset), self.lag
        place = self.uri, self.branch, self.version, self.access

        def open_again() -> Table:
            found = handle()
            return _reopen(*place, lag) if found is None else Table(*place, found, lag)

        return open_again

    @property
    def is_local(self) -> bool:
        """Whether the table lies in a local folder."""
        return is_local_uri(self.uri)

    @property
    def subject(self) -> str:
        """The table as error messages name it."""
        return _subject(self.uri, self.branch)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema at this version, with its metadata and without hidden columns."""
        # Lance converts it each time.
        if not self._known_schema:
            found = self.dataset.schema
            for name in self.lag.hidden.intersection(found.names):
                found = found.remove(found.get_field_index(name))
            self._known_schema.append(found)
        return self._known_schema[0]

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        """The types of its columns, by name, without hidden ones."""
        if not self._known_types:
            self._known_types.append(dict(zip(self.schema.names, self.schema.types, strict=True)))
        return self._known_types[0]

    def describe_columns(self) -> tuple[str, ...]:
        """Return the name, the type and Lance's number of each visible column.

        Versions with the same files and the same descriptions hold the same values.
        """
        ids = read_field_ids(self.dataset)
        columns = cast("list[pa.Field[pa.DataType]]", list(self.schema))
        return tuple(f"{column.name} {column.type} {ids[column.name]}" for column in columns)

    def reading(self) -> ExplainedErrors:
        """Surround reads of this version: translate errors, and say if the version was removed meanwhile."""
        return ExplainedErrors(self._explain_error)

    def _explain_error(self, error: BaseException) -> BaseException:
        found = translate_raised(error, self.subject)
        if not isinstance(found, StorageError) or not self._was_removed(find_missing_file(found)):
            return found
        gone = HistoryGone(
            f"{self.subject}: version {self.version} was removed while it was read, by cleanup or with its branch",
            hint="read a newer commit; a tag or a branch keeps a commit from cleanup",
        )
        gone.__cause__ = found
        return gone

    def _was_removed(self, missing: str | None) -> bool:
        """Return whether this version is gone, or a file of it that nothing needs any more."""
        try:
            there = _open(self.uri, self.branch, self.version, self.access)
            newest = _open(self.uri, self.branch, None, self.access)
        except (NotFound, HistoryGone):
            return True
        if missing is None:
            return False
        if missing not in there.list_files():
            # The branch was deleted and created anew: the version of this number is another one.
            return True
        # Lance removes the files of a version first, and then the version.
        return newest.version > self.version and missing not in newest.list_files()

    def list_files(self) -> set[str]:
        """Return the data and deletion files of the fragments, as paths below the table. Large blobs are left out."""
        fragments = self.dataset.get_fragments()
        deletions = (fragment.deletion_file() for fragment in fragments)
        rows = (data_paths(file.path)[0] for fragment in fragments for file in fragment.data_files())
        return {*rows, *(path for path in deletions if path is not None)}

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: str | None = None,  # noqa: A002  the word that Lance and Arrow use
        limit: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        after_fragment: int | None = None,
        in_fragments: Collection[int] | None = None,
        one_by_one: bool = False,
        batch_rows: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows; projection, filter and limit are pushed down. Row versions can be read as columns.

        ``after_fragment`` skips fragments up to that id, so only what was written later is read. ``in_fragments``
        reads only those fragments. ``one_by_one`` reads one fragment after another, in batches of bounded size: slower
        on an object store, but memory does not grow with the number of fragments, nor with the width of their rows.
        ``batch_rows`` are the rows of a batch, at most: larger ones suit whoever pays for each batch.
        """
        if columns is None and self.lag.hidden:
            columns = self.schema.names
        with self.reading():
            chosen = None
            if after_fragment is not None:
                chosen = [each for each in self.dataset.get_fragments() if each.fragment_id > after_fragment]
            elif in_fragments is not None:
                chosen = [each for each in self.dataset.get_fragments() if each.fragment_id in in_fragments]
            scan = build_scan(self.dataset).columns(None if columns is None else list(columns)).limit(limit)
            scan.with_row_id(with_row_id).with_row_address(with_row_address)
            if chosen is not None:
                scan.with_fragments(chosen)
            if filter is not None:
                scan.filter(filter)
            if batch_rows is not None:
                scan.batch_size(batch_rows)
            if one_by_one:
                # Unbounded, Lance reads up to 2 GiB ahead of whoever takes the rows.
                scan.fragment_readahead(1).batch_size_bytes(BYTES_AT_ONCE).io_buffer_size(2 * BYTES_AT_ONCE)
            reader = wait_for(scan.to_scanner().to_reader)
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(reader))

    def read(self, columns: Sequence[str], filter: str) -> pa.Table:  # noqa: A002  as in scan
        """Read the rows that match, all at once: for those that are few."""
        with self.reading():
            return wait_for(build_scan(self.dataset).columns(list(columns)).filter(filter).to_scanner().to_table)

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self.reading():
            # A filter that few rows pass may read for long before the first batch.
            while (batch := wait_for(lambda: next(reader, None))) is not None:
                yield batch

    def count_rows(self, filter: str | None = None) -> int:  # noqa: A002  as in scan
        """Return the number of rows, or of those that match. Without a filter only metadata is read."""
        with self.reading():
            return wait_for(lambda: self.dataset.count_rows(filter=filter))

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether row ids and row versions are valid; without it Lance reports version 1 for every row."""
        return self.dataset.has_stable_row_ids

    def fragment_rows(self) -> dict[int, int]:
        """Return the number of rows each fragment was written with, by fragment id."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.dataset.get_fragments()}

    def head_version(self) -> int:
        """Return the newest version of this branch; asks the storage every time."""
        with translate_errors(self.subject):
            return self.dataset.latest_version

    def has_successor(self) -> bool:
        """Return whether this branch has a newer version. Valid only where versions are never dropped.

        On a local disk Lance lists all versions to find the newest, which takes longer with every commit. Without
        gaps it is enough to look for the next version file.
        """
        folder = branch_uri(self.uri, self.branch)
        if not is_local_uri(self.uri) or not has_version_file(folder, self.version):
            return self.head_version() != self.version
        return has_version_file(folder, self.version + 1)

    def refresh(self) -> Table:
        """Return this branch at its newest version; the same object if nothing was committed since.

        Unlike :meth:`has_successor` this works after cleanup: if the next version was dropped, Lance's hint names a
        later one.
        """
        moved = self.has_successor() or (_hinted_version(self.uri, self.branch) or 0) > self.version
        return self.open_at(None) if moved else self

    def open_at(self, version: int | None) -> Table:
        """Open the same table and branch at another version, or at HEAD."""
        return open_table(self.uri, self.branch, version, self.access)

    def read_commits(self, after: int, to: int) -> list[TableCommit]:
        """Return the commits that made the versions above ``after`` up to ``to``, oldest first."""
        with translate_errors(self.subject):
            return [self._read_commit(version) for version in range(after + 1, to + 1)]

    def _read_commit(self, version: int) -> TableCommit:
        try:
            transaction = self.dataset.read_transaction(version)
        except TypeError:
            # Lance has no Python object for its own compactions that rebuilt an index.
            operation, uuid = print_transaction(self.dataset, version)
            if operation is None or uuid is None:
                raise HistoryGone(f"version {version} does not say what made it") from None
            return TableCommit(version, operation, None, uuid)
        if transaction is None:
            raise HistoryGone(f"{self.subject}: version {version} does not say what made it")
        properties = transaction.transaction_properties or {}
        operation = transaction.operation
        return TableCommit(
            version=version,
            operation=self._operation_name(version, transaction),
            operation_id=properties.get(OPERATION_ID),
            transaction_uuid=transaction.uuid,
            restored=operation.version if isinstance(operation, LanceOperation.Restore) else None,
            replaces_columns=isinstance(operation, LanceOperation.Update) and bool(operation.fields_modified),
        )

    def _operation_name(self, version: int, transaction: Transaction) -> str:
        name = type(transaction.operation).__name__
        if name != "BaseOperation":
            return name
        # Python has no class for some operations, ReserveFragments among them.
        return print_transaction(self.dataset, version)[0] or name

    def list_branches(self) -> dict[str, BranchRef]:
        """Return all branches of the dataset by name. Main has no ref and is not among them."""

        def read_refs() -> dict[str, Branch]:
            with translate_errors(self.subject):
                return self.dataset.branches.list()

        return {
            name: BranchRef(
                name=name,
                parent=ref["parent_branch"],
                parent_version=ref["parent_version"],
                identifier=tuple((version, uuid) for version, uuid in ref["branch_identifier"]),
                created_at=ref["create_at"],
            )
            for name, ref in retry_moved_refs(read_refs).items()
        }

    def list_forks(self) -> dict[str, BranchRef]:
        """Return the branches like :meth:`list_branches`, without refs that a power cut left half-written."""
        try:
            return self.list_branches()
        except StorageError:
            refs, damaged = self._read_refs_one_by_one()
            if not damaged:
                raise
            return refs

    def list_damaged_refs(self) -> list[str]:
        """Return the names of branches whose ref is half-written. An object store writes a ref whole or not at all."""
        return self._read_refs_one_by_one()[1]

    def _read_refs_one_by_one(self) -> tuple[dict[str, BranchRef], list[str]]:
        if not is_local_uri(self.uri):
            return {}, []
        with translate_errors(self.subject):
            return read_local_refs(self.uri)

    def is_leftover_branch(self, name: str) -> bool:
        """Return whether half of a branch is there: a late writer or a power cut leaves a folder, or a broken ref."""
        if name in self.list_forks():
            return not self.has_branch_storage(name)
        return name in self.list_damaged_refs() or self.has_branch_storage(name)

    def has_branch_storage(self, name: str) -> bool:
        """Return whether the folder of a branch holds a version, with or without a ref."""
        try:
            _open(self.uri, name, None, self.access)
        except NotFound:
            return False
        except HistoryGone:
            # The objects are gone, but DynamoDB still lists the versions and Lance will not write them again.
            return True
        except StorageError:
            # A power cut may have torn its only version.
            if not is_local_uri(self.uri):
                raise
            return True
        return True

    def list_indexes(self) -> dict[str, TableIndex]:
        """Return the indexes at this version by name."""
        with self.reading():
            return {
                index.name: TableIndex(
                    name=index.name,
                    kind=index.index_type.upper(),
                    columns=tuple(index.field_names),
                    rows=index.num_rows_indexed,
                )
                for index in self.dataset.describe_indices()
            }

    def storage_calls(self) -> StorageCalls:
        """Return the requests of all tables of this session since the last call. Listings do not count."""
        stats = cast("_IOStats", self.dataset.io_stats_incremental())
        return StorageCalls(
            reads=stats.read_iops,
            read_bytes=stats.read_bytes,
            writes=stats.write_iops,
            written_bytes=stats.written_bytes,
        )


class _IOStats(Protocol):
    """Lance's counters, which have no types."""

    read_iops: int
    read_bytes: int
    write_iops: int
    written_bytes: int


def branch_uri(uri: str, branch: str | None) -> str:
    """Return the URI of a branch. The query part that DynamoDB commits need stays at the end."""
    if branch is None or branch == "main":
        return uri
    path, question, query = uri.partition("?")
    return f"{path}/tree/{branch}{question}{query}"


def retry_moved_refs(look: Callable[[], Result]) -> Result:
    """Run a call that makes Lance read all refs; repeat it if another process deletes one meanwhile."""
    for _ in range(_MAX_LISTINGS):
        with suppress(RefsMoved):
            return look()
    raise ConflictError("branches are deleted faster than they can be listed", hint="retry")


def purge_hint(uri: str, branch: str) -> str:
    """Return the hint how to remove the rest of a deleted branch. Lance never removes its items in DynamoDB."""
    path, question, _ = branch_uri(uri, branch).partition("?")
    if not question:
        return "purge that folder first"
    base_uri = path.split("/", 3)[3]
    return f"choose another name, or delete the items with base_uri '{base_uri}' from the DynamoDB table"


def open_table(uri: str, branch: str | None = None, version: int | None = None, access: Access | None = None) -> Table:
    """Open one table at exactly ``version`` of ``branch`` (None: main), or at its newest version.

    Raises ``NotFound`` for a dataset, branch or version that never existed, ``HistoryGone`` for a version that cleanup
    removed.
    """
    access = access or Access()
    branch = None if branch == "main" else branch
    try:
        return _open(uri, branch, version, access)
    except (NotFound, HistoryGone) as missing:
        raise _explain_missing(uri, branch, version, access) from missing


def _reopen(uri: str, branch: str | None, version: int, access: Access, lag: ColumnLag) -> Table:
    return open_table(uri, branch, version, access).with_lag(lag)


def open_newest(
    uri: str, branch: str | None, access: Access, is_torn: Callable[[int], bool] = lambda _version: False
) -> Table:
    """Open the newest version of a table whose versions have no gaps, without listing them on a local disk.

    Lance's hint there may be outdated, so the versions that follow it are tried one by one. Versions that are known to
    be torn are left out.
    """
    if not is_local_uri(uri):
        return open_table(uri, branch, None, access)
    folder = branch_uri(uri, branch)
    version = _hinted_version(uri, branch) or max(list_version_numbers(folder), default=0)
    while has_version_file(folder, version + 1):
        version += 1
    while version > 0 and is_torn(version):
        version -= 1
    if version == 0 and list_version_numbers(folder):
        raise NotFound(f"no version of {_subject(uri, branch)} is whole")
    return open_table(uri, branch, version or None, access)


def _hinted_version(uri: str, branch: str | None) -> int | None:
    return read_version_hint(branch_uri(uri, branch)) if is_local_uri(uri) else None


def is_local_uri(uri: str) -> bool:
    """Return whether a dataset lies in a local folder."""
    return "://" not in uri


def _open(uri: str, branch: str | None, version: int | None, access: Access) -> Table:
    with translate_errors(_subject(uri, branch)):
        dataset = lance.dataset(
            branch_uri(uri, branch),
            version=version,
            storage_options=dict(access.storage_options) or None,
            session=access.session,
        )
        _refuse_moved(dataset, uri, branch)
    return Table(uri=uri, branch=branch, version=dataset.version, access=access, handle=dataset)


def _refuse_moved(dataset: LanceDataset, uri: str, branch: str | None) -> None:
    """Refuse a branch with files outside of this dataset: they belong to another graph and may change."""
    for base in dataset.base_paths().values() if branch is not None else ():
        if not is_inside(base.path, uri):
            raise GraphMoved(
                f"{_subject(uri, branch)} has files in {base.path}: the graph was moved or copied from there",
                hint="run `omnigraph repair --yes`, which makes it stand alone",
                details={"location": uri, "noted": base.path},
            )


def _explain_missing(uri: str, branch: str | None, version: int | None, access: Access) -> Exception:
    """Return the error that says what is missing. Lance does not tell a dataset, a branch and a version apart."""
    try:
        root = _open(uri, None, None, access)
    except NotFound:
        return NotFound(f"there is no table at {uri}", hint=_LOST_HINT)
    if branch is not None and branch not in root.list_forks():
        return NotFound(f"{uri} has no branch '{branch}'", hint=_LOST_HINT)
    head = _open(uri, branch, None, access).version
    if version is None or version > head:
        return NotFound(f"{_subject(uri, branch)} has no version {version}: the newest is {head}", hint=_LOST_HINT)
    return HistoryGone(
        f"{_subject(uri, branch)}: version {version} was removed by cleanup; the newest is {head}",
        hint="choose a newer version",
    )


def _subject(uri: str, branch: str | None) -> str:
    return uri if branch is None else f"{uri} on branch '{branch}'"
