"""The largest loads: fifty million edges in one commit, and twenty million merged ids by a driver that stays small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.selection import sized

BENCH = Path(__file__).parents[2] / "bench" / "spark_load.py"


@pytest.mark.slow
def test_the_driver_does_not_grow_with_fifty_million_edges() -> None:
    size = ("--nodes", "2000000", "--edges", "50000000")
    # How long it takes depends on the machine; what the driver needs does not.
    asked = subprocess.run(
        [sys.executable, str(BENCH), *size, "--no-csv", "--json"], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(asked.stdout)
    promises = {each["what"]: each for each in cast("list[dict[str, object]]", found["promises"])}
    assert promises["driver's peak, all / a quarter of the rows"]["holds"]
    loaded = next(each for each in found["whole"]["costs"] if each["way"] == "load, parquet")
    assert loaded["rows"] == 52_000_000


@pytest.mark.slow
def test_a_driver_of_one_gigabyte_merges_twenty_million_ids(tmp_path: Path) -> None:
    program, rows = Path(__file__).with_name("large_merge.py"), sized(200_000, 20_000_000)
    settings = {"PYSPARK_SUBMIT_ARGS": "--driver-memory 1g --master local[2] pyspark-shell"}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "ships.og"), str(rows)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **settings},
    )
    assert done.stdout.split()[-1] == "1g"
