"""Steps along edges as a query takes them: with the conditions on what they reach, and only as far as rows are needed.

A destination that nobody asks for is counted, not made. Where a step leaves nothing of a row but its destination, the
rows are not made one by one either: every node passes the number of its rows on to its neighbours.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.language.query import Predicate
from omnigraph.language.query.plan import Connect, ConnectEdges, Expand, ExpandEdges
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Binding, Frame, Mask, Population, Positions
from omnigraph.read.match.counting import times
from omnigraph.read.match.liveness import Variables
from omnigraph.read.match.scan_nodes import fulfilling
from omnigraph.read.match.traverse import Keep, connect_edges, destination_counts, expand, expand_edges, passed_on, way

_WORTH_PASSING_ON: Final = 1_000
"""Fewer rows are made one by one in less time than it takes to touch every edge of a type."""


def expanded(frame: Frame, plan: Expand, needed: Variables, reading: QueryContext) -> Frame:
    """The rows of an :class:`Expand`, as far as the ``needed`` variables tell them apart."""
    if plan.destination not in needed and not plan.predicates:
        return times(frame, destination_counts(frame, plan, reading.tables))
    if _leaves_only_destinations(frame, plan, needed):
        numbered = passed_on(frame, plan, reading.tables)
        if numbered is not None:
            return _numbered(numbered, plan, reading)
    keep = _keep({f"node:{plan.destination_type}": (plan.destination, plan.predicates)}, reading)
    return expand(frame, plan, reading.tables, keep)


def _leaves_only_destinations(frame: Frame, plan: Expand, needed: Variables) -> bool:
    is_alone = set(frame.bindings) == {plan.source} and plan.source not in needed
    is_plain = frame.tags is None and frame.ranks is None and plan.minimum == plan.maximum == 1
    return is_alone and is_plain and frame.num_rows >= _WORTH_PASSING_ON


def _numbered(numbered: Binding, plan: Expand, reading: QueryContext) -> Frame:
    numbers = numbered.positions
    reached = np.flatnonzero(numbers)
    if plan.predicates:
        population, variable = numbered.population, plan.destination
        reached = reached[fulfilling(population, reached, variable, plan.predicates, reading)]
    return Frame(len(reached), {plan.destination: Binding(numbered.population, reached)}, numbers[reached])


def expanded_edges(frame: Frame, plan: ExpandEdges, reading: QueryContext) -> Frame:
    """The rows of an :class:`ExpandEdges`."""
    keep = _keep(
        {
            f"node:{plan.destination_type}": (plan.destination, plan.predicates),
            f"edge:{plan.edge_type}": (plan.edge_variable, plan.edge_predicates),
        },
        reading,
    )
    return expand_edges(frame, plan, reading.tables, keep)


def connected_edges(frame: Frame, plan: ConnectEdges, reading: QueryContext) -> Frame:
    """The rows of a :class:`ConnectEdges`."""
    keep = _keep({f"edge:{plan.edge_type}": (plan.edge_variable, plan.edge_predicates)}, reading)
    return connect_edges(frame, plan, reading.tables, keep)


def way_of_edges(plan: Expand | ExpandEdges | Connect | ConnectEdges, rows: float, reading: QueryContext) -> str:
    """How the edges of so many rows would be found, in a word."""
    return way(plan, rows, reading.tables)


def _keep(conditions: dict[str, tuple[str, tuple[Predicate, ...]]], reading: QueryContext) -> Keep | None:
    """What decides on an entity that is reached; None, where nothing is asked of any."""
    if not any(predicates for _, predicates in conditions.values()):
        return None

    def keep(population: Population, positions: Positions) -> Mask:
        variable, predicates = conditions[population.table_key]
        if not predicates:
            return np.ones(len(positions), np.bool_)
        return fulfilling(population, positions, variable, predicates, reading)

    return keep
