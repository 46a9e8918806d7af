"""Make the raw files that the pipelines here read: CSV and Parquet, the same ones every time."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FLAGS = ("NO", "DK", "PA", "LR", "")
HEADER = ("code", "name", "flag", "draught", "status")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows are made."""

    vessels: int
    ports: int
    calls: int


SMALL = Sizes(60, 12, 600)
LARGE = Sizes(40_000, 500, 300_000)


def write_raw(raw: Path, sizes: Sizes) -> None:
    """The files of ``june.pipeline.yaml``: two CSV files of vessels, ports as Parquet, calls as CSV."""
    chance = random.Random(7)  # noqa: S311  the same numbers every time, not secret ones
    (raw / "vessels").mkdir(parents=True, exist_ok=True)
    ports = [f"p{number:02}" for number in range(sizes.ports)]
    depths = [round(chance.uniform(12.0, 22.0), 1) for _ in ports]
    table = {"code": ports, "name": [f"Port {number}" for number in range(sizes.ports)], "depth": depths}
    pq.write_table(pa.table(table), raw / "ports.parquet")
    vessels = [
        (
            f"v{number:03}",
            f" Vessel {number} ",
            chance.choice(FLAGS),
            round(chance.uniform(3.0, 11.5), 1),
            "laid up" if number % 10 == 9 else "sailing",
        )
        for number in range(sizes.vessels)
    ]
    write(raw / "vessels" / "north.csv", HEADER, vessels[::2])
    write(raw / "vessels" / "south.csv", HEADER, vessels[1::2])
    write(raw / "calls.csv", ("vessel", "port", "day", "cargo"), calls(sizes, ports, chance))


def calls(sizes: Sizes, ports: Sequence[str], chance: random.Random) -> Iterator[tuple[object, ...]]:
    """Every vessel calls somewhere, so that none is never seen; low numbers among the ports are busier."""
    for number in range(sizes.calls):
        port = ports[int(len(ports) * chance.random() ** 2)]
        day = date(2026, 6, 1) + timedelta(days=chance.randrange(30))
        yield f"v{number % sizes.vessels:03}", port, day, chance.choice((chance.randrange(50_000), "unknown"))


def write_more(raw: Path) -> None:
    """The files of ``july.pipeline.yaml``, which do not fit: to the rules, to each other, and to what is there."""
    (raw / "july").mkdir(parents=True, exist_ok=True)
    vessels = [
        ("v003", "Vessel 3, again", "NO", 7.5, "sailing"),
        ("n001", "New vessel", "DK", 40.0, "sailing"),
        ("n002", "", "PA", 8.0, "sailing"),
        ("n003", "Twin", "PA", 8.0, "sailing"),
        ("n003", "Twin too", "LR", 9.5, "sailing"),
    ]
    write(raw / "july" / "vessels.csv", HEADER, vessels)
    write(raw / "july" / "calls.csv", ("vessel", "port", "day", "cargo"), [("n003", "p999", "2026-07-01", 12)])


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows((header, *rows))


def main() -> None:
    """Few rows, beside the pipeline files."""
    raw = Path(__file__).parent / "raw"
    write_raw(raw, SMALL)
    print(f"{SMALL.vessels} vessels, {SMALL.ports} ports, {SMALL.calls} calls in {raw.name}/")


if __name__ == "__main__":
    main()
