"""The driver of a load on a cluster, as a program: the tests start it, tell its tasks when to wait, and kill it.

``python cluster_load.py ORDERS``: the orders are JSON, see :class:`Orders`. Tasks tell the test of each part that they
have done through a pipe in a folder, and those that are held wait there until the test lets go of a lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

import omnigraph
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.load import identity_matching
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.load import run as spark_load
from omnigraph.storage.failpoints import When, WriteStep, _arm

SHIPS: Final = 400
PARTS: Final = 2
"""Each frame has so many parts: those of the ships come first, then those of the edges."""
NEWS: Final = "news"
GATE: Final = "gate"
BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For programs that do not live long."""
SCHEMA: Final = """
node Ship { code: String @key  name: String  crew: I32 }
edge Tows: Ship -> Ship
"""
Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Phase: TypeAlias = Literal["reading", "matching", "checking", "staging"]
Moment: TypeAlias = Literal["begun", "done"]


@dataclass(frozen=True, slots=True)
class Orders:
    """What a driver is to do; ``folder`` holds the graph ``ships.og``, the pipe and the gate.

    The tasks of one ``phase`` tell of themselves, or those of them whose work is a certain function, at this
    ``moment``: before their first rows, or when everything is written and nothing is handed over. One part is special:
    its first attempt waits (``held``), or its first attempts fail. ``dies``: the driver kills itself before or after
    its first commit of a table. ``by_identity``: edges have no ids, and executors look for them.
    """

    folder: str
    phase: Phase = "reading"
    moment: Moment = "done"
    part: int | None = None
    work: str | None = None
    held: bool = False
    failures: int = 0
    dies: When | None = None
    by_identity: bool = False
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def text(self) -> str:
        """As an argument of the program."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class News:
    """What a task tells: its part of the work, which attempt it is, and its process."""

    part: int
    attempt: int
    process: int


# --------------------------------------------------------------------------------------------- in a task


def watched(orders: Orders, work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Some work of a task, that is told of and maybe held or failed."""
    if orders.moment == "begun":
        met(orders)
        yield from work(batches)
        return
    made = list(work(batches))
    met(orders)
    yield from made


def met(orders: Orders) -> None:
    """A task is at the moment that the test waits for."""
    context = TaskContext.get()
    assert context is not None
    part, attempt = context.partitionId(), context.attemptNumber()
    with Path(orders.folder, NEWS).open("w") as news:
        news.write(json.dumps(asdict(News(part, attempt, os.getpid()))) + "\n")
    if part != orders.part:
        return
    if attempt < orders.failures:
        raise ValueError("not yet")
    if orders.held and not attempt:
        with Path(orders.folder, GATE).open() as gate:
            fcntl.flock(gate, fcntl.LOCK_SH)


# --------------------------------------------------------------------------------------------- in the driver


def watch(orders: Orders) -> None:
    """From now on the work of a phase is watched, wherever it runs."""
    map_in_arrow = cast("Callable[..., DataFrame]", DataFrame.mapInArrow)
    phases: list[str] = []

    @contextmanager
    def noting(doing: str) -> Generator[None]:
        phases.append(doing)
        with translate_spark_errors(doing):
            yield
        phases.pop()

    def watching(frame: DataFrame, work: Work, schema: str) -> DataFrame:
        meant = any(doing.startswith(orders.phase) for doing in phases) and orders.work in (None, name_of(work))
        return map_in_arrow(frame, partial(watched, orders, work) if meant else work, schema)

    cast("Any", spark_load).translate_spark_errors = noting
    cast("Any", DataFrame).mapInArrow = watching


def name_of(work: object) -> str:
    """The function that does the work of a task: the last one that others were given."""
    while isinstance(work, partial):
        held = cast("partial[object]", work)
        given: list[object] = [each for each in held.args if callable(each)]
        work = given[-1] if given else held.func
    return cast(str, getattr(work, "__name__", "")).lstrip("_")


def die_at(moment: When, when: When, step: WriteStep) -> None:
    """Die before a table is committed, or when one is and the other is not."""
    if (when, step.name) == (moment, "table.commit"):
        os.kill(os.getpid(), signal.SIGKILL)


def session_of(settings: dict[str, str]) -> SparkSession:
    """A session that begins when all executors are there."""
    builder = SparkSession.builder
    always = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.executor.extraJavaOptions": BRIEF,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": str(PARTS),
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in {**always, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    """Start Spark, and load."""
    orders = Orders(**json.loads(sys.argv[1]))
    session = session_of(orders.settings)
    watch(orders)
    with _arm(partial(die_at, orders.dies)) if orders.dies else nullcontext():
        load_fleet(session, Path(orders.folder, "ships.og"), by_identity=orders.by_identity)
    session.stop()


def load_fleet(session: SparkSession, graph: Path, *, by_identity: bool = False) -> None:
    """Load ships and who tows whom, as one commit; no row of it is handled by the driver."""
    load_incoming.LOCAL_LOAD_ROWS = 0
    identity = {"Tows": ["from", "to"]} if by_identity else None
    if by_identity:
        identity_matching.MAX_LOOKED_UP_ROWS = 0
    ships = session.range(0, SHIPS, 1, PARTS).selectExpr(
        "concat('s', id) as code", "concat('new ', id) as name", "cast(id % 7 as int) as crew"
    )
    tows = session.range(1, SHIPS, 1, PARTS).selectExpr(
        "concat('t', id) as id", "concat('s', id) as `from`", "concat('s', id - 1) as `to`"
    )
    edges = {"Tows": tows.drop("id") if by_identity else tows}
    omnigraph.open(graph).spark(session).load(nodes={"Ship": ships}, edges=edges, mode="merge", identity=identity)


if __name__ == "__main__":
    main()
