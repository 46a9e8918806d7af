"""The largest load of the benchmarks: fifty million edges, in one commit, with a driver that does not grow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

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
