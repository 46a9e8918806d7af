"""Stored tags: one small object per tag, a name for a commit. Release 0.8 does not see them.

A tag is never changed, only created and deleted. Deleting branches and cleanup keep the commit of a tag and what it
shows, so they read tags here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from omnigraph.errors import StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.records import INSTANT, MalformedRecord, RecordCodec, nullable, required

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

FOLDER = "__tags"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit, with the branch of the commit."""

    name: str
    commit: str
    branch: str
    created_at: datetime
    actor: str | None


def list_tag_names(manifest: Manifest) -> list[str]:
    """Return the names of all tags, sorted."""
    paths = [info.path for info in manifest.objects.list(FOLDER)]
    return sorted(path.removeprefix(f"{FOLDER}/").removesuffix(_SUFFIX) for path in paths if path.endswith(_SUFFIX))


def list_tags(manifest: Manifest) -> list[Tag]:
    """Return all tags by name. One that is deleted meanwhile is left out."""
    found = (find_tag(manifest, name) for name in list_tag_names(manifest))
    return [tag for tag in found if tag is not None]


def find_tag(manifest: Manifest, name: str) -> Tag | None:
    """Return the tag of a valid name, or None if there is none."""
    data = manifest.objects.get(path_of(name))
    return None if data is None else _decode_tag(name, data)


def path_of(name: str) -> str:
    """Return the path of a tag's object."""
    return f"{FOLDER}/{name}{_SUFFIX}"


_TAG: Final = RecordCodec(
    Tag,
    (
        nullable("name"),
        required("commit", name="commit_id"),
        required("branch"),
        required("created_at", INSTANT),
        nullable("actor"),
    ),
)


def encode_tag(tag: Tag) -> bytes:
    """Return the content of a tag's object."""
    return _TAG.dumps(tag)


def _decode_tag(name: str, data: bytes) -> Tag:
    try:
        # The path decides which tag it is.
        return replace(_TAG.loads(data), name=name)
    except MalformedRecord as error:
        raise StorageError(
            f"the tag '{name}' is damaged",
            hint=f"restore {path_of(name)} from a copy, or delete the tag",
            details={"tag": name},
        ) from error
