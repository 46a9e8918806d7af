"""Versions that a power cut tore: the newest of a dataset on a local disk, whose files are missing or incomplete.

Nobody was told of such a version, so it was never committed. Readers step over it to the newest one that is whole. The
next writer moves it away, because its number is needed again. A running system never makes one: Lance shows a version
only when its file is complete, and the operating system forgets nothing of it while it runs.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from omnigraph.errors import NotFound, OmniGraphError
from omnigraph.storage.durability import sync_names
from omnigraph.storage.lance_internals import (
    identify_version_file,
    is_file_whole,
    is_version_whole,
    list_commit_files,
    list_version_numbers,
    translate_errors,
    version_path,
)
from omnigraph.storage.tables.access import Access
from omnigraph.storage.tables.table import Table, branch_uri, is_local_uri, open_table

DISCARDED_SUFFIX: Final = ".torn"


def open_newest_whole(uri: str, branch: str | None, access: Access, above: int = 0) -> Table:
    """Open the newest version of a table whose own files are whole. Versions up to ``above`` count as whole."""
    torn, rest = list_torn_and_rest(uri, branch, access, above)
    if torn and not rest:
        raise NotFound(f"no version of {uri} is whole")
    return open_table(uri, branch, rest[0] if torn else None, access)


def list_torn_and_rest(uri: str, branch: str | None, access: Access, above: int = 0) -> tuple[list[int], list[int]]:
    """Return the torn versions above one that is surely whole, and the others; both newest first."""
    if not is_local_uri(uri):
        return [], []
    versions = list_version_numbers(branch_uri(uri, branch))
    torn = 0
    while torn < len(versions) and versions[torn] > above and is_torn(uri, branch, versions[torn], access):
        torn += 1
    return versions[:torn], versions[torn:]


def is_torn(uri: str, branch: str | None, version: int, access: Access) -> bool:
    """Return whether a version cannot be read because of a file that its own commit wrote."""
    folder = branch_uri(uri, branch)
    try:
        if not is_version_whole(folder, version):
            return True
        table = open_table(uri, branch, version, access)
        with translate_errors(table.subject):
            transaction = table.dataset.read_transaction(version)
        written = [] if transaction is None else list_commit_files(transaction.operation)
        return not all(is_file_whole(folder, file) for file in written)
    except (OmniGraphError, OSError, TypeError):
        # The version itself is complete: whatever is wrong with it, a power cut did not do it. Lance has no Python
        # object for some of its own transactions.
        return False


def identify_version(uri: str, branch: str | None, version: int) -> str:
    """Return the number of a version and what tells its file from any other of that number."""
    return f"{version}:{identify_version_file(branch_uri(uri, branch), version)}"


def discard_version(uri: str, branch: str | None, version: int) -> None:
    """Move the file of a version away, so that its number is free. Nobody else's new version is touched."""
    file = Path(branch_uri(uri, branch), version_path(version))
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # Two processes may find it torn. The later one must not move what the earlier one has written since.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
            file.replace(file.with_name(file.name + DISCARDED_SUFFIX))
            sync_names(uri, str(file))
    finally:
        os.close(descriptor)


def discard_torn_versions(uri: str, branch: str | None, access: Access, above: int = 0) -> list[int]:
    """Discard the torn versions of a table, newest first; return them."""
    torn, _ = list_torn_and_rest(uri, branch, access, above)
    for version in torn:
        discard_version(uri, branch, version)
    return torn
