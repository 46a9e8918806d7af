"""Writers whose power fails: what they do, and what the graph must show afterwards.

A workload is a list of stages, each in a process of its own. A writer marks in the record what it is about to commit
and what it was told is committed; the marks are all that the checks know of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage import failpoints
from tests.power.recorder import Recorder

MAIN: Final = "main"
SCHEMA: Final = """
node Port { code: String @key  name: String? @index  depth: F64? }
node Ship { name: String @key  flag: String? }
edge Near: Port -> Port
"""
LATER_SCHEMA: Final = SCHEMA.replace("depth: F64?", "depth: F64?  berths: I32?")
_ADD: Final = """
query add($code: String) {
  insert Port { code: $code, name: $code }
  insert Near { from: $code, to: $code }
}
"""
_RENAME: Final = "query rename($code: String, $name: String) { update Port set { name: $name } where code = $code }"
_REMOVE: Final = "query remove($code: String) { delete Port where code = $code }"

Durability: TypeAlias = Literal["process", "power"]
Row: TypeAlias = str
Rows: TypeAlias = frozenset[Row]
Make: TypeAlias = Callable[..., Graph]


def _row(record: Mapping[str, object]) -> Row:
    """Write one record so that records of the loader and of the export are equal: no nulls, no ids."""
    data = cast("dict[str, object]", record.get("data", {}))
    shown = {name: value for name, value in data.items() if value is not None and name != "id"}
    return json.dumps({**record, "data": shown}, sort_keys=True)


def port(code: str, name: str | None = None) -> dict[str, object]:
    return {"type": "Port", "data": {"code": code, "name": name or code}}


def ship(name: str) -> dict[str, object]:
    return {"type": "Ship", "data": {"name": name, "flag": "PA"}}


def near(code: str) -> dict[str, object]:
    return {"edge": "Near", "from": code, "to": code}


def rows(*records: Mapping[str, object]) -> Rows:
    return frozenset(map(_row, records))


def read_rows(graph: Graph, branch: str, at: str | None = None) -> list[Row]:
    """Read everything that a branch or a commit shows."""
    lines = graph.export(branch=branch, at=at)
    return sorted(_row(cast("dict[str, object]", json.loads(line))) for line in lines)


FIRST: Final = (port("ams"), port("bcn"), ship("arthur"), near("ams"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workload writes, how durably, and where it dies."""

    root: str
    durability: Durability
    dies_at: int | None = None
    """The number of the durable write that a stage dies before, if it is one that dies."""

    @property
    def uri(self) -> str:
        return f"{self.root}/graph.og"


@dataclass(slots=True)
class Writer:
    """A graph under a recorder, and the rows that each branch has."""

    place: Place
    recorder: Recorder | None
    now: dict[str, Rows] = field(default_factory=dict[str, Rows])

    def init(self) -> Graph:
        self._mark("begin", branch=MAIN, rows=[])
        self.now[MAIN] = frozenset()
        graph = self._call(omnigraph.init, SCHEMA)
        self._mark("done", branch=MAIN, commit=graph.commits()[0].id)
        return graph

    def open(self) -> Graph:
        return self._call(omnigraph.open)

    def load(self, graph: Graph, branch: str = MAIN) -> None:
        self._begin(branch, self.now[branch] | rows(*FIRST))
        made = graph.load(FIRST, branch=branch)
        self._done(branch, made.commit)

    def add(self, graph: Graph, code: str, branch: str = MAIN) -> None:
        self._begin(branch, self.now[branch] | rows(port(code), near(code)))
        self._done(branch, graph.mutate(_ADD, params={"code": code}, branch=branch).commit)

    def rename(self, graph: Graph, code: str, name: str, branch: str = MAIN) -> None:
        self._begin(branch, self.now[branch] - rows(port(code)) | rows(port(code, name)))
        self._done(branch, graph.mutate(_RENAME, params={"code": code, "name": name}, branch=branch).commit)

    def remove(self, graph: Graph, code: str, branch: str = MAIN) -> None:
        self._begin(branch, self.now[branch] - rows(port(code), near(code)))
        self._done(branch, graph.mutate(_REMOVE, params={"code": code}, branch=branch).commit)

    def branch(self, graph: Graph, name: str, source: str = MAIN) -> None:
        self._begin(name, self.now[source])
        graph.create_branch(name, source)
        self._mark("done", branch=name, commit=None)

    def merge(self, graph: Graph, source: str) -> None:
        self._begin(MAIN, self.now[MAIN] | self.now[source])
        self._done(MAIN, graph.merge(source).commit)

    def apply_schema(self, graph: Graph) -> None:
        self._begin(MAIN, self.now[MAIN])
        graph.apply_schema(LATER_SCHEMA)
        self._done(MAIN, graph.commits()[0])

    def index(self, graph: Graph) -> None:
        self._begin(MAIN, self.now[MAIN])
        self._done(MAIN, graph.ensure_indexes().commit)

    def settle(self) -> None:
        """Say that the machine was shut down and started: what is there is synced."""
        self._mark("settled", branch=MAIN)

    def recovered(self, graph: Graph, branch: str = MAIN) -> None:
        """Say that somebody opened the graph and saw the commit of a dead writer."""
        self._done(branch, graph.commits()[0])

    def _begin(self, branch: str, rows: Rows) -> None:
        self.now[branch] = rows
        self._mark("begin", branch=branch, rows=sorted(rows))

    def _done(self, branch: str, commit: object) -> None:
        assert commit is not None
        self._mark("done", branch=branch, commit=cast(str, getattr(commit, "id", commit)))

    def _mark(self, event: str, **facts: object) -> None:
        if self.recorder is not None:
            self.recorder.mark(json.dumps({"event": event, **facts}))

    def _call(self, make: Make, *args: object) -> Graph:
        return make(self.place.uri, *args, durability=self.place.durability)


# --------------------------------------------------------------------------------------------- the workloads


def init(writer: Writer) -> None:
    writer.init()


def prepare(writer: Writer) -> Graph:
    graph = writer.init()
    writer.load(graph)
    return graph


def load(writer: Writer) -> None:
    graph = writer.init()
    writer.settle()
    writer.load(graph)


def mutate(writer: Writer) -> None:
    graph = prepare(writer)
    writer.settle()
    writer.add(graph, "cph")
    writer.rename(graph, "bcn", "Barcelona")
    writer.remove(graph, "ams")


def fork(writer: Writer) -> None:
    graph = prepare(writer)
    writer.settle()
    writer.branch(graph, "dev")
    writer.add(graph, "cph", "dev")
    writer.add(graph, "dub")
    writer.add(graph, "ede", "dev")


def merge(writer: Writer) -> None:
    graph = prepare(writer)
    writer.branch(graph, "dev")
    writer.add(graph, "cph", "dev")
    writer.add(graph, "dub")
    writer.settle()
    writer.merge(graph, "dev")


def evolve(writer: Writer) -> None:
    graph = prepare(writer)
    writer.settle()
    writer.apply_schema(graph)
    writer.add(graph, "cph")


def index(writer: Writer) -> None:
    graph = prepare(writer)
    writer.settle()
    writer.index(graph)
    writer.add(graph, "cph")


def prepare_and_settle(writer: Writer) -> None:
    prepare(writer)
    writer.settle()


def die(writer: Writer) -> None:
    """Die with all tables committed and nothing published."""
    writer.now[MAIN] = rows(*FIRST)
    graph = writer.open()
    if writer.place.dies_at is None:
        writer.add(graph, "cph")
    else:
        with failpoints.kill_at(writer.place.dies_at, "before"):
            writer.add(graph, "cph")


def recover(writer: Writer) -> None:
    writer.now[MAIN] = rows(*FIRST, port("cph"), near("cph"))
    graph = writer.open()
    writer.recovered(graph)
    writer.add(graph, "dub")


Stage: TypeAlias = Callable[[Writer], object]
WORKLOADS: Final[Mapping[str, tuple[Stage, ...]]] = {
    "init": (init,),
    "load": (load,),
    "mutations": (mutate,),
    "fork": (fork,),
    "merge": (merge,),
    "schema": (evolve,),
    "indexes": (index,),
    "recovery": (prepare_and_settle, die, recover),
}


def run_stage(stage: Stage, place: Place, library: Path, record: Path) -> None:
    """Run one stage in this process, recorded."""
    stage(Writer(place, Recorder(library, Path(place.root), record)))


def run_unrecorded(stages: Iterable[Stage], place: Place) -> None:
    """Run some stages in this process."""
    for stage in stages:
        stage(Writer(place, None))
