"""Indexes on ``id``, ``src`` and ``dst``: derived, in a commit of their own, so that small writes need not scan.

Rows are the same without them. One that exists is left alone until many rows lie beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import table as tables
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import IndexKind, Staged
from omnigraph.write.commit import Change, Prepared, Terms, commit
from omnigraph.write.sidecars import WriterKind

MOST_UNCOVERED: Final = 100_000
"""How many rows beyond an index are scanned rather than covered by building it anew."""


@dataclass(frozen=True, slots=True)
class EnsureIndexes:
    """Build what is missing on some tables; its outcome is the columns that get an index, by table key."""

    table_keys: frozenset[str]
    kind: WriterKind = WriterKind.ENSURE_INDICES
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> Prepared[dict[str, tuple[str, ...]]]:
        """Look which indexes are missing. A table that another branch owns is not forked for that."""
        wanted: dict[str, tuple[str, ...]] = {}
        for key in sorted(self.table_keys & snapshot.pins.keys()):
            if (snapshot.pins[key].branch or MAIN) == snapshot.branch:
                missing = _missing(key, snapshot.table(key))
                wanted |= {key: missing} if missing else {}
        changes = tuple(Change(key, partial(_stage, columns=columns)) for key, columns in wanted.items())
        return Prepared(changes, frozenset(), wanted)


def ensure_indexes(
    manifest: Manifest, branch: str, table_keys: Iterable[str] | None = None, actor: str | None = None
) -> Commit | None:
    """Index the tables of a branch, or some of them; None when there was nothing to do."""
    keys = manifest.view(branch).tables.visible() if table_keys is None else table_keys
    terms = Terms(branch, manifest.schema_hash(), actor, "ensure indexes")
    made = commit(manifest, EnsureIndexes(frozenset(keys)), terms).commit
    return None if made is None else commit_of(made)


def _missing(table_key: str, table: Table) -> tuple[str, ...]:
    rows = table.count_rows()
    covered = {index.columns: index.rows for index in table.indexes().values() if index.kind == IndexKind.BTREE}
    columns = ("id", "src", "dst") if table_key.startswith("edge:") else ("id",)
    enough = max(1, rows - MOST_UNCOVERED)
    return tuple(column for column in columns if rows and covered.get((column,), 0) < enough)


def _stage(table: Table, *, columns: tuple[str, ...]) -> Staged | None:
    return tables.build_indexes(table, dict.fromkeys(columns, IndexKind.BTREE))
