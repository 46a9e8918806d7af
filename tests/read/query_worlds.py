"""Small fleets with a past: graphs on disk that were written step by step, and each step as the model has it.

Some began with an older schema: with names and narrower types that changed, and without some properties. The values
are few and awkward, so that they are often equal, null, or equal only after rounding. Sums of the floats are exact in
any order, and so are all distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final, cast

from hypothesis.vendor.pretty import RepresentationPrinter

import omnigraph
from omnigraph.errors import Json
from omnigraph.language.schema import parse_schema
from omnigraph.language.schema.catalog import Catalog, Property
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.manifest.rows import MAIN
from tests.model import match_model
from tests.model.match_model import Entity

SCHEMA: Final = """
interface Coded { code: String  size: I64? }
node Vessel implements Coded {
  code: String @key
  name: String @index
  kind: enum(ferry, tanker, tug) @index
  crew: I32? @index @rename_from("hands")
  serial: U64?
  debt: I64?
  score: F64?
  draft: F32?
  launched: Date?
  seen: DateTime?
  tags: [String]?
  marks: [I64]?
  safe: Bool?
  prof: Vector(2)?
}
node Port implements Coded {
  code: String @key
  name: String?
  depth: F64?
  berths: U32?
  opened: Date?
  grade: I32 @default("1")
}
edge Tows: Vessel -> Vessel { since: I64?  note: String? }
edge Near: Port -> Port
edge Escorts: Vessel -> Vessel
edge CallsAt: Vessel -> Port { at: DateTime?  fee: F32? }
edge Serves: Port -> Vessel
"""
CATALOG: Final[Catalog] = parse_schema(SCHEMA).catalog
SIDE: Final = "side"
LAGGING: Final = "lagging"

_NARROWER: Final = {
    "enum(ferry, tanker, tug)": "enum(ferry, tug)",
    "  serial: U64?\n": "  serial: U32?\n",
    "  debt: I64?\n": "",
    "  tags: [String]?\n": "",
    "  depth: F64?\n": "  depth: F32?\n",
    '  grade: I32 @default("1")\n': "",
    "  note: String? }": " }",
    "edge Escorts: Vessel -> Vessel\n": "",
}
_RENAMED: Final = {'crew: I32? @index @rename_from("hands")': "hands: I32? @index"}


def _older(replaced: Mapping[str, str]) -> str:
    text = SCHEMA
    for new, old in replaced.items():
        assert new in text, new
        text = text.replace(new, old)
    return text


_FIRST_SCHEMAS: Final = (SCHEMA, _older({**_NARROWER, **_RENAMED}), _older(_NARROWER))
"""What a graph began with. A branch with rows that have an old name would refuse the new one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
POOLS: Final[Mapping[Scalar, Sequence[ConstantValue]]] = {
    Scalar.I32: [-3, 0, 1, 900, 2**31 - 1],
    Scalar.U32: [0, 1, 3, 2**32 - 1],
    Scalar.I64: [-(2**63), -1, 0, 3, 2**53, 2**53 + 1],
    Scalar.U64: [0, 1, 900, 2**53 + 1, 2**63, 2**64 - 1],
    Scalar.F32: [-1.5, 0.0, 0.5, 3.0, 900.0],
    Scalar.F64: [-1.5, 0.0, 0.5, 1.0, 3.0],
    Scalar.STRING: ["", "a", "ab", "b", "fox", "Fox dog", "dog", "é", "%_", '"q\\'],
    Scalar.BOOL: [True, False],
    Scalar.DATE: [-1, 0, 11_446, 19_782],
    Scalar.DATETIME: [-1, 0, 1_704_096_000_123, 253_402_300_799_999],
    Scalar.VECTOR: [(0.0, 0.0), (3.0, 4.0), (6.0, 8.0), (-3.0, -4.0)],
}


def json_value(value: ConstantValue, type_: ValueType) -> Json:
    """A value as records and parameters spell it."""
    if isinstance(value, tuple):
        item = type_.item if type_.is_list else ValueType(Scalar.F32)
        return [json_value(each, item) for each in value]
    if value is None or type_.scalar not in {Scalar.DATE, Scalar.DATETIME}:
        return value
    if type_.scalar is Scalar.DATE:
        return (date(1970, 1, 1) + timedelta(days=cast(int, value))).isoformat()
    return (_EPOCH + timedelta(milliseconds=cast(int, value))).isoformat()


@dataclass(frozen=True, slots=True)
class Moment:
    """The graph at some commit, as it is asked for and as the model has it."""

    branch: str
    at: str | None
    model: match_model.Graph


@dataclass(frozen=True, slots=True)
class World:
    """A graph, and moments of its past and present."""

    graph: omnigraph.Graph
    moments: tuple[Moment, ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: object) -> None:  # pyright: ignore[reportUnusedFunction]
        """Print the world in short: Hypothesis warns of long texts, and the warning would hide the failure."""
        del cycle
        printer.text(f"World({self.graph.uri!r})")


class _Written:
    """A branch of a graph while it is written, beside the model of it."""

    def __init__(self, graph: omnigraph.Graph, chance: Random, branch: str, catalog: Catalog) -> None:
        self.graph, self.chance, self.branch, self.catalog = graph, chance, branch, catalog
        self.nodes: dict[str, dict[str, Entity]] = {name: {} for name in CATALOG.nodes}
        self.edges: dict[str, dict[str, Entity]] = {name: {} for name in CATALOG.edges}

    def branched(self, name: str) -> _Written:
        self.graph.create_branch(name, self.branch)
        other = _Written(self.graph, self.chance, name, self.catalog)
        other.nodes = {key: dict(found) for key, found in self.nodes.items()}
        other.edges = {key: dict(found) for key, found in self.edges.items()}
        return other

    def load(self, codes: Sequence[str], edges: int) -> None:
        """New or replaced nodes, and edges between any; one text may be the code of a vessel and of a port."""
        records: list[dict[str, object]] = []
        for node_type, declared in self.catalog.nodes.items():
            for code in self.chance.sample(codes, self.chance.randint(len(codes) // 2, len(codes))):
                values = {**self._values(declared.properties), "code": code}
                self.nodes[node_type][code] = Entity(code, values)
                data = _data(values, declared.properties)
                records.append({"type": node_type, "data": data})
        for edge_type in self.catalog.edges:
            records += self._new_edges(edge_type, self.chance.randint(edges // 2, edges))
        self.graph.load(records, mode="merge", branch=self.branch)

    def _new_edges(self, edge_type: str, count: int) -> list[dict[str, object]]:
        declared = self.catalog.edges[edge_type]
        ends = [sorted(self.nodes[name]) for name in (declared.from_type, declared.to_type)]
        records: list[dict[str, object]] = []
        for _ in range(count if all(ends) else 0):
            source, destination = (self.chance.choice(some) for some in ends)
            id_ = f"{self.chance.getrandbits(64):016x}"
            values = self._values(declared.properties)
            self.edges[edge_type][id_] = Entity(id_, values, source, destination)
            data = {"id": id_, **_data(values, declared.properties)}
            records.append({"edge": edge_type, "from": source, "to": destination, "data": data})
        return records

    def see_new_schema(self) -> None:
        """Every row has what came: a new name, a default, or nothing."""
        self.catalog = CATALOG
        for types, tables in ((CATALOG.nodes, self.nodes), (CATALOG.edges, self.edges)):
            for name, found in tables.items():
                properties = types[name].properties
                tables[name] = {
                    id_: replace(each, properties=_catch_up(each.properties, properties)) for id_, each in found.items()
                }

    def delete(self) -> None:
        """A vessel, with all edges at it."""
        if not self.nodes["Vessel"]:
            return
        gone = self.chance.choice(sorted(self.nodes["Vessel"]))
        text = "query gone($code: String) { delete Vessel where code = $code }"
        self.graph.mutate(text, params={"code": gone}, branch=self.branch)
        del self.nodes["Vessel"][gone]
        for name, found in self.edges.items():
            declared = CATALOG.edges[name]
            self.edges[name] = {
                id_: edge
                for id_, edge in found.items()
                if not (declared.from_type == "Vessel" and edge.source == gone)
                and not (declared.to_type == "Vessel" and edge.destination == gone)
            }

    def _values(self, properties: Mapping[str, Property]) -> dict[str, ConstantValue]:
        return {name: self._value(declared.type) for name, declared in properties.items()}

    def _value(self, type_: ValueType) -> ConstantValue:
        if type_.nullable and self.chance.random() < 0.3:
            return None
        pool = type_.enum_values or POOLS[type_.scalar]
        return (
            tuple(self.chance.choices(pool, k=self.chance.randint(0, 3))) if type_.is_list else self.chance.choice(pool)
        )

    def moment(self, *, now: bool = False) -> Moment:
        model = match_model.Graph(
            {name: dict(found) for name, found in self.nodes.items()},
            {name: dict(found) for name, found in self.edges.items()},
        )
        return Moment(self.branch, None if now else self.graph.commits(self.branch)[0].id, model)


def _catch_up(values: Mapping[str, ConstantValue], properties: Mapping[str, Property]) -> dict[str, ConstantValue]:
    """The values of a row of an older schema under the new one."""
    known = {"crew": values.get("hands"), "grade": 1, **values}
    return {name: known.get(name) for name in properties}


def _data(values: Mapping[str, ConstantValue], properties: Mapping[str, Property]) -> dict[str, Json]:
    """What a record says of an entity: a null may as well be left out."""
    return {name: json_value(each, properties[name].type) for name, each in values.items() if each is not None}


def new_world(folder: Path, seed: int) -> World:
    """A graph that was loaded, added to, branched, changed on both branches, indexed and changed again.

    The first one is empty at first, and the second has few nodes. Of three, one has always had its schema, one got it
    after its first rows, and one while there was a branch, which lags behind from then on.
    """
    chance = Random(seed)  # noqa: S311  no secret
    first_schema = _FIRST_SCHEMAS[seed % len(_FIRST_SCHEMAS)]
    graph = omnigraph.init(folder / f"world{seed}.og", first_schema)
    codes = ["a", "ab", "b", "c", "é"][: 5 if seed > 1 else 2 * seed]
    main = _Written(graph, chance, MAIN, parse_schema(first_schema).catalog)
    moments = [main.moment()] if seed == 0 else []
    main.load(codes, edges=3 * len(codes))
    lagging = [main.branched(LAGGING)] if "hands: " not in first_schema else []
    if first_schema is not SCHEMA:
        graph.apply_schema(SCHEMA)
    for written in (main, *lagging):
        written.see_new_schema()
    moments.append(main.moment())
    main.load(["y", "z"], edges=4)
    moments.append(main.moment())
    side = main.branched(SIDE)
    side.load([*codes, "s"], edges=6)
    moments.append(side.moment())
    side.delete()
    main.delete()
    main.load([*codes, "m"], edges=6)
    moments.append(main.moment())
    graph.ensure_indexes()
    moments.append(main.moment())
    main.load(["a", "n"], edges=4)
    graph.ensure_indexes(SIDE)
    newest = (*lagging, main, side)
    return World(graph, (*moments, *(written.moment(now=True) for written in newest)))
