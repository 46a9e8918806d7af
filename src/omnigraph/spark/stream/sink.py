"""Stream into a graph: load every micro-batch of a streaming query as one commit, exactly once.

Spark records in the checkpoint which rows a batch has before it passes the batch on, and that it is done afterwards. A
driver that dies in between gets the same batch again. So a batch is loaded with a transaction id, the query and the
number of the batch; a batch that the graph already has changes nothing. Spark does not record where the rows went.
``checkpoint.py`` does, so that a checkpoint is never used for another target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypedDict, cast

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from omnigraph.errors import OmniGraphError, ParameterError, ValidationError
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.spark.diagnosis import SLOW_START, translate_spark_errors
from omnigraph.spark.inputs import is_spark_frame
from omnigraph.spark.load import load
from omnigraph.spark.stream.checkpoint import StreamBinding, bind_checkpoint, read_query_id, resolve_checkpoint
from omnigraph.write.commit import CommitOptions, heal_branch
from omnigraph.write.load import ArrowStream, Identity, LoadInput, LoadOptions, LoadResult, OnError, resolve_identity

StreamMode: TypeAlias = Literal["append", "merge"]
OutputMode: TypeAlias = Literal["append", "update", "complete"]

AVAILABLE_NOW: Final = "availableNow"
"""The trigger of a query that stops after the data that exists when it starts."""
_START_ATTEMPTS: Final = 5
_log = logging.getLogger("omnigraph")
_MAX_VIOLATION_NOTES: Final = 20
"""The most groups of violations that are listed in the error of a failed query."""


class RoutedFrames(TypedDict, total=False):
    """What a routing function returns for a batch: frames by type, like the arguments of ``load``."""

    nodes: Mapping[str, ArrowStream]
    edges: Mapping[str, ArrowStream]


Route: TypeAlias = Callable[[DataFrame], RoutedFrames]
BatchObserver: TypeAlias = Callable[[int, LoadResult], object]
"""Called with the number and the result of each batch that was loaded."""


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """The types that rows go to: one type, or those that a routing function returns."""

    name: str
    route: Route
    is_user_function: bool = False
    """Whether ``route`` is a function of the user, which may read a batch several times."""


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
    identity: Identity | None = None
    allow_missing_blobs: bool = False


@dataclass(frozen=True, slots=True)
class StreamDestination:
    """Where the rows of a stream go: the graph, the types, and how each batch is loaded.

    It can be pickled: over Spark Connect, batches are loaded by a process of the server.
    """

    manifest: Manifest
    target: StreamTarget
    options: StreamOptions

    def load(
        self,
        session: SparkSession,
        routed: RoutedFrames,
        *,
        rejects: Path | None,
        txn: tuple[str, int] | None = None,
        check: bool = False,
    ) -> LoadResult | None:
        """Load the frames of one batch as one commit, or only check them. None if it has no frames."""
        nodes, edges = split_routed(routed)
        if not (nodes or edges):
            return None
        options = self.options
        return load(
            session,
            self.manifest,
            load_current_schema(self.manifest),
            LoadInput(None, nodes, edges),
            # Spark repeats a batch with the same rows, so one without rows needs no commit.
            LoadOptions(
                options.mode,
                options.on_error,
                rejects,
                "spark",
                check,
                keeps_txn=False,
                identity=options.identity,
                allow_missing_blobs=options.allow_missing_blobs,
            ),
            CommitOptions(options.branch, actor=options.actor, message=options.message, txn=txn),
        )

    def bind(self, session: SparkSession, checkpoint: str) -> None:
        """Finish what a dead driver left on the branch, and bind the checkpoint to this destination.

        Only after that is it known whether the graph has the batch that the dead driver was loading.
        """
        branch = self.options.branch
        heal_branch(self.manifest, branch)
        binding = StreamBinding(branch, self.target.name, self.options.app, self._describe_identity())
        bind_checkpoint(session, self.manifest, checkpoint, binding)

    def _describe_identity(self) -> str:
        """Return the columns that identify records, by table, in one spelling."""
        catalog = load_current_schema(self.manifest).catalog
        found = resolve_identity(catalog, self.options.identity, self.options.mode)
        public = {key: sorted(PUBLIC_NAMES.get(name, name) for name in names) for key, names in found.items()}
        return "; ".join(f"{key}={','.join(names)}" for key, names in sorted(public.items()))


def start_stream(
    destination: StreamDestination,
    frame: DataFrame,
    checkpoint: str | Path | None,
    trigger: str | None,
    output_mode: OutputMode,
    on_batch: BatchObserver | None = None,
) -> StreamingQuery:
    """Start a query whose batches become commits. All problems that can be found before it starts are refused."""
    _check_mode(destination.options.mode)
    _check_frame(frame)
    folder = resolve_checkpoint(destination.manifest.location, checkpoint)
    _dry_run(destination, frame)
    destination.bind(frame.sparkSession, folder)
    writer = frame.writeStream.outputMode(output_mode).option("checkpointLocation", folder)
    writer = _set_trigger(writer.foreachBatch(BatchLoader(destination, folder, on_batch).load), trigger)
    return start_query(writer)


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query. Over Spark Connect a new Python process must answer first, and Spark does not wait long for it.

    No batch has begun then, so the start is repeated: on a busy machine the next process starts sooner.
    """
    with translate_spark_errors("starting a stream"):
        for _ in range(_START_ATTEMPTS - 1):
            try:
                return writer.start()
            except PySparkException as error:
                if SLOW_START.search(str(error)) is None:
                    raise
                _log.warning("the Python process of a stream did not start in time; it is started again")
        return writer.start()


def choose_stream_target(node: str | None, edge: str | None, route: Route | None) -> StreamTarget:
    """Return the target of the one argument that is given; refuse none or several."""
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


@dataclass(slots=True)
class BatchLoader:
    """Loads each batch. The id of the query is that of the checkpoint, and is read with the first batch."""

    destination: StreamDestination
    checkpoint: str
    on_batch: BatchObserver | None = None
    query_id: str = ""

    def load(self, batch: DataFrame, number: int) -> None:
        """Load one batch, unless the graph already has it."""
        self.query_id = self.query_id or read_query_id(batch.sparkSession, self.checkpoint)
        try:
            if self._is_loaded(number):
                return
            target = self.destination.target
            if not target.is_user_function:
                self._load_frames(batch.sparkSession, target.route(batch), number)
                return
            batch.persist()
            try:
                self._load_frames(batch.sparkSession, target.route(batch), number)
            finally:
                batch.unpersist()
        except OmniGraphError as error:
            # Only the text of the error survives the way through Spark.
            error.add_note(f"batch {number} was not loaded")
            if isinstance(error, ValidationError):
                for each in error.groups[:_MAX_VIOLATION_NOTES]:
                    error.add_note(f"  {each.count:,} x {each.type} {each.rule}: {each.message}")
            raise

    def _is_loaded(self, number: int) -> bool:
        """Return whether the graph has a batch. Only the newest can be loaded already: Spark runs one at a time."""
        known = self.destination.manifest.view(self.destination.options.branch).tables.txns.get(self._app)
        if known is not None and known.number > number:
            raise ParameterError(
                f"the checkpoint is behind the graph: it is at batch {number}, but batch {known.number} was loaded",
                hint="a checkpoint cannot be set back; start with a new one, in mode merge",
            )
        return known is not None and known.number == number

    def _load_frames(self, session: SparkSession, routed: RoutedFrames, number: int) -> None:
        folder = self.destination.options.rejects
        rejects = folder and self._rejects_file(folder, number)
        result = self.destination.load(session, routed, rejects=rejects, txn=(self._app, number))
        if result is not None and not result.replayed and self.on_batch is not None:
            self.on_batch(number, result)

    @property
    def _app(self) -> str:
        return f"{self.destination.options.app}:{self.query_id}"

    def _rejects_file(self, folder: Path, number: int) -> Path:
        """Return the file for the rejected records of a batch, after deleting the one of a failed attempt."""
        file = folder / f"{self.query_id}-{number:08}.parquet"
        file.unlink(missing_ok=True)
        return file


def split_routed(routed: object) -> tuple[Mapping[str, ArrowStream], Mapping[str, ArrowStream]]:
    """Check the result of a routing function; return its frames of nodes and of edges."""
    if not isinstance(routed, Mapping):
        raise _routing_error(f"the routing function returned {type(routed).__name__}")
    parts = ("nodes", "edges")
    for name, frames in cast("Mapping[str, object]", routed).items():
        if name not in parts:
            raise _routing_error(f"the routing function returned '{name}'", suggest_similar(name, parts))
        if not isinstance(frames, Mapping):
            raise _routing_error(f"the routing function returned {name} as {type(frames).__name__}")
    given = cast("RoutedFrames", routed)
    return given.get("nodes", {}), given.get("edges", {})


def _routing_error(message: str, hint: str | None = None) -> ParameterError:
    return ParameterError(message, hint=hint or 'return {"nodes": {"Person": df}, "edges": {"Knows": df2}}')


# --------------------------------------------------------------------------------------------- before the first batch


def _check_mode(mode: str) -> None:
    if mode not in ("append", "merge"):
        raise ParameterError(
            f"mode is {mode!r}", hint="use append or merge: with overwrite each batch would replace the one before"
        )


def _check_frame(frame: object) -> None:
    if not is_spark_frame(frame):
        raise ParameterError(f"the frame is {type(frame).__name__}", hint="give a DataFrame of session.readStream")
    if not frame.isStreaming:
        raise ParameterError("the frame is not streaming", hint="use load, or read it with session.readStream")


def _dry_run(destination: StreamDestination, frame: DataFrame) -> None:
    """Check a load of an empty frame with the same columns: this finds problems with types, columns and options."""
    session = frame.sparkSession
    routed = destination.target.route(session.createDataFrame([], frame.schema))
    folder = destination.options.rejects
    destination.load(session, routed, rejects=folder and folder / "batch.parquet", check=True)


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
