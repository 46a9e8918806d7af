"""The parameters of algorithms: what is refused, and how a commit message tells them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, cast, get_args

import numpy as np

from omnigraph.analytics.kernels import CommunityLibrary, Numbers, WalkBias
from omnigraph.analytics.projection import ProjectedGraph
from omnigraph.errors import Json, ParameterError
from omnigraph.read.rows import require_package

LARGEST_DIMENSION: Final = 4096
NodeReference = str | Mapping[str, object] | Sequence[object] | int
"""One node by its id or key, where the projection has one node type, or by its type and id; or a list of them."""


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside a range."""
    if not least <= value <= most:
        raise ParameterError(f"{name} is {value}", hint=f"give a number from {least} to {most}")


def check_above_zero(name: str, value: float) -> None:
    """Refuse a number that is not above 0 and finite."""
    if not 0 < value < math.inf:
        raise ParameterError(f"{name} is {value}", hint="give a number above 0")


def check_at_least_one(name: str, value: int) -> None:
    """Refuse a number of things that is below 1."""
    if not 0 < value < 2**31:
        raise ParameterError(f"{name} is {value}", hint="give a number, at least 1")


def check_dimension(dimension: int) -> None:
    """Refuse vectors of no dimension, and of too many."""
    if not 0 < dimension <= LARGEST_DIMENSION:
        raise ParameterError(f"dimension is {dimension}", hint=f"give a number from 1 to {LARGEST_DIMENSION}")


def check_word(name: str, value: str, allowed: object) -> str:
    """Refuse a word that is not one of a ``Literal``."""
    words = cast("tuple[str, ...]", get_args(allowed))
    if value not in words:
        raise ParameterError(f"{name} is {value!r}", hint=f"use {', '.join(words)}")
    return value


def check_seed(seed: int) -> None:
    """Refuse a seed that generators do not take."""
    if not 0 <= seed < 2**63:
        raise ParameterError(f"seed is {seed}", hint="give a number from 0 on")


def check_communities(resolution: float, seed: int, library: str) -> None:
    """Refuse what communities cannot be found with, and a library that is not known or not installed."""
    check_above_zero("resolution", resolution)
    check_seed(seed)
    if check_word("library", library, CommunityLibrary) == "networkit":
        require_package("networkit", extra="analytics")


def split_pairs(given: Sequence[object]) -> list[Sequence[object]]:
    """Return the given pairs of nodes."""
    pairs = [cast("Sequence[object]", each) for each in given if isinstance(each, tuple | list)]
    if len(pairs) < len(given) or any(len(pair) != 2 for pair in pairs) or not pairs:
        raise ParameterError("pairs is not a list of pairs", hint='give pairs of nodes, such as [("a", "b")]')
    return pairs


def check_iterations(iterations: int) -> None:
    """Refuse a number of rounds that is none."""
    if not 0 <= iterations < 2**31:
        raise ParameterError(f"iterations is {iterations}", hint="give the number of rounds")


def list_given_nodes(name: str, given: NodeReference, projected: ProjectedGraph) -> list[object]:
    """Return the nodes that were given: a list is several, anything else is one.

    Where ids need a type, a list of a type and an id is one node too: JSON has no other pairs.
    """
    nodes: list[object] = given if isinstance(given, list) else [given]
    types = [part.type.name for part in projected.nodes]
    if len(types) > 1 and len(nodes) == 2 and nodes[0] in types and not isinstance(nodes[1], list | tuple):
        nodes = [tuple(nodes)]
    if not nodes:
        raise ParameterError(f"{name} is an empty list", hint="give at least one node")
    return nodes


def make_bias(p: float, q: float) -> WalkBias:
    """Return how walks are biased; refuse numbers that are not above 0."""
    check_above_zero("p", p)
    check_above_zero("q", q)
    return WalkBias(p, q)


def make_teleport(projected: ProjectedGraph, given: NodeReference) -> Numbers:
    """Return the probability of each node to be jumped to."""
    if isinstance(given, Mapping):
        nodes: list[object] = list(given)
        weights = [check_weight("personalize", each) for each in given.values()]
    else:
        nodes = list_given_nodes("personalize", given, projected)
        weights = [1.0] * len(nodes)
    teleport = np.zeros(projected.num_nodes)
    np.add.at(teleport, projected.locate("personalize", nodes), weights)
    total = float(teleport.sum())
    if not total > 0:
        raise ParameterError("the weights of personalize are all 0", hint="give at least one that is above 0")
    return teleport / total


def read_start(projected: ProjectedGraph, property_: str) -> Numbers:
    """Return the ranks of an earlier run, which sum to 1; nodes that it did not have get an average one."""
    if not any(property_ in part.type.properties for part in projected.nodes):
        types = ", ".join(part.type.name for part in projected.nodes)
        raise ParameterError(f"start: {types} has no property '{property_}'", hint="name one with ranks")
    found = projected.read_numbers(property_)
    is_rank = np.isfinite(found) & (found >= 0)
    count = len(found)
    ranks = np.where(is_rank, found, 1 / max(1, count))
    total = float(ranks.sum())
    return ranks / total if total > 0 else np.full(count, 1 / max(1, count))


def check_weight(name: str, value: object) -> float:
    """Return a weight as a number; refuse one that is negative or not finite."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    raise ParameterError(f"{name} has the weight {value!r}", hint="weights are numbers that are not negative")


def to_parameter_json(given: object) -> Json:
    """Return a parameter as JSON."""
    match given:
        case None | bool() | int() | float() | str():
            return given
        case Mapping():
            return {str(name): to_parameter_json(each) for name, each in cast("Mapping[object, object]", given).items()}
        case list() | tuple():
            return [to_parameter_json(each) for each in cast("Sequence[object]", given)]
        case _:
            return str(given)
