"""What all verbs of a graph need: the manifest, the schema, the actor and the limits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.errors import ReadOnly
from omnigraph.language.schema import Catalog, Schema
from omnigraph.late_imports import LateModule
from omnigraph.manifest import contract, references, settings
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.memory import MemoryLimit, parse_bytes

if TYPE_CHECKING:
    from omnigraph import policy as policies
    from omnigraph.maintain import automatic_cleanup, upkeep
    from omnigraph.read import follow_commits, query, search
else:
    policies = LateModule("omnigraph.policy")
    automatic_cleanup = LateModule("omnigraph.maintain.automatic_cleanup")
    upkeep = LateModule("omnigraph.maintain.upkeep")
    follow_commits = LateModule("omnigraph.read.follow_commits")
    query = LateModule("omnigraph.read.query")
    search = LateModule("omnigraph.read.search")

Mode: TypeAlias = Literal["rw", "ro"]
_SECONDS_BETWEEN_LOOKS: Final = 600.0
"""How often a process that writes looks whether an automatic cleanup is due."""


@observe_timeouts
@check_calls
class GraphBase:
    """An open graph, and what its verbs share."""

    def __init__(
        self,
        manifest: Manifest,
        mode: Mode,
        actor: str | None,
        embed: search.EmbeddingSettings | None = None,
        timeout: Timeout = None,
        memory: MemoryLimit = None,
        keep: str | None = None,
    ) -> None:
        self._manifest = manifest
        self.keep = keep
        self._schema: Schema | None = None
        self._embedding = embed
        self.timeout = timeout
        self.memory = None if memory is None else parse_bytes(memory)
        self.mode: Mode = mode
        self.actor = actor
        self._background: upkeep.BackgroundUpkeep | None = None
        self._follower: follow_commits.CommitFollower | None = None
        """Follows the commits of this handle once a query has been asked."""
        self._next_look = 0.0
        """When, on the monotonic clock, a commit is followed by the next look whether a cleanup is due."""
        self._starts_upkeep: Callable[[str], object] | None = None
        self._is_cleanup_asked = False
        if mode == "rw":
            for variable in (settings.LOAD_CONCURRENCY, settings.MAINTENANCE_CONCURRENCY):
                settings.read_concurrency(variable)
        if mode == "rw" and settings.should_do_upkeep():
            manifest.on_crowded = self._start_upkeep
            manifest.on_publish = self._look_for_cleanup
            if (keep or settings.read_current_settings(manifest).keep) == settings.OFF:
                # Somebody may switch it on while this process runs.
                self._next_look = monotonic() + _SECONDS_BETWEEN_LOOKS

    @property
    def uri(self) -> str:
        """The location of the graph, as given."""
        return self._manifest.location.uri

    @property
    def schema(self) -> Schema:
        """The current schema, reloaded only when it has changed."""
        if self._schema is None or self._schema.hash != self._manifest.schema_hash():
            self._schema = contract.load_current_schema(self._manifest)
        return self._schema

    def close(self) -> None:
        """Free cached memory, after waiting for upkeep for at most 2 seconds. The graph itself needs no closing.

        Examples:
            >>> opened = og.open(graph.uri, "ro")
            >>> opened.close()
        """
        if self._background is not None:
            self._background.join()
        if self._is_cleanup_asked and self._starts_upkeep is not None:
            self._is_cleanup_asked = False
            if automatic_cleanup.is_due(self._manifest, self.keep):
                self._starts_upkeep(MAIN)
        self._manifest.forget_all()

    def _start_upkeep(self, branch: str, table_keys: Collection[str]) -> None:
        """Merge small fragments in a thread of this process, after the commit that left too many."""
        if self._starts_upkeep is not None:
            self._starts_upkeep(branch)
        else:
            self._do_in_background().request(branch, table_keys)

    def _look_for_cleanup(self) -> None:
        """Look whether a cleanup is due, now and then after a commit."""
        now = monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _SECONDS_BETWEEN_LOOKS
        if self._starts_upkeep is not None:
            self._is_cleanup_asked = True
        else:
            self._do_in_background().request_cleanup()

    def _do_in_background(self) -> upkeep.BackgroundUpkeep:
        if self._background is None:
            self._background = upkeep.BackgroundUpkeep(self._manifest, self.keep)
        return self._background

    def _read(self, branch: str, at: Reference | None) -> tuple[Snapshot, Catalog]:
        """Return a snapshot and the catalog to read it with."""
        snapshot = references.take_snapshot(self._manifest, branch, at)
        return snapshot, contract.load_schema_of(self._manifest, snapshot.schema_ir_hash).catalog

    def _note_query(self) -> None:
        """Let commits that are made through this handle extend what queries have in memory."""
        if self._follower is None and self.mode == "rw":
            self._follower = follow_commits.CommitFollower(self._manifest)
            self._manifest.on_commit = self._follower.follow
        elif self._follower is not None:
            self._follower.note_query()

    def _query_options(self, memory: MemoryLimit = None) -> query.QueryOptions:
        return query.QueryOptions(self._embedding, memory=self.memory if memory is None else parse_bytes(memory))

    def _ask(
        self, action: str, actor: str | None, *, branch: str | None = None, target_branch: str | None = None
    ) -> None:
        """Ask the policy, if the graph was opened with one, at the head of a verb that writes."""
        policy = self._manifest.policy
        if policy is not None:
            policies.check_writer(policy, policies.Action(action), actor or self.actor, branch, target_branch)

    def _check_writable(self) -> None:
        if self.mode == "ro":
            raise ReadOnly(f"{self.uri} was opened read-only", hint='open it with mode="rw"')
        self._manifest.check_can_write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"
