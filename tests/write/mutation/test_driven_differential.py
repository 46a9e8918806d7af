"""Random mutations with a match over random graphs do what the meaning of the language says, or change nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from omnigraph.errors import ConflictingValues, Json, ValidationError
from omnigraph.language.query import InsertEdge, compile_query
from omnigraph.language.query.check.traversal import to_edge_word
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.cache import shared_cache
from omnigraph.write.commit.section import CATCH_UP_MESSAGE
from tests.graphs import written
from tests.model.driven_model import NEW, Changed, Refused, changed_by
from tests.model.match_model import Asked, Entity, Graph
from tests.model.query_model import Line, as_json, line
from tests.read.query_worlds import CATALOG, Moment, World, new_world
from tests.selection import sized
from tests.write.mutation.driven_strategies import Mutation, driven_mutations

BRANCH = "driven"
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    """Graphs whose branches no test changes, except one of its own."""
    folder = tmp_path_factory.mktemp("worlds")
    return [new_world(folder, seed) for seed in reversed(range(sized(2, 8)))]


@settings(max_examples=sized(6, 1_500), suppress_health_check=SLOW, deadline=None)
@given(data=st.data())
def test_a_match_drives_its_statements(worlds: list[World], data: st.DataObject) -> None:
    """On a branch from any moment, as one mutation or as a transaction of two, cold or warm."""
    world = worlds[data.draw(st.integers(0, len(worlds) - 1), "world")]
    moment = world.moments[-1 - data.draw(st.integers(0, len(world.moments) - 1), "moment, from the last")]
    mutations = data.draw(st.lists(driven_mutations(), min_size=1, max_size=2))
    if any(isinstance(statement, InsertEdge) for statement in mutations[0].typed.statements):
        # Nobody knows the ids of new edges, which a second match would read.
        mutations = mutations[:1]
    for mutation in mutations:
        note(f"{mutation.text}\n{mutation.params}")
    if data.draw(st.booleans(), "cold"):
        shared_cache().clear()
    world.graph.create_branch(BRANCH, moment.at or moment.branch)
    try:
        check(world, moment, mutations)
    finally:
        world.graph.delete_branch(BRANCH)


def check(world: World, moment: Moment, mutations: list[Mutation]) -> None:
    try:
        expected = expect(moment.model, mutations)
    except Refused as refused:
        event(refused.code)
        assert_refused(world, moment, mutations, refused)
        return
    event("committed")
    assert run(world, mutations) == [(each.affected_nodes, each.affected_edges) for each in expected]
    assert_same(world, moment.model, expected[-1].graph())


def expect(graph: Graph, mutations: list[Mutation]) -> list[Changed]:
    """What each mutation makes of the graph; the later ones of what the earlier ones left."""
    found: list[Changed] = []
    for mutation in mutations:
        asked = Asked(graph, bound(mutation), time.time_ns() // 1_000_000)
        found.append(changed_by(mutation.typed, asked, CATALOG))
        graph = found[-1].graph()
    return found


def bound(mutation: Mutation) -> Mapping[str, ConstantValue]:
    return compile_query(mutation.text, CATALOG).bind_parameters(mutation.params)


def run(world: World, mutations: list[Mutation]) -> list[tuple[int, int]]:
    if len(mutations) == 1:
        results = [world.graph.mutate(mutations[0].text, params=mutations[0].params, branch=BRANCH)]
    else:
        with world.graph.transaction(BRANCH) as tx:
            results = [tx.mutate(mutation.text, params=mutation.params) for mutation in mutations]
    return [(result.affected_nodes, result.affected_edges) for result in results]


def assert_refused(world: World, moment: Moment, mutations: list[Mutation], refused: Refused) -> None:
    before, lag = written(world.graph, BRANCH), world.graph.snapshot(BRANCH).lag
    with pytest.raises(ValidationError) as error:
        run(world, mutations)
    assert error.value.code == refused.code
    if isinstance(error.value, ConflictingValues):
        told = error.value.violations[0]
        assert told.id == refused.entity
        assert told.property is not None
        type_ = CATALOG.nodes.get(told.type) or CATALOG.edges[told.type]
        of_property = type_.properties[told.property].type
        assert refused.values is not None
        assert told.value == [as_json(value, of_property) for value in refused.values]
    if written(world.graph, BRANCH) != before:
        # The tables of a branch catch up with the schema before any write, in a commit of its own.
        assert lag is not None
        assert [each.message for each in world.graph.commits(BRANCH, limit=1)] == [CATCH_UP_MESSAGE]
        assert_same(world, moment.model, moment.model)


# ------------------------------------------------------------------------------------------------ all rows


def assert_same(world: World, before: Graph, after: Graph) -> None:
    for node_type in CATALOG.nodes.values():
        text = f"query all() {{ match {{ $x: {node_type.name} }} return {{ $x.* }} }}"
        assert rows(world, text, {}) == model_rows(node_type, after.nodes[node_type.name])
    for edge_type in CATALOG.edges.values():
        text = f"query all() {{ match {{ $a $x:{to_edge_word(edge_type.name)} $b }} return {{ $x.* }} }}"
        known = before.edges[edge_type.name]
        assert rows(world, text, known) == model_rows(edge_type, after.edges[edge_type.name])


def rows(world: World, text: str, known: Mapping[str, Entity]) -> Counter[Line]:
    """Every row of a type on the branch; an edge that was not there before has no id that one could know."""
    found = cast("list[dict[str, Json]]", world.graph.query(text, branch=BRANCH).to_json()["rows"])
    for row in found:
        if "x.from" in row and row["x.id"] not in known:
            row["x.id"] = NEW
    return Counter(map(line, found))


def model_rows(type_: NodeType | EdgeType, entities: Mapping[str, Entity]) -> Counter[Line]:
    return Counter(line(_shown(type_, entity)) for entity in entities.values())


def _shown(type_: NodeType | EdgeType, entity: Entity) -> dict[str, Json]:
    shown: dict[str, Json] = {"x.id": NEW if entity.id.startswith(NEW) else entity.id}
    if isinstance(type_, EdgeType):
        shown |= {"x.from": entity.source, "x.to": entity.destination}
    values = sorted(type_.properties.items())
    return {**shown, **{f"x.{name}": as_json(entity.properties[name], declared.type) for name, declared in values}}
