"""A small graph that is due for upkeep: ports that came one by one, each near the one before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import lance
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import Cleaned, cleanup
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from tests.graphs import rows_of

SCHEMA = """
node Port { code: String @key  name: String? @index  depth: F64?  @range(depth, 0..100) }
edge Near: Port -> Port
"""
ADD = """
query add($code: String, $to: String) {
  insert Port { code: $code, name: $code }
  insert Near { from: $code, to: $to }
}
"""
REMOVE = "query remove($code: String) { delete Port where code = $code }"
AT_ONCE = timedelta(0)

Shown: TypeAlias = tuple[Sequence[str], Sequence[tuple[str, str]]]


def add(graph: Graph, code: str, branch: str = MAIN) -> str:
    """One more port, near to itself; the commit."""
    made = graph.mutate(ADD, params={"code": code, "to": code}, branch=branch).commit
    assert made is not None
    return made.id


def remove(graph: Graph, code: str, branch: str = MAIN) -> None:
    """One port less, with its edges."""
    graph.mutate(REMOVE, params={"code": code}, branch=branch)


def make_template(folder: Path, ports: int) -> Path:
    """A graph of so many small commits."""
    root = folder / "ports.og"
    graph = omnigraph.init(root, SCHEMA)
    for number in range(ports):
        add(graph, f"p{number:02}")
    return root


def shown(graph: Graph, branch: str = MAIN, at: Reference | None = None) -> Shown:
    """All ports, and which is near to which."""
    ports = sorted(str(row["id"]) for row in rows_of(graph, "Port", branch, at))
    return ports, sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "Near", branch, at))


def fragments(graph: Graph, branch: str = MAIN) -> dict[str, int]:
    """In how many pieces the rows of each table lie."""
    now = graph.snapshot(branch)
    return {key: len(now.table(key).fragment_rows()) for key in now.pins}


def cleanup_now(graph: Graph, keep: int, stale_after: timedelta = timedelta(days=7)) -> Cleaned:
    """A cleanup that waits for no reader."""
    return cleanup(graph._manifest, keep, confirm=True, stale_after=stale_after, grace=AT_ONCE)


def uri_of(graph: Graph, key: str, branch: str = MAIN) -> str:
    """Where the table of a branch lies, as another program would open it."""
    pin = graph.snapshot(branch).pins[key]
    root = graph._manifest.location.join(pin.location)
    return root if pin.branch is None else f"{root}/tree/{pin.branch}"


def append_by_another_program(graph: Graph, code: str, key: str | None = None) -> None:
    """A row that no commit of the graph has."""
    uri = uri_of(graph, "node:Port")
    row = {"id": code, "code": key or code, "name": None, "depth": None}
    lance.write_dataset(pa.Table.from_pylist([row], schema=lance.dataset(uri).schema), uri, mode="append")
