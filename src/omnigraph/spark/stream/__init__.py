"""Stream into a graph: every micro-batch is loaded as one commit, exactly once."""

from omnigraph.spark.stream.sink import (
    BatchObserver,
    OutputMode,
    Route,
    StreamDestination,
    StreamMode,
    StreamOptions,
    choose_stream_target,
    start_stream,
)

__all__ = [
    "BatchObserver",
    "OutputMode",
    "Route",
    "StreamDestination",
    "StreamMode",
    "StreamOptions",
    "choose_stream_target",
    "start_stream",
]
