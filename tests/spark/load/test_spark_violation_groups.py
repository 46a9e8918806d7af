"""The groups of violations that executors find have the same counts as in one process, whatever task found them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.write.load.run import Engine

SCHEMA = """
node Order { code: String @key  paid: Bool?  status: enum(open, paid) }
edge For: Order -> Order
"""


def wrong_files(folder: Path) -> list[Path]:
    """Three files, which are read by three tasks: each has all kinds of problems, and some of the same values."""
    files: list[Path] = []
    for part in range(3):
        records: list[dict[str, object]] = []
        for n in range(200):
            paid, status = ("yes", "no", True)[n % 3], "PAID" if n % 7 == part else "open"
            records.append({"type": "Order", "data": {"code": f"c{part}-{n}", "paid": paid, "status": status}})
        records.append({"type": "Order", "data": {"code": "twice", "status": "open"}})
        records.extend({"edge": "For", "from": "twice", "to": f"nowhere{n % 2}"} for n in range(60))
        # Their ends were rejected, which is said already.
        records.extend({"edge": "For", "from": "twice", "to": f"c{part}-{n}"} for n in (0, 1))
        files.append(folder / f"part{part}.jsonl")
        files[-1].write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return files


Groups: TypeAlias = "tuple[dict[tuple[object, ...], int], dict[tuple[object, ...], set[object]], object]"
"""The counts, the first places, and the number of all violations."""


def groups_of(folder: Path, files: list[Path], engine: Engine) -> Groups:
    graph = omnigraph.init(folder / f"{engine}.og", SCHEMA)
    with pytest.raises(ValidationError) as caught:
        graph.load(files, engine=engine)
    error = caught.value
    counts: dict[tuple[object, ...], int] = {
        (each.table_key, each.rule, each.property, each.value): each.count for each in error.groups
    }
    places: dict[tuple[object, ...], set[object]] = {
        (each.rule, each.value): {(violation.file, violation.line) for violation in each.first}
        for each in error.groups
        if each.rule in ("Bool?", "enum(open, paid)")
    }
    return counts, places, error.details["count"]


@pytest.mark.usefixtures("spark")
def test_groups_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    files = wrong_files(tmp_path)
    here, there = (groups_of(tmp_path, files, engine) for engine in ("local", "spark"))
    assert here == there
    counts, places, total = there
    assert counts["node:Order", "Bool?", "paid", "yes"] == 3 * 67
    assert sum(counts.values()) == total
    assert all(len(each) == 3 for each in places.values())
