"""Commits made without the write path: real rows in real tables, published through the fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from ulid import ULID

import omnigraph
from omnigraph.graph import Graph
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.manifest.rows import MAIN, TableVersion
from omnigraph.manifest.snapshot import list_pins, make_entry
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
node Firm { name: String @key }
edge Knows: Person -> Person
"""


def make_graph(location: Location) -> Graph:
    """A new, empty graph of three node types and one edge type."""
    return omnigraph.init(location.uri, SCHEMA, storage_options=dict(location.storage_options))


def manifest_of(graph: Graph) -> Manifest:
    """The manifest behind a graph."""
    return graph._manifest


def commit_rows(
    graph: Graph,
    added: Mapping[str, Sequence[str]],
    branch: str = MAIN,
    *,
    txn: tuple[str, int] | None = None,
    if_commit: str | None = None,
    expected: Mapping[str, int] | None = None,
) -> PublishResult:
    """Append nodes to their tables and publish all of them as one commit."""
    manifest = manifest_of(graph)
    commit_id = str(ULID())
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        pins = list_pins(manifest.view(branch))
        updates: list[TableVersion] = []
        for name, keys in added.items():
            pin = pins[f"node:{name}"]
            table = fork_table(manifest, held, branch, pin)
            staged = tables.append(table, pa.table({"id": list(keys), "name": list(keys)}, schema=table.schema))
            assert staged is not None
            updates.append(make_entry(manifest, pin, tables.commit(table, staged, commit_id)))
        request = PublishRequest(
            CommitIntent(commit_id, graph.schema.hash, txn=txn, actor="tests"),
            updates=tuple(updates),
            expected={f"node:{name}": pins[f"node:{name}"].version for name in added} if expected is None else expected,
            if_commit=if_commit,
        )
        published = publish(manifest, held, branch, request)
        assert published is not None
        return published


def names(graph: Graph, type_name: str, branch: str = MAIN, at: str | int | None = None) -> list[str]:
    """The names of all nodes of a type, sorted."""
    table = graph.snapshot(branch, at).table(type_name)
    return sorted(str(row["name"]) for row in table.scan(columns=["name"]).read_all().to_pylist())
