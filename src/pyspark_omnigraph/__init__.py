"""Lets Spark discover ``format("omnigraph")``; nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.spark.data_source import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    # Spark looks for DefaultSource in every installed module named pyspark_*; only this lookup needs PySpark.
    if name == "DefaultSource":
        from omnigraph.spark.data_source import OmniGraphSource

        return OmniGraphSource
    raise AttributeError(f"module 'pyspark_omnigraph' has no attribute {name!r}")
