"""Repair the branches of a graph that was moved or copied: they still refer to the folder where they were created.

Main refers to its files by relative paths. A branch shares files with its parent, and Lance records their absolute
paths in the version files of the branch. These files are rewritten one by one; each is correct before or after, and an
interrupted run is completed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from omnigraph.errors import StorageError, Unsupported
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.lance_internals import (
    dataset_of_branch_version,
    is_inside,
    read_base_folders,
    relocate_folder,
    replace_base_folders,
)
from omnigraph.storage.locks import refs_lock


def find_relocated_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the version files that refer to another folder, each with the location of its dataset in the graph."""
    for info in manifest.objects.list():
        location = dataset_of_branch_version(info.path)
        data = None if location is None else manifest.objects.get(info.path)
        if location is not None and data is not None:
            uri = manifest.location.join(location)
            if not all(is_inside(path, uri) for path in _read_base_folders(data)):
                yield info.path, location


def _read_base_folders(data: bytes) -> list[str]:
    try:
        return read_base_folders(data)
    except StorageError:
        # Torn by a power cut, so nothing refers to it. A version that is needed is reported by whoever reads it.
        return []


def relocate_branches(manifest: Manifest, *, confirm: bool) -> int:
    """Point the version files of branches to the folder of the graph; returns how many are, or would be, rewritten."""
    with refs_lock(manifest.location, manifest.locks) as refs:
        found = list(find_relocated_files(manifest))
        if found and confirm:
            _refuse_dynamodb(manifest)
        for path, location in found if confirm else ():
            data = manifest.objects.get(path)
            if data is not None:
                refs.check()
                uri = manifest.location.join(location)
                manifest.objects.put(
                    path, replace_base_folders(data, partial(relocate_folder, uri=uri, location=location))
                )
    if found and confirm:
        manifest.forget_all()
    return len(found)


def _refuse_dynamodb(manifest: Manifest) -> None:
    if manifest.location.scheme == "s3+ddb":
        raise Unsupported(
            "a copied graph with branches cannot be repaired while DynamoDB lists its versions",
            hint=f"repair it as {manifest.location.objects} before opening it with a DynamoDB table",
        )
