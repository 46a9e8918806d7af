"""Every verb has an example in its docstring, and the examples print what they show: one graph for all of them."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from pathlib import Path

import omnigraph as og
from omnigraph import Graph, errors

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }"
NEEDS_JAVA = {"spark"}


def verbs() -> dict[str, Callable[..., object]]:
    """The functions that a reader of the API meets first, in the order of the sources."""
    methods = {name: verb for name, verb in inspect.getmembers(Graph, inspect.isfunction) if not name.startswith("_")}
    analytics = inspect.getattr_static(Graph, "analytics")
    assert isinstance(analytics, property)
    assert analytics.fget is not None
    return {"init": og.init, "open": og.open, **methods, "analytics": analytics.fget}


def make_graph(folder: Path) -> Graph:
    """Three people on main, a fourth on a branch, and a tag."""
    graph = og.init(folder / "people.og", SCHEMA)
    ages = {"ann": 31, "bob": 28, "eve": None}
    people = [{"type": "Person", "data": {"name": name, "age": age}} for name, age in ages.items()]
    pairs = (("ann", "bob"), ("bob", "eve"))
    knows = [{"edge": "Knows", "from": one, "to": other} for one, other in pairs]
    graph.load([*people, *knows], message="three people")
    graph.create_tag("june")
    graph.create_branch("review")
    graph.mutate('query add() { insert Person { name: "dan" } }', branch="review")
    return graph


def test_every_verb_has_an_example_that_runs(tmp_path: Path) -> None:
    graph = make_graph(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    without: list[str] = []
    printed: list[str] = []
    for name, verb in verbs().items():
        names: dict[str, object] = {"og": og, "graph": graph, "folder": tmp_path, "errors": errors}
        test = parser.get_doctest(inspect.getdoc(verb) or "", names, name, None, None)
        if not test.examples and name not in NEEDS_JAVA:
            without.append(name)
        runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)
    assert without == []
