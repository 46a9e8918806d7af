"""Console blocks of the documentation: what is typed, what is shown, and what a person would see."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def run_command(command: str, directory: Path, path: Sequence[Path], variables: Mapping[str, str]) -> list[str]:
    """What a person would see of a command: both streams, as lines. ``path`` is searched first."""
    folders = os.pathsep.join([*map(str, path), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": folders, "NO_COLOR": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.rstrip("\n").split("\n")


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether lines are as shown; ``...`` stands for any number of lines, and within a line for anything."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None
