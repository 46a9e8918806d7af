"""Commits as a user sees them: listed newest first, filtered, shown by reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from omnigraph.errors import ParameterError
from omnigraph.language.values import from_microseconds
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN, CommitRecord, malformed


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the graph: what it followed, on which branch, by whom, when and why."""

    id: str
    parents: tuple[str, ...]
    branch: str
    manifest_version: int
    actor: str | None
    message: str | None
    created_at: datetime
    txn: tuple[str, int] | None


def commit_of(record: CommitRecord) -> Commit:
    """The public form of a commit row."""
    try:
        created_at = from_microseconds(record.created_at)
    except OverflowError as error:
        raise malformed(record.id, f"created_at is {record.created_at}, which is no time") from error
    return Commit(
        record.id,
        tuple(parent for parent in (record.parent, record.merged_parent) if parent is not None),
        record.branch or MAIN,
        record.manifest_version,
        record.actor,
        record.message,
        created_at,
        record.txn,
    )


def commits_of(
    manifest: Manifest,
    branch: str,
    *,
    limit: int | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[Commit]:
    """The commits that a branch shows, newest first, optionally only some, by one actor or within a time."""
    if limit is not None and limit < 0:
        raise ParameterError(f"limit is {limit}", hint="give the number of commits that are wanted")
    for bound in (since, until):
        if bound is not None:
            check_zone(bound)
    return list(islice(_matching(manifest, branch, actor, since, until), limit))


def check_zone(instant: datetime) -> None:
    """Refuse a time that means another moment on every machine."""
    if instant.tzinfo is None:
        raise ParameterError(f"{instant!r} has no time zone", hint="use datetime(..., tzinfo=timezone.utc)")


def _matching(
    manifest: Manifest, branch: str, actor: str | None, since: datetime | None, until: datetime | None
) -> Iterator[Commit]:
    for record in manifest.view(branch, with_lineage=True).history.newest_first():
        commit = commit_of(record)
        wanted_actor = actor is None or commit.actor == actor
        wanted_time = (since is None or commit.created_at >= since) and (until is None or commit.created_at <= until)
        if wanted_actor and wanted_time:
            yield commit
