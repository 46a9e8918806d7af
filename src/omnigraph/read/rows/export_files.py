"""Write files and folders atomically: they appear under their names when they are complete, and not before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from omnigraph.errors import AlreadyExists, NotFound, ParameterError, StorageError
from omnigraph.storage.location import parse_local_path


@contextmanager
def create_file(path: Path) -> Generator[BinaryIO]:
    """Open a file to write. When complete it replaces an existing file; after a failure that file is unchanged."""
    with _reserve_part(path) as part:
        if path.is_dir():
            raise ParameterError(f"'{path}' is a folder", hint="name a file in it")
        try:
            with part.open("xb") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def create_folder(path: Path) -> Generator[Path]:
    """Open a folder to fill. An existing folder is replaced only if it is empty."""
    with _reserve_part(path) as part:
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise AlreadyExists(f"'{path}' already exists", hint="name a new folder, or an empty one")
        try:
            part.mkdir()
            yield part
            part.replace(path)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def parse_target(target: str | os.PathLike[str]) -> Path:
    """Return the local path of a target; one on an object store is refused."""
    return parse_local_path(target, "target", "give a local path, or an open stream")


@contextmanager
def _reserve_part(path: Path) -> Generator[Path]:
    """Give the path of the incomplete file or folder: beside the target, so that it can be renamed."""
    folder = path.absolute().parent
    try:
        if not folder.is_dir():
            raise NotFound(f"there is no folder '{path.parent}'", hint="create it first")
        yield folder / f".omnigraph-{token_hex(8)}.part"
    except OSError as error:
        raise StorageError(
            f"'{path}' cannot be written: {error.strerror or error}", hint="name another place, or make room there"
        ) from error
