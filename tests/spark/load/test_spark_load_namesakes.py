"""A node type and an edge type of one name neither reject nor hide each other's records, on executors."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.spark.load import incoming_rows as load_incoming
from tests.write.load.namesakes import expect_all_problems, expect_only_the_edges_rejected

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)


def test_records_of_a_namesake_are_not_rejected(tmp_path: Path) -> None:
    expect_only_the_edges_rejected(tmp_path, "spark")


@pytest.mark.slow
def test_records_of_a_namesake_hide_no_problem(tmp_path: Path) -> None:
    expect_all_problems(tmp_path, "spark")
