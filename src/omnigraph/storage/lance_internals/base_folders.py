"""The base folders in the versions of a branch: where the files lie that it shares with other branches.

Lance writes them as absolute paths. After a graph was moved or copied they still name the old folder, which may be gone
or belong to another graph. Lance has no call that changes them. So here, and nowhere else, manifest files are edited:
a protobuf message with its length before it and a footer with its offset.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.storage.lance_internals.protobuf import encode_bytes, parse_fields

_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_MAGIC: Final = b"LANC"
_BASE_PATHS: Final = 18
"""The field of a manifest that lists the base folders."""
_PATH: Final = 4
"""The field of such an entry that holds the path."""
_SCHEME: Final = re.compile(r"^s3\+ddb:")


def is_inside(noted: str, uri: str) -> bool:
    """Return whether a folder is that of a dataset or of one of its branches, in any spelling of the path."""
    folder, dataset = _normalize_uri(noted), _normalize_uri(uri)
    if folder == dataset or folder.startswith(f"{dataset}/"):
        return True
    root = folder.partition("/tree/")[0]
    return "://" not in dataset and Path(root).exists() and Path(dataset).exists() and Path(root).samefile(dataset)


def relocate_folder(noted: str, uri: str, location: str) -> str:
    """Return a base folder as it must be after a move; ``location`` is the dataset within the graph."""
    found = re.fullmatch(rf".*/{re.escape(location)}(/tree/.+)?", _normalize_uri(noted))
    if found is None:
        raise StorageError(f"{uri} has files in {noted}, which is not part of a graph")
    path, question, query = uri.partition("?")
    return f"{path}{found[1] or ''}{question}{query}"


def _normalize_uri(uri: str) -> str:
    return _SCHEME.sub("s3:", uri.partition("?")[0]).rstrip("/")


# --------------------------------------------------------------------------------------------- the bytes


def read_base_folders(manifest: bytes) -> list[str]:
    """Return the base folders in a manifest file."""
    _, message = _message(manifest)
    entries = (field.value for field in parse_fields(message) if field.tag == _BASE_PATHS)
    return [field.value.decode() for entry in entries for field in parse_fields(entry) if field.tag == _PATH]


def replace_base_folders(manifest: bytes, renamed: Callable[[str], str]) -> bytes:
    """Return the manifest file with other base folders."""
    start, message = _message(manifest)
    new = _replace_field(
        message, _BASE_PATHS, lambda entry: _replace_field(entry, _PATH, lambda at: renamed(at.decode()).encode())
    )
    # What precedes the message is addressed by offset, so it must not move.
    return manifest[:start] + _LENGTH.pack(len(new)) + new + manifest[-_FOOTER.size :]


def _message(manifest: bytes) -> tuple[int, bytes]:
    try:
        start, _, _, magic = _FOOTER.unpack(manifest[-_FOOTER.size :])
        (length,) = _LENGTH.unpack_from(manifest, start)
    except (struct.error, OverflowError) as error:
        raise StorageError("a Lance manifest file is truncated") from error
    begin = start + _LENGTH.size
    if magic != _MAGIC or begin + length + _FOOTER.size != len(manifest):
        raise StorageError("a Lance manifest file has an unknown form")
    return start, manifest[begin : begin + length]


def _replace_field(message: bytes, tag: int, change: Callable[[bytes], bytes]) -> bytes:
    return b"".join(
        encode_bytes(tag, change(field.value)) if field.tag == tag else field.raw for field in parse_fields(message)
    )
