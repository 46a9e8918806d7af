"""Random calls of every public verb: names, references, numbers, texts and objects, most of them wrong."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias, cast

import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from tests.interface.values import ADD, BEFORE, NOW, SCALARS, SOURCES, VALUES

Arguments: TypeAlias = Mapping[str, object]

# --------------------------------------------------------------------------------------------- the graph


def build(root: Path) -> None:
    """A graph with branches that lag, a branch of a branch, a tag, and commits that cleanup took."""
    graph = omnigraph.init(root, BEFORE)
    people = [
        {"name": name, "age": age, "nick": f"n {name}", "place": [0.0, 1.0, age], "photo": "base64:aGVsbG8="}
        for age, name in enumerate(("ann", "bob", "cid"))
    ]
    graph.load(
        [
            *({"type": "Person", "data": data} for data in people),
            {"type": "Slot", "data": {"line": "a", "seq": 1}},
            {"edge": "Knows", "from": "ann", "to": "bob"},
            {"edge": "In", "from": "ann", "to": {"line": "a", "seq": 1}},
        ]
    )
    for number in range(3):
        graph.mutate(ADD, params={"name": f"p{number}"})
    graph.create_branch("dev")
    graph.mutate(ADD, params={"name": "dev"}, branch="dev")
    graph.create_branch("child", "dev")
    graph.create_tag("kept", graph.commits()[1].id)
    graph.mutate(ADD, params={"name": "zed"})
    cleanup(graph._manifest, 1, confirm=True, grace=timedelta(0), stale_after=timedelta(0))
    graph.apply_schema(NOW)


# --------------------------------------------------------------------------------------------- calls

NEVER_DRAWN = frozenset({"self", "runner"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb."""

    verb: str
    arguments: Arguments

    def run(self, graph: Graph) -> object:
        """Call it, and read everything that it returns."""
        returned = cast("Callable[..., object]", getattr(graph, self.verb))(**self.arguments)
        read_all(returned)
        return returned

    def __str__(self) -> str:
        given = (f"{name}={value!r:.200}" for name, value in self.arguments.items())
        return f"graph.{self.verb}({', '.join(given)})"


def public_verbs() -> list[str]:
    """All methods of a graph but those that start Java."""
    members = inspect.getmembers(Graph, inspect.isfunction)
    return sorted(name for name, _ in members if not name.startswith("_") and name != "spark")


def list_parameters(verb: str) -> dict[str, inspect.Parameter]:
    """The parameters of a verb that are drawn."""
    parameters = inspect.signature(getattr(Graph, verb)).parameters
    return {name: each for name, each in parameters.items() if name not in NEVER_DRAWN}


def draw_call(verb: str, chance: random.Random, commits: Sequence[str]) -> Call:
    """Draw the arguments of a call: most are left out or plausible, few have a wrong type."""
    arguments: dict[str, object] = {}
    for parameter in list_parameters(verb).values():
        is_needed = parameter.default is inspect.Parameter.empty
        if is_needed or chance.random() < 0.4:
            values = SOURCES[verb] if parameter.name == "source" else VALUES.get(parameter.name, SCALARS)
            values = values[: _plausible(parameter.name)] if chance.random() < 0.6 else values
            chosen = chance.choice(SCALARS if chance.random() < 0.05 else values)
            arguments[parameter.name] = _fill_in(chosen, chance, commits)
    if verb in ("query", "mutate", "explain", "profile") and chance.random() < 0.6:
        arguments.pop("name", None)
    if chance.random() < 0.3 and arguments.get("params"):
        names = list(cast("Mapping[str, object]", arguments["params"])) if isinstance(arguments["params"], dict) else []
        arguments["params"] = {name: chance.choice(SCALARS) for name in names}
    return Call(verb, arguments)


def _plausible(parameter: str) -> int:
    """How many of the values of a parameter come first because they are often right."""
    return {"source": 22, "params": 12, "filter": 10, "branch": 6, "into": 6}.get(parameter, 4)


def _fill_in(value: object, chance: random.Random, commits: Sequence[str]) -> object:
    if callable(value):
        # A stream can be read once.
        return value()
    if not isinstance(value, str):
        return value
    return value.replace("COMMIT", chance.choice(commits)).replace("OLDEST", commits[-1])


def read_all(returned: object, depth: int = 0) -> None:
    """Read what is read lazily: rows, batches, changes and lines."""
    if returned is None or isinstance(returned, str | bytes | int | float | Path | Mapping | pa.Table) or depth > 3:
        return
    for name in ("rows", "to_arrow", "summary", "entities", "records", "to_json"):
        member = getattr(returned, name, None)
        needs_nothing = callable(member) and not _required_parameters(member)
        found = cast("Callable[[], object]", member)() if needs_nothing else member
        read_all(found, depth + 1)
    if isinstance(returned, Iterable):
        for each in cast("Iterable[object]", returned):
            read_all(each, depth + 1)


def _required_parameters(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.default is inspect.Parameter.empty]


def draw_calls(chance: random.Random, commits: Sequence[str], count: int) -> Iterator[Call]:
    """Draw calls of all verbs."""
    verbs = public_verbs()
    for _ in range(count):
        yield draw_call(chance.choice(verbs), chance, commits)
