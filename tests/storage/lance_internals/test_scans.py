"""Scans that are built without the copies of Lance's own builder give the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, ScannerBuilder

from omnigraph.storage.lance_internals import build_scan


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    rows = pa.table({"id": [f"n{number}" for number in range(20)], "age": list(range(20))})
    return lance.write_dataset(rows, tmp_path / "rows.lance")


def test_a_scan_has_nothing_that_lance_copies(dataset: LanceDataset) -> None:
    scan = build_scan(dataset).columns(["age"]).filter("age > 17")
    assert vars(scan) == {}
    assert scan.to_scanner().to_table() == dataset.to_table(columns=["age"], filter="age > 17")


def test_a_scan_has_the_defaults_of_lance(dataset: LanceDataset) -> None:
    defaults = {name: value for name, value in vars(ScannerBuilder(dataset)).items() if name != "ds"}
    given = build_scan(dataset)
    assert {name: cast("object", getattr(given, name)) for name in defaults} == defaults
    # They belong to all scans, so none of them may be a list that a setter appends to.
    assert {type(value) for value in defaults.values()} == {bool, type(None)}


def test_a_scan_leaves_nothing_to_the_next(dataset: LanceDataset) -> None:
    build_scan(dataset).columns(["age"]).filter("age > 17").limit(1).with_row_id().to_scanner().to_table()
    assert build_scan(dataset).to_scanner().to_table() == dataset.to_table()
