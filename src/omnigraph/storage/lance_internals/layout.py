"""Where Lance keeps what inside of a dataset: the names of its files, as far as they are needed here.

A dataset, and each of its branches below ``tree/<branch>``, has ``_versions/``, ``_transactions/``, ``data/``,
``_deletions/`` and ``_indices/``. Refs of branches lie in the dataset alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, cast

import orjson
from lance.fragment import DataFile

VERSIONS_FOLDER: Final = "_versions"
TABLE_FOLDERS: Final = (VERSIONS_FOLDER, "_transactions", "data")
"""What every table has that was ever written to."""

END_FILES_FOLDER: Final = "_ends"
"""Ours, beside those of Lance: what is derived from files of rows, and named after them."""
_SWEPT_FOLDERS: Final = ("data/", "_deletions/", "_transactions/", "_indices/", f"{END_FILES_FOLDER}/")
_VERSION: Final = re.compile(r"(\d{20})\.manifest")
_DETACHED: Final = re.compile(r"_versions/d[^/]*\.manifest")
_BRANCH_VERSION: Final = re.compile(r"(?P<dataset>.+?)/tree/.+/_versions/[^/]+\.manifest")


# --------------------------------------------------------------------------------------------- versions


def version_path(version: int) -> str:
    """The file of a version. Lance counts down in its name, so that the newest comes first in a listing."""
    return f"{VERSIONS_FOLDER}/{2**64 - 1 - version:020}.manifest"


def has_version_file(folder: str, version: int) -> bool:
    """Whether a local folder of a branch holds a version."""
    # Every query looks: a Path would cost more than the file system.
    return os.path.exists(f"{folder}/{version_path(version)}")  # noqa: PTH110


def read_version_hint(folder: str) -> int | None:
    """Return the newest version that Lance's hint names in a local folder, if it is there; newer ones may exist."""
    try:
        version = cast(
            "int", orjson.loads(Path(folder, VERSIONS_FOLDER, "latest_version_hint.json").read_bytes())["version"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        # It is only a hint: without one Lance looks for itself.
        return None
    return version if has_version_file(folder, version) else None


def identify_version_file(folder: str, version: int) -> str | None:
    """Return what tells the file of a version in a local folder from any other of the same name; None without one."""
    # Every query looks: a Path would cost more than the file system.
    try:
        found = os.stat(f"{folder}/{version_path(version)}")  # noqa: PTH116
    except FileNotFoundError:
        return None
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def list_version_numbers(folder: str) -> list[int]:
    """Return the versions whose files are in a local folder of a branch, newest first."""
    try:
        names = os.listdir(Path(folder, VERSIONS_FOLDER))  # noqa: PTH208  names are enough, and there may be many
    except FileNotFoundError:
        return []
    found = (_VERSION.fullmatch(name) for name in names)
    return sorted((2**64 - 1 - int(each[1]) for each in found if each is not None), reverse=True)


def is_detached_version(path: str) -> bool:
    """Whether a path inside of a dataset is that of a version of no branch, which Lance never removes."""
    return _DETACHED.fullmatch(path) is not None


def dataset_of_branch_version(path: str) -> str | None:
    """The dataset that the path of a version of a branch belongs to; None for any other path."""
    found = _BRANCH_VERSION.fullmatch(path)
    return None if found is None else found["dataset"]


# --------------------------------------------------------------------------------------------- files of rows


def data_paths(file: str) -> tuple[str, str]:
    """The file of rows of a fragment, and the folder of its large blobs."""
    path = f"data/{file}"
    return path, path.removesuffix(".lance")


def identify_data_file(file: DataFile) -> str:
    """Return the name of a file of rows, and the numbers of the columns that it serves.

    Lance's own property for the name creates a class on every call, which takes most of the time that it takes to
    list the fragments of a table.
    """
    return f"{cast('str', vars(file)['_path'])} {file.fields}"


class NeededFiles:
    """The files that the versions of a dataset need, and what comes with them."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = paths
        self._stems = {path.removesuffix(".lance") for path in paths if path.startswith("data/")}
        self._indexes = {_first_two(path) for path in paths if path.startswith("_indices/")}

    def is_orphan(self, path: str) -> bool:
        """Whether a path inside of a branch is that of a file which versions come to need, and none does."""
        if not path.startswith(_SWEPT_FOLDERS) or path in self._paths:
            return False
        if path.startswith(f"{END_FILES_FOLDER}/"):
            return f"data/{path.split('/', 1)[1].partition('.')[0]}" not in self._stems
        # Large blobs lie in a folder that is named like the file of their rows; of an index every file is needed.
        folder = _first_two(path)
        return folder not in self._indexes and folder.removesuffix(".lance") not in self._stems


def _first_two(path: str) -> str:
    return "/".join(path.split("/", 2)[:2])
