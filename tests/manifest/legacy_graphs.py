"""Graphs as older releases left them: formats 1 to 3, and format 4 as 0.8 writes it. Made with Lance alone.

Each has the same story. Main begins empty, Ann and Bob come, the branch is made, Fay comes on the branch, and then
Cid and Oslo come on main. Only the shape on disk differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import lance
import pyarrow as pa
from lance.dataset import LanceDataset
from ulid import ULID

from omnigraph.graph import Graph
from omnigraph.language.schema import encode_ir, encode_state, parse_schema, table_directory
from omnigraph.manifest.references import Reference
from omnigraph.storage.arrow_schema import arrow_schema
from tests.manifest.publishing import SCHEMA

BRANCH = "feature/a"
STAMP = "omnigraph:internal_schema_version"
STORY_TYPES = ("Person", "City")
STARTED = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)
ACTORS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How an old graph differs from another one of its story."""

    stamp: int
    stable_row_ids: bool = True
    branched: bool = True
    history_branched: bool = True
    """Whether the history table has the branch too; without it the branch's own commits were never written down."""
    actors: bool = True
    runs: tuple[str, ...] = ()
    """Staging branches of a retired mechanism."""

    def __str__(self) -> str:
        told = {
            "no-stable-ids": not self.stable_row_ids,
            "no-branch": not self.branched,
            "no-history-branch": not self.history_branched,
            "no-actors": not self.actors,
            "runs": bool(self.runs),
        }
        return "-".join([f"v{self.stamp}", *(name for name, differs in told.items() if differs)])


Rows: TypeAlias = dict[str, list[str]]
"""The names of the nodes of each type, sorted."""


@dataclass(frozen=True, slots=True)
class Told:
    """One commit of the story, as every reader must show it."""

    id: str
    branch: str
    manifest_version: int
    parents: tuple[str, ...]
    actor: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Legacy:
    """A graph that was built, and what it must show."""

    root: Path
    shape: Shape
    history: Mapping[str, Sequence[Told]]
    """The commits of each branch, newest first."""
    rows: Mapping[str, Rows]
    """The names at each commit."""
    heads: Mapping[str, Rows]
    """The names that each branch shows now."""


SHAPES = (
    Shape(1),
    Shape(1, stable_row_ids=False),
    Shape(2, runs=("__run__01", "__run__02/x")),
    Shape(3),
    Shape(3, branched=False),
    Shape(3, history_branched=False),
    Shape(3, actors=False),
    Shape(4),
)


def build(root: Path, shape: Shape) -> Legacy:
    """Write the graph of a shape."""
    story = _Story(root, shape)
    story.begin()
    story.commit("main", {"Person": ["Ann", "Bob"]}, actor="act-ann")
    if shape.branched:
        story.branch(BRANCH)
        story.commit(BRANCH, {"Person": ["Fay"]}, actor="act-fay")
    for run in shape.runs:
        _dataset(story.manifest).create_branch(run)
    story.commit("main", {"Person": ["Cid"], "City": ["Oslo"]}, actor=None)
    history = {branch: tuple(reversed(commits)) for branch, commits in story.history.items()}
    return Legacy(root, shape, history, story.rows, {branch: _sorted(rows) for branch, rows in story.shown.items()})


def told_by(graph: Graph, branch: str) -> tuple[Told, ...]:
    """The history of a branch as a graph shows it, newest first."""
    return tuple(
        Told(commit.id, commit.branch, commit.manifest_version, commit.parents, commit.actor, commit.created_at)
        for commit in graph.commits(branch)
    )


def rows_of(graph: Graph, branch: str, at: Reference | None = None) -> Rows:
    """The names of the types of the story, read from their tables."""
    snapshot = graph.snapshot(branch, at)
    tables = {name: snapshot.table(name).scan(["name"]).read_all() for name in STORY_TYPES}
    return {name: sorted(map(str, table["name"].to_pylist())) for name, table in tables.items()}


def assert_tells(graph: Graph, legacy: Legacy) -> None:
    """The graph shows the whole story: branches, history, and the rows now and at every commit."""
    assert [branch.name for branch in graph.branches()] == list(legacy.history)
    for branch, history in legacy.history.items():
        assert told_by(graph, branch) == tuple(history)
        assert rows_of(graph, branch) == legacy.heads[branch]
        for told in history:
            assert rows_of(graph, branch, told.id) == legacy.rows[told.id]


@dataclass(slots=True)
class _Story:
    """A graph in the making."""

    root: Path
    shape: Shape
    history: dict[str, list[Told]] = field(default_factory=lambda: {"main": list[Told]()})
    rows: dict[str, Rows] = field(default_factory=dict[str, Rows])
    shown: dict[str, Rows] = field(default_factory=lambda: {"main": {name: list[str]() for name in STORY_TYPES}})

    @property
    def manifest(self) -> str:
        return str(self.root / "__manifest")

    @property
    def commits(self) -> str:
        return str(self.root / "_graph_commits.lance")

    def begin(self) -> None:
        self.root.mkdir(parents=True)
        schema = parse_schema(SCHEMA)
        (self.root / "_schema.pg").write_text(SCHEMA)
        (self.root / "_schema.ir.json").write_text(encode_ir(schema.ir))
        (self.root / "__schema_state.json").write_text(encode_state(schema.ir))
        rows: list[dict[str, object]] = []
        for type_ in schema.catalog.types():
            directory = table_directory(type_.table_key)
            _create(str(self.root / directory), arrow_schema(type_).empty_table())
            rows.append(_row(type_.table_key, "table", table_key=type_.table_key, location=directory))
            rows.append(self._table_version(type_.table_key, 1, None, 0))
        genesis = self._told("main", 1, actor=None)
        manifest = _create(
            self.manifest, self._manifest_rows([*rows, *self._lineage(genesis)]), stable=self.shape.stable_row_ids
        )
        manifest.update_config({"table_version_management": "true"})
        if self.shape.stamp > 1:
            manifest.update_schema_metadata({STAMP: str(self.shape.stamp)})
        if self.shape.stamp < 4:
            _create(self.commits, HISTORY_SCHEMA.empty_table())
            if self.shape.actors:
                _create(str(self.root / "_graph_commit_actors.lance"), ACTORS_SCHEMA.empty_table())
        self._record(genesis)

    def branch(self, name: str) -> None:
        _dataset(self.manifest).create_branch(name)
        if self.shape.stamp < 4 and self.shape.history_branched:
            _dataset(self.commits).create_branch(name)
        self.history[name] = list(self.history["main"])
        self.shown[name] = {type_name: list(names) for type_name, names in self.shown["main"].items()}

    def commit(self, branch: str, added: Mapping[str, Sequence[str]], actor: str | None) -> None:
        rows = [self._append(branch, type_name, names) for type_name, names in added.items()]
        manifest = _dataset(self.manifest, branch)
        told = self._told(branch, manifest.version + 1, actor)
        merge = manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(self._manifest_rows([*rows, *self._lineage(told)]))
        self._record(told)

    def _append(self, branch: str, type_name: str, names: Sequence[str]) -> dict[str, object]:
        uri = str(self.root / table_directory(f"node:{type_name}"))
        if branch != "main" and branch not in _dataset(uri).branches.list():
            _dataset(uri).create_branch(branch)
        table = _dataset(uri, branch)
        table.insert(pa.table({"id": list(names), "name": list(names)}, schema=table.schema))
        self.shown[branch][type_name] += names
        return self._table_version(
            f"node:{type_name}", table.version, None if branch == "main" else branch, table.count_rows()
        )

    def _told(self, branch: str, version: int, actor: str | None) -> Told:
        known = self.history[branch]
        made = len(self.rows)
        when = STARTED + timedelta(minutes=made, microseconds=made)
        parents = (known[-1].id,) if known else ()
        commit_id = str(ULID.from_datetime(when))
        return Told(commit_id, branch, version, parents, actor if self.shape.actors else None, when)

    def _record(self, told: Told) -> None:
        self.rows[told.id] = _sorted(self.shown[told.branch])
        if told.branch != "main" and not self.shape.history_branched:
            return
        self.history[told.branch].append(told)
        if self.shape.stamp == 4:
            return
        row = {
            "graph_commit_id": told.id,
            "manifest_branch": None if told.branch == "main" else told.branch,
            "manifest_version": told.manifest_version,
            "parent_commit_id": told.parents[0] if told.parents else None,
            "merged_parent_commit_id": None,
            "created_at": told.created_at.replace(tzinfo=None),
        }
        _dataset(self.commits, told.branch).insert(pa.Table.from_pylist([row], schema=HISTORY_SCHEMA))
        if told.actor is not None:
            actor = {"graph_commit_id": told.id, "actor_id": told.actor, "created_at": row["created_at"]}
            actors = _dataset(str(self.root / "_graph_commit_actors.lance"))
            actors.insert(pa.Table.from_pylist([actor], schema=ACTORS_SCHEMA))

    def _lineage(self, told: Told) -> list[dict[str, object]]:
        """The rows that only format 4 keeps here, as 0.8 writes them."""
        if self.shape.stamp < 4:
            return []
        parent = {"parent_commit_id": told.parents[0]} if told.parents else {}
        actor = {} if told.actor is None else {"actor_id": told.actor}
        created_at = (told.created_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        commit = _row(
            told.id,
            "graph_commit",
            metadata=json.dumps({**parent, **actor, "created_at": created_at}),
            table_version=told.manifest_version,
            table_branch=None if told.branch == "main" else told.branch,
        )
        head = json.dumps({"head_commit_id": told.id, **parent})
        return [commit, _row(f"graph_head:{told.branch}", "graph_head", metadata=head)]

    def _table_version(self, table_key: str, version: int, branch: str | None, count: int) -> dict[str, object]:
        tree = f"tree/{branch}/" if branch else ""
        path = f"{self.root}/{table_directory(table_key)}/{tree}_versions/{2**64 - 1 - version:020}.manifest"
        file = {"manifest_path": path.lstrip("/"), "manifest_size": None, "e_tag": None, "naming_scheme": "V2"}
        return _row(
            f"{table_key}${version:020}",
            "table_version",
            table_key=table_key,
            table_version=version,
            table_branch=branch,
            row_count=count,
            metadata=json.dumps(file),
        )

    def _manifest_rows(self, rows: Sequence[dict[str, object]]) -> pa.Table:
        key = {"lance-schema:unenforced-primary-key": "true"} if self.shape.stamp > 1 else None
        schema = pa.schema(
            [
                pa.field("object_id", pa.string(), nullable=False, metadata=key),
                pa.field("object_type", pa.string(), nullable=False),
                pa.field("location", pa.string()),
                pa.field("metadata", pa.string()),
                pa.field("base_objects", pa.list_(pa.string())),
                pa.field("table_key", pa.string(), nullable=False),
                pa.field("table_version", pa.uint64()),
                pa.field("table_branch", pa.string()),
                pa.field("row_count", pa.uint64()),
            ]
        )
        return pa.Table.from_pylist(list(rows), schema=schema)


def _sorted(rows: Rows) -> Rows:
    return {name: sorted(names) for name, names in rows.items()}


def _row(object_id: str, object_type: str, **cells: object) -> dict[str, object]:
    return {"object_id": object_id, "object_type": object_type, "table_key": "", **cells}


def _create(uri: str, rows: pa.Table, *, stable: bool = True) -> LanceDataset:
    return lance.write_dataset(
        rows, uri, mode="create", data_storage_version="2.2", enable_stable_row_ids=stable, auto_cleanup_options=None
    )


def _dataset(uri: str, branch: str = "main") -> LanceDataset:
    return lance.dataset(uri if branch == "main" else f"{uri}/tree/{branch}")
