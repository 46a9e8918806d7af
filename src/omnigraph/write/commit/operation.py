"""What a writer hands to the commit section: its changes, the tables it read, and the options of the commit.

The commit section knows no writer beyond this.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from omnigraph.arguments import check_text
from omnigraph.errors import ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.rows import MAIN, CommitRecord, WriteKey
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.storage.locks import HeldLock
from omnigraph.storage.tables import StagedChange, Table
from omnigraph.write.commit.sidecars import WriterKind

Outcome = TypeVar("Outcome")
OutcomeOf = TypeVar("OutcomeOf", covariant=True)


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one table. ``stage`` writes files on a pinned table, invisibly; it may run again on a newer pin.

    ``is_long``: staging takes so long that the fork of the table, if it needs one, is published first. ``is_small``:
    staging writes so little that a thread for it does not pay. ``carry_over`` makes the change upkeep, which changes no
    row and may wait: it is staged once, before the lock. If the table moved since, ``carry_over`` stages the same
    result on the newer version, quickly, or returns None, and the change is left out. It gets what was staged, the
    table that it was staged on, and the newer one.
    """

    table_key: str
    stage: Callable[[Table], StagedChange | None]
    is_long: bool = False
    is_small: bool = False
    carry_over: Callable[[StagedChange, Table, Table], StagedChange | None] | None = None

    @property
    def is_upkeep(self) -> bool:
        """Whether it changes no row."""
        return self.carry_over is not None


@dataclass(frozen=True, slots=True)
class TableCreation:
    """A table that the branch does not show yet, and its first rows.

    ``open_home`` returns its dataset at HEAD. No branch shows that version, and the next one is above any version or
    tombstone of the table. ``stage`` replaces the content of the dataset. ``can_stage_early``: both may run before the
    branch is locked.
    """

    table_key: TableKey
    location: str
    open_home: Callable[[HeldLock | None], Table]
    stage: Callable[[Table], StagedChange]
    can_stage_early: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The schema that a commit gives to the graph, or that a branch catches up with, and the schema it replaces."""

    schema_ir_hash: str
    replaces: str


@dataclass(frozen=True, slots=True)
class PreparedWrite(Generic[OutcomeOf]):
    """An operation that was executed and validated on a snapshot: its changes, and every table that it read.

    ``adopted`` are versions of main that the branch shows from now on instead of those it inherited. ``force_commit``
    makes a commit even if no table changes, since it joins two histories. ``created`` and ``dropped`` are tables that
    the branch gains and loses. ``removals`` are changed tables whose older versions with rows are removed after the
    commit, by :func:`finish_removals`.

    ``guard`` is entered for the phases of the commit, with the refs lock held too: it raises if a branch or a tag that
    appeared meanwhile forbids the write. ``is_long``: preparing it took long, so it is not repeated under the locks.
    """

    changes: tuple[TableChange, ...]
    reads: frozenset[str]
    outcome: OutcomeOf
    adopted: tuple[Pin, ...] = ()
    force_commit: bool = False
    created: tuple[TableCreation, ...] = ()
    dropped: tuple[str, ...] = ()
    schema: SchemaChange | None = None
    removals: frozenset[str] = frozenset()
    guard: Callable[[HeldLock], AbstractContextManager[None]] | None = None
    is_long: bool = False
    affected: tuple[int, int] = (0, 0)
    """How many nodes and edges it changes, for who repeats it with the same key."""
    carry_over: Callable[[Snapshot, Snapshot], PreparedWrite[OutcomeOf] | None] | None = None
    """Carries the write over from the snapshot that it was prepared on to a later one; returns None if it has to be
    prepared again. It compares only the rows that changed in between, so it may run under the lock."""

    @property
    def is_upkeep(self) -> bool:
        """Whether it changes no row of the graph."""
        return all(change.is_upkeep for change in self.changes) and not (self.created or self.has_manifest_changes)

    @property
    def has_changes(self) -> bool:
        """Whether there is something to publish."""
        return bool(self.changes or self.created or self.has_manifest_changes)

    @property
    def has_manifest_changes(self) -> bool:
        """Whether there is something to publish without committing a table."""
        return bool(self.adopted or self.dropped or self.schema or self.force_commit)


class WriteOperation(Protocol[OutcomeOf]):
    """What a writer does: execute on a snapshot, as often as the commit section needs it."""

    @property
    def kind(self) -> WriterKind:
        """The kind of writer, for sidecars and the audit."""
        ...

    @property
    def strict(self) -> bool:
        """Whether it conflicts with any newer data, as update, delete and overwrite do, instead of running again."""
        ...

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[OutcomeOf]:
        """Execute and validate on a snapshot; raise on bad input."""
        ...


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """The branch, author, message and preconditions of a commit.

    ``incarnation`` is that of the branch when work on it began, or None to take the current one.
    ``merged_parent`` is the commit that is merged.
    """

    branch: str = MAIN
    schema_ir_hash: str | None = None
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    txn: tuple[str, int] | None = None
    incarnation: str | None = None
    merged_parent: str | None = None
    key: WriteKey | None = None

    def __post_init__(self) -> None:
        check_text("actor", self.actor)
        check_text("message", self.message)
        if self.txn is not None:
            check_txn(self.txn)


def check_txn(txn: object) -> None:
    """Refuse a ``txn`` that is not the name of an application and a number."""
    match txn:
        case (str(app), int(number)) if app and 0 <= number < 2**63:
            check_text("txn", app)
        case _:
            raise ParameterError(f"txn is {txn!r}", hint='give an application and a number, such as ("import", 7)')


class AlreadyCommitted(Exception):
    """The write is a repetition: its ``txn`` or its key has a commit already. Nothing was written now."""

    def __init__(self, commit: CommitRecord) -> None:
        super().__init__(commit.id)
        self.commit = commit


@dataclass(frozen=True, slots=True)
class CommitResult(Generic[Outcome]):
    """The commit, or None if there was nothing to change, and the outcome of the operation.

    ``tables`` are the keys of the tables that it wrote to; upkeep that was left out is not among them. ``crowded`` are
    those that have many small fragments now.
    """

    commit: CommitRecord | None
    outcome: Outcome
    tables: frozenset[str] = frozenset()
    crowded: frozenset[str] = frozenset()
