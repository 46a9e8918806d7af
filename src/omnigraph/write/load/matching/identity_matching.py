"""Find the stored rows of incoming ones: by id or key, and else by identity.

Afterwards the graph has what the input has. Rows with equal identities are a bag: incoming rows that equal a stored row
change nothing, others replace the remaining stored rows, and what is left is inserted. A bag ends with as many rows as
its larger side had. The result does not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import blob_properties_of, read_blobs_at
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of, compute, to_bool_array
from omnigraph.storage.tables import Addresses, Table
from omnigraph.write.load.matching import match_candidates
from omnigraph.write.load.matching.identified_rows import TAKEN_IDS, IdentifiedRows, IdentityMatch
from omnigraph.write.load.matching.identity import RowIdentity, mark_single
from omnigraph.write.load.matching.match_candidates import (
    INCOMING_DIGESTS,
    CandidateSearch,
    MatchBasis,
    StoredRows,
    addresses_of,
    encode_pairs,
)
from omnigraph.write.load.rows import BLOB_ROWS_AT_ONCE, IncomingRows
from omnigraph.write.row_digests import digest_bytes
from omnigraph.write.spill import spill_array, spill_rows


@dataclass(frozen=True, slots=True)
class Counterparts:
    """For each incoming row the place of the stored row that it replaces, or -1; and whether it is the same."""

    places: npt.NDArray[np.int64]
    is_same: npt.NDArray[np.bool_]

    @property
    def is_replacing(self) -> npt.NDArray[np.bool_]:
        """Whether each row replaces a stored row."""
        return (self.places >= 0) & ~self.is_same


def assign_counterparts(incoming: pa.Table, stored: pa.Table) -> Counterparts:
    """Pair incoming rows with stored rows of the same match key, equal ones first. Both have id, key and rest.

    Of the others, the first by their digests replace the first stored rows by their ids. A key that only one row may
    have is left to the rules if several incoming rows have it: none of them counts as the same.
    """
    keys = encode_pairs(incoming, stored, ["key"])
    wholes = encode_pairs(incoming, stored, ["key", "rest"])
    places = _pair_by_rank(wholes.incoming, wholes.stored)
    is_same = places >= 0
    left, free = np.flatnonzero(~is_same), np.setdiff1d(np.arange(stored.num_rows), places[is_same])
    left = left[_sort_order(incoming, "rest", left)]
    free = free[_sort_order(stored, "id", free)]
    found = _pair_by_rank(keys.incoming[left], keys.stored[free])
    places[left[found >= 0]] = free[found[found >= 0]]
    counts = np.bincount(keys.incoming, minlength=1)
    is_single = mark_single(cast("pa.StringArray", column_of(incoming, "key")))
    return Counterparts(places, is_same & ~(is_single & (counts[keys.incoming] > 1)))


def _pair_by_rank(incoming: npt.NDArray[np.int64], stored: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Pair the first row of each code with the first, the second with the second; -1 where the other side has fewer."""
    width = max(len(incoming), len(stored), 1)
    wanted, known = incoming * width + _rank(incoming), stored * width + _rank(stored)
    order = np.argsort(known)
    at = np.searchsorted(known, wanted, sorter=order)
    found = np.full(len(incoming), -1, np.int64)
    inside = np.flatnonzero(at < len(known))
    hits = inside[known[order[at[inside]]] == wanted[inside]]
    found[hits] = order[at[hits]]
    return found


def _rank(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many earlier rows have the same code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1)) if len(codes) else np.zeros(0, np.int64)
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return ranks


def _sort_order(rows: pa.Table, column: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return compute("array_sort_indices", column_of(rows, column).take(at)).to_numpy().astype(np.int64)


# --------------------------------------------------------------------------------------------- matching


def match_stored_rows(table: Table, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
    """Return the incoming rows without those that a table has already, and with the ids of those that they replace.

    ``identity`` is for rows with generated ids; None if there are none.
    """
    outcome = _MatchOutcome(rows)
    claimed = np.zeros(0, np.uint64)
    if rows.generated.count < rows.positions.count:
        claimed = _TableMatcher(table, rows, MatchBasis(rows.type, None), claimed).run(outcome)
    if identity is not None:
        # A row that another record names by its id is not free.
        _TableMatcher(table, rows, MatchBasis(rows.type, identity), claimed).run(outcome)
    return outcome.to_incoming_rows()


class _MatchOutcome:
    """Collects what became of each incoming row."""

    def __init__(self, rows: IncomingRows) -> None:
        self._rows = rows
        self._unchanged = np.zeros(rows.positions.count, np.bool_)
        self._places = np.full(rows.positions.count, -1, np.int64)
        self._taken: list[pa.Table] = []
        self._count = 0
        self._replaced = 0

    def add(self, incoming: pa.Table, stored: pa.Table, found: Counterparts) -> None:
        """Add the pairs of some rows."""
        numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
        self._unchanged[numbers[found.is_same]] = True
        replacing = np.flatnonzero(found.is_replacing)
        self._replaced += len(replacing)
        staged = column_of(incoming, "id").take(replacing)
        taken = column_of(stored, "id").take(found.places[replacing])
        renamed = np.flatnonzero(to_bool_array(compute("not_equal", staged, taken)))
        if len(renamed):
            self._places[numbers[replacing[renamed]]] = np.arange(self._count, self._count + len(renamed))
            self._count += len(renamed)
            piece = pa.table([staged.take(renamed), taken.take(renamed)], schema=TAKEN_IDS)
            # Each part goes to a file of its own, so that only one is in memory.
            self._taken.append(
                piece if len(renamed) < match_candidates.ROWS_IN_A_PART else spill_rows(TAKEN_IDS, [piece])
            )

    def to_incoming_rows(self) -> IncomingRows:
        """Return the rows as they are to be written."""
        unchanged = int(self._unchanged.sum())
        if not unchanged and not self._count:
            return replace(self._rows, replaced=self._replaced)
        match = IdentityMatch(self._unchanged, self._places, pa.concat_tables([TAKEN_IDS.empty_table(), *self._taken]))
        storage = IdentifiedRows(self._rows.type, self._rows.storage, match)
        return replace(
            self._rows,
            storage=storage,
            unchanged=unchanged,
            replaced=self._replaced,
            has_taken_ids=bool(self._count),
        )


class _TableMatcher:
    """Matches the rows of one table on one basis. ``claimed`` are sorted addresses of rows that are not free."""

    def __init__(self, table: Table, rows: IncomingRows, basis: MatchBasis, claimed: Addresses) -> None:
        self._rows = rows
        self._basis = basis
        self._stored = StoredRows(rows.type, table)
        self._search = CandidateSearch(table, basis, rows.positions.count, claimed)

    def run(self, outcome: _MatchOutcome) -> Addresses:
        """Match all rows; return the sorted addresses of the stored rows that have an incoming one."""
        scanned = self._rows.storage.scan(arrow_schema(self._rows.type).names)
        chosen = (self._basis.choose_rows(*piece, self._rows.generated) for piece in scanned)
        common = self._search.run(chosen, self._basis.digest_incoming, INCOMING_DIGESTS)
        addresses = np.sort(np.concatenate([addresses_of(stored) for _, stored in common]))
        rest = self._digest_rest(addresses)
        for rows, stored in common:
            if rows.num_rows:
                digests = rest[np.searchsorted(addresses, addresses_of(stored))]
                self._match_part(rows, stored.append_column("rest", pa.array(digests).cast(pa.string())), outcome)
        return addresses

    def _match_part(self, incoming: pa.Table, stored: pa.Table, outcome: _MatchOutcome) -> None:
        numbers = column_of(incoming, "number").to_numpy(zero_copy_only=False)
        addresses = addresses_of(stored)
        incoming, stored = add_blob_digests(
            self._basis,
            incoming,
            stored,
            lambda column, at: self._rows.storage.read_blobs(column, numbers[at]),
            lambda column, at: read_blobs_at(self._stored.table, column, addresses[at]),
        )
        outcome.add(incoming, stored, assign_counterparts(incoming, stored))

    def _digest_rest(self, addresses: Addresses) -> npt.NDArray[np.bytes_]:
        """Return the digest of the other columns of the rows at sorted addresses."""
        digests = spill_array(len(addresses), np.dtype("S32"))
        if self._basis.rest_columns and len(addresses):
            for piece in self._stored.read_at(self._basis.rest_columns, addresses):
                at = np.searchsorted(addresses, addresses_of(piece))
                digests[at] = self._basis.digest_rest(piece).to_numpy(zero_copy_only=False)
        return digests


# --------------------------------------------------------------------------------------------- blobs

BlobReader: TypeAlias = "Callable[[str, npt.NDArray[np.int64]], list[bytes | None]]"
"""Reads the bytes of a blob column in the rows at some places."""


def add_blob_digests(
    basis: MatchBasis, incoming: pa.Table, stored: pa.Table, read_incoming: BlobReader, read_stored: BlobReader
) -> tuple[pa.Table, pa.Table]:
    """Add the bytes of blobs to the digests of rows that are equal without them; no others are read."""
    if not blob_properties_of(basis.type):
        return incoming, stored
    wholes = encode_pairs(incoming, stored, ["key", "rest"])
    mine = np.flatnonzero(np.isin(wholes.incoming, wholes.stored))
    theirs = np.flatnonzero(np.isin(wholes.stored, wholes.incoming))
    return (
        _append_digests(basis, incoming, mine, read_incoming),
        _append_digests(basis, stored, theirs, read_stored),
    )


def _append_digests(basis: MatchBasis, rows: pa.Table, at: npt.NDArray[np.int64], read: BlobReader) -> pa.Table:
    added = np.full(rows.num_rows, "", object)
    for column in blob_properties_of(basis.type):
        for start in range(0, len(at), BLOB_ROWS_AT_ONCE):
            part = at[start : start + BLOB_ROWS_AT_ONCE]
            added[part] += [" " if each is None else f" {digest_bytes(each)}" for each in read(column, part)]
    # An identity of all columns has the blobs in its key.
    for name in ("rest",) if basis.rest_columns else ("key", "rest"):
        texts = column_of(rows, name).to_numpy(zero_copy_only=False) + added
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return rows
