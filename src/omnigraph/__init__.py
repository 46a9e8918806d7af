"""A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph import errors

if TYPE_CHECKING:
    from omnigraph import pipeline
    from omnigraph.deadlines import Deadline
    from omnigraph.graph import Graph, init
    from omnigraph.remote import open_location as open  # noqa: A004  the public name

__version__: str
__all__ = ["Deadline", "Graph", "__version__", "errors", "init", "open", "pipeline"]


def __getattr__(name: str) -> object:
    # Lance takes half a second to import, and the list of installed packages a twentieth: only who needs them waits.
    if name in ("Graph", "init"):
        from omnigraph import graph

        return getattr(graph, name)
    if name == "open":
        from omnigraph import remote

        return remote.open_location
    if name == "Deadline":
        from omnigraph.deadlines import Deadline

        return Deadline
    if name == "pipeline":
        from importlib import import_module

        return import_module("omnigraph.pipeline")
    if name == "__version__":
        from importlib.metadata import version

        return version("omnigraph")
    raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
