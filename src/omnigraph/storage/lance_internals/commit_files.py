"""The files that one Lance commit wrote, and whether a power cut left them whole.

A version and what its transaction names: data, deletions and indexes. Lance also writes each transaction to a file of
its own, which nothing here needs: the version holds a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from lance.dataset import LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals.base_folders import read_base_folders
from omnigraph.storage.lance_internals.layout import data_paths, version_path

_MAGIC: Final = b"LANC"


@dataclass(frozen=True, slots=True)
class CommitFile:
    """One file that a commit wrote, or the folder of large blobs; relative to the folder of the branch."""

    path: str
    size: int | None = None


def list_commit_files(operation: LanceOperation.BaseOperation) -> list[CommitFile]:
    """Return the files that an operation names as new."""
    match operation:
        case LanceOperation.Append() | LanceOperation.Overwrite() | LanceOperation.Merge():
            return list(_list_fragment_files(operation.fragments))
        case LanceOperation.Update():
            kept = _list_deletion_files(operation.updated_fragments)
            return [*_list_fragment_files(operation.new_fragments), *_list_column_files(operation), *kept]
        case LanceOperation.Delete():
            return list(_list_deletion_files(operation.updated_fragments))
        case LanceOperation.Rewrite():
            return [file for group in operation.groups for file in _list_fragment_files(group.new_fragments)]
        case LanceOperation.CreateIndex():
            return [
                CommitFile(f"_indices/{index.uuid}/{file.path}", file.size_bytes)
                for index in operation.new_indices
                for file in index.files or ()
            ]
        case _:
            return []


def _list_fragment_files(fragments: Iterable[FragmentMetadata]) -> Iterator[CommitFile]:
    """Give the files of fragments: rows, the folders of their large blobs, and deletions."""
    written = list(fragments)
    for fragment in written:
        # With a base it is a file of another dataset, which this one only shows.
        for file in (each for each in fragment.files if each.base_id is None):
            rows, blobs = data_paths(file.path)
            yield CommitFile(rows, file.file_size_bytes)
            yield CommitFile(blobs)
    yield from _list_deletion_files(written)


def _list_column_files(operation: LanceOperation.Update) -> Iterator[CommitFile]:
    """Give the files with new values of columns: those that hold a modified field."""
    modified = frozenset(operation.fields_modified)
    for fragment in operation.updated_fragments if modified else ():
        yield from (
            CommitFile(data_paths(file.path)[0], file.file_size_bytes)
            for file in fragment.files
            if not modified.isdisjoint(file.fields)
        )


def _list_deletion_files(fragments: Iterable[FragmentMetadata]) -> Iterator[CommitFile]:
    for fragment in fragments:
        deletions = fragment.deletion_file
        # With a base it is the unchanged file of a branch that this one was forked from.
        if deletions is not None and deletions.base_id is None:
            yield CommitFile(deletions.path(fragment.id))


def is_file_whole(folder: str, file: CommitFile) -> bool:
    """Whether a power cut left a file whole, by its size and its end. Lance has no checksums."""
    path = Path(folder, file.path)
    if path.suffix == ".lance":
        return path.exists() and file.size in (None, path.stat().st_size) and _has_end(path)
    if path.suffix in (".arrow", ".bin"):
        return path.exists() and _is_deletion_file_whole(path)
    # The folder of large blobs, if there are any.
    return not path.exists() or all(each.stat().st_size for each in path.rglob("*") if each.is_file())


def is_version_whole(folder: str, version: int) -> bool:
    """Whether a power cut left the file of a version whole."""
    try:
        read_base_folders(Path(folder, version_path(version)).read_bytes())
    except (FileNotFoundError, StorageError, ValueError, IndexError):
        return False
    return True


def _has_end(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_MAGIC)))
        return file.read() == _MAGIC


def _is_deletion_file_whole(path: Path) -> bool:
    data = path.read_bytes()
    return data.endswith(b"ARROW1") if path.suffix == ".arrow" else bool(data.strip(b"\0"))
