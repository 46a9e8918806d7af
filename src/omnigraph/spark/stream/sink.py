"""Streams into the graph: every micro-batch of a streaming query is one load, and so one commit, exactly once.

Spark writes down in the checkpoint which rows a batch has before it hands the batch over, and that the batch is done
after. A driver that dies in between is handed the same batch again. So a batch is loaded as a transaction, named after
the query and numbered like the batch: one that is in the graph already changes nothing. What Spark keeps of a query
says nothing about where its rows went; that is written down beside it, and a checkpoint is used for no other target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypedDict, cast

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from omnigraph.errors import OmniGraphError, ParameterError, ValidationError
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.contract import current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.spark.inputs import is_spark_frame
from omnigraph.spark.load import load
from omnigraph.spark.spark_errors import translate_spark_errors
from omnigraph.spark.stream.checkpoint import StreamBinding, bind_checkpoint, resolve_checkpoint
from omnigraph.write.commit import CommitOptions, heal_branch
from omnigraph.write.load import ArrowStream, LoadInput, LoadOptions, OnError

StreamMode: TypeAlias = Literal["append", "merge"]
OutputMode: TypeAlias = Literal["append", "update", "complete"]

AVAILABLE_NOW: Final = "availableNow"
"""The trigger of a query that ends when it has read what was there when it began."""
_MAX_VIOLATION_NOTES: Final = 20
"""So many violations are told in the text of a failed query."""


class RoutedFrames(TypedDict, total=False):
    """What a routing function makes of a batch: frames by type, as ``load`` takes them."""

    nodes: Mapping[str, ArrowStream]
    edges: Mapping[str, ArrowStream]


Route: TypeAlias = Callable[[DataFrame], RoutedFrames]


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """Where the rows go: to one type, or where a function sends them."""

    name: str
    route: Route
    is_user_function: bool = False
    """Whether the function is the user's, who may use a batch as often as it takes."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How each batch is loaded."""

    mode: StreamMode
    branch: str
    on_error: OnError
    rejects: Path | None
    actor: str | None
    message: str | None
    app: str


@dataclass(frozen=True, slots=True)
class StreamDestination:
    """Where the rows of a stream go: the graph, the types in it, and how each batch is loaded."""

    session: SparkSession
    manifest: Manifest
    target: StreamTarget
    options: StreamOptions

    def load(
        self,
        routed: RoutedFrames,
        *,
        rejects: Path | None,
        txn: tuple[str, int] | None = None,
        check: bool = False,
    ) -> None:
        """Load the frames of one batch as one commit, or only check them."""
        nodes, edges = split_routed(routed)
        if not (nodes or edges):
            return
        terms = self.options
        load(
            self.session,
            self.manifest,
            current_schema(self.manifest),
            LoadInput(None, nodes, edges),
            LoadOptions(terms.mode, terms.on_error, rejects, "spark", check),
            CommitOptions(terms.branch, actor=terms.actor, message=terms.message, txn=txn),
        )


def start_stream(
    destination: StreamDestination,
    frame: DataFrame,
    checkpoint: str | Path | None,
    trigger: str | None,
    output_mode: OutputMode,
) -> StreamingQuery:
    """Start a query whose batches become commits. Everything that can be known to be wrong is refused before."""
    session, manifest, target, terms = (
        destination.session,
        destination.manifest,
        destination.target,
        destination.options,
    )
    _check_mode(terms.mode)
    _check_frame(frame)
    place = resolve_checkpoint(manifest.location, checkpoint)
    _dry_run(destination, frame)
    # What a dead driver left has to be finished, so that it is known whether the graph has the batch that it was at.
    heal_branch(manifest, terms.branch)
    bind_checkpoint(session, manifest, place, StreamBinding(terms.branch, target.name, terms.app))
    query_id: Future[str] = Future()
    batches = BatchLoader(destination, query_id)
    try:
        writer = frame.writeStream.outputMode(output_mode).option("checkpointLocation", place)
        writer = _set_trigger(writer.foreachBatch(batches.load), trigger)
        with translate_spark_errors("starting a stream"):
            query = writer.start()
    except BaseException as error:
        # A batch may have begun already, and waits for the name of its query.
        query_id.set_exception(error)
        raise
    query_id.set_result(query.id)
    return query


def choose_stream_target(node: str | None, edge: str | None, route: Route | None) -> StreamTarget:
    """The one target that was given."""
    given = {name: value for name, value in (("node", node), ("edge", edge), ("route", route)) if value is not None}
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "no target is given"
        raise ParameterError(found, hint='give one of node="Person", edge="Knows" or route=function')
    if node is not None:
        return StreamTarget(f"node {node}", lambda batch: {"nodes": {node: cast("ArrowStream", batch)}})
    if edge is not None:
        return StreamTarget(f"edge {edge}", lambda batch: {"edges": {edge: cast("ArrowStream", batch)}})
    assert route is not None
    return StreamTarget("route", route, is_user_function=True)


# --------------------------------------------------------------------------------------------- one batch


@dataclass(frozen=True, slots=True)
class BatchLoader:
    """What is done with each batch. ``query_id`` is known once the query has started, and stays with its checkpoint."""

    destination: StreamDestination
    query_id: Future[str]

    def load(self, batch: DataFrame, number: int) -> None:
        """Load one batch, unless the graph has it already."""
        try:
            if self._is_loaded(number):
                return
            target = self.destination.target
            if not target.is_user_function:
                self._load_frames(target.route(batch), number)
                return
            batch.persist()
            try:
                self._load_frames(target.route(batch), number)
            finally:
                batch.unpersist()
        except OmniGraphError as error:
            # The text of the error is what is left of it on the other side of Spark.
            error.add_note(f"batch {number} was not loaded")
            if isinstance(error, ValidationError):
                for each in error.violations[:_MAX_VIOLATION_NOTES]:
                    error.add_note(f"  {each.type} {each.rule}: {each.message}")
            raise

    def _is_loaded(self, number: int) -> bool:
        """Whether a batch is in the graph. Only the newest can be: Spark begins none before the last one is done."""
        known = self.destination.manifest.view(self.destination.options.branch).tables.txns.get(self._app)
        if known is not None and known.number > number:
            raise ParameterError(
                f"the checkpoint is behind the graph: batch {number} comes, and batch {known.number} was loaded",
                hint="a checkpoint cannot be set back; begin with a new one, in mode merge",
            )
        return known is not None and known.number == number

    def _load_frames(self, routed: RoutedFrames, number: int) -> None:
        folder = self.destination.options.rejects
        rejects = folder and self._rejects_file(folder, number)
        self.destination.load(routed, rejects=rejects, txn=(self._app, number))

    @property
    def _app(self) -> str:
        return f"{self.destination.options.app}:{self.query_id.result()}"

    def _rejects_file(self, folder: Path, number: int) -> Path:
        """The file of a batch's rejected records. An attempt that was never committed may have left one."""
        file = folder / f"{self.query_id.result()}-{number:08}.parquet"
        file.unlink(missing_ok=True)
        return file


def split_routed(routed: object) -> tuple[Mapping[str, ArrowStream], Mapping[str, ArrowStream]]:
    """The frames of nodes and of edges that a routing function gave."""
    if not isinstance(routed, Mapping):
        raise _routing_error(f"the routing function gave {type(routed).__name__}")
    parts = ("nodes", "edges")
    for name, frames in cast("Mapping[str, object]", routed).items():
        if name not in parts:
            raise _routing_error(f"the routing function gave '{name}'", suggest_similar(name, parts))
        if not isinstance(frames, Mapping):
            raise _routing_error(f"the routing function gave {name} as {type(frames).__name__}")
    given = cast("RoutedFrames", routed)
    return given.get("nodes", {}), given.get("edges", {})


def _routing_error(message: str, hint: str | None = None) -> ParameterError:
    return ParameterError(message, hint=hint or 'let it give {"nodes": {"Person": df}, "edges": {"Knows": df2}}')


# --------------------------------------------------------------------------------------------- before the first batch


def _check_mode(mode: str) -> None:
    if mode not in ("append", "merge"):
        raise ParameterError(
            f"mode is {mode!r}", hint="a stream uses append or merge: each batch would overwrite the one before"
        )


def _check_frame(frame: object) -> None:
    if not is_spark_frame(frame):
        raise ParameterError(f"the frame is {type(frame).__name__}", hint="give what session.readStream reads")
    if not frame.isStreaming:
        raise ParameterError("the frame does not stream", hint="use load for it, or read it with session.readStream")


def _dry_run(destination: StreamDestination, frame: DataFrame) -> None:
    """Load no rows of the same columns, without a commit: what is wrong with types, columns and words shows."""
    routed = destination.target.route(destination.session.createDataFrame([], frame.schema))
    folder = destination.options.rejects
    destination.load(routed, rejects=folder and folder / "batch.parquet", check=True)


def _set_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    try:
        return writer.trigger(processingTime=trigger)
    except (IllegalArgumentException, ValueError) as error:
        raise ParameterError(
            f"trigger is {trigger!r}", hint=f'give "{AVAILABLE_NOW}", or a time such as "10 seconds"'
        ) from error
