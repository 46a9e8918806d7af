"""Defaults of the command line from files: one of the user, and ``omnigraph.toml`` of a project, which wins.

An option or a variable of the environment wins over both.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.location import has_scheme

if TYPE_CHECKING:
    from omnigraph.storage.durability import Durability

PROJECT_FILE: Final = "omnigraph.toml"
_DURABILITIES: Final = ("process", "power")
_SUBCOMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "changes": ("baseline", "poll"),
    "commit": ("list",),
    "tag": ("create",),
}
"""The families of commands that have --branch, and which of their commands do."""
_WITH_ROWS: Final = ("query", "analyze")


@dataclass(frozen=True, slots=True)
class Config:
    """What the files say. A path of a graph is relative to its file."""

    graph: str | None = None
    actor: str | None = None
    branch: str | None = None
    format: str | None = None
    durability: Durability | None = None

    def list_defaults(self, commands: Iterable[str]) -> MutableMapping[str, Any]:
        """Return the defaults of options by command, as Typer takes them."""
        branch = {} if self.branch is None else {"branch": self.branch}
        form = {} if self.format is None else {"form": self.format}
        found: dict[str, Any] = {name: {**branch, **(form if name in _WITH_ROWS else {})} for name in commands}
        for family, names in _SUBCOMMANDS.items():
            found[family] = dict.fromkeys(names, branch)
        return found


def read_config(folder: Path) -> Config:
    """Read the file of the user, and that of the project at or above a folder."""
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "omnigraph" / "config.toml"
    projects = (place / PROJECT_FILE for place in (folder, *folder.parents))
    project = next((path for path in projects if _is_readable(path)), user)
    values: dict[str, str] = {}
    for path in dict.fromkeys((user, project)):
        if _is_readable(path):
            values |= _read_file(path)
    return Config(**cast("dict[str, Any]", values))


def _is_readable(path: Path) -> bool:
    """Whether there is a file. A folder that may not be entered has none for this user."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def _read_file(path: Path) -> dict[str, str]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.TyperException(f"{path}: {error}") from None
    known = [field.name for field in fields(Config)]
    problems = [f"unknown key '{key}'; it may have {', '.join(known)}" for key in found if key not in known]
    problems += [f"{key} is not a text" for key in known if key in found and not isinstance(found[key], str)]
    if found.get("durability", "process") not in _DURABILITIES:
        problems.append(f"durability is {found['durability']!r}; use {' or '.join(_DURABILITIES)}")
    if problems:
        raise typer.TyperException(f"{path}: {'; '.join(problems)}")
    graph = found.get("graph")
    if graph is not None and not has_scheme(graph):
        found["graph"] = str(path.parent / Path(graph).expanduser())
    return found
