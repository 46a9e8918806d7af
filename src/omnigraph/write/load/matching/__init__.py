"""Matching: find the stored rows that records mean, by id, by key or by an identity, and complete partial ones."""

from omnigraph.write.load.matching.column_updates import stage_column_update
from omnigraph.write.load.matching.identity import (
    MATCHING_MODES,
    Identity,
    LoadMode,
    RowIdentity,
    choose_identity,
    resolve_identity,
)
from omnigraph.write.load.matching.identity_matching import add_blob_digests, assign_counterparts, match_stored_rows
from omnigraph.write.load.matching.match_candidates import (
    INCOMING_DIGESTS,
    MatchBasis,
    StoredRows,
    addresses_of,
    can_match_by_lookup,
    keep_common,
)
from omnigraph.write.load.matching.row_updates import (
    UNMATCHED,
    NotFoundCause,
    RowAddresses,
    RowCompletion,
    UnmatchedRows,
    UpdatedRows,
    complete_rows,
    locate_stored,
    mark_named,
)

__all__ = [
    "INCOMING_DIGESTS",
    "MATCHING_MODES",
    "UNMATCHED",
    "Identity",
    "LoadMode",
    "MatchBasis",
    "NotFoundCause",
    "RowAddresses",
    "RowCompletion",
    "RowIdentity",
    "StoredRows",
    "UnmatchedRows",
    "UpdatedRows",
    "add_blob_digests",
    "addresses_of",
    "assign_counterparts",
    "can_match_by_lookup",
    "choose_identity",
    "complete_rows",
    "keep_common",
    "locate_stored",
    "mark_named",
    "match_stored_rows",
    "resolve_identity",
    "stage_column_update",
]
