"""Random graphs with a property of every type, and all that is in them, however they came to be there."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Values, column_of, to_list

Record: TypeAlias = dict[str, object]
Strategy: TypeAlias = "st.SearchStrategy[object]"

SCHEMA = """
node Thing {
  code: String @key
  text: String?  flag: Bool?  small: I32?  large: I64?  count: U32?  huge: U64?  half: F32?  whole: F64?
  day: Date?  moment: DateTime?  kind: enum(red, green)?  point: Vector(3)?  body: Blob?
  texts: [String]?  flags: [Bool]?  smalls: [I32]?  larges: [I64]?  counts: [U32]?  huges: [U64]?
  halves: [F32]?  wholes: [F64]?  days: [Date]?  moments: [DateTime]?
  level: I32? @default("7")
}
node Free { name: String?  score: F64 }
node Leg { line: String  seq: I64  at: DateTime  @key(line, seq, at) }
edge Holds: Thing -> Free { weight: F32?  since: DateTime?  proof: Blob? }
edge Follows: Leg -> Leg
"""

_DAYS = st.integers(-719_162, 2_932_896)
_MOMENTS = st.integers(-62_135_596_800_000, 253_402_300_799_999)


def _floats(width: Literal[32, 64]) -> Strategy:
    return st.floats(width=width, allow_nan=False, allow_infinity=False) | st.just(-0.0)


def _blobs(outside: str) -> Strategy:
    inline = st.binary(max_size=40).map(lambda data: "base64:" + base64.b64encode(data).decode())
    return inline | st.just(outside)


_SCALARS: Mapping[str, Strategy] = {
    "text": st.text(max_size=12),
    "flag": st.booleans(),
    "small": st.integers(-(2**31), 2**31 - 1),
    "large": st.integers(-(2**63), 2**63 - 1),
    "count": st.integers(0, 2**32 - 1),
    "huge": st.integers(0, 2**64 - 1),
    "half": _floats(32),
    "whole": _floats(64),
    "day": _DAYS,
    "moment": _MOMENTS,
}
_LISTS = {
    "texts": "text",
    "flags": "flag",
    "smalls": "small",
    "larges": "large",
    "counts": "count",
    "huges": "huge",
    "halves": "half",
    "wholes": "whole",
    "days": "day",
    "moments": "moment",
}


def _things(outside: str) -> st.SearchStrategy[Record]:
    optional = {
        **_SCALARS,
        **{name: st.lists(_SCALARS[item], max_size=3) for name, item in _LISTS.items()},
        "kind": st.sampled_from(["red", "green"]),
        "point": st.lists(_floats(32), min_size=3, max_size=3),
        "body": _blobs(outside),
        "level": st.none() | st.integers(0, 9),
    }
    nullable = {name: st.none() | each for name, each in optional.items()}
    return st.fixed_dictionaries({"code": st.text(min_size=1, max_size=8)}, optional=nullable)


_FREE = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=8), "score": _floats(64)}, optional={"name": st.none() | st.text()}
)
_LEGS = st.fixed_dictionaries({"line": st.text(max_size=4), "seq": _SCALARS["large"], "at": _MOMENTS})


def _unique(each: st.SearchStrategy[Record], *by: str) -> st.SearchStrategy[list[Record]]:
    key: Callable[[Record], object] = lambda data: tuple(data[name] for name in by)  # noqa: E731  typed
    return st.lists(each, max_size=4, unique_by=key)


@st.composite
def records(draw: st.DrawFn, outside: str) -> list[Record]:
    """Nodes with a property of every type, and edges between them; ``outside`` is the URI of an object elsewhere."""
    things = draw(_unique(_things(outside), "code"))
    free = draw(_unique(_FREE, "id"))
    legs = draw(_unique(_LEGS, "line", "seq", "at"))
    of_type = {"Thing": things, "Free": free, "Leg": legs}
    found: list[Record] = [{"type": name, "data": data} for name, each in of_type.items() for data in each]
    if things and free:
        properties = st.fixed_dictionaries(
            {}, optional={"weight": _floats(32), "since": _MOMENTS, "proof": _blobs(outside)}
        )
        for _ in range(draw(st.integers(0, 3))):
            source, target = draw(st.sampled_from(things))["code"], draw(st.sampled_from(free))["id"]
            found.append({"edge": "Holds", "from": source, "to": target, "data": draw(properties)})
    if legs:
        for _ in range(draw(st.integers(0, 2))):
            ends = {word: draw(st.sampled_from(legs)) for word in ("from", "to")}
            found.append({"edge": "follows", **ends})
    return found


# --------------------------------------------------------------------------------------------- what is in a graph


def contents(graph: Graph, branch: str = "main", at: Reference | None = None) -> dict[str, list[str]]:
    """Every row of every type, bit by bit as text: a zero has its sign, a blob its bytes or its place."""
    snapshot = graph.snapshot(branch, at)
    return {key: _rows(snapshot, key) for key in snapshot.pins}


def _rows(snapshot: Snapshot, table_key: str) -> list[str]:
    table = snapshot.table(table_key)
    rows = table.scan(with_row_address=True).read_all()
    columns = {name: _plain(column_of(rows, name)) for name in rows.column_names if name != "_rowaddr"}
    for name in ("body", "proof"):
        if name in columns and rows.num_rows:
            addresses = cast("list[int]", rows["_rowaddr"].to_pylist())
            read = table.dataset.read_blobs(name, addresses=addresses, preserve_order=True)
            places = [each and cast("dict[str, object]", each)["blob_uri"] for each in columns[name]]
            columns[name] = [(place, data) for place, (_, data) in zip(places, read, strict=True)]
    return sorted(repr(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _plain(column: Values) -> list[object]:
    if pa.types.is_date64(column.type):
        # As Python objects they would lose the time of day.
        return to_list(column.cast(pa.int64()))
    if column.type == pa.list_(pa.field("item", pa.date64())):
        return to_list(column.cast(pa.list_(pa.int64())))
    return to_list(column)
