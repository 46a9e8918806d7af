"""The law of loads: of n records that are read, inserted + updated + unchanged + rejected + skipped are n."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.write.load import LoadMode
from omnigraph.write.load.inputs.table_files import _COMPRESSED, _SUFFIXES  # pyright: ignore[reportPrivateUsage]  all
from tests.graphs import rows_of
from tests.selection import daily
from tests.write.load.accounted_records import (
    COMPRESSIONS,
    FILE_WRITERS,
    IDENTITY,
    INPUTS,
    JUNK,
    MODES,
    expect_accounts,
    expect_counts,
    new_graph,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_graph(tmp_path_factory.mktemp("parts")).uri


def test_every_format_has_its_records() -> None:
    assert set(FILE_WRITERS) == set(_SUFFIXES)
    assert set(COMPRESSIONS) == set(_COMPRESSED)


PAIRS = [(kind, mode) for kind in INPUTS for mode in MODES]
DAILY = [(kind, mode) for at, (kind, mode) in enumerate(PAIRS) if at % 5 == 0 or kind == "records: file"]


@pytest.mark.parametrize(("kind", "mode"), daily(PAIRS, DAILY, " ".join))
def test_every_record_is_accounted_for(kind: str, mode: LoadMode, template: str, tmp_path: Path) -> None:
    graph = omnigraph.open(shutil.copytree(template, tmp_path / "parts.og"))
    arguments, junk = INPUTS[kind](tmp_path)
    identity = IDENTITY if mode in ("merge", "update") else None
    result = graph.load(**arguments, mode=mode, on_error="quarantine", identity=identity)  # pyright: ignore[reportArgumentType]  as a caller gives them
    expect_accounts(result, mode, junk)
    stored = {key: len(rows_of(graph, key)) for key in ("node:Part", "edge:Fits")}
    before = {"node:Part": 3, "edge:Fits": 2} if mode != "overwrite" else {"node:Part": 0, "edge:Fits": 0}
    assert stored == {key: before[key] + result.counts[key].inserted for key in before}


@pytest.mark.parametrize("mode", MODES)
def test_a_check_counts_what_a_load_would_do(mode: LoadMode, template: str, tmp_path: Path) -> None:
    graph = omnigraph.open(template, "ro")
    arguments, _ = INPUTS["records: file"](tmp_path)
    identity = IDENTITY if mode in ("merge", "update") else None
    result = graph.load(**arguments, mode=mode, on_error="quarantine", identity=identity, check=True)  # pyright: ignore[reportArgumentType]  as a caller gives them
    expect_counts(result, mode, len(JUNK))
