"""The history of graphs below format 4, which lies in two tables of its own.

Read by the backfill step and by read-only opens; never written, never needed from format 4 on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from omnigraph.errors import NotFound, StorageError
from omnigraph.language.values import to_microseconds
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.storage.lance_internals import TABLE_FOLDERS
from omnigraph.storage.table import Table, open_table

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

COMMITS = "_graph_commits.lance"
ACTORS = "_graph_commit_actors.lance"


def read_commits(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """The commits of a branch, oldest first, with their actors; none where the tables never were.

    Any other trouble with opening them is loud: taking it for "no history" would lose the history for good.
    """
    table = _open(manifest, COMMITS, branch)
    if table is None:
        return [] if branch == MAIN else _inherited(manifest, branch)
    actors = _actors(manifest)
    commits = [_commit(row, actors) for row in table.scan().read_all().to_pylist()]
    return sorted(commits, key=lambda commit: commit.order)


def _inherited(manifest: Manifest, branch: str) -> list[CommitRecord]:
    """What the parent showed where the branch began: all there is for a branch that has no history of its own."""
    ref = manifest.refs().get(branch)
    if ref is None:
        raise NotFound(f"no branch '{branch}' in {manifest.location}")
    commits = read_commits(manifest, ref.parent or MAIN)
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
