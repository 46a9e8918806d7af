"""Random mutations and transactions on a graph and on plain dictionaries: same counts, same errors, same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from tests.graphs import rows_of, written
from tests.model.mutation_model import (
    OPERATORS,
    SCHEMA,
    Delete,
    Insert,
    Model,
    Statement,
    Update,
    Value,
    Where,
    as_query,
)
from tests.selection import sized

Mutation: TypeAlias = list[Statement]

KEYS = st.sampled_from(["a", "b", "c", "it's"])
LABELS = st.sampled_from(["x", "y", None])
SIZES = st.sampled_from([None, -5, -1, 0, 1, 4, 5, 6])
WEIGHTS = st.sampled_from([None, -0.0, 0.0, 0.5, 2.0**53])
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "key": cast("st.SearchStrategy[Value]", KEYS),
    "from": cast("st.SearchStrategy[Value]", KEYS),
    "to": cast("st.SearchStrategy[Value]", KEYS),
    "label": cast("st.SearchStrategy[Value]", LABELS),
    "size": cast("st.SearchStrategy[Value]", SIZES),
    "weight": cast("st.SearchStrategy[Value]", WEIGHTS),
}


def where(*names: str) -> st.SearchStrategy[Where]:
    return st.sampled_from(names).flatmap(
        lambda name: st.builds(Where, st.just(name), st.sampled_from(OPERATORS), VALUES[name])
    )


def assigned(*names: str, always: tuple[str, ...] = ()) -> st.SearchStrategy[dict[str, Value]]:
    required = {name: VALUES[name] for name in always}
    return st.fixed_dictionaries(required, optional={name: VALUES[name] for name in names})


INSERTS = st.one_of(
    st.builds(Insert, st.just("Item"), assigned("size", "label", always=("key",))),
    st.builds(Insert, st.just("Link"), assigned("weight", always=("from", "to"))),
)
SETS = st.one_of(assigned("label", always=("size",)), assigned("size", always=("label",)))
UPDATES = st.builds(Update, SETS, where("key", "size", "label"))
DELETES = st.one_of(
    st.builds(Delete, st.just("Item"), where("key", "size", "label")),
    st.builds(Delete, st.just("Link"), where("from", "to", "weight")),
)
MUTATIONS: st.SearchStrategy[Mutation] = st.one_of(
    st.lists(st.one_of(INSERTS, INSERTS, UPDATES), min_size=1, max_size=4),
    st.lists(DELETES, min_size=1, max_size=2),
).map(lambda statements: cast(Mutation, statements))
# A list of several mutations is a transaction.
PROGRAMS = st.lists(st.lists(MUTATIONS, min_size=1, max_size=3), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("items") / "items.og"
    omnigraph.init(folder, SCHEMA)
    return folder


@settings(max_examples=sized(10, 300), suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(program=PROGRAMS)
def test_a_graph_does_what_the_language_says(template: Path, program: list[list[Mutation]]) -> None:
    with TemporaryDirectory() as folder:
        graph = omnigraph.open(shutil.copytree(template, Path(folder) / "items.og"))
        # A node with a self-link, to test deletes and cardinality.
        model = Model()
        start: Mutation = [Insert("Item", {"key": "a", "size": 0}), Insert("Link", {"from": "a", "to": "a"})]
        for mutations in [[start], *program]:
            model = step(graph, model, mutations)
            compare(graph, model)


def step(graph: Graph, model: Model, mutations: list[Mutation]) -> Model:
    """Run mutations as one commit on both, and return the model after it."""
    after = model.copy()
    expected = [[after.apply(statement) for statement in mutation] for mutation in mutations]
    counts = [(sum(nodes for nodes, _ in each), sum(edges for _, edges in each)) for each in expected]
    run = one(graph, mutations[0]) if len(mutations) == 1 else several(graph, mutations)
    if after.allowed_after(model):
        event("committed")
        assert run() == counts
        return after
    event("refused")
    state = written(graph)
    with pytest.raises(ValidationError):
        run()
    assert written(graph) == state
    return model


def one(graph: Graph, mutation: Mutation) -> Callable[[], list[tuple[int, int]]]:
    def run() -> list[tuple[int, int]]:
        text, params = as_query(mutation)
        done = graph.mutate(text, params=params)
        return [(done.affected_nodes, done.affected_edges)]

    return run


def several(graph: Graph, mutations: list[Mutation]) -> Callable[[], list[tuple[int, int]]]:
    def run() -> list[tuple[int, int]]:
        with graph.transaction() as tx:
            results = [tx.mutate(text, params=params) for text, params in map(as_query, mutations)]
        return [(done.affected_nodes, done.affected_edges) for done in results]

    return run


def compare(graph: Graph, model: Model) -> None:
    items = {str(row["id"]): (row["size"], row["label"]) for row in rows_of(graph, "Item")}
    assert items == {key: (row["size"], row["label"]) for key, row in model.items.items()}
    links = [(row["src"], row["dst"], row["weight"]) for row in rows_of(graph, "Link")]
    expected = [(row["from"], row["to"], row["weight"]) for row in model.links.values()]
    assert sorted(links, key=repr) == sorted(expected, key=repr)
    heads = graph.snapshot().pins
    assert (heads["node:Item"].row_count, heads["edge:Link"].row_count) == (len(model.items), len(model.links))
