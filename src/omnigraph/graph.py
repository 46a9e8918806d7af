"""The graph as a user holds it: one short method per verb, no logic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from omnigraph.errors import ParameterError, ReadOnly
from omnigraph.language.schema import Schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.manifest import branches, genesis, history, opening, references
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockKind, LockSettings
from omnigraph.storage.pinned import Access
from omnigraph.write import audit, load, mutation, recovery
from omnigraph.write.audit import Recovery
from omnigraph.write.commit import Terms
from omnigraph.write.frames import Frame
from omnigraph.write.load import Engine, Indexes, LoadResult, OnError
from omnigraph.write.load_work import Mode as LoadMode
from omnigraph.write.mutation import MutationResult
from omnigraph.write.sources import Source as RecordSource
from omnigraph.write.transaction import Transaction

Mode: TypeAlias = Literal["rw", "ro"]
StorageOptions: TypeAlias = Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """A graph in a few words."""

    uri: str
    mode: Mode
    format: int
    schema_ir_hash: str | None
    branches: tuple[str, ...]
    head: Commit | None
    nodes: Mapping[str, int]
    edges: Mapping[str, int]


class Graph:
    """A versioned, typed property graph. Safe to share between threads; pickled, it is opened again."""

    def __init__(self, manifest: Manifest, mode: Mode, actor: str | None) -> None:
        self._manifest = manifest
        self._schema: Schema | None = None
        self.mode: Mode = mode
        self.actor = actor

    @property
    def uri(self) -> str:
        """Where the graph lives, as it was given."""
        return self._manifest.location.uri

    @property
    def schema(self) -> Schema:
        """The current schema; read again only when it has changed."""
        if self._schema is None or self._schema.hash != self._manifest.schema_hash():
            self._schema = opening.current_schema(self._manifest)
        return self._schema

    def info(self) -> GraphInfo:
        """Where it is, what is in it, where it stands."""
        now = self.snapshot()
        counts = {(pin.kind, pin.type_name): pin.row_count for pin in now.pins.values()}
        return GraphInfo(
            self.uri,
            self.mode,
            opening.format_of(self._manifest),
            now.schema_ir_hash,
            tuple(branches.branch_names(self._manifest)),
            now.commit,
            {name: count for (kind, name), count in counts.items() if kind == "node"},
            {name: count for (kind, name), count in counts.items() if kind == "edge"},
        )

    def branches(self) -> list[Branch]:
        """Main first, then the others by name, each with its head."""
        return branches.list_branches(self._manifest)

    def create_branch(self, name: str, from_: Reference = MAIN) -> None:
        """Make a branch from a branch, a commit, a manifest version of main, or a time on main."""
        self._writable()
        source, version = references.branch_point(self._manifest, from_)
        branches.create_branch(self._manifest, name, source, version)

    def delete_branch(self, name: str) -> None:
        """Remove a branch and what only it has; refused for main and while another branch depends on it."""
        self._writable()
        branches.delete_branch(self._manifest, name, recovery.heal)

    def mutate(
        self,
        source: str | Path | Source,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        if_commit: str | None = None,
        retries: int = 0,
        message: str | None = None,
        actor: str | None = None,
    ) -> MutationResult:
        """Run an insert, update or delete as one commit. ``retries``: how often to run it again on a conflict."""
        self._writable()
        terms = Terms(branch, actor=actor or self.actor, message=message, if_commit=if_commit)
        return mutation.retried(
            lambda: mutation.mutate(self._manifest, self.schema, source, name, params, terms), retries
        )

    def load(
        self,
        source: RecordSource | None = None,
        *,
        nodes: Mapping[str, Frame] | None = None,
        edges: Mapping[str, Frame] | None = None,
        mode: LoadMode = "append",
        branch: str = MAIN,
        from_branch: Reference | None = None,
        on_error: OnError = "fail",
        rejects: str | Path | None = None,
        txn: tuple[str, int] | None = None,
        engine: Engine = "auto",
        message: str | None = None,
        actor: str | None = None,
        check: bool = False,
        indexes: Indexes = "auto",
    ) -> LoadResult:
        """Load records, or frames per type, as one commit. ``check`` finds all that is wrong and writes nothing."""
        if not check:
            self._writable()
        given = load.Input(source, nodes or {}, edges or {})
        manner = load.Manner(mode, on_error, rejects, engine, check, indexes, from_branch)
        terms = Terms(branch, actor=actor or self.actor, message=message, txn=txn)
        return load.load(self._manifest, self.schema, given, manner, terms)

    def transaction(self, branch: str = MAIN, message: str | None = None, actor: str | None = None) -> Transaction:
        """A ``with`` block whose mutations become one commit, or nothing if an exception leaves it."""
        self._writable()
        return Transaction(self._manifest, self.schema, Terms(branch, actor=actor or self.actor, message=message))

    def commits(
        self,
        branch: str = MAIN,
        limit: int | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Commit]:
        """The history of a branch, newest first."""
        return history.commits_of(self._manifest, branch, limit=limit, actor=actor, since=since, until=until)

    def commit(self, ref: Reference) -> Commit:
        """One commit: by id, or the newest one at a version or time of main."""
        return history.commit_of(references.commit_at(self._manifest, ref))

    def snapshot(self, branch: str = MAIN, at: Reference | None = None) -> Snapshot:
        """The whole graph at one moment: now, or at a commit, a manifest version or a time."""
        return references.take_snapshot(self._manifest, branch, at)

    def recoveries(self) -> list[Recovery]:
        """Every write that somebody else than its writer brought to an end, newest first."""
        return audit.recoveries(self._manifest)

    def close(self) -> None:
        """Let go of what is kept in memory; the graph itself needs no closing."""
        self._manifest.forget_all()

    def _writable(self) -> None:
        if self.mode == "ro":
            raise ReadOnly(f"{self.uri} was opened read-only", hint='open it with mode="rw"')

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    def __reduce__(self) -> tuple[object, ...]:
        location, locks = self._manifest.location, self._manifest.locks
        return _reopened, (location.uri, self.mode, self.actor, dict(location.storage_options), locks.kind)


def init(
    uri: str | Path,
    schema: str | Path | Source,
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
) -> Graph:
    """Make a new graph with a schema, or finish one whose init was interrupted."""
    parsed = parse_schema(schema)
    manifest = _manifest(uri, storage_options, lock)
    genesis.initialise(manifest, parsed, actor)
    return Graph(manifest, "rw", actor)


def open(  # noqa: A001  the public name
    uri: str | Path,
    mode: Mode = "rw",
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
) -> Graph:
    """Open a graph. Read-only never writes a byte; read-write updates an older format and finishes dead writes."""
    if mode not in ("rw", "ro"):
        raise ParameterError(f"mode is {mode!r}", hint='use "rw" or "ro"')
    manifest = _manifest(uri, storage_options, lock)
    opening.check(manifest)
    if mode == "rw":
        opening.bring_up_to_date(manifest)
        recovery.heal_all(manifest)
    return Graph(manifest, mode, actor)


def _reopened(uri: str, mode: Mode, actor: str | None, storage_options: StorageOptions, lock: LockKind | None) -> Graph:
    return open(uri, mode, actor=actor, storage_options=storage_options, lock=lock)


def _manifest(uri: str | Path, options: StorageOptions, lock: LockKind | None) -> Manifest:
    location = locate(uri, options)
    return Manifest(location, Access(location.options()), LockSettings(kind=lock))
