"""The refs of branches: one small JSON file for each branch of a dataset, in a folder of the dataset.

Lance makes the folder of a branch first and its ref last. It cannot list the refs of a dataset if one of them does not
parse, which happens after a power cut: the file is there, its content is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, unquote

import orjson

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals.layout import VERSIONS_FOLDER

BRANCH_REFS_FOLDER: Final = "_refs/branches"
_LONGEST_FILE_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class BranchRef:
    """One Lance branch. The identifier differs from that of an earlier branch with the same name."""

    name: str
    parent: str | None
    parent_version: int
    identifier: tuple[tuple[int, str], ...]
    created_at: int
    """In seconds since 1970 UTC."""


def branch_ref_path(branch: str) -> str | None:
    """The file of a branch's ref; None for a name that no file system can keep."""
    name = f"{quote(branch, safe='', errors='surrogatepass')}.json"
    # To ask a file system for a longer name is an error of its own.
    return f"{BRANCH_REFS_FOLDER}/{name}" if len(name) <= _LONGEST_FILE_NAME else None


def branch_of_ref(path: str) -> str:
    """The branch whose ref a file is."""
    return unquote(path.removeprefix(f"{BRANCH_REFS_FOLDER}/").removesuffix(".json"))


def read_ref_identifier(data: bytes) -> str:
    """Return what tells the branch of a ref from an earlier one of the same name; ``ValueError`` if it is damaged."""
    try:
        identifier = cast("dict[str, object]", orjson.loads(data))["identifier"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("not a ref of a branch") from error
    return orjson.dumps(identifier).decode()


def read_local_refs(folder: str) -> tuple[dict[str, BranchRef], list[str]]:
    """Return the refs of a dataset in a local folder by name, and the names of those that do not parse."""
    found: dict[str, BranchRef] = {}
    damaged: list[str] = []
    for name, data in _read_files(Path(folder, BRANCH_REFS_FOLDER)):
        ref = _decode_ref(name, data)
        if ref is None:
            damaged.append(name)
        else:
            found[name] = ref
    return found, sorted(damaged)


def has_branch_folder(folder: str, branch: str) -> bool:
    """Whether a branch of a dataset in a local folder has a folder of versions."""
    return Path(folder, "tree", branch, VERSIONS_FOLDER).is_dir()


def _read_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in folder.glob("*.json"):
        try:
            yield branch_of_ref(file.name), file.read_bytes()
        except FileNotFoundError:
            # Another process deleted the branch.
            continue


def _decode_ref(name: str, data: bytes) -> BranchRef | None:
    try:
        fields = orjson.loads(data)
        steps = fields["identifier"]["version_mapping"]
        identifier = tuple((int(version), str(uuid)) for version, uuid in steps)
        return BranchRef(
            name, fields["parentBranch"], int(fields["parentVersion"]), identifier, int(fields["createAt"])
        )
    except (KeyError, TypeError, ValueError):
        return None
