"""The length of each document in a text index: how many words Lance counted in it when the index was built.

A text index has a file of documents for each of its parts: the row id and the number of words of each row that had
any. Lance never changes these files, so rows that were deleted or rewritten later are still in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from lance.file import LanceFileReader

from omnigraph.errors import ParameterError
from omnigraph.storage.lance_internals.lance_texts import translate_errors
from omnigraph.storage.location import locate
from omnigraph.storage.objects import Objects

_INDEX_FOLDER: Final = "_indices"
_DOCUMENTS: Final = "docs.lance"


class DocumentLengths(NamedTuple):
    """The row ids of the documents of an index, and the number of words of each."""

    row_ids: npt.NDArray[np.uint64]
    words: npt.NDArray[np.int64]


def read_document_lengths(root: str, uuid: str, storage_options: Mapping[str, str]) -> DocumentLengths | None:
    """Return the documents of a segment of an index in a folder; None if they are not where this Lance puts them."""
    try:
        objects = Objects(locate(root, storage_options))
    except ParameterError:
        return None
    folder = f"{_INDEX_FOLDER}/{uuid}"
    names = [found.path.rsplit("/", 1)[-1] for found in objects.list(folder)]
    with translate_errors(f"the text index in {root}"):
        parts = [
            LanceFileReader(f"{root.rstrip('/')}/{folder}/{name}", dict(storage_options)).read_all().to_table()
            for name in names
            if name.endswith(_DOCUMENTS)
        ]
    if not parts:
        return None
    return DocumentLengths(
        np.concatenate([part["_rowid"].to_numpy() for part in parts]),
        np.concatenate([part["_num_tokens"].to_numpy().astype(np.int64) for part in parts]),
    )
