"""The power fails while a graph is written; the next process opens what is on the disk.

With ``durability="power"`` every acknowledged commit is there and whole, every branch can be read and written, and
``verify`` finds nothing. With ``"process"`` nothing is synced: acknowledged commits can be lost, and the graph may need
a copy to be opened again; but rows that nobody committed are never shown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.power.cuts import Cut, Outcome, Recording, every_cut, record_workload, sampled_cuts, telling_cuts, try_cuts
from tests.power.disks import ALL_LOST, ALL_THERE
from tests.power.observing import Damage
from tests.power.workloads import WORKLOADS
from tests.selection import LARGE, daily, sized

pytestmark = pytest.mark.costly
DAILY: Final = 1
LONG: Final = sized(60, 150)
SEED: Final = 20260101

LOSSES: Final = {Damage.LOST, Damage.BROKEN, Damage.UNREADABLE, Damage.CANNOT_LIST, Damage.CANNOT_OPEN}
"""What a cut may do to commits whose files were never synced."""


def cuts_of(recording: Recording, sample: int) -> Generator[Cut]:
    """Give the cuts that tell most, and some by chance."""
    yield from telling_cuts(recording)
    yield from sampled_cuts(recording, sample, SEED)


def fail_with(outcomes: Iterable[Outcome]) -> None:
    found = [str(outcome) for outcome in outcomes if outcome.violations]
    assert not found, "\n".join(found)


def fewest_cuts(recording: Recording, turn: int) -> list[Cut]:
    """Choose the cuts after the last acknowledgement, and one of those before it: another one in each turn."""
    told = list(telling_cuts(recording))
    last = max(cut.position for cut in told)
    before = [cut for cut in told if cut.position < last]
    return [*before[turn % len(before) :][:1], *(cut for cut in told if cut.position == last)]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_with_power_durability_nothing_acknowledged_is_lost(library: Path, tmp_path: Path, workload: str) -> None:
    recording = record_workload(workload, "power", tmp_path, library)
    cuts = cuts_of(recording, DAILY) if LARGE else fewest_cuts(recording, list(WORKLOADS).index(workload))
    fail_with(try_cuts(recording, cuts))


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_with_power_durability_no_cut_does_harm(library: Path, tmp_path: Path, workload: str) -> None:
    recording = record_workload(workload, "power", tmp_path, library)
    fail_with(try_cuts(recording, every_cut(recording, LONG, SEED)))


def check_losses(outcomes: Sequence[Outcome]) -> None:
    """Check what a cut can do to a graph that syncs nothing, and what it can never do."""
    damages = {found.damage for outcome in outcomes for found in outcome.violations}
    assert damages & LOSSES
    shown = "\n".join(str(outcome) for outcome in outcomes if outcome.violations)
    # What can be read is what was committed, whole: a commit is there, or gone, or an error.
    assert Damage.WRONG not in damages, shown
    assert Damage.FOREIGN not in damages, shown
    # A process that is killed loses nothing: the kernel has what it wrote.
    fail_with(outcome for outcome in outcomes if outcome.cut.disk.label == ALL_THERE)
    # If nothing since the last start of the machine was written back, the graph is as it was then, and sound.
    older = [outcome for outcome in outcomes if outcome.cut.disk.label == ALL_LOST]
    assert {found.damage for outcome in older for found in outcome.violations} <= {Damage.LOST}, shown


@pytest.mark.parametrize("workload", daily(WORKLOADS, ("mutations",)))
def test_with_process_durability_commits_can_be_lost_but_not_falsified(
    library: Path, tmp_path: Path, workload: str
) -> None:
    recording = record_workload(workload, "process", tmp_path, library)
    check_losses(list(try_cuts(recording, cuts_of(recording, DAILY))))


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_with_process_durability_no_cut_falsifies_rows(library: Path, tmp_path: Path, workload: str) -> None:
    recording = record_workload(workload, "process", tmp_path, library)
    check_losses(list(try_cuts(recording, [*telling_cuts(recording), *every_cut(recording, LONG, SEED)])))
