"""The recorder, compiled once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import LARGE
from tests.power.recorder import compile_recorder, find_obstacle


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder. The long run insists on it."""
    obstacle = find_obstacle()
    if obstacle is not None:
        reason = f"POWER CUTS ARE NOT TESTED: {obstacle}"
        if LARGE:
            pytest.fail(reason)
        pytest.skip(reason)
    return compile_recorder(tmp_path_factory.mktemp("recorder"))
