"""The one assertion of the Lance release: what was not tested is refused by name, before it can damage a graph."""

from __future__ import annotations

import logging

import lance
import pytest

from omnigraph.errors import Unsupported
from omnigraph.storage.lance_internals.lance_version import refuse_untested_lance


def test_the_installed_release_is_tested(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph"):
        refuse_untested_lance(lance.__version__)
    assert not caplog.records


@pytest.mark.parametrize("version", ["13.3.1", "15.0.0", "140.0.0", "0.14.0", "unknown"])
def test_another_major_release_is_refused_with_the_command_that_helps(version: str) -> None:
    with pytest.raises(Unsupported, match=rf"pylance {version} is installed") as refused:
        refuse_untested_lance(version)
    assert refused.value.hint == "pip install 'pylance>=14,<15'"


def test_a_newer_minor_release_is_allowed_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph"):
        refuse_untested_lance("14.1.0")
    assert "pylance 14.1.0 is newer" in caplog.text
