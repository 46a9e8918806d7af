"""A node type and an edge type of one name neither reject nor hide each other's records."""

from __future__ import annotations

from pathlib import Path

from tests.write.load.namesakes import expect_all_problems, expect_only_the_edges_rejected


def test_records_of_a_namesake_are_not_rejected(tmp_path: Path) -> None:
    expect_only_the_edges_rejected(tmp_path, "local")


def test_records_of_a_namesake_hide_no_problem(tmp_path: Path) -> None:
    expect_all_problems(tmp_path, "local")
