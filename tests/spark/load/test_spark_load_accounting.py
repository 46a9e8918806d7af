"""Of n records that executors read, inserted + updated + unchanged + rejected + skipped are n."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import ParameterError
from omnigraph.spark.load import identity_matching
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.write.load import LoadMode
from tests.graphs import rows_of, written
from tests.selection import daily
from tests.write.load.accounted_records import (
    FITS,
    IDENTITY,
    INPUTS,
    MODES,
    PARTS,
    expect_accounts,
    new_graph,
    to_table,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Executors cannot read a stream or objects of this process.
KINDS = [kind for kind in INPUTS if kind.startswith("files:") or kind in ("records: file", "records: two files")]
PAIRS = [(kind, mode) for kind in KINDS for mode in MODES]
DAILY = [("records: file", "merge"), ("files: .parquet", "update"), ("files: .csv", "append")]


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are handled like many."""
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(identity_matching, "MAX_LOOKED_UP_ROWS", 0)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("kind", "mode"), daily(PAIRS, DAILY, " ".join))
def test_every_record_is_accounted_for(kind: str, mode: LoadMode, tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    arguments, junk = INPUTS[kind](tmp_path)
    identity = IDENTITY if mode in ("merge", "update") else None
    result = graph.load(**arguments, mode=mode, on_error="quarantine", identity=identity, engine="spark")  # pyright: ignore[reportArgumentType]  as a caller gives them
    expect_accounts(result, mode, junk)


@pytest.mark.usefixtures("spark")
def test_an_overwrite_without_rows_is_refused(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    before = written(graph)
    file = tmp_path / "wrong.jsonl"
    file.write_text('{"edge": "Fits", "from": 5, "to": "a"}\n')
    with pytest.raises(ParameterError, match="the overwrite has no rows of Fits; 1 record would be rejected"):
        graph.load(file, mode="overwrite", on_error="quarantine", engine="spark")
    reader = to_table(FITS).to_reader()
    reader.read_all()
    with pytest.raises(ParameterError, match="it was read before"):
        graph.load(edges={"Fits": reader}, engine="spark")
    assert written(graph) == before
    none = to_table(FITS).slice(0, 0)
    graph.spark().load(edges={"Fits": none}, mode="overwrite", allow_empty=True)
    assert rows_of(graph, "Fits") == []


@pytest.mark.parametrize("mode", daily(MODES, ["overwrite"]))
def test_every_row_of_a_dataframe_is_accounted_for(mode: LoadMode, spark: SparkSession, tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    parts, fits = (spark.createDataFrame(to_table(rows)) for rows in (PARTS, FITS))
    identity = IDENTITY if mode in ("merge", "update") else None
    result = graph.spark().load(
        nodes={"Part": parts}, edges={"Fits": fits}, mode=mode, on_error="quarantine", identity=identity
    )
    expect_accounts(result, mode, 0)
