"""Algorithms by their names, as the command line calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import cast

from omnigraph.analytics.graph_projection import GraphProjection
from omnigraph.analytics.results import ALGORITHMS, AnalyticsResult
from omnigraph.errors import Json, NotFound, ParameterError
from omnigraph.language.source import suggest_name


def list_parameters(algorithm: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of an algorithm, without the timeout that all of them have."""
    found = inspect.signature(_find_method(algorithm)).parameters
    return {name: each for name, each in found.items() if name not in ("self", "timeout")}


def run_algorithm(projection: GraphProjection, algorithm: str, parameters: Mapping[str, object]) -> AnalyticsResult:
    """Run the algorithm of a name. All unknown and missing parameters are reported together."""
    method, known = _find_method(algorithm), list_parameters(algorithm)
    problems = [f"{algorithm} has no parameter '{name}'" for name in parameters if name not in known]
    required = [name for name, each in known.items() if each.default is inspect.Parameter.empty]
    problems += [f"{algorithm} needs the parameter '{name}'" for name in required if name not in parameters]
    if problems:
        unknown = next((name for name in parameters if name not in known), "")
        raise ParameterError(
            "; ".join(problems),
            hint=suggest_name(unknown, known, f"parameters of {algorithm}"),
            details={"problems": list[Json](problems)},
        )
    return method(projection, **parameters)


def _find_method(algorithm: str) -> Callable[..., AnalyticsResult]:
    if algorithm not in ALGORITHMS:
        raise NotFound(f"no algorithm '{algorithm}'", hint=suggest_name(algorithm, ALGORITHMS, "algorithms"))
    return cast("Callable[..., AnalyticsResult]", getattr(GraphProjection, algorithm))
