"""What a staged change is: bytes that are written already, and the Lance transaction that will show them.

Nothing here touches a dataset. A fragment that was written elsewhere, on a Spark executor say, travels as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypeAlias, cast

import numpy as np
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata

from omnigraph.storage.lance_internals import data_paths
from omnigraph.storage.objects import Objects

Addresses: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]
"""Rows by where they lie: a fragment id and an offset in one number each."""

FragmentText = NewType("FragmentText", str)
"""One Lance fragment as JSON: what an executor sends back for the driver to commit."""


class IndexKind(StrEnum):
    """The indexes that a table may have, by Lance's names."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"


@dataclass(frozen=True, slots=True)
class StagedChange:
    """A change that is on storage and invisible: it stands on exactly one version of one table."""

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
    """A fragment as JSON text."""
    return FragmentText(json.dumps(cast("dict[str, object]", fragment.to_json())))


def decode_fragments(texts: Iterable[FragmentText]) -> list[FragmentMetadata]:
    """The fragments that the texts stand for."""
    return [FragmentMetadata.from_json(text) for text in texts]


def delete_fragments(objects: Objects, folder: str, fragments: Iterable[FragmentText]) -> None:
    """Delete the files of fragments in a folder of the graph. No version, published or not, may show them."""
    for fragment in decode_fragments(fragments):
        for file in fragment.files:
            rows, blobs = data_paths(file.path)
            objects.delete(f"{folder}/{rows}")
            objects.delete_prefix(f"{folder}/{blobs}")


def group_by_fragment(addresses: Addresses) -> Iterator[tuple[int, list[int]]]:
    """Row addresses, each a fragment id and an offset in one number, as offsets per fragment."""
    if not len(addresses):
        return
    addresses = np.sort(addresses)
    fragment_ids, starts = np.unique(addresses >> np.uint64(32), return_index=True)
    offsets = np.split(addresses & np.uint64(0xFFFFFFFF), starts[1:])
    for fragment_id, within in zip(fragment_ids, offsets, strict=True):
        yield int(fragment_id), cast("list[int]", within.tolist())
