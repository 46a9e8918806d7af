"""The folders that Lance notes in the versions of a branch: where the files lie that it has in common with others.

They are absolute. In a graph that was moved or copied they still name the old place, which may be gone, or may be
another graph by now. Lance has no call that changes them, so here, and nowhere else, a manifest file is read and
written byte by byte: a protobuf message behind its length, and a footer that says where it begins.
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
"""The field of a manifest that lists the folders."""
_PATH: Final = 4
"""The field of such an entry that is the folder itself."""
_SCHEME: Final = re.compile(r"^s3\+ddb:")


def is_inside(noted: str, uri: str) -> bool:
    """Whether a noted folder is that of a dataset, or of a branch of it; however the same place is spelled."""
    theirs, ours = _normalize_uri(noted), _normalize_uri(uri)
    if theirs == ours or theirs.startswith(f"{ours}/"):
        return True
    root = theirs.partition("/tree/")[0]
    return "://" not in ours and Path(root).exists() and Path(ours).exists() and Path(root).samefile(ours)


def relocate_folder(noted: str, uri: str, location: str) -> str:
    """A noted folder as it would be noted where the dataset is now; ``location`` is its place within the graph."""
    found = re.fullmatch(rf".*/{re.escape(location)}(/tree/.+)?", _normalize_uri(noted))
    if found is None:
        raise StorageError(f"{uri} has files in {noted}, which is no part of a graph")
    path, question, query = uri.partition("?")
    return f"{path}{found[1] or ''}{question}{query}"


def _normalize_uri(uri: str) -> str:
    return _SCHEME.sub("s3:", uri.partition("?")[0]).rstrip("/")


# --------------------------------------------------------------------------------------------- the bytes


def read_base_folders(manifest: bytes) -> list[str]:
    """The folders that a manifest file notes."""
    _, message = _message(manifest)
    entries = (field.value for field in parse_fields(message) if field.tag == _BASE_PATHS)
    return [field.value.decode() for entry in entries for field in parse_fields(entry) if field.tag == _PATH]


def replace_base_folders(manifest: bytes, renamed: Callable[[str], str]) -> bytes:
    """The same file with other folders."""
    start, message = _message(manifest)
    new = _replace_field(
        message, _BASE_PATHS, lambda entry: _replace_field(entry, _PATH, lambda at: renamed(at.decode()).encode())
    )
    # What lies before it is found by its place in the file, and stays where it is.
    return manifest[:start] + _LENGTH.pack(len(new)) + new + manifest[-_FOOTER.size :]


def _message(manifest: bytes) -> tuple[int, bytes]:
    try:
        start, _, _, magic = _FOOTER.unpack(manifest[-_FOOTER.size :])
        (length,) = _LENGTH.unpack_from(manifest, start)
    except struct.error as error:
        raise StorageError("a manifest file of Lance is cut short") from error
    begin = start + _LENGTH.size
    if magic != _MAGIC or begin + length + _FOOTER.size != len(manifest):
        raise StorageError("a manifest file of Lance has a form that is not known here")
    return start, manifest[begin : begin + length]


def _replace_field(message: bytes, wanted: int, change: Callable[[bytes], bytes]) -> bytes:
    return b"".join(
        encode_bytes(wanted, change(field.value)) if field.tag == wanted else field.raw
        for field in parse_fields(message)
    )
