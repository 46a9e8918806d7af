"""What lies on disk below a graph, to be compared before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

Contents: TypeAlias = dict[str, bytes]


def contents(root: Path) -> Contents:
    """Every file with its bytes; lock files left out, since whoever waits for a lock makes one."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.parent.name != "__locks")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def traces(root: Path) -> dict[str, int]:
    """When each file and folder was last changed: tells of any write at all, one that was undone too."""
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in sorted(root.rglob("*"))}
