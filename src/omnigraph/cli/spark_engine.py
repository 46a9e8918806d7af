"""Spark for the commands that can run on it: they name it by ``--engine spark``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.spark.graph import SparkGraph

Engine: TypeAlias = Annotated[
    Literal["local", "spark"],
    typer.Option("--engine", help="Where the rows are worked on: in this process, or on Spark."),
]


def start_spark(graph: Graph) -> SparkGraph:
    """Start Spark with its own warnings off, unless ``-v`` is given: they are long and show full paths."""
    from pyspark.sql.utils import is_remote

    started = graph.spark()
    # Over Spark Connect the warnings are in the log of the server.
    if not (is_remote() or logging.getLogger("omnigraph").isEnabledFor(logging.INFO)):
        started.session.sparkContext.setLogLevel("ERROR")
    return started


def choose_engine(graph: Graph, engine: str) -> Graph | SparkGraph:
    """Return the graph itself, or the graph as Spark works on it."""
    return start_spark(graph) if engine == "spark" else graph
