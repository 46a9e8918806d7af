"""Make the raw files that ``june.pipeline.yaml`` reads: CSV and Parquet, the same ones every time."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RAW = Path(__file__).parent / "raw"
FLAGS = ("NO", "DK", "PA", "LR", "")
VESSELS = 60
PORTS = 12
CALLS = 600


def main() -> None:
    """Write all files."""
    chance = random.Random(7)  # noqa: S311  the same numbers every time, not secret ones
    (RAW / "vessels").mkdir(parents=True, exist_ok=True)
    ports = [f"p{number:02}" for number in range(PORTS)]
    depths = [round(chance.uniform(12.0, 22.0), 1) for _ in ports]
    table = {"code": ports, "name": [f"Port {number}" for number in range(PORTS)], "depth": depths}
    pq.write_table(pa.table(table), RAW / "ports.parquet")
    vessels = [
        (
            f"v{number:03}",
            f" Vessel {number} ",
            chance.choice(FLAGS),
            round(chance.uniform(3.0, 11.5), 1),
            "laid up" if number % 10 == 9 else "sailing",
        )
        for number in range(VESSELS)
    ]
    header = ("code", "name", "flag", "draught", "status")
    write(RAW / "vessels" / "north.csv", header, vessels[::2])
    write(RAW / "vessels" / "south.csv", header, vessels[1::2])
    # Every vessel calls somewhere, so that none is never seen.
    calls = [
        (
            vessels[number % VESSELS][0],
            chance.choice(ports),
            date(2026, 6, 1) + timedelta(days=chance.randrange(30)),
            chance.choice((chance.randrange(50_000), "unknown")),
        )
        for number in range(CALLS)
    ]
    write(RAW / "calls.csv", ("vessel", "port", "day", "cargo"), calls)
    print(f"{VESSELS} vessels, {PORTS} ports, {CALLS} calls in {RAW.name}/")


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    main()
