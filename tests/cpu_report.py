"""CPU seconds of every test, with those of the processes that it starts: ``pytest --cpu-report FILE``.

Wall time depends on what else the machine does; CPU time hardly does. A test is charged with what its worker and all
descendants of the worker use until it ends: killed children, Java, servers. The file has one line per test with its
seconds and those of its setup, the costliest first, after lines for what every worker spends before its first test.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

import pytest

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PROPERTY: Final = "cpu seconds"
_START: Final = "cpu seconds before the first test"


def add_option(parser: pytest.Parser) -> None:
    """Declare ``--cpu-report``."""
    parser.addoption("--cpu-report", metavar="FILE", help="write the CPU seconds of every test to FILE")


def register(config: pytest.Config) -> None:
    """Measure in the process that runs tests, and collect in the one that reports them."""
    if path := config.getoption("--cpu-report"):
        config.pluginmanager.register(CpuReport(Path(path)))


class CpuReport:
    """Measures each test that runs in this process; writes the report of all processes in the one that is in charge."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spent = 0.0
        self._first = True
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._setups: defaultdict[str, float] = defaultdict(float)
        self._starts: list[float] = []

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        """Charge a test with what was spent since the one before it ended."""
        before = _cpu_seconds()
        if self._first:
            item.user_properties.append((_START, before))
            self._first = False
        self._spent = before
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None]:
        """Put what each phase used into its report: that is how it gets from a worker to the process in charge."""
        now = _cpu_seconds()
        # What a killed process used is lost if nobody waited for it.
        item.user_properties.append((_PROPERTY, max(0.0, now - self._spent)))
        self._spent = now
        yield
        item.user_properties.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        for name, value in report.user_properties:
            if name == _PROPERTY:
                seconds = float(str(value))
                self._tests[report.nodeid] += seconds
                self._setups[report.nodeid] += seconds if report.when == "setup" else 0.0
            elif name == _START:
                self._starts.append(float(str(value)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the file, and say the sums."""
        starts = [f"{seconds:.3f}\t\t(start of a worker)" for seconds in self._starts]
        costliest = sorted(self._tests.items(), key=lambda test: -test[1])
        tests = [f"{spent:.3f}\t{self._setups[name]:.3f}\t{name}" for name, spent in costliest]
        self._path.write_text("\n".join((*starts, *tests)) + "\n")
        total = sum(self._tests.values())
        terminalreporter.write_line(
            f"{total:.0f} CPU s in {len(tests)} tests, {sum(self._starts):.0f} before the first ones: {self._path}"
        )


def _cpu_seconds() -> float:
    """CPU time of this process, of its descendants, and of those that have ended and been waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + sum(map(_times_of, _children_of("self")))


def _times_of(pid: str) -> float:
    try:
        fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK + sum(map(_times_of, _children_of(pid)))


def _children_of(pid: str) -> Iterable[str]:
    for thread in Path("/proc", pid, "task").glob("*/children"):
        try:
            yield from thread.read_text().split()
        except OSError:
            continue
