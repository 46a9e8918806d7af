"""Staged changes: bytes that are written already, and the Lance transaction that will show them.

Nothing here touches a dataset. A fragment that a Spark executor wrote is sent to the driver as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NewType, TypeAlias, cast

import numpy as np
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals import data_paths
from omnigraph.storage.objects import Objects

Addresses: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]
"""Row addresses: a fragment id in the upper 32 bits and an offset in the lower ones."""

FragmentText = NewType("FragmentText", str)
"""One Lance fragment as JSON, which an executor sends to the driver to be committed."""


class IndexKind(StrEnum):
    """The kinds of indexes, by Lance's names."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"


@dataclass(frozen=True, slots=True)
class StagedChange:
    """A change that is written but not visible, based on exactly one version of one table."""

    branch: str | None
    version: int
    transaction: Transaction

    @property
    def transaction_uuid(self) -> str:
        """The identity of the Lance transaction, known before the commit."""
        return self.transaction.uuid

    @property
    def committed_version(self) -> int:
        """The version that the commit must make."""
        return self.version + 1


def encode_fragment(fragment: FragmentMetadata) -> FragmentText:
    """Return a fragment as JSON text."""
    return FragmentText(json.dumps(cast("dict[str, object]", fragment.to_json())))


def decode_fragments(texts: Iterable[FragmentText]) -> list[FragmentMetadata]:
    """Return the fragments of some texts."""
    return [FragmentMetadata.from_json(text) for text in texts]


def delete_fragments(objects: Objects, folder: str, fragments: Iterable[FragmentText]) -> None:
    """Delete the files of fragments in a folder of the graph. No version, published or not, may use them."""
    for fragment in decode_fragments(fragments):
        for file in fragment.files:
            rows, blobs = data_paths(file.path)
            objects.delete(f"{folder}/{rows}")
            objects.delete_prefix(f"{folder}/{blobs}")


def group_by_fragment(addresses: Addresses) -> Iterator[tuple[int, list[int]]]:
    """Group row addresses by fragment; yield each fragment id with the offsets in it."""
    if not len(addresses):
        return
    addresses = np.sort(addresses)
    fragment_ids, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    offsets = np.split(addresses & np.uint64(0xFFFFFFFF), starts[1:])
    for fragment_id, within in zip(fragment_ids, offsets, strict=True):
        yield int(fragment_id), cast("list[int]", within.tolist())
