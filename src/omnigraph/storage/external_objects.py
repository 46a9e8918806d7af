"""Look for objects that lie outside of a graph, where Lance would read them: files, and objects of object stores."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from lance.file import LanceFileSession

from omnigraph.errors import OmniGraphError
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.worker_threads import WorkerThreads

_AT_ONCE: Final = 32
"""How many requests wait for an object store at the same time."""


def find_missing_objects(uris: Collection[str], storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with each of some URIs whose object is not there, or whose store cannot be asked."""
    missing: dict[str, str] = {}
    remote: list[str] = []
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError as error:
            missing[uri] = f"'{uri}' is no URI: {error}"
            continue
        if parts.scheme != "file":
            remote.append(uri)
        elif not os.path.isfile(unquote(parts.path)):  # noqa: PTH113  Path.is_file can raise
            missing[uri] = f"there is no file '{uri}'"
    return {**missing, **_ask_stores(remote, storage_options)} if remote else missing


def _ask_stores(uris: Collection[str], storage_options: Mapping[str, str]) -> dict[str, str]:
    with WorkerThreads(_AT_ONCE) as pool:
        found = pool.map(partial(_ask_store, storage_options=dict(storage_options)), uris)
        return {uri: reason for uri, reason in zip(uris, found, strict=True) if reason is not None}


def _ask_store(uri: str, storage_options: dict[str, str]) -> str | None:
    """Return what is wrong with the object of a URI; None if it is there."""
    try:
        with translate_errors(f"'{uri}'"):
            # The object is the base itself: a path below it would be escaped in another way than a read does.
            return None if LanceFileSession(uri, storage_options).contains("") else f"there is no object '{uri}'"
    except OmniGraphError as error:
        return error.message
