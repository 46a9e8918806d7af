"""Streams into the graph: every micro-batch is one load, and so one commit, exactly once."""

from omnigraph.spark.stream.sink import (
    OutputMode,
    Route,
    StreamDestination,
    StreamMode,
    StreamOptions,
    stream,
    target_of,
)

__all__ = [
    "OutputMode",
    "Route",
    "StreamDestination",
    "StreamMode",
    "StreamOptions",
    "stream",
    "target_of",
]
