"""The turns of a cleanup: the refs lock for one piece of work at a time, and a plan that holds during the turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import Final

from omnigraph.errors import OmniGraphError
from omnigraph.maintain.retention import RetentionPlan, follow_basis
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.locks import HeldLock, find_turn_pause, refs_lock
from omnigraph.write.commit import heal_all, list_sidecars

TURN_SECONDS: Final = 0.02
"""How much CPU time the deletions of a turn take. Before them a turn looks whether its plan still holds."""
LONGEST_TURN_SECONDS: Final = 0.1
"""How long the deletions of a turn may take by the clock, on a slow disk or a busy machine."""


class CleanupTurns:
    """Takes the refs lock again and again. Between two turns those who wait for it get it."""

    def __init__(self, manifest: Manifest, make_plan: Callable[[], RetentionPlan]) -> None:
        self._manifest = manifest
        self._make_plan = make_plan
        self._plan: RetentionPlan | None = None
        self._pause = find_turn_pause(manifest.location, manifest.locks)
        self._away_until = 0.0

    @property
    def plan(self) -> RetentionPlan:
        """What is kept, as of the last look."""
        if self._plan is None:
            raise ValueError("no plan was made yet")
        return self._plan

    def prepare_plan(self) -> None:
        """Make the plan before the first turn that needs it, without the lock.

        A branch that is deleted meanwhile can fail it. Then it is made under the lock.
        """
        with suppress(OmniGraphError):
            self._plan = self._make_plan()
            return
        with self.take_planned():
            pass

    @contextmanager
    def take(self) -> Generator[HeldLock]:
        """Hold the refs lock."""
        sleep(max(0.0, self._away_until - monotonic()))
        with refs_lock(self._manifest.location, self._manifest.locks) as refs:
            began = monotonic()
            # A merge adopts versions under this lock, so one that is unfinished now is dead, and may be rolled forward.
            if any(sidecar.adopted for sidecar in list_sidecars(self._manifest.objects)):
                heal_all(self._manifest)
            try:
                yield refs
            finally:
                held = monotonic() - began
                # Others get the lock for as long as this process had it.
                self._away_until = monotonic() + max(self._pause, held)

    @contextmanager
    def take_planned(self) -> Generator[HeldLock]:
        """Hold the refs lock with a plan that knows everything published, branched, merged and tagged until now."""
        with self.take() as refs:
            self._plan = self._make_plan() if self._plan is None else self._follow(self._plan)
            yield refs

    def _follow(self, plan: RetentionPlan) -> RetentionPlan:
        claims = follow_basis(self._manifest, plan.basis)
        if claims is None:
            return self._make_plan()
        if not claims.versions:
            return replace(plan, basis=claims.basis)
        versions = {location: set(kept) for location, kept in plan.versions.items()}
        for location, version in claims.versions:
            versions.setdefault(location, set()).add(version)
        kept = {location: frozenset(found) for location, found in versions.items()}
        return replace(plan, basis=claims.basis, versions=kept)
