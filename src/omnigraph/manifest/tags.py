"""Tags as they are kept: one small object per tag, a name for a commit, which other readers do not see.

A tag is never changed: it is made if its name is free, and deleted. Its commit, and what that commit shows, is kept
by whoever deletes branches or cleans up, so they look here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import orjson

from omnigraph.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.manifest.handle import Manifest

FOLDER = "__tags"
_SUFFIX = ".json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit, and the branch that the commit was made on."""

    name: str
    commit: str
    branch: str
    created_at: datetime
    actor: str | None


def tag_names(manifest: Manifest) -> list[str]:
    """The names of all tags, sorted."""
    paths = [info.path for info in manifest.objects.list(FOLDER)]
    return sorted(path.removeprefix(f"{FOLDER}/").removesuffix(_SUFFIX) for path in paths if path.endswith(_SUFFIX))


def list_tags(manifest: Manifest) -> list[Tag]:
    """Every tag, by name. One that was deleted since they were listed is left out."""
    found = (find_tag(manifest, name) for name in tag_names(manifest))
    return [tag for tag in found if tag is not None]


def find_tag(manifest: Manifest, name: str) -> Tag | None:
    """The tag of a name that a tag may have, or None if there is none."""
    data = manifest.objects.get(path_of(name))
    return None if data is None else _decoded(name, data)


def path_of(name: str) -> str:
    """Where a tag is kept."""
    return f"{FOLDER}/{name}{_SUFFIX}"


def encoded(tag: Tag) -> bytes:
    """The content of a tag's object."""
    return orjson.dumps(
        {
            "name": tag.name,
            "commit_id": tag.commit,
            "branch": tag.branch,
            "created_at": (tag.created_at - _EPOCH) // timedelta(microseconds=1),
            "actor": tag.actor,
        }
    )


def _decoded(name: str, data: bytes) -> Tag:
    try:
        found = cast("Mapping[str, object]", orjson.loads(data))
        actor = found["actor"]
        return Tag(
            name,
            str(found["commit_id"]),
            str(found["branch"]),
            _EPOCH + timedelta(microseconds=int(cast("int", found["created_at"]))),
            None if actor is None else str(actor),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise StorageError(
            f"the tag '{name}' is damaged",
            hint=f"restore {path_of(name)} from a copy, or delete the tag",
            details={"tag": name},
        ) from error
