"""A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark."""

from __future__ import annotations

from importlib.metadata import version

from omnigraph import errors

__version__ = version("omnigraph")
__all__ = ["__version__", "errors"]
