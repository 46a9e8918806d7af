"""What a writer hands to the commit path: the changes it makes, what it read for them, and on what terms.

The commit path knows no writer; it knows this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from omnigraph.language.schema import TableKey
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.storage.locks import Held
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.commit.sidecars import WriterKind

Outcome = TypeVar("Outcome")
OutcomeOf = TypeVar("OutcomeOf", covariant=True)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one table gets. ``stage`` writes it on a pinned table, invisibly, and may be called again on a newer pin.

    ``is_long``: staging takes so long that a fork of the table, if it needs one, is published before. ``is_small``: it
    writes so little that a thread for it costs more than it saves. ``can_wait``: it is upkeep, which is left out if its
    table moved since it was staged, rather than staged again while everybody waits.
    """

    table_key: str
    stage: Callable[[Table], Staged | None]
    is_long: bool = False
    is_small: bool = False
    is_upkeep: bool = False


@dataclass(frozen=True, slots=True)
class TableCreation:
    """A table that the branch does not show yet, and the rows that it begins with.

    ``home`` gives its dataset at HEAD, which nobody shows and whose next version is above any that ever was. ``stage``
    writes the rows there, in place of whatever it holds. ``early``: its home may be made before the branch's lock.
    """

    table_key: TableKey
    location: str
    open_home: Callable[[Held | None], Table]
    stage: Callable[[Table], Staged]
    can_stage_early: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The schema that the graph gets with a commit, or that a branch catches up with; and the one that it follows."""

    schema_ir_hash: str
    replaces: str


@dataclass(frozen=True, slots=True)
class PreparedWrite(Generic[OutcomeOf]):
    """Work that was executed and validated on a snapshot: its changes, and every table that it read to get there.

    ``adopted`` are versions on main that the branch shows from now on, instead of the ones that it inherited. With
    ``always`` there is a commit even if no table changes, since it joins two histories. ``created`` are tables that the
    branch shows from now on, ``dropped`` those that it does not show any more.
    """

    changes: tuple[TableChange, ...]
    reads: frozenset[str]
    outcome: OutcomeOf
    adopted: tuple[Pin, ...] = ()
    force_commit: bool = False
    created: tuple[TableCreation, ...] = ()
    dropped: tuple[str, ...] = ()
    schema: SchemaChange | None = None

    @property
    def has_changes(self) -> bool:
        """Whether there is something to publish."""
        return bool(self.changes or self.created or self.has_manifest_changes)

    @property
    def has_manifest_changes(self) -> bool:
        """Whether there is something to publish that no table has to be committed for."""
        return bool(self.adopted or self.dropped or self.schema or self.force_commit)


class WriteOperation(Protocol[OutcomeOf]):
    """What a writer does. ``strict`` work cannot be repeated on newer data without being asked again."""

    @property
    def kind(self) -> WriterKind:
        """Who writes."""
        ...

    @property
    def strict(self) -> bool:
        """Whether data that moved is a conflict: update, delete and overwrite."""
        ...

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[OutcomeOf]:
        """Execute and validate on a snapshot; raises what is wrong with the input."""
        ...


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """On which branch, by whom, why, and on what conditions.

    ``incarnation`` is that of the branch when something was first written to it; None, when nothing was.
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


@dataclass(frozen=True, slots=True)
class CommitResult(Generic[Outcome]):
    """What came of it. ``commit`` is None when there was nothing to change."""

    commit: CommitRecord | None
    outcome: Outcome
    replayed: bool = False
