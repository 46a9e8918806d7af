"""Dirty records in every form that a load reads, and what has to become of each of them, by a model in plain Python."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import zstandard

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.load import LoadMode, LoadResult

SCHEMA: Final = """
node Part { code: String @key  stock: I32? @range(stock, 0..99) }
edge Fits: Part -> Part { note: String? }
"""
MODES: Final[tuple[LoadMode, ...]] = ("append", "merge", "update", "overwrite")
IDENTITY: Final = {"Fits": ["from", "to"]}

Row: TypeAlias = Mapping[str, str | int]
Outcome: TypeAlias = dict[str, int]

STORED_PARTS: Final[Sequence[Row]] = [{"code": code, "stock": stock} for code, stock in (("a", 1), ("b", 2), ("c", 3))]
STORED_FITS: Final[Sequence[Row]] = [
    {"from": "a", "to": "b", "note": "x"},
    {"from": "b", "to": "c", "note": "y"},
]
PARTS: Final[Sequence[Row]] = [
    {"code": code, "stock": stock}
    for code, stock in (("a", 1), ("b", 5), ("c", 7), ("c", 8), ("d", 4), ("e", 500), ("f", 6), ("f", 6))
]
"""Of stored rows: one is equal, one differs, one comes twice. Of others: one is new, one out of range, one twice."""
FITS: Final[Sequence[Row]] = [
    {"from": "a", "to": "b", "note": "x"},
    {"from": "b", "to": "c", "note": "z"},
    {"from": "c", "to": "a", "note": "w"},
    {"from": "a", "to": "nowhere", "note": "v"},
    {"from": "d", "to": "e", "note": "u"},
]
JUNK: Final = ("not json", '{"type": "Nothing", "data": {}}', '["a", "list"]')
"""Lines of no type that the schema has."""


def new_graph(folder: Path) -> Graph:
    graph = omnigraph.init(folder / "parts.og", SCHEMA)
    graph.load([*map(to_node, STORED_PARTS), *map(to_edge, STORED_FITS)])
    return graph


def to_node(row: Row) -> dict[str, object]:
    return {"type": "Part", "data": dict(row)}


def to_edge(row: Row) -> dict[str, object]:
    return {"edge": "Fits", "from": row["from"], "to": row["to"], "data": {"note": row["note"]}}


# --------------------------------------------------------------------------------------------- the model


def model_outcomes(mode: LoadMode) -> dict[str, Outcome]:
    """What becomes of the records of both types."""
    parts, present = _model_parts(mode)
    return {"node:Part": parts, "edge:Fits": _model_fits(mode, present)}


def _model_parts(mode: LoadMode) -> tuple[Outcome, set[str]]:
    stored = {row["code"]: row["stock"] for row in STORED_PARTS}
    times = Counter(row["code"] for row in PARTS)
    outcome, accepted = Counter[str](), set[str]()
    for row in PARTS:
        code, stock = cast(str, row["code"]), cast(int, row["stock"])
        is_wrong = stock > 99 or times[code] > 1
        if is_wrong or (code in stored if mode == "append" else code not in stored and mode == "update"):
            outcome["rejected"] += 1
            continue
        accepted.add(code)
        if mode in ("append", "overwrite") or code not in stored:
            outcome["inserted"] += 1
        else:
            outcome["unchanged" if stored[code] == stock else "updated"] += 1
    kept = set[str]() if mode == "overwrite" else set(cast("Iterable[str]", stored))
    return dict(outcome), kept | accepted


def _model_fits(mode: LoadMode, present: set[str]) -> Outcome:
    stored = {(row["from"], row["to"]): row["note"] for row in STORED_FITS}
    outcome = Counter[str]()
    for row in FITS:
        ends = (row["from"], row["to"])
        if not present.issuperset(ends) or (mode == "update" and ends not in stored):
            outcome["rejected"] += 1
        elif mode in ("append", "overwrite") or ends not in stored:
            outcome["inserted"] += 1
        else:
            outcome["unchanged" if stored[ends] == row["note"] else "updated"] += 1
    return dict(outcome)


# --------------------------------------------------------------------------------------------- the forms of an input


def write_text(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if ".tsv" in path.name else ",")
        writer.writeheader()
        writer.writerows(rows)


def write_lines(path: Path, rows: Sequence[object]) -> None:
    # Blank lines are no records.
    path.write_text("\n\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    pq.write_table(to_table(rows), path)


def write_feather(path: Path, rows: Sequence[Row]) -> None:
    feather.write_feather(to_table(rows), str(path))


def write_stream(path: Path, rows: Sequence[Row]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, to_table(rows).schema) as writer:
        writer.write_table(to_table(rows))


def to_table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows])


FILE_WRITERS: Final[Mapping[str, Callable[[Path, Sequence[Row]], None]]] = {
    ".csv": write_text,
    ".tsv": write_text,
    ".parquet": write_parquet,
    ".pq": write_parquet,
    ".arrow": write_feather,
    ".arrows": write_stream,
    ".feather": write_feather,
    ".ipc": write_feather,
    ".jsonl": write_lines,
    ".ndjson": write_lines,
    ".json": write_lines,
}
"""A writer for each ending of a file that a load knows."""
COMPRESSIONS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    ".gz": gzip.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
COMPRESSED: Final = (".csv", ".jsonl")

FRAMES: Final[Mapping[str, Callable[[Sequence[Row]], object]]] = {
    "table": to_table,
    "batches": lambda rows: to_table(rows).to_reader(max_chunksize=3),
    "pandas": lambda rows: pd.DataFrame([dict(row) for row in rows]),
    "polars": lambda rows: pl.DataFrame([dict(row) for row in rows]),
    "duckdb": lambda rows: duckdb.from_arrow(to_table(rows)),
}
"""A frame of each library that a load takes."""


def graph_records() -> list[object]:
    return [*map(to_node, PARTS), *map(to_edge, FITS), *JUNK]


def to_lines() -> str:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in graph_records())


RECORDS: Final[Mapping[str, Callable[[Path], object]]] = {
    "objects": lambda _: [each for each in graph_records() if not isinstance(each, str)],
    "generator": lambda _: (each for each in graph_records() if not isinstance(each, str)),
    "text stream": lambda _: io.StringIO(to_lines()),
    "byte stream": lambda _: io.BytesIO(to_lines().encode()),
    "file": lambda folder: _write(folder / "records.jsonl", to_lines().encode()),
    "two files": lambda folder: [
        _write(folder / "nodes.jsonl", "".join(to_lines().splitlines(keepends=True)[: len(PARTS)]).encode()),
        _write(folder / "edges.jsonl", "".join(to_lines().splitlines(keepends=True)[len(PARTS) :]).encode()),
    ],
    "file.gz": lambda folder: _write(folder / "records.jsonl.gz", gzip.compress(to_lines().encode())),
    "file.zst": lambda folder: _write(folder / "records.jsonl.zst", COMPRESSIONS[".zst"](to_lines().encode())),
}
"""Graph records in each form that a load takes."""


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def write_tables(folder: Path, suffix: str) -> dict[str, dict[str, object]]:
    """Write a file for each type; return them as arguments of a load."""
    plain = next(ending for ending in FILE_WRITERS if suffix == ending or suffix.startswith(f"{ending}."))
    parts, fits = folder / f"parts{plain}", folder / f"fits{plain}"
    FILE_WRITERS[plain](parts, PARTS)
    FILE_WRITERS[plain](fits, FITS)
    if suffix == plain:
        return {"nodes": {"Part": parts}, "edges": {"Fits": fits}}
    compress = COMPRESSIONS[suffix.removeprefix(plain)]
    parts, fits = (_write(Path(f"{path}{suffix[len(plain) :]}"), compress(path.read_bytes())) for path in (parts, fits))
    return {"nodes": {"Part": parts}, "edges": {"Fits": fits}}


def frames_of(name: str) -> dict[str, dict[str, object]]:
    """The rows of each type as frames, as arguments of a load."""
    return {"nodes": {"Part": FRAMES[name](PARTS)}, "edges": {"Fits": FRAMES[name](FITS)}}


INPUTS: Final[Mapping[str, Callable[[Path], tuple[dict[str, object], int]]]] = {
    **{
        f"records: {name}": lambda folder, make=make, name=name: (
            {"source": make(folder)},
            0 if name in ("objects", "generator") else len(JUNK),
        )
        for name, make in RECORDS.items()
    },
    **{
        f"files: {suffix}": lambda folder, suffix=suffix: (cast("dict[str, object]", write_tables(folder, suffix)), 0)
        for suffix in (*FILE_WRITERS, *(f"{plain}{ending}" for plain in COMPRESSED for ending in COMPRESSIONS))
    },
    **{f"frames: {name}": lambda _, name=name: (cast("dict[str, object]", frames_of(name)), 0) for name in FRAMES},
}
"""Every kind of input: makes the arguments of a load, and says how many records of no type it adds."""


def expect_accounts(result: LoadResult, mode: LoadMode, junk: int) -> None:
    """Every record is counted once, and as what the model says; the rejected ones are in their file."""
    expect_counts(result, mode, junk)
    path = Path(cast(str, result.rejects_path))
    lines = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else len(path.read_text().splitlines())
    assert lines == result.rejected


def expect_counts(result: LoadResult, mode: LoadMode, junk: int) -> None:
    """Every record is counted once, and as what the model says."""
    expected = model_outcomes(mode) | ({"unknown": {"rejected": junk}} if junk else {})
    counts = {key: {word: n for word, n in each.to_json().items() if n} for key, each in result.counts.items()}
    assert counts == expected
    assert result.total.read == len(PARTS) + len(FITS) + junk
    assert result.rejected == result.total.rejected
    assert sum(result.nodes.values()) + sum(result.edges.values()) == result.total.accepted
