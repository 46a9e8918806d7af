"""The format stamp of the manifest, and the migrations from older formats.

A dispatcher runs one step at a time: the work first, the stamp last. Each step can be repeated after a crash and run by
two processes at once. No other module depends on the stamp. Below format 4 the history lies in two tables of its own,
which are read here and never written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from omnigraph.errors import FormatError, FormatTooNew, FormatTooOld, NotFound, PublishContention, StorageError
from omnigraph.language.values import to_microseconds
from omnigraph.manifest.lineage import build_lineage
from omnigraph.manifest.rows import MAIN, CommitRecord, HeadPointer, encode_rows
from omnigraph.manifest.state import read_lineage
from omnigraph.storage import tables
from omnigraph.storage.lance_internals import TABLE_FOLDERS, CommitRefused
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table, open_table

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

STAMP: Final = "omnigraph:internal_schema_version"
CURRENT: Final = 4
MIN_SUPPORTED: Final = 1
LINEAGE_IN_MANIFEST: Final = 4
_PRIMARY_KEY: Final = b"lance-schema:unenforced-primary-key"
_RETRY_BUDGET: Final = 5
_PLAIN_DECIMAL: Final = re.compile(rb"0|[1-9][0-9]*")


def stamp_of(table: Table) -> int:
    """Return the format of a manifest; 1 without a stamp. Only a newer release writes other stamps than numbers."""
    stamp = (table.schema.metadata or {}).get(STAMP.encode())
    if stamp is None:
        return 1
    if _PLAIN_DECIMAL.fullmatch(stamp) is None:
        text = stamp.decode(errors="backslashreplace")
        raise FormatTooNew(
            f"{table.uri} has format '{text}', which this release does not know; it knows up to {CURRENT}",
            hint="upgrade omnigraph",
            details={"format": text, "supported": [MIN_SUPPORTED, CURRENT]},
        )
    return int(stamp)


def refuse_unsupported_format(stamp: int, location: Location) -> None:
    """Refuse a format that this release does not know, in every open mode and on every branch."""
    if stamp > CURRENT:
        raise FormatTooNew(
            f"{location} has format {stamp}; this release knows up to {CURRENT}",
            hint="upgrade omnigraph",
            details={"format": stamp, "supported": [MIN_SUPPORTED, CURRENT]},
        )
    if stamp < MIN_SUPPORTED:
        raise FormatTooOld(
            f"{location} has format {stamp}; this release migrates from {MIN_SUPPORTED} on",
            hint="export it with the release that wrote it, then init and load",
            details={"format": stamp, "supported": [MIN_SUPPORTED, CURRENT]},
        )


def migrate_patiently(manifest: Manifest, branch: str) -> None:
    """Migrate one branch of the manifest to the current format, and retry while other processes publish."""
    for _ in range(_RETRY_BUDGET):
        try:
            migrate(manifest, branch)
        except PublishContention:
            continue
        return
    migrate(manifest, branch)


def migrate(manifest: Manifest, branch: str) -> None:
    """Migrate one branch of the manifest to the current format. ``PublishContention`` if another process publishes."""
    while (stamp := stamp_of(manifest.open(branch))) < CURRENT:
        STEPS[stamp](manifest, branch)
        manifest.sync()
        _set_stamp(manifest, branch, stamp + 1)
        manifest.sync()
        manifest.forget(branch)


def _annotate_primary_key(manifest: Manifest, branch: str) -> None:
    """1 to 2: mark ``object_id`` as primary key, which the compare-and-swap on new rows needs."""

    def annotate() -> None:
        table = manifest.open(branch)
        # Lance does not allow to set the mark twice, not even to the same value: check on every attempt.
        if not _has_primary_key(table):
            tables.set_field_metadata(table, "object_id", {_PRIMARY_KEY.decode(): "true"})

    _retry_until_done(annotate)


def _has_primary_key(table: Table) -> bool:
    schema = table.schema
    marked = [name for name in schema.names if _PRIMARY_KEY in (schema.field(name).metadata or {})]
    if marked not in ([], ["object_id"]):
        raise FormatError(
            f"the manifest's primary key is {marked}, not object_id", hint="this is not a graph of OmniGraph"
        )
    return bool(marked)


def _sweep_run_branches(manifest: Manifest, branch: str) -> None:
    """2 to 3: delete the ``__run__`` branches of a retired mechanism."""
    if branch != MAIN:
        return
    for name in sorted(manifest.list_refs()):
        if name.startswith("__run__"):
            # Another process may delete it at the same time.
            with suppress(NotFound):
                tables.delete_table_branch(manifest.open(MAIN), name)


def _backfill_lineage(manifest: Manifest, branch: str) -> None:
    """3 to 4: copy the history from its own tables into the manifest."""

    def backfill() -> None:
        table = manifest.open(branch)
        if len(read_lineage(table)):
            return
        commits = read_legacy_commits(manifest, branch)
        head = build_lineage(commits).head()
        if head is not None:
            pointer = HeadPointer(branch, head.id, head.parent)
            tables.merge_rows(table, encode_rows([*commits, pointer]), on="object_id")

    _retry_until_done(backfill)


def _set_stamp(manifest: Manifest, branch: str, stamp: int) -> None:
    def set_it() -> None:
        table = manifest.open(branch)
        if stamp_of(table) < stamp:
            tables.set_schema_metadata(table, {STAMP: str(stamp)})

    _retry_until_done(set_it)


def _retry_until_done(work: Callable[[], object]) -> None:
    """Run work that another process may be doing too; repeat it after a lost race, within a budget."""
    for _ in range(_RETRY_BUDGET):
        try:
            work()
        except (CommitRefused, PublishContention):
            continue
        return
    raise PublishContention("another process migrates this graph; too many attempts collided with it", hint="retry")


STEPS: Final[Mapping[int, Callable[[Manifest, str], None]]] = MappingProxyType(
    {1: _annotate_primary_key, 2: _sweep_run_branches, 3: _backfill_lineage}
)
if (min(STEPS), len(STEPS)) != (MIN_SUPPORTED, CURRENT - MIN_SUPPORTED):
    raise AssertionError("the lowest supported format and the lowest registered step disagree")


# --------------------------------------------------------------------------------------------- history below format 4

COMMITS = "_graph_commits.lance"
ACTORS = "_graph_commit_actors.lance"


def read_legacy_commits(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """Return the commits of a branch, oldest first, with their actors; none if the tables never existed.

    Any other error is raised: treating it as "no history" would lose the history for good.
    """
    table = _open(manifest, COMMITS, branch)
    if table is None:
        return [] if branch == MAIN else _read_inherited(manifest, branch)
    actors = _actors(manifest)
    commits = [_commit(row, actors) for row in table.scan().read_all().to_pylist()]
    return sorted(commits, key=lambda commit: commit.order)


def _read_inherited(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """Return the commits of the parent up to the start of the branch, for a branch without a history of its own."""
    ref = manifest.list_refs().get(branch)
    if ref is None:
        raise NotFound(f"no branch '{branch}' in {manifest.location}")
    commits = read_legacy_commits(manifest, ref.parent or MAIN)
    return [commit for commit in commits if commit.manifest_version <= ref.parent_version]


def _actors(manifest: Manifest) -> dict[str, str]:
    # This table was never branched: one list serves all branches.
    table = _open(manifest, ACTORS, MAIN)
    if table is None:
        return {}
    rows = table.scan(columns=["graph_commit_id", "actor_id"]).read_all().to_pylist()
    return {cast(str, row["graph_commit_id"]): cast(str, row["actor_id"]) for row in rows}


def _open(manifest: Manifest, name: str, branch: str) -> Table | None:
    """Open a table; None if it does not exist. A table that lost its versions is an error."""
    try:
        return open_table(manifest.location.join(name), branch, None, manifest.access)
    except NotFound as missing:
        folder = name if branch == MAIN else f"{name}/tree/{branch}"
        # Not everything below the folder belongs to the branch: its name may be a prefix of another one.
        if any(manifest.objects.list(f"{folder}/{part}") for part in TABLE_FOLDERS):
            raise StorageError(f"{folder} is damaged: {missing.message}", hint="restore it from a copy") from missing
        return None


def _commit(row: dict[str, object], actors: dict[str, str]) -> CommitRecord:
    commit_id = cast(str, row["graph_commit_id"])
    return CommitRecord(
        commit_id,
        cast("str | None", row["manifest_branch"]),
        cast(int, row["manifest_version"]),
        to_microseconds(cast(datetime, row["created_at"]).replace(tzinfo=UTC)),
        cast("str | None", row["parent_commit_id"]),
        cast("str | None", row["merged_parent_commit_id"]),
        actors.get(commit_id),
        backfilled=True,
    )
