"""Read a projection of a snapshot into arrays: nodes numbered by type and id, edges between the numbers.

The positions of the ends of edges are those that queries use, from the cache. Without filters the projected arrays are
kept there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.analytics.kernels import BlockEngine, NumberedGraph, Numbers
from omnigraph.analytics.projection.spec import ProjectedEdges, ProjectionPlan
from omnigraph.analytics.result_rows import RowsMaker
from omnigraph.deadlines import check_deadline
from omnigraph.errors import NotFound, ParameterError, Unsupported
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import (
    Cache,
    CompactPositions,
    FullTable,
    Positions,
    TableContents,
    open_full_table,
    shared_cache,
)
from omnigraph.read.rows import Key, resolve_id
from omnigraph.read.topology import EdgeEndsKey, load_edge_ends
from omnigraph.storage.columns import Values, compute, to_bool_array, to_list
from omnigraph.storage.filters import Condition

LARGEST: Final = 2**31 - 1
"""Positions have 32 bits."""
_MOST_TEXT: Final = 2**31 - 1
"""In bytes: beyond it, Arrow needs 64-bit offsets."""
_SHOWN: Final = 5


class NumberedNodes(Protocol):
    """The nodes of one type in a projection, numbered by id from ``first`` on. Places count them from 0."""

    @property
    def type(self) -> NodeType:
        """Their type."""
        ...

    @property
    def first(self) -> int:
        """The number of the first of them; the others follow."""
        ...

    def load_ids(self) -> Values:
        """Return all ids, in the order of the numbers."""
        ...

    def __len__(self) -> int: ...

    def take_ids(self, places: Positions) -> Values:
        """Return the ids at some places."""
        ...

    def locate(self, ids: pa.StringArray) -> Positions:
        """Return the number of each id, -1 if the projection does not have it."""
        ...

    def read_numbers(self, property_: str) -> Numbers:
        """Return a property as numbers, not a number where it is null or the type does not have it."""
        ...


@dataclass(frozen=True)
class ProjectedNodes:
    """The nodes of one type, numbered in this process. ``order`` has their rows in the table, sorted by id."""

    type: NodeType
    table: FullTable
    order: Positions
    first: int
    """The number of the first of them; the others follow."""

    @cached_property
    def _ids(self) -> Values:
        return self.table.load_column("id").take(self.order)

    def load_ids(self) -> Values:
        """Return all ids, in the order of the numbers."""
        return self._ids

    def __len__(self) -> int:
        return len(self.order)

    def take_ids(self, places: Positions) -> Values:
        """Return the ids at some places."""
        return self._ids.take(places)

    def locate(self, ids: pa.StringArray) -> Positions:
        """Return the number of each id, -1 if the projection does not have it."""
        rows = self.table.locate(ids)
        numbers = self.number_rows()
        return np.where(rows >= 0, numbers[rows] if len(numbers) else -1, -1).astype(np.int64)

    def read_numbers(self, property_: str) -> Numbers:
        """Return a property as numbers, not a number where it is null or the type does not have it."""
        if not has_numbers(self.type, property_):
            return np.full(len(self.order), np.nan)
        return to_numbers(self.table.load_column(property_).take(self.order))

    def number_rows(self) -> CompactPositions:
        """Return the number of each row of the table, -1 for one that is not in the projection."""
        numbers = np.full(len(self.table), -1, np.int32)
        numbers[self.order] = np.arange(self.first, self.first + len(self.order), dtype=np.int32)
        return numbers


def has_numbers(type_: NodeType, property_: str) -> bool:
    """Whether a type has a property with one number for each node."""
    declared = type_.properties.get(property_)
    return declared is not None and declared.type.is_number and not declared.type.is_list


def to_numbers(values: Values) -> Numbers:
    """Return values as numbers, not a number where they are null."""
    found = compute("coalesce", values.cast(pa.float64()), pa.scalar(float("nan")))
    return found.to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class ProjectedGraph:
    """A projection as arrays, and what the numbers of its nodes stand for."""

    nodes: tuple[NumberedNodes, ...]
    engine: BlockEngine
    engine_name: str = "local"
    make_rows: RowsMaker | None = None
    """Makes the rows of a result where the ids are not in this process."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.engine.num_nodes

    @cached_property
    def graph(self) -> NumberedGraph:
        """All edges in this process."""
        return self.engine.collect()

    @property
    def is_here(self) -> bool:
        """Whether the edges are in this process."""
        return isinstance(self.engine, NumberedGraph)

    @cached_property
    def types(self) -> pa.StringArray:
        """The type of each node."""
        parts = [pa.repeat(part.type.name, len(part)) for part in self.nodes]
        return pa.concat_arrays([pa.array([], pa.string()), *parts])

    @cached_property
    def ids(self) -> Values:
        """The id of each node."""
        return join_ids([part.load_ids() for part in self.nodes])

    def read_numbers(self, property_: str) -> Numbers:
        """Return a property of all nodes as numbers, not a number where it is null or the type does not have it."""
        return np.concatenate([np.zeros(0), *(part.read_numbers(property_) for part in self.nodes)])

    def locate(self, name: str, given: Sequence[object]) -> Positions:
        """Return the numbers of nodes: ids, or pairs of type and id. ``name`` is that of the parameter."""
        pairs = [self._resolve(name, each) for each in given]
        found = np.full(len(pairs), -1, np.int64)
        for part in self.nodes:
            mine = [at for at, (node, _) in enumerate(pairs) if node is part.type]
            ids = pa.array([pairs[at][1] for at in mine], pa.string())
            found[mine] = part.locate(ids)
        missing = [f"{pairs[at][0].name} '{pairs[at][1]}'" for at in np.flatnonzero(found < 0)]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise NotFound(
                f"{name}: the projection has no {', '.join(missing[:_SHOWN])}{more}",
                hint="give ids of nodes that the projection has",
                details={"parameter": name, "missing": list(missing)},
            )
        return found

    def _resolve(self, name: str, given: object) -> tuple[NodeType, str]:
        types = {part.type.name: part.type for part in self.nodes}
        if isinstance(given, tuple | list):
            pair = cast("Sequence[object]", given)
            if len(pair) == 2 and isinstance(pair[0], str) and pair[0] in types:
                node = types[pair[0]]
                return node, resolve_id(node, cast(Key, pair[1]))
        elif len(types) == 1:
            (node,) = types.values()
            return node, resolve_id(node, cast(Key, given))
        first = next(iter(types))
        raise ParameterError(
            f"{name} holds {given!r}",
            hint=f'give a type and an id, such as ("{first}", "a"): types are {", ".join(types)}',
        )


def take_types(nodes: Sequence[NumberedNodes], numbers: Positions) -> Values:
    """Return the types of some nodes of a projection."""
    return cast("Values", pa.array([part.type.name for part in nodes], pa.string())).take(_find_owners(nodes, numbers))


def take_ids(nodes: Sequence[NumberedNodes], numbers: Positions) -> Values:
    """Return the ids of some nodes of a projection."""
    owners = _find_owners(nodes, numbers)
    arranged = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[arranged], np.arange(len(nodes) + 1))
    parts = [
        part.take_ids(numbers[arranged[begin:end]] - part.first)
        for part, (begin, end) in zip(nodes, pairwise(bounds.tolist()), strict=True)
        if begin < end
    ]
    if len(parts) == 1:
        return parts[0]
    places = np.empty(len(arranged), np.int64)
    places[arranged] = np.arange(len(arranged))
    return join_ids(parts).take(places)


def _find_owners(nodes: Sequence[NumberedNodes], numbers: Positions) -> Positions:
    """Return which of the types each node has. One without nodes begins where the next one does."""
    return np.searchsorted(np.array([part.first for part in nodes], np.int64), numbers, "right") - 1


def join_ids(parts: Sequence[Values]) -> Values:
    """Concatenate ids, with 64-bit offsets if a part has them or all together are too large for 32 bits."""
    is_large = any(pa.types.is_large_string(part.type) for part in parts) or sum(p.nbytes for p in parts) > _MOST_TEXT
    kind = pa.large_string() if is_large else pa.string()
    return pa.concat_arrays([cast("Values", pa.array([], kind)), *(part.cast(kind) for part in parts)])


@dataclass(frozen=True, slots=True)
class ProjectionKey:
    """The cache key of a projection without filters."""

    nodes: tuple[TableContents, ...]
    edges: tuple[EdgeEndsKey, ...]
    directions: tuple[str, ...]
    weight: str | None


class Projector(Protocol):
    """Loads projections, and says what its results can become."""

    def load(self, snapshot: Snapshot, catalog: Catalog, plan: ProjectionPlan) -> ProjectedGraph:
        """Read a projection of a snapshot."""
        ...

    def make_frame(self, table: pa.Table) -> Any:
        """Return a result as a frame of the engine."""
        ...


def load_projection(snapshot: Snapshot, catalog: Catalog, plan: ProjectionPlan) -> ProjectedGraph:
    """Read a projection, or find its arrays in the cache."""
    cache = shared_cache()
    nodes = number_nodes(snapshot, plan)
    keys = [load_edge_ends(snapshot, edges.type, catalog, cache)[0] for edges in plan.edges]

    def make() -> NumberedGraph:
        return _read_edges(snapshot, catalog, plan, nodes, cache)

    if plan.has_filters:
        return ProjectedGraph(nodes, make())
    contents = tuple(part.table.contents for part in nodes)
    directions = tuple(edges.direction for edges in plan.edges)
    key = ProjectionKey(contents, tuple(keys), directions, plan.weight)
    return ProjectedGraph(nodes, cache.get_or_make(key, make, lambda made: made.nbytes))


def count_stored_edges(snapshot: Snapshot, plan: ProjectionPlan) -> int:
    """Return how many edges the tables of a projection hold, before filters."""
    return _count_rows(snapshot, (edges.type.table_key for edges in plan.edges))


def count_stored_nodes(snapshot: Snapshot, plan: ProjectionPlan) -> int:
    """Return how many nodes the tables of a projection hold, before filters."""
    return _count_rows(snapshot, (node.table_key for node, _ in plan.nodes))


def _count_rows(snapshot: Snapshot, table_keys: Iterable[str]) -> int:
    pins = (snapshot.pins.get(key) for key in table_keys)
    return sum(pin.row_count for pin in pins if pin is not None)


def number_nodes(snapshot: Snapshot, plan: ProjectionPlan) -> tuple[ProjectedNodes, ...]:
    """Number the nodes of a projection by type and id."""
    cache = shared_cache()
    parts: list[ProjectedNodes] = []
    first = 0
    for node, conditions in plan.nodes:
        check_deadline()
        table = open_full_table(snapshot, node.table_key, node, cache)
        refuse_beyond(first + len(table), "nodes")
        order = np.argsort(table.rank_ids()) if len(table) else np.zeros(0, np.int64)
        if conditions:
            order = order[evaluate_conditions(table, conditions)[order]]
        parts.append(ProjectedNodes(node, table, order, first))
        first += len(order)
    return tuple(parts)


def refuse_beyond(count: int, what: str) -> None:
    """Refuse a projection with more nodes or edges than positions can count."""
    if count > LARGEST:
        raise Unsupported(
            f"the projection has {count:,} {what}; at most {LARGEST:,} can be numbered",
            hint="name fewer types, or give filters",
        )


def evaluate_conditions(table: FullTable, conditions: Iterable[Condition]) -> npt.NDArray[np.bool_]:
    """Return for each row of a table whether it satisfies all conditions."""
    mask = np.ones(len(table), np.bool_)
    for condition in conditions:
        check_deadline()
        rows = pa.table({column: table.load_column(column) for column in condition.columns})
        mask &= evaluate_condition(rows, condition)
    return mask


def evaluate_condition(rows: pa.Table, condition: Condition) -> npt.NDArray[np.bool_]:
    """Return for each row whether it satisfies a condition."""
    found = cast("Values | pa.ChunkedArray[pa.BooleanScalar]", condition.evaluate(rows))
    chunks = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return to_bool_array(cast("Values", chunks))


# --------------------------------------------------------------------------------------------- edges


def _read_edges(
    snapshot: Snapshot, catalog: Catalog, plan: ProjectionPlan, nodes: Sequence[ProjectedNodes], cache: Cache
) -> NumberedGraph:
    numbers = {part.type.name: part.number_rows() for part in nodes}
    parts = [_read_edge_type(snapshot, catalog, plan, edges, numbers, cache) for edges in plan.edges]
    refuse_beyond(sum(len(begins) for begins, _, _ in parts), "edges")
    count = nodes[-1].first + len(nodes[-1]) if nodes else 0
    weights = None if plan.weight is None else np.concatenate([np.zeros(0), *(part for _, _, part in parts)])
    return NumberedGraph(
        count,
        np.concatenate([np.zeros(0, np.int32), *(part for part, _, _ in parts)]),
        np.concatenate([np.zeros(0, np.int32), *(part for _, part, _ in parts)]),
        weights,
    )


def _read_edge_type(
    snapshot: Snapshot,
    catalog: Catalog,
    plan: ProjectionPlan,
    edges: ProjectedEdges,
    numbers: Mapping[str, CompactPositions],
    cache: Cache,
) -> tuple[CompactPositions, CompactPositions, Numbers]:
    """Return the begin, the end and the weight of each hop along the edges of one type."""
    check_deadline()
    edge, weight = edges.type, plan.weight
    _, ends = load_edge_ends(snapshot, edge, catalog, cache)
    begins, finishes = numbers[edge.from_type][ends.sources], numbers[edge.to_type][ends.destinations]
    table = open_full_table(snapshot, edge.table_key, edge, cache)
    rows = None
    if plan.has_filters:
        kept = (begins >= 0) & (finishes >= 0)
        if edges.conditions:
            kept &= evaluate_conditions(table, edges.conditions)
        rows = np.flatnonzero(kept)
        begins, finishes = begins[rows], finishes[rows]
    weights = np.zeros(0) if weight is None else read_weights(table, edge, weight, rows)
    match edges.direction:
        case "out":
            return begins, finishes, weights
        case "in":
            return finishes, begins, weights
        case "both":
            # A loop is one hop, as in a query.
            back = np.flatnonzero(begins != finishes)
            return (
                np.concatenate([begins, finishes[back]]),
                np.concatenate([finishes, begins[back]]),
                weights if weight is None else np.concatenate([weights, weights[back]]),
            )


def read_weights(table: FullTable, edge: EdgeType, weight: str, rows: Positions | None) -> Numbers:
    """Return the weights of some edges, or of all. Weights that are null, negative or not finite are refused."""
    if not len(table if rows is None else rows):
        return np.zeros(0)
    column = table.load_column(weight)
    values = column if rows is None else column.take(rows)
    numbers, wrong = find_wrong_weights(values)
    if len(wrong):
        shown = wrong[:_SHOWN]
        ids = cast("list[str]", table.take_ids(shown if rows is None else rows[shown]).to_pylist())
        refuse_weights(edge, weight, len(wrong), list(zip(ids, to_list(values.take(shown)), strict=True)))
    return numbers


def find_wrong_weights(values: Values) -> tuple[Numbers, Positions]:
    """Return weights as numbers, and the places of those that are null, negative or not finite."""
    numbers = to_numbers(values)
    return numbers, np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))


def refuse_weights(edge: EdgeType, weight: str, count: int, examples: Sequence[tuple[str, object]]) -> None:
    """Refuse edges by their weights; a few are named with theirs."""
    shown = examples[:_SHOWN]
    texts = [f"{each} has {'null' if value is None else value}" for each, value in shown]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    raise ParameterError(
        f"{edge.name}.{weight} is no weight for {count:,} edge{'' if count == 1 else 's'}: {', '.join(texts)}{more}",
        hint="weights are numbers that are not null and not negative: change these, or leave them out by filters",
        details={"type": edge.name, "property": weight, "count": count, "ids": [each for each, _ in shown]},
    )
