"""What work on Spark takes: time, memory and reads of this process and of the Java and Python processes below it.

from peaks import clock, peak_mb, peak_mb_of_children, read_mb_of_children
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter


@dataclass(frozen=True, slots=True)
class Taken:
    """What some work took: seconds of the clock, and of CPU in all processes."""

    seconds: float
    cpu: float


def clock(work: Callable[[], object]) -> Taken:
    """Measure some work."""
    cpu, begin = cpu_seconds_of_all(), perf_counter()
    work()
    seconds = perf_counter() - begin
    return Taken(seconds, cpu_seconds_of_all() - cpu)


@dataclass(frozen=True, slots=True)
class ChildPeaks:
    """The largest resident sizes in MB that the processes below this one had; 0 if the system does not tell."""

    java: int
    python: int


def peak_mb() -> int:
    """The largest resident size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def peak_mb_of_children() -> ChildPeaks:
    """Look at all processes below this one."""
    parents, java, python = dict[int, int](), dict[int, int](), dict[int, int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        except OSError:
            # It ended while it was looked at.
            continue
        number = int(process.name)
        parents[number] = int(status["PPid"])
        sizes = java if "java" in status["Name"] else python
        sizes[number] = int(status.get("VmHWM", "0 kB").split()[0]) // 1024
    ours = _descendants_of(os.getpid(), parents)
    return ChildPeaks(*(max((sizes[each] for each in ours & sizes.keys()), default=0) for sizes in (java, python)))


def read_mb_of_children() -> int:
    """The MB that Python processes below this one have read from files since they began, those that ended too."""
    parents, sizes = dict[int, int](), dict[int, int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
            counters = dict(line.split(":", 1) for line in (process / "io").read_text().splitlines())
        except OSError:
            # It ended while it was looked at.
            continue
        number = int(process.name)
        parents[number] = int(status["PPid"])
        # Java reads jars and shuffles. A process that ended counts for the one that waited for it.
        sizes[number] = 0 if "java" in status["Name"] else int(counters["rchar"])
    return sum(sizes[each] for each in _descendants_of(os.getpid(), parents)) // 2**20


def cpu_seconds_of_all() -> float:
    """The CPU time of this process and all processes below it so far, Java and those that ended included."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # The name, in brackets, may have spaces. Then: state, parent, ..., own time twice, that of children twice.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It ended while it was looked at.
            continue
        number = int(process.name)
        parents[number] = int(fields[1])
        ticks[number] = sum(map(int, fields[11:15]))
    ours = _descendants_of(os.getpid(), parents) | {os.getpid()}
    return sum(ticks[each] for each in ours & ticks.keys()) / os.sysconf("SC_CLK_TCK")


def _descendants_of(root: int, parents: dict[int, int]) -> set[int]:
    found, reached = set[int](), {root}
    while reached:
        reached = {number for number, parent in parents.items() if parent in reached} - found
        found |= reached
    return found
