"""The recorder, compiled once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import run
from tests.power.recorder import compile_recorder, find_obstacle, probe_recorder
from tests.selection import LARGE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder. Without it the tests are skipped; the long run insists on it."""
    _insist(find_obstacle())
    folder = tmp_path_factory.mktemp("recorder")
    made = compile_recorder(folder)
    _insist(run(probe_recorder, made, folder))
    return made


def _insist(obstacle: str | None) -> None:
    if obstacle is not None:
        stop = pytest.fail if LARGE else pytest.skip
        stop(f"POWER CUTS ARE NOT TESTED: {obstacle}")
