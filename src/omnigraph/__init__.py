"""A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from omnigraph import errors

if TYPE_CHECKING:
    from omnigraph.graph import Graph, init, open  # noqa: A004  the public name

__version__ = version("omnigraph")
__all__ = ["Graph", "__version__", "errors", "init", "open"]


def __getattr__(name: str) -> object:
    # Lance takes half a second to import: only what opens a graph pays for it.
    if name in ("Graph", "init", "open"):
        from omnigraph import graph

        return getattr(graph, name)
    raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
