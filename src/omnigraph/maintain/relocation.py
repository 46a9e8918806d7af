"""A graph that was moved or copied: its branches still name the folder that they were made in, until that is put right.

Main and everything that only main has lie where they are found. A branch shares files with what it was made from, and
Lance notes where these lie. The notes are changed file by file; each of them is right before or after, and what was
not reached is found by the next run.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from omnigraph.errors import Unsupported
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.lance_internals import dataset_of_branch_version, lies_in, moved_to, noted_in, with_notes
from omnigraph.storage.locks import refs_lock


def find_relocated_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The files that note another folder, each with the folder of its dataset within the graph."""
    for info in manifest.objects.list():
        location = dataset_of_branch_version(info.path)
        data = None if location is None else manifest.objects.get(info.path)
        if location is not None and data is not None:
            uri = manifest.location.join(location)
            if not all(lies_in(noted, uri) for noted in noted_in(data)):
                yield info.path, location


def relocate_branches(manifest: Manifest, *, confirm: bool) -> int:
    """Give the files of branches the folder that the graph lies in; how many they are, or would be."""
    with refs_lock(manifest.location, manifest.locks) as refs:
        found = list(find_relocated_files(manifest))
        if found and confirm:
            _refuse_dynamodb(manifest)
        for path, location in found if confirm else ():
            data = manifest.objects.get(path)
            if data is not None:
                refs.check()
                uri = manifest.location.join(location)
                manifest.objects.put(path, with_notes(data, partial(moved_to, uri=uri, location=location)))
    if found and confirm:
        manifest.forget_all()
    return len(found)


def _refuse_dynamodb(manifest: Manifest) -> None:
    if manifest.location.scheme == "s3+ddb":
        raise Unsupported(
            "a copy with branches cannot be taken over while DynamoDB lists its versions",
            hint=f"repair it as {manifest.location.objects} before it is opened with a table",
        )
