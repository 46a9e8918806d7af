"""Write one Lance table: stage a change on a pinned version, then commit it on exactly that version.

Staging writes bytes that nobody sees. :func:`commit` shows them as one new version, or is refused and shows nothing.
A few writes have no staged form or need none; they are at the end, each marked as inline. Every function takes a
pinned :class:`Table`, leaves it unchanged, and returns a new one. Only this module and
:mod:`omnigraph.storage.tables.upkeep` call Lance writes; a test checks that.

Staged changes are not a fence. Lance rebases most of them over newer commits, so :func:`commit` compares the version
that it got with the one that was meant. Callers hold the branch lock.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

import lance
import pyarrow as pa
from lance import fragment as lance_fragment
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.fragment import DataFile, FragmentMetadata, LanceFragment

from omnigraph.errors import AlreadyExists, HistoryGone, InputError, PublishContention, StorageError
from omnigraph.storage.durability import sync_names
from omnigraph.storage.failpoints import mark_write
from omnigraph.storage.lance_internals import (
    TABLE_FOLDERS,
    HeadMoved,
    branch_ref_path,
    list_commit_files,
    reshape_schema,
    translate_errors,
    version_path,
)
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables.access import Access
from omnigraph.storage.tables.staging import (
    Addresses,
    FragmentText,
    StagedChange,
    decode_fragments,
    encode_fragment,
    group_by_fragment,
)
from omnigraph.storage.tables.table import (
    OPERATION_ID,
    Table,
    branch_uri,
    open_table,
    purge_hint,
    retry_moved_refs,
)

Rows: TypeAlias = pa.Table | pa.RecordBatchReader
WriteMode: TypeAlias = Literal["append", "overwrite"]

STORAGE_VERSION = "2.2"
_BY_ADDRESS = "by row address"


# --------------------------------------------------------------------------------------------- create


def create_table(uri: str, rows: Rows, operation_id: str, access: Access | None = None) -> Table:
    """Create a dataset at version 1 with stable row ids, with or without rows. Raises ``AlreadyExists``."""
    access = access or Access()
    with write_durably("table.create", uri):
        dataset = lance.write_dataset(
            rows,
            uri,
            mode="create",
            data_storage_version=STORAGE_VERSION,
            enable_stable_row_ids=True,
            auto_cleanup_options=None,
            allow_external_blob_outside_bases=True,
            storage_options=dict(access.storage_options) or None,
            session=access.session,
            transaction_properties={OPERATION_ID: operation_id},
        )
    return _note_created(Table(uri=uri, branch=None, version=dataset.version, access=access, handle=dataset))


def create_empty_table(uri: str, schema: pa.Schema, operation_id: str, access: Access | None = None) -> Table:
    """Create a dataset without rows. Of several concurrent calls one succeeds, the others raise ``AlreadyExists``.

    :func:`create_table` is not atomic: it looks first and then writes, so the later of two replaces the earlier.
    """
    access = access or Access()
    transaction = Transaction(
        0, LanceOperation.Overwrite(schema, []), transaction_properties={OPERATION_ID: operation_id}
    )
    try:
        with write_durably("table.create", uri):
            dataset = LanceDataset.commit(
                uri,
                transaction,
                storage_options=dict(access.storage_options) or None,
                max_retries=0,
                enable_stable_row_ids=True,
            )
    except HistoryGone as late:
        # Version 1 exists already, so Lance looks for the version 0 that this commit is based on.
        raise AlreadyExists(f"{uri} was created by another process meanwhile") from late
    return _note_created(Table(uri=uri, branch=None, version=dataset.version, access=access, handle=dataset))


# --------------------------------------------------------------------------------------------- stage rows


def append(table: Table, rows: Rows) -> StagedChange | None:
    """Stage new rows; the stream is written as it is read. None if it has no rows."""
    return _stage_append(table, _write_fragments(table, rows, "append"))


def overwrite(table: Table, rows: Rows) -> StagedChange:
    """Stage the replacement of all rows and of the schema. Without rows the table becomes empty."""
    return _stage_overwrite(table, rows.schema, _write_fragments(table, rows, "overwrite"))


def delete_at(table: Table, addresses: Addresses) -> StagedChange:
    """Stage the deletion of the rows at these addresses."""
    emptied, shrunk = _remove_addresses(table, addresses)
    return stage_operation(table, LanceOperation.Delete(shrunk, emptied, _BY_ADDRESS))


def replace_rows(table: Table, addresses: Addresses, rows: Rows) -> StagedChange:
    """Stage the deletion of the rows at these addresses and the insertion of others as one change.

    The rows may differ in number, and blobs may be external.
    """
    return _stage_replacement(table, addresses, _write_fragments(table, rows, "append"))


def restore(table: Table, version: int) -> StagedChange:
    """Stage a return to the rows of an older version of the branch. ``table`` must be at HEAD.

    Restore also undoes whatever was committed after HEAD was read, so only the holder of the branch lock may use it.
    """
    return stage_operation(table, LanceOperation.Restore(version))


def reshape(table: Table, columns: pa.Schema, old_names: Mapping[str, str | None]) -> StagedChange:
    """Stage other columns over the same files, without writing rows. ``can_reshape`` says where that is possible."""
    return stage_operation(table, LanceOperation.Project(reshape_schema(table.dataset, columns, old_names)))


# --------------------------------------------------------------------------------------------- stage fragments


def write_rows(table: Table, rows: Rows, mode: WriteMode = "append") -> tuple[FragmentText, ...]:
    """Write rows as fragments that no version shows yet. Any process may; it sends the texts to the committer."""
    return tuple(encode_fragment(fragment) for fragment in _write_fragments(table, rows, mode))


def remove_rows(table: Table, fragment_id: int, offsets: Sequence[int]) -> FragmentText | None:
    """Mark rows of one fragment as deleted, by their offsets in it. None if the fragment became empty."""
    left = _remove_offsets(table, fragment_id, offsets)
    return None if left is None else encode_fragment(left)


def write_column_file(table: Table, rows: pa.RecordBatchReader, row_count: int) -> DataFile:
    """Write columns of all rows of one fragment, deleted ones included, as a file that no version shows yet."""
    with write_durably("table.stage", table.subject):
        (written,) = lance_fragment.write_fragments(
            rows,
            table.dataset,
            mode="overwrite",
            max_rows_per_file=row_count,
            # All files of a table have one version.
            data_storage_version=table.dataset.data_storage_version,
            enable_stable_row_ids=True,
        )
    (file,) = written.files
    return file


def append_fragments(table: Table, fragments: Iterable[FragmentText]) -> StagedChange | None:
    """Stage fragments that :func:`write_rows` wrote. None if there are none."""
    return _stage_append(table, decode_fragments(fragments))


def overwrite_fragments(table: Table, schema: pa.Schema, fragments: Iterable[FragmentText]) -> StagedChange:
    """Stage fragments that :func:`write_rows` wrote in mode "overwrite" as the whole new content."""
    return _stage_overwrite(table, schema, decode_fragments(fragments))


def replace_by_fragments(table: Table, addresses: Addresses, new: Iterable[FragmentText]) -> StagedChange:
    """Stage the deletion of the rows at these addresses and the insertion of fragments as one change."""
    return _stage_replacement(table, addresses, decode_fragments(new))


def update_fragments(
    table: Table, removed: Sequence[int], updated: Iterable[FragmentText], new: Iterable[FragmentText]
) -> StagedChange:
    """Stage a distributed upsert: the fragments that became empty, those that lost rows, and those with new rows.

    Without new rows it is a delete. The deletions in ``updated`` are valid for this version only: committed on a newer
    one they would bring deleted rows back.
    """
    changed, added = decode_fragments(updated), decode_fragments(new)
    if not added:
        return stage_operation(table, LanceOperation.Delete(changed, list(removed), _BY_ADDRESS))
    return stage_operation(table, LanceOperation.Update(list(removed), changed, added, fields_modified=[]))


# --------------------------------------------------------------------------------------------- commit


def commit(table: Table, staged: StagedChange, operation_id: str) -> Table:
    """Commit a staged change as the version after its pin, with the operation id in the Lance transaction.

    Raises ``CommitRefused`` if Lance rejected it, ``HeadMoved`` if it landed on top of a foreign commit.
    """
    if (table.branch, table.version) != (staged.branch, staged.version):
        raise ValueError(f"{table.subject}: staged on version {staged.version}, committed on {table.version}")
    with write_durably("table.commit", table.subject):
        transaction = replace(staged.transaction, transaction_properties={OPERATION_ID: operation_id})
        dataset = LanceDataset.commit(table.dataset, transaction, max_retries=0)
    # Lance rebases appends over newer commits: any other version contains unpublished rows of another writer.
    if dataset.version != staged.committed_version:
        raise HeadMoved(table.subject, staged.committed_version, dataset.version)
    return note_commit(_at_version_of(table, dataset), transaction)


def find_missing_files(table: Table, staged: StagedChange, objects: Objects, location: str) -> list[str]:
    """Return the files of a staged change that are not there, or have another size. The table lies at ``location``."""
    folder = location if table.branch is None else f"{location}/tree/{table.branch}"
    # Of a folder of large blobs nothing is known but its name.
    files = [file for file in list_commit_files(staged.transaction.operation) if "." in file.path.rpartition("/")[2]]
    return [file.path for file in files if not _has_object(objects, f"{folder}/{file.path}", file.size)]


def _has_object(objects: Objects, path: str, size: int | None) -> bool:
    if objects.location.is_local:
        try:
            found = Path(objects.location.base, path).stat().st_size
        except FileNotFoundError:
            return False
    else:
        info = objects.head(path)
        if info is None:
            return False
        found = info.size
    return size in (None, found)


def audit_version(table: Table, staged: StagedChange) -> Table:
    """Commit a detached version that shows the staged rows before they are visible. HEAD does not move.

    Row ids and row versions are meaningless in it. Cleanup removes its manifest by age. Impossible with DynamoDB
    commits: there Lance lists it as the newest version, and all later commits would fail.
    """
    if table.uri.startswith("s3+ddb://"):
        raise ValueError("a detached version would become HEAD in DynamoDB")
    # A uuid of its own: recovery must not mistake the audit for the commit.
    transaction = Transaction(staged.version, staged.transaction.operation)
    with write_durably("table.audit", table.subject):
        return _at_version_of(table, LanceDataset.commit(table.dataset, transaction, detached=True))


# --------------------------------------------------------------------------------------------- inline: rows, metadata


def merge_rows(table: Table, rows: pa.Table, on: str = "object_id") -> Table:
    """Inline. Update the rows whose key exists and insert the others, in one commit without retries.

    This is the compare-and-swap of the manifest: of two calls on the same version that share a key, the later one
    raises ``PublishContention``. For new keys this needs the primary-key annotation and no index use.
    """

    def merge(dataset: LanceDataset) -> None:
        builder = dataset.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(use_index=False).execute(rows)

    return _write_inline(table, "table.merge", merge)


def replace_row(table: Table, address: int, rows: pa.Table) -> Table:
    """Inline. Replace the row at an address by rows whose keys are new, or are its key, in one commit without retries.

    The same compare-and-swap as :func:`merge_rows` for writers that replace the same row, without a look at the other
    rows: Lance refuses a change of a fragment that was changed since. The rows become one fragment, in their order.
    """
    with write_durably("table.merge", table.subject):
        new = _write_files(table, rows, "append")
        fragment_id, offset = address >> 32, address & 0xFFFFFFFF
        left = find_fragment(table, fragment_id).delete_rows([offset])
        emptied, shrunk = ([fragment_id], []) if left is None else ([], [left])
        transaction = Transaction(table.version, LanceOperation.Update(emptied, shrunk, new, fields_modified=[]))
        try:
            dataset = LanceDataset.commit(table.dataset, transaction, max_retries=0)
        except CommitConflictError as lost:
            raise PublishContention(f"{table.subject}: another writer replaced the row first: {lost}") from lost
    return note_commit(_at_version_of(table, dataset), transaction)


def insert_absent_rows(table: Table, rows: pa.Table, on: str) -> Table:
    """Inline. Insert the rows whose key does not exist and leave the others unchanged, in one commit without retries.

    A call that loses to another commit raises ``PublishContention``.
    """

    def insert(dataset: LanceDataset) -> None:
        builder = dataset.merge_insert(on).when_not_matched_insert_all()
        builder.conflict_retries(0).use_index(use_index=False).execute(rows)

    return _write_inline(table, "table.merge", insert)


def set_schema_metadata(table: Table, entries: Mapping[str, str]) -> Table:
    """Inline. Set keys of the schema's metadata, keeping the others."""
    return _write_inline(table, "table.metadata", lambda dataset: dataset.update_schema_metadata(dict(entries)))


def set_config(table: Table, entries: Mapping[str, str | None]) -> Table:
    """Inline. Set keys of the dataset's configuration, keeping the others; None removes a key.

    Commits from Python cannot skip Lance's automatic cleanup, so a table must not have it configured.
    """
    return _write_inline(table, "table.metadata", lambda dataset: dataset.update_config(dict(entries)))


def set_field_metadata(table: Table, column: str, entries: Mapping[str, str]) -> Table:
    """Inline. Set keys of one column's metadata, keeping the others."""
    return _write_inline(
        table, "table.metadata", lambda dataset: dataset.update_field_metadata({column: dict(entries)})
    )


# --------------------------------------------------------------------------------------------- inline: branches


def create_table_branch(table: Table, name: str) -> Table:
    """Inline. Fork this version under a new name, in constant time, and open the fork at the same version."""
    if name in table.list_forks():
        raise AlreadyExists(f"{table.uri} has a branch '{name}' already")
    if table.has_branch_storage(name):
        message = f"{table.uri} has the storage of a deleted branch '{name}'"
        raise AlreadyExists(message, hint=purge_hint(table.uri, name))
    with write_durably("table.branch.create", table.subject):
        open_own_handle(table).create_branch(name, table.version)
    _note(table, branch_uri(table.uri, name), TABLE_FOLDERS)
    _note(table, table.uri, [branch_ref_path(name)])
    return open_table(table.uri, name, table.version, table.access)


def delete_table_branch(table: Table, name: str) -> bool:
    """Inline. Delete the ref and the storage of a branch; False if there is no such ref. Refused if it has children."""
    if name not in table.list_forks():
        return False
    damaged = table.list_damaged_refs()
    if damaged:
        raise StorageError(
            f"{table.uri}: the refs of branches {', '.join(damaged)} are half-written, so '{name}' cannot be deleted",
            hint="run `omnigraph cleanup --yes`, which removes them",
            details={"branches": damaged},
        )

    def delete() -> None:
        with write_durably("table.branch.delete", table.subject):
            if table.access.barrier is not None:
                # Lance deletes the ref and then the storage. After a power cut the ref could be there alone.
                _delete_ref(table, name)
                shutil.rmtree(branch_uri(table.uri, name), ignore_errors=True)
            else:
                open_own_handle(table).branches.delete(name)

    retry_moved_refs(delete)
    return True


def _delete_ref(table: Table, name: str) -> None:
    if any(ref.parent == name for ref in table.list_branches().values()):
        raise InputError(f"{table.subject}: branch '{name}' has branches of its own")
    path = branch_ref_path(name)
    assert path is not None
    Path(table.uri, path).unlink(missing_ok=True)
    sync_names(table.uri, path)


def drop_versions(table: Table, versions: Sequence[int]) -> int:
    """Inline. Remove these versions and the files that only they need; return the freed bytes. Staged files stay.

    A version that a branch was forked from stays, with every file that the branch needs.
    """
    if not versions:
        return 0
    if table.access.barrier is not None:
        # What is newer must be safe before what is older is gone.
        table.access.barrier.wait()
    with write_durably("table.versions.drop", table.subject):
        return open_own_handle(table).cleanup_old_versions(versions=list(versions)).bytes_removed


# --------------------------------------------------------------------------------------------- steps


@contextmanager
def write_durably(name: str, subject: str) -> Generator[None]:
    """Surround one durable Lance write: translate its errors, and let tests make it fail."""
    with translate_errors(subject), mark_write(name, subject):
        yield


def open_own_handle(table: Table) -> LanceDataset:
    """Return a separate handle: inline writes advance the one that they are called on.

    While Lance changes a handle, or builds an index by it, other threads cannot read through it.
    """
    with translate_errors(table.subject):
        return table.dataset.checkout_version(table.version)


def _at_version_of(table: Table, dataset: LanceDataset) -> Table:
    return replace(table, version=dataset.version, handle=dataset)


def _write_inline(table: Table, name: str, write: Callable[[LanceDataset], object]) -> Table:
    dataset = open_own_handle(table)
    with write_durably(name, table.subject):
        write(dataset)
    return _note_changed(table, _at_version_of(table, dataset))


def _note_created(table: Table) -> Table:
    _note(table, table.uri, TABLE_FOLDERS)
    return table


def note_commit(table: Table, transaction: Transaction) -> Table:
    """Note what the commit that made this version wrote, for the barrier; return the table."""
    if table.access.barrier is not None:
        written = [file.path for file in list_commit_files(transaction.operation)]
        _note(table, branch_uri(table.uri, table.branch), [version_path(table.version), *written])
    return table


def note_version(table: Table) -> None:
    """Note what the commit wrote that made this version, for the barrier."""
    if table.access.barrier is None:
        return
    with translate_errors(table.subject):
        transaction = table.dataset.read_transaction(table.version)
    if transaction is not None:
        note_commit(table, transaction)


def _note_changed(before: Table, after: Table) -> Table:
    """Note what an inline write made: its transaction could only be read, so the fragments are compared."""
    if after.access.barrier is not None:
        written = after.list_files() - before.list_files()
        _note(after, branch_uri(after.uri, after.branch), [version_path(after.version), *written])
    return after


def _note(table: Table, folder: str, paths: Iterable[str | None]) -> None:
    if table.access.barrier is not None:
        table.access.barrier.note_files(f"{folder}/{path}" for path in paths if path is not None)


def stage_operation(table: Table, operation: LanceOperation.BaseOperation) -> StagedChange:
    """Return a Lance operation on this version as a staged change."""
    return StagedChange(table.branch, table.version, Transaction(table.version, operation))


def _write_fragments(table: Table, rows: Rows, mode: WriteMode) -> list[FragmentMetadata]:
    with write_durably("table.stage", table.subject):
        written = _write_files(table, rows, mode)
    if mode == "append" and isinstance(rows, pa.Table):
        table.access.written.note(table.dataset, rows, written)
    return written


def _write_files(table: Table, rows: Rows, mode: WriteMode) -> list[FragmentMetadata]:
    return lance_fragment.write_fragments(
        rows,
        table.dataset,
        mode=mode,
        # An append follows its dataset, which an older release may have made.
        data_storage_version=STORAGE_VERSION if mode == "overwrite" else None,
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=True,
    )


def _stage_append(table: Table, new: list[FragmentMetadata]) -> StagedChange | None:
    if not new:
        return None
    return stage_operation(table, LanceOperation.Append(new))


def _stage_overwrite(table: Table, schema: pa.Schema, new: list[FragmentMetadata]) -> StagedChange:
    return stage_operation(table, LanceOperation.Overwrite(schema, new))


def _stage_replacement(table: Table, addresses: Addresses, new: list[FragmentMetadata]) -> StagedChange:
    emptied, shrunk = _remove_addresses(table, addresses)
    return stage_operation(table, LanceOperation.Update(emptied, shrunk, new, fields_modified=[]))


def _remove_offsets(table: Table, fragment_id: int, offsets: Sequence[int]) -> FragmentMetadata | None:
    fragment = find_fragment(table, fragment_id)
    with write_durably("table.stage", table.subject):
        return fragment.delete_rows(offsets)


def find_fragment(table: Table, fragment_id: int) -> LanceFragment:
    """Return a fragment, which must be there."""
    fragment = table.dataset.get_fragment(fragment_id)
    if fragment is None:
        raise ValueError(f"{table.subject} has no fragment {fragment_id} at version {table.version}")
    return fragment


def _remove_addresses(table: Table, addresses: Addresses) -> tuple[list[int], list[FragmentMetadata]]:
    """Mark rows as deleted; return the ids of fragments that became empty, and the others as they are now."""
    left = {
        fragment_id: _remove_offsets(table, fragment_id, offsets)
        for fragment_id, offsets in group_by_fragment(addresses)
    }
    emptied = [fragment_id for fragment_id, fragment in left.items() if fragment is None]
    return emptied, [fragment for fragment in left.values() if fragment is not None]
