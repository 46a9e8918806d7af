"""Small named objects in a local folder or an object store: get, list, put, put if absent, delete.

A missing object is a value (``None``), not an error. :func:`translate_store_errors` turns every failure into one of
our errors.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import LocalStore, S3Store

from omnigraph.errors import ForkedProcess, OmniGraphError, ParameterError, ReadOnly, StorageError, Unsupported
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.durability import Durability, replace_file, sync_names, write_new_file
from omnigraph.storage.failpoints import mark_write
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import RetryConfig, S3Config

Action: TypeAlias = Literal["read", "list", "write", "delete", "lock"]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing; ``path`` is relative to the root of the graph."""

    path: str
    size: int
    etag: str
    modified: datetime


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """The content of one object, and the etag of this content."""

    data: bytes
    etag: str


class Objects:
    """The objects below the root of a graph. Writes are atomic: readers see the old content or the new."""

    def __init__(self, location: Location, durability: Durability = "process") -> None:
        self.location = location
        self._is_synced = location.is_local and durability == "power"
        # obstore gets local paths from "/" on: it cannot open a store in a folder that does not exist yet.
        self._root = location.base.strip("/") + "/" if location.is_local else ""

    def get(self, path: str) -> bytes | None:
        """Return the content, or None if there is no such object."""
        if self.location.is_local:
            # A name that obstore writes in another way, or takes for none, is left to it.
            with translate_store_errors("read", path, self.location), suppress(FileNotFoundError, IsADirectoryError):
                return Path(self.location.base, path).read_bytes()
        stored = self.read(path)
        return None if stored is None else stored.data

    def get_range(self, path: str, begin: int, end: int) -> bytes | None:
        """Return the bytes of a range that the object has, or None if there is no such object."""
        with translate_store_errors("read", path, self.location):
            try:
                return obstore.get_range(self._store, self._root + path, start=begin, end=end).to_bytes()
            except FileNotFoundError:
                return None

    def read(self, path: str) -> ObjectContent | None:
        """Return the content with its etag, or None if there is no such object."""
        with translate_store_errors("read", path, self.location):
            try:
                found = obstore.get(self._store, self._root + path)
                return ObjectContent(found.bytes().to_bytes(), found.meta["e_tag"] or "")
            except FileNotFoundError:
                return None

    def head(self, path: str) -> ObjectInfo | None:
        """Return size, etag and time, or None if there is no such object."""
        with translate_store_errors("read", path, self.location):
            try:
                return self._info(obstore.head(self._store, self._root + path))
            except FileNotFoundError:
                return None

    def list(self, prefix: str = "") -> list[ObjectInfo]:
        """Return all objects below the folder ``prefix``, sorted by path. Unfinished puts are left out."""
        with translate_store_errors("list", prefix, self.location):
            found = obstore.list(self._store, (self._root + prefix).rstrip("/")).collect()
        return sorted((self._info(meta) for meta in found), key=lambda info: info.path)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, in place of an existing one."""
        with translate_store_errors("write", path, self.location), mark_write("objects.put", path):
            if self._is_synced:
                replace_file(self.location.base, path, data)
            else:
                obstore.put(self._store, self._root + path, data, use_multipart=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write the object if there is none; return whether this call wrote it.

        On an object store an answer can be lost and the request repeated, which then finds its own write and returns
        False. A caller that must know puts something unique into ``data`` and reads it back.
        """
        with translate_store_errors("write", path, self.location):
            try:
                with mark_write("objects.put_if_absent", path):
                    if self._is_synced:
                        return write_new_file(self.location.base, path, data)
                    obstore.put(self._store, self._root + path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def replace_if_match(self, path: str, data: bytes, etag: str) -> str | None:
        """Replace the content that has this etag; return the new etag, or None if the content is another by now."""
        if self.location.is_local:
            raise Unsupported("local files have no conditional replace", hint="use put_if_absent with a new name")
        with translate_store_errors("write", path, self.location):
            try:
                with mark_write("objects.replace_if_match", path):
                    result = obstore.put(self._store, path, data, mode={"e_tag": etag}, use_multipart=False)
            except PreconditionError:
                return None
            return result["e_tag"] or ""

    def delete(self, path: str) -> None:
        """Delete the object, if it exists."""
        self.discard(path)
        if self._is_synced:
            sync_names(self.location.base, path)

    def discard(self, path: str) -> None:
        """Delete the object, if it exists. After a power cut it may be there again."""
        with translate_store_errors("delete", path, self.location):
            try:
                with mark_write("objects.delete", path):
                    obstore.delete(self._store, self._root + path)
            except FileNotFoundError:
                return

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete several objects; missing ones are ignored."""
        if not paths:
            return
        with translate_store_errors("delete", paths[0], self.location), mark_write("objects.delete_all", paths[0]):
            if self.location.is_local:
                # obstore deletes none of several files if the first one is missing.
                for path in paths:
                    Path(self.location.join(path)).unlink(missing_ok=True)
            else:
                obstore.delete(self._store, list(paths))

    def sync_deletions(self, paths: Iterable[str]) -> None:
        """Make it survive a power cut that these objects were deleted, if writes are to survive it."""
        if self._is_synced:
            for _, path in sorted({path.rpartition("/")[0]: path for path in paths}.items()):
                sync_names(self.location.base, path)

    def delete_prefix(self, prefix: str) -> None:
        """Delete everything below the folder ``prefix``, unfinished puts too, if it exists."""
        if not prefix.strip("/"):
            raise ValueError("refusing to delete the whole graph")
        paths = [] if self.location.is_local else [info.path for info in self.list(prefix)]
        with translate_store_errors("delete", prefix, self.location):
            try:
                with mark_write("objects.delete_prefix", prefix):
                    if self.location.is_local:
                        shutil.rmtree(self.location.join(prefix))
                    elif paths:
                        obstore.delete(self._store, paths)
            except FileNotFoundError:
                return

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        path = meta["path"].removeprefix(self._root)
        return ObjectInfo(path, meta["size"], meta["e_tag"] or "", meta["last_modified"])

    @property
    def _store(self) -> LocalStore | S3Store:
        _refuse_forked()
        return self._opened_store

    @cached_property
    def _opened_store(self) -> LocalStore | S3Store:
        return LocalStore() if self.location.is_local else _s3_store(self.location)


_first_process: int | None = None
"""The first process that used obstore. Its threads do not exist in a process forked from it."""


def _refuse_forked() -> None:
    global _first_process
    process = os.getpid()
    if _first_process is None:
        _first_process = process
    elif _first_process != process:
        raise make_forked_error(_first_process, "omnigraph")


def make_forked_error(parent: int, subject: str) -> ForkedProcess:
    """Return the error for a process that was forked from one that used something."""
    return ForkedProcess(
        f"{subject} was used in process {parent}, and this process was forked from it, without its threads",
        hint='start processes by multiprocessing.get_context("spawn") or "forkserver", and open the graph in them',
        details={"parent": parent},
    )


# Options that Lance understands and obstore rejects.
_OF_LANCE_ONLY = {"dynamodb_endpoint", "download_retry_count", "expires_at_millis"}
_RETRIES, _RETRY_SECONDS = "client_max_retries", "client_retry_timeout"


def _s3_store(location: Location) -> S3Store:
    options = {key.lower(): value for key, value in location.options().items() if key.lower() not in _OF_LANCE_ONLY}
    retry: RetryConfig = {}
    try:
        if _RETRIES in options:
            retry["max_retries"] = int(options.pop(_RETRIES))
        if _RETRY_SECONDS in options:
            retry["retry_timeout"] = timedelta(seconds=float(options.pop(_RETRY_SECONDS)))
        config = cast("S3Config", options)
        return S3Store(location.bucket, prefix=location.prefix or None, config=config, retry_config=retry)
    except (BaseError, ValueError) as error:
        message = f"a storage option of {location} is wrong: {_first_line(error)}"
        raise ParameterError(message, hint="the options are those of Lance for S3, such as aws_region") from error


@contextmanager
def translate_store_errors(action: Action, path: str, location: Location) -> Generator[None]:
    """Turn failures of obstore and of the operating system into our errors."""
    try:
        yield
    except (BaseError, OSError) as error:
        raise _translate(error, action, path, location) from error


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}
_CHANGES: frozenset[Action] = frozenset({"write", "delete", "lock"})


def _translate(error: BaseError | OSError, action: Action, path: str, location: Location) -> OmniGraphError:
    number = _os_error(error)
    subject = f"cannot {action} '{path}' in {location}"
    details = {"path": path, "location": location.uri}
    if number in _FULL:
        return StorageError(f"{subject}: no space left", hint="free some space, then repeat", details=details)
    if action in _CHANGES and (number in _FORBIDDEN or isinstance(error, PermissionDeniedError)):
        reason = "the file system is read-only" if number == errno.EROFS else "permission denied"
        return ReadOnly(
            f"{subject}: {reason}", hint="open it read-only, or ask for the right to write", details=details
        )
    if action == "lock" and number in _NO_LOCKS:
        return StorageError(f"{subject}: no file locks here", hint='choose lock="lease"', details=details)
    return StorageError(f"{subject}: {_first_line(error)}", details=details)


def _os_error(error: BaseError | OSError) -> int | None:
    """Return the errno. obstore has it in the text only."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def _first_line(error: Exception) -> str:
    # The other lines are a dump of Rust structures.
    return str(error).partition("\n")[0]
