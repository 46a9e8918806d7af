"""``omnigraph load`` on Spark: the command gives its files to Spark as they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import main
from omnigraph.spark import engine_choice
from tests.spark.load.spark_loads import FIRST, codes, file_of, new_graph, ship


@pytest.mark.usefixtures("spark")
def test_the_command_loads_a_file_on_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_graph(tmp_path / "ships.og", FIRST)
    file = file_of(tmp_path / "more.jsonl", [ship("d")])
    assert main(["load", str(file), "--engine", "spark", "--json", "-g", str(tmp_path / "ships.og")]) == 0
    assert '"engine":"spark"' in capsys.readouterr().out.replace(" ", "")
    assert set(codes(omnigraph.open(tmp_path / "ships.og", "ro"))) == {"a", "b", "c", "d"}


@pytest.mark.usefixtures("spark")
def test_the_command_chooses_spark_for_large_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "SPARK_MIN_BYTES", 10)
    new_graph(tmp_path / "ships.og")
    file = file_of(tmp_path / "more.jsonl", [ship("d")])
    assert main(["load", str(file), "--json", "-g", str(tmp_path / "ships.og")]) == 0
    assert '"engine":"spark"' in capsys.readouterr().out.replace(" ", "")


@pytest.mark.usefixtures("spark")
def test_merges_and_upkeep_run_on_spark_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = new_graph(tmp_path / "ships.og", FIRST)
    graph.create_branch("june")
    graph.load([ship("d")], branch="june")
    place = ["-g", str(tmp_path / "ships.og"), "--engine", "spark"]
    assert main(["merge", "june", *place]) == 0
    assert set(codes(omnigraph.open(tmp_path / "ships.og", "ro"))) == {"a", "b", "c", "d"}
    assert main(["optimize", *place]) == 0
    assert main(["index", *place]) == 0
    assert "error" not in capsys.readouterr().err
