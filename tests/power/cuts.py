"""A workload recorded in child processes, and the cuts of power that are tried on it."""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.crash import ChildDied, record, run
from tests.power.disks import Disk, DiskFolder, Replay, read_disk, replay
from tests.power.observing import Observation, Promises, Violation, find_violations, observe
from tests.power.recorder import Event, Kind, read_record
from tests.power.workloads import WORKLOADS, Durability, Place, Stage, die, run_stage, run_unrecorded

_VERSION: Final = re.compile(r"__manifest/(tree/.+/)?_versions/\d+\.manifest$")
_MANIFEST: Final = "__manifest"
_PUBLISH: Final = "table.merge"


@dataclass(frozen=True, slots=True)
class Recording:
    """What the processes of a workload did, and where."""

    place: Place
    events: list[Event]

    @property
    def root(self) -> Path:
        return Path(self.place.root)


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut after so many events, one disk that it may leave, and what the writer was told before."""

    position: int
    disk: Disk
    promises: Promises

    def __str__(self) -> str:
        return f"cut after event {self.position}, {self.disk.label}"


def record_workload(name: str, durability: Durability, folder: Path, library: Path) -> Recording:
    """Run a workload under the recorder. Its record must say everything that happened to the files."""
    root, written = folder / "disk", folder / "record"
    root.mkdir()
    place = Place(str(root), durability)
    done: list[Stage] = []
    for stage in WORKLOADS[name]:
        if stage is die:
            _run_dying(stage, replace(place, dies_at=_find_publish(done, stage, durability, folder)), library, written)
        else:
            run(run_stage, stage, place, library, written)
        done.append(stage)
    recording = Recording(place, read_record(written))
    assert replay(root, recording.events).all_there().tree == read_disk(root).tree, "something was not recorded"
    return recording


def _find_publish(before: list[Stage], stage: Stage, durability: Durability, folder: Path) -> int:
    """Find the number of the write that publishes, in a run that nobody records."""
    rehearsal = folder / "rehearsal"
    rehearsal.mkdir()
    place = Place(str(rehearsal), durability)
    run(run_unrecorded, tuple(before), place)
    return next(step.number for step in record(run_unrecorded, (stage,), place) if step.name == _PUBLISH)


def _run_dying(stage: Stage, place: Place, library: Path, written: Path) -> None:
    with pytest.raises(ChildDied) as died:
        run(run_stage, stage, place, library, written)
    assert died.value.exitcode == -signal.SIGKILL


# --------------------------------------------------------------------------------------------- which cuts


@dataclass(frozen=True, slots=True)
class _Moment:
    """The files after an event, if that event may matter for a cut."""

    position: int
    event: Event
    following: Event | None
    replay: Replay
    promises: Promises

    def cut(self, disk: Disk) -> Cut:
        return Cut(self.position, disk, deepcopy(self.promises))

    @property
    def is_acknowledgement(self) -> bool:
        return self.event.kind is Kind.MARK and '"done"' in self.event.path

    @property
    def is_before_publish(self) -> bool:
        return self.following is not None and _is_publish(self.following)


def _is_publish(event: Event) -> bool:
    return event.kind in (Kind.LINK, Kind.RENAME) and _VERSION.search(event.target) is not None


def _moments(recording: Recording) -> Generator[_Moment]:
    """Replay the record and stop where a cut may matter: nobody reads a file while it has its temporary name."""
    state, promises = Replay(recording.root), Promises()
    is_settled = not any(_is_settled(event) for event in recording.events)
    for position, event in enumerate(recording.events, 1):
        state.apply(event)
        if event.kind is Kind.MARK:
            promises.add(event)
        if _is_settled(event):
            state.settle()
            is_settled = True
        elif is_settled:
            following = recording.events[position] if position < len(recording.events) else None
            if event.kind not in (Kind.WRITE, Kind.CREATE) or (following and _is_publish(following)):
                yield _Moment(position, event, following, state, promises)


def _is_settled(event: Event) -> bool:
    return event.kind is Kind.MARK and '"settled"' in event.path


def every_cut(recording: Recording, most: int, seed: int) -> list[Cut]:
    """List every disk at every moment, each once for the same promises; if they are too many, some by chance."""
    chance, seen, chosen = random.Random(seed), set[tuple[bytes, int]](), list[Cut]()  # noqa: S311  no secret
    for moment in _moments(recording):
        acknowledged = sum(promise.acknowledged for promise in moment.promises.branches.values())
        for disk in _every_disk(moment.replay):
            if (key := (disk.digest, acknowledged)) in seen:
                continue
            seen.add(key)
            # Reservoir sampling: each cut has the same chance, and only the chosen are in memory.
            if len(chosen) < most:
                chosen.append(moment.cut(disk))
            elif (place := chance.randrange(len(seen))) < most:
                chosen[place] = moment.cut(disk)
    return sorted(chosen, key=lambda cut: cut.position)


def _every_disk(state: Replay) -> Generator[Disk]:
    yield state.all_there()
    yield state.all_lost()
    yield state.names_only()
    for change in state.changes():
        yield from state.disks_of(change)


def telling_cuts(recording: Recording) -> Iterator[Cut]:
    """Give the cuts that tell most: around the last publish and after the last acknowledgement."""
    last: dict[str, list[Cut]] = {}
    for moment in _moments(recording):
        state = moment.replay
        if moment.is_before_publish:
            last["before"] = [moment.cut(state.all_lost()), moment.cut(state.all_there())]
        if _is_publish(moment.event):
            last["after"] = [moment.cut(state.names_only()), *map(moment.cut, _only_newest(state))]
            last["first"] = [moment.cut(state.only_below(_MANIFEST))]
        if moment.is_acknowledgement:
            last["acknowledged"] = [moment.cut(state.all_lost()), moment.cut(state.names_only())]
            last["unsynced"] = [moment.cut(disk) for disk in _without_versions(state)]
    for cuts in last.values():
        yield from cuts


def _without_versions(state: Replay) -> list[Disk]:
    """Lose each version of a manifest alone that is not synced: its sidecar is gone, so nothing brings it back."""
    lost = [state.without(change) for change in state.changes() if _VERSION.search(change.path)]
    return [disk for disk in lost if disk is not None]


def _only_newest(state: Replay) -> list[Disk]:
    """Keep the newest version of a manifest and nothing else: Lance counts its file names down."""
    versions = [change for change in state.changes() if _VERSION.search(change.path)]
    return [state.only(min(versions, key=lambda change: change.path))] if versions else []


def sampled_cuts(recording: Recording, count: int, seed: int) -> Generator[Cut]:
    """Choose some cuts by chance: a moment first, then what is lost alone or kept alone there."""
    chance = random.Random(seed)  # noqa: S311  no secret
    positions = Counter(chance.choices([moment.position for moment in _moments(recording)], k=count))
    for moment in _moments(recording):
        changes = moment.replay.changes()
        for _ in range(positions[moment.position] if changes else 0):
            yield moment.cut(chance.choice(list(moment.replay.disks_of(chance.choice(changes)))))


# --------------------------------------------------------------------------------------------- what is found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process found after a cut."""

    cut: Cut
    seen: Observation
    violations: list[Violation]

    def __str__(self) -> str:
        return "\n  ".join([str(self.cut), *(f"{found.damage}: {found.detail}" for found in self.violations)])


def try_cuts(recording: Recording, cuts: Iterable[Cut]) -> Generator[Outcome]:
    """Place each disk where the graph was, and let a new process look at it."""
    folder = DiskFolder(recording.root)
    for cut in cuts:
        folder.place(cut.disk)
        seen = run(observe, recording.place.uri, list(cut.promises.commits))
        yield Outcome(cut, seen, find_violations(cut.promises, seen))
