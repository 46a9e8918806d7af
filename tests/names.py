"""All names of modules, classes and functions of the project. ``python -m tests.names`` lists them, sorted.

Read the list from time to time: names that differ by an ending, or that mean two things, stand next to each other.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

SOURCE: Final = Path(__file__).parent.parent / "src"

Kind = Literal["module", "class", "function"]


@dataclass(frozen=True, slots=True)
class Name:
    """A name and where it is defined. ``module`` is dotted, below the package: ``read.match.expand``."""

    name: str
    kind: Kind
    module: str

    @property
    def is_public(self) -> bool:
        return not self.name.startswith("_")

    @property
    def floor(self) -> str:
        return self.module.split(".")[0]

    @property
    def room(self) -> str:
        """The package that the module stands in: a room, or a floor without rooms."""
        return self.module.rpartition(".")[0] or self.module


def all_names() -> Iterator[Name]:
    """Every module, every class, and every function that stands in a module."""
    for path in sorted((SOURCE / "omnigraph").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE / "omnigraph").with_suffix("").parts)
        if path.stem.startswith("__"):
            module = module.rpartition(".")[0]
        else:
            yield Name(path.stem, "module", module)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield Name(node.name, "class", module)
            elif isinstance(node, ast.FunctionDef):
                yield Name(node.name, "function", module)


_ENDINGS: Final = re.compile(r"(?:ings?|ed|ers?|ions?|es|s|e)$")


def stem_of(word: str) -> str:
    """A word without its ending, so that ``merge``, ``merging`` and ``merges`` are one."""
    return _ENDINGS.sub("", word) if len(word) > 4 else word


def main() -> None:
    for each in sorted(all_names(), key=lambda each: (each.name.lower().lstrip("_"), each.module)):
        sys.stdout.write(f"{each.name:40} {each.kind:10} {each.module}\n")


if __name__ == "__main__":
    main()
