"""A small social graph that tests edit by id on any branch and read as plain dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import Conflict, MergeConflicts
from omnigraph.graph import Graph
from omnigraph.language.schema.catalog import Catalog
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, commit_operation
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.mutation.run import MutationProgress, prepare_changes
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.mutation.statements import AffectedCounts
from tests.graphs import written
from tests.model.merge_model import Entity

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique  @range(age, 0..150) }
edge Knows: Person -> Person @card(0..2) { since: I32?  note: String? }
"""

Rows: TypeAlias = Mapping[str, Mapping[str, object] | None]
"""Entities by id; None for one that goes."""
_ENDS = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class Edit:
    """Upserts and deletes entities by id as one commit, checked by all rules."""

    catalog: Catalog
    people: Rows
    knows: Rows
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[AffectedCounts]:
        """Stage the changes as a mutation does."""
        staging = StagingArea(snapshot)
        for type_, rows in ((self.catalog.nodes["Person"], self.people), (self.catalog.edges["Knows"], self.knows)):
            gone = [id_ for id_, row in rows.items() if row is None]
            table = staging.table(type_)
            if gone:
                table.delete(pa.array(gone, pa.string()))
            put = [_row(type_.name, id_, row) for id_, row in rows.items() if row is not None]
            if put:
                table.upsert(pa.Table.from_pylist(put, schema=arrow_schema(type_)))
        return prepare_changes(self.catalog, MutationProgress(staging))


def _row(type_: str, id_: str, row: Mapping[str, object]) -> dict[str, object]:
    named = {"name": id_} if type_ == "Person" else {}
    return {"id": id_, **named, **{_ENDS.get(name, name): value for name, value in row.items()}}


def make(folder: Path, people: Rows, knows: Rows | None = None) -> Graph:
    """Create a graph with these entities on main."""
    graph = omnigraph.init(folder / "merge.og", SCHEMA)
    edit(graph, people=people, knows=knows)
    return graph


def edit(graph: Graph, branch: str = MAIN, *, people: Rows | None = None, knows: Rows | None = None) -> Commit:
    """Upsert and delete entities."""
    return edit_at(graph._manifest, branch, people or {}, knows or {})


def edit_at(manifest: Manifest, branch: str, people: Rows, knows: Rows) -> Commit:
    """Upsert and delete entities through an open manifest."""
    schema = load_current_schema(manifest)
    made = commit_operation(manifest, Edit(schema.catalog, people, knows), CommitOptions(branch, schema.hash)).commit
    assert made is not None
    return to_commit(made)


def state(graph: Graph, branch: str = MAIN, at: Reference | None = None) -> dict[tuple[str, str], Entity]:
    """Return everything that a branch shows, or showed at a commit."""
    found: dict[tuple[str, str], Entity] = {}
    for name, scan in (
        ("Person", graph.nodes("Person", branch=branch, at=at)),
        ("Knows", graph.edges("Knows", branch=branch, at=at)),
    ):
        for row in scan.to_arrow().to_pylist():
            key = (name, str(row.pop("id")))
            assert key not in found, f"{key} is there twice"
            found[key] = {column: value for column, value in row.items() if column != "name"}
    return found


def person(age: int | None = None, mail: str | None = None) -> dict[str, object]:
    """Return the values of a person."""
    return {"age": age, "mail": mail}


def knows(source: str, target: str, since: int | None = None, note: str | None = None) -> dict[str, object]:
    """Return the values of an edge."""
    return {"from": source, "to": target, "since": since, "note": note}


def without(rows: Rows) -> Rows:
    """Return the deletion of these entities."""
    return dict.fromkeys(rows)


def conflicts_of(graph: Graph, source: str = "dev", into: str = "main") -> list[Conflict]:
    """Return the conflicts of a merge, and check that it changes nothing."""
    before = written(graph, into)
    with pytest.raises(MergeConflicts) as raised:
        graph.merge(source, into)
    assert written(graph, into) == before
    tried = graph.merge(source, into, dry_run=True)
    assert (tried.outcome, tried.conflicts) == ("conflicts", raised.value.conflicts)
    return list(raised.value.conflicts)
