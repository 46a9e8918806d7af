"""Making and deleting tags, under the refs lock, so that no branch goes away below a tag that is being made."""

from __future__ import annotations

from datetime import UTC, datetime

from omnigraph.errors import AlreadyExists, NotFound, ParameterError
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.names import check_free, check_name
from omnigraph.manifest.references import Reference, resolve
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import open_pin, pins_of
from omnigraph.manifest.tags import Tag, encode_tag, path_of, tag_names
from omnigraph.storage.locks import refs_lock


def create_tag(manifest: Manifest, name: str, reference: Reference, branch: str, actor: str | None) -> Tag:
    """Give a name to the commit that a reference means: a branch's newest one, or one of ``branch``'s past."""
    _check_tag_name(name)
    with refs_lock(manifest.location, manifest.locks) as refs:
        live = branch_names(manifest)
        check_free(name, live[1:])
        commit = _commit_at(manifest, reference, branch, live)
        tag = Tag(name, commit.id, commit.branch or MAIN, datetime.now(UTC), actor)
        path, data = path_of(name), encode_tag(tag)
        refs.check()
        # An object store may repeat a request whose answer was lost, and then refuse its own object.
        if not manifest.objects.put_if_absent(path, data) and manifest.objects.get(path) != data:
            raise AlreadyExists(
                f"there is a tag '{name}' already",
                hint="a tag is never moved: delete it first, or choose another name",
                details={"name": name},
            )
    return tag


def delete_tag(manifest: Manifest, name: str) -> None:
    """Take the name away; the commit stays where it is."""
    with refs_lock(manifest.location, manifest.locks) as refs:
        # What is damaged can be deleted too, so the content does not matter.
        known = tag_names(manifest)
        if name not in known:
            hint = suggest_similar(name, known) or "`omnigraph tag list` shows them"
            raise NotFound(f"no tag '{name}' in {manifest.location}", hint=hint, details={"tag": name})
        refs.check()
        manifest.objects.delete(path_of(name))


def _commit_at(manifest: Manifest, reference: Reference, branch: str, live: list[str]) -> CommitRecord:
    if isinstance(reference, str) and reference in live:
        place = resolve(manifest, reference, None)
    else:
        place = resolve(manifest, branch, reference)
    if place.commit is None:
        raise NotFound(f"no commit at '{reference}'", details={"reference": str(reference)})
    _refuse_unreadable(manifest, place.commit)
    return place.commit


def _refuse_unreadable(manifest: Manifest, commit: CommitRecord) -> None:
    """What cleanup has taken must not look kept: every table that the commit shows is opened."""
    branch = commit.branch or MAIN
    head = manifest.view(branch).head
    if head is None or head.id != commit.id:
        for pin in pins_of(manifest.view_at(branch, commit.manifest_version)).values():
            open_pin(manifest, pin)


def _check_tag_name(name: str) -> None:
    check_name(name)
    folder, _, _ = name.rpartition("/")
    if any(segment.endswith(".json") for segment in folder.split("/")):
        # Tag 'a' is the file a.json, which would have to be a folder for a tag 'a.json/b'.
        raise ParameterError(
            f"'{name}' cannot be the name of a tag: only the last segment may end in '.json'", details={"name": name}
        )
