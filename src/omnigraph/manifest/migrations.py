"""The stamp on the manifest and the steps that lead from an older one to ours.

One dispatcher walks one step at a time: the work first, the stamp last. Each step may be run again after a crash and
by two processes at once. No other module branches on the stamp.
"""

from __future__ import annotations

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
from omnigraph.storage import table_writes as tables
from omnigraph.storage.lance_internals import TABLE_FOLDERS, CommitRefused
from omnigraph.storage.location import Location
from omnigraph.storage.table import Table, open_table

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

STAMP: Final = "omnigraph:internal_schema_version"
CURRENT: Final = 4
MIN_SUPPORTED: Final = 1
LINEAGE_IN_MANIFEST: Final = 4
_PRIMARY_KEY: Final = b"lance-schema:unenforced-primary-key"
_RETRY_BUDGET: Final = 5


def stamp_of(table: Table) -> int:
    """The format that a manifest is written in; one without a stamp is of the first."""
    text = (table.schema.metadata or {}).get(STAMP.encode(), b"").decode()
    return int(text) if text.isdecimal() else 1


def refuse_unsupported_format(stamp: int, location: Location) -> None:
    """One guard for both bounds, for every mode of opening and every branch."""
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


def migrate(manifest: Manifest, branch: str) -> None:
    """Bring one branch of the manifest to the current format."""
    while (stamp := stamp_of(manifest.open(branch))) < CURRENT:
        STEPS[stamp](manifest, branch)
        _set_stamp(manifest, branch, stamp + 1)
        manifest.forget(branch)


def _annotate_primary_key(manifest: Manifest, branch: str) -> None:
    """1 to 2: without the mark on ``object_id`` there is no compare-and-swap on new rows."""

    def annotate() -> None:
        table = manifest.open(branch)
        # Lance lets nobody set the mark twice, not even to what it is: looked at anew on every try.
        if not _has_primary_key(table):
            tables.set_field_metadata(table, "object_id", {_PRIMARY_KEY.decode(): "true"})

    _retry_until_done(annotate)


def _has_primary_key(table: Table) -> bool:
    schema = table.schema
    marked = [name for name in schema.names if _PRIMARY_KEY in (schema.field(name).metadata or {})]
    if marked not in ([], ["object_id"]):
        raise FormatError(f"the manifest's primary key is {marked}, not object_id", hint="this is no graph of ours")
    return bool(marked)


def _sweep_run_branches(manifest: Manifest, branch: str) -> None:
    """2 to 3: the staging branches of a retired mechanism are deleted from the manifest."""
    if branch != MAIN:
        return
    for name in sorted(manifest.list_refs()):
        if name.startswith("__run__"):
            # Another process may sweep too: gone is gone.
            with suppress(NotFound):
                tables.delete_table_branch(manifest.open(MAIN), name)


def _backfill_lineage(manifest: Manifest, branch: str) -> None:
    """3 to 4: the history moves from tables of its own into the manifest."""

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
    """Run work that another process may be doing too: a lost race is looked at again, within a budget."""
    for _ in range(_RETRY_BUDGET):
        try:
            work()
        except (CommitRefused, PublishContention):
            continue
        return
    raise PublishContention("another process migrates this graph; its work was met too often", hint="retry")


STEPS: Final[Mapping[int, Callable[[Manifest, str], None]]] = MappingProxyType(
    {1: _annotate_primary_key, 2: _sweep_run_branches, 3: _backfill_lineage}
)
if (min(STEPS), len(STEPS)) != (MIN_SUPPORTED, CURRENT - MIN_SUPPORTED):
    raise AssertionError("the lowest format that is supported and the lowest registered step disagree")


# --------------------------------------------------------------------------------------------- history below format 4

COMMITS = "_graph_commits.lance"
ACTORS = "_graph_commit_actors.lance"


def read_legacy_commits(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """The commits of a branch, oldest first, with their actors; none where the tables never were.

    Any other trouble with opening them is loud: taking it for "no history" would lose the history for good.
    """
    table = _open(manifest, COMMITS, branch)
    if table is None:
        return [] if branch == MAIN else _read_inherited(manifest, branch)
    actors = _actors(manifest)
    commits = [_commit(row, actors) for row in table.scan().read_all().to_pylist()]
    return sorted(commits, key=lambda commit: commit.order)


def _read_inherited(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """What the parent showed where the branch began: all there is for a branch that has no history of its own."""
    ref = manifest.list_refs().get(branch)
    if ref is None:
        raise NotFound(f"no branch '{branch}' in {manifest.location}")
    commits = read_legacy_commits(manifest, ref.parent or MAIN)
    return [commit for commit in commits if commit.manifest_version <= ref.parent_version]


def _actors(manifest: Manifest) -> dict[str, str]:
    # This table was never branched: one flat list serves every branch.
    table = _open(manifest, ACTORS, MAIN)
    if table is None:
        return {}
    rows = table.scan(columns=["graph_commit_id", "actor_id"]).read_all().to_pylist()
    return {cast(str, row["graph_commit_id"]): cast(str, row["actor_id"]) for row in rows}


def _open(manifest: Manifest, name: str, branch: str) -> Table | None:
    """The table, or None if there is none. One that has lost its versions is not the same as none."""
    try:
        return open_table(manifest.location.join(name), branch, None, manifest.access)
    except NotFound as missing:
        folder = name if branch == MAIN else f"{name}/tree/{branch}"
        # Not all that is below its folder belongs to a branch: the name of another may go on where its name ends.
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
