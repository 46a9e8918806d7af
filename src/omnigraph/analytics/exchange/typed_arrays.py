"""A projection as arrays of each type, for learning on graphs, and the ``HeteroData`` of PyTorch Geometric of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels import Numbers
from omnigraph.analytics.projection import ProjectedNodes, ProjectionPlan, load_projection, number_nodes
from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog
from omnigraph.language.source import suggest_name
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import require_package
from omnigraph.storage.columns import Values, to_list


@dataclass(frozen=True, slots=True)
class TypedNodes:
    """The nodes of one type: their ids in the order of their numbers from 0 on, and a row of features for each."""

    name: str
    ids: Values
    features: npt.NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class TypedEdges:
    """The edges of one type: in two rows the numbers of their begins and of their ends, within the node types."""

    from_type: str
    name: str
    to_type: str
    index: npt.NDArray[np.int64]
    weights: Numbers | None


@dataclass(frozen=True, slots=True)
class TypedArrays:
    """A projection, one type at a time."""

    nodes: tuple[TypedNodes, ...]
    edges: tuple[TypedEdges, ...]


def read_typed_arrays(
    snapshot: Snapshot, catalog: Catalog, plan: ProjectionPlan, features: Mapping[str, Sequence[str]]
) -> TypedArrays:
    """Read the nodes and edges of each type. Edges are those that are stored, whatever the directions."""
    parts = number_nodes(snapshot, plan)
    first = {part.type.name: part.first for part in parts}
    _check_features(parts, features)
    edges: list[TypedEdges] = []
    for each in plan.edges:
        # Node numbers are those of all types together, the same for each edge type.
        alone = replace(plan, edges=(replace(each, direction="out"),))
        graph = load_projection(snapshot, catalog, alone).graph
        type_ = each.type
        index = np.stack([
            graph.begins.astype(np.int64) - first[type_.from_type],
            graph.ends.astype(np.int64) - first[type_.to_type],
        ])  # fmt: skip
        edges.append(TypedEdges(type_.from_type, type_.name, type_.to_type, index, graph.weights))
    return TypedArrays(
        tuple(TypedNodes(each.type.name, each.load_ids(), _read_features(each, features)) for each in parts),
        tuple(edges),
    )


def _check_features(parts: Sequence[ProjectedNodes], features: Mapping[str, Sequence[str]]) -> None:
    """Refuse features that are no properties with numbers; all problems are reported together."""
    types = {part.type.name: part.type for part in parts}
    problems: list[str] = []
    hint = ""
    for name, properties in features.items():
        if name not in types:
            problems.append(f"features names '{name}', which the projection does not have")
            hint = hint or suggest_name(name, types, "node types")
            continue
        for each in properties:
            declared = types[name].properties.get(each)
            if declared is None:
                problems.append(f"{name} has no property '{each}'")
                hint = hint or suggest_name(each, types[name].properties, "properties")
            elif not (declared.type.is_number or declared.type.scalar is Scalar.VECTOR):
                problems.append(f"{name}.{each} is {declared.type}")
                hint = hint or "features are properties with numbers or vectors"
    if problems:
        raise ParameterError("; ".join(problems), hint=hint, details={"problems": list(problems)})


def _read_features(nodes: ProjectedNodes, features: Mapping[str, Sequence[str]]) -> npt.NDArray[np.float32] | None:
    columns = [_read_feature(nodes, each) for each in features.get(nodes.type.name, ())]
    return np.concatenate(columns, axis=1).astype(np.float32) if columns else None


def _read_feature(nodes: ProjectedNodes, name: str) -> npt.NDArray[Any]:
    dimension = nodes.type.properties[name].type.dimension
    if dimension is None:
        return nodes.read_numbers(name)[:, np.newaxis]
    vectors = nodes.table.load_column(name).take(nodes.order)
    found = np.full((len(vectors), dimension), np.nan, np.float32)
    is_given = vectors.is_valid().to_numpy(zero_copy_only=False)
    given = cast("Any", vectors.drop_null()).flatten()
    found[is_given] = given.to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return found


def make_hetero_data(arrays: TypedArrays) -> Any:
    """Return a ``HeteroData``: ``num_nodes``, ``ids`` and ``x`` of node types, ``edge_index`` and ``edge_attr``."""
    require_package("torch")
    require_package("torch_geometric")
    torch, data = cast("Any", import_module("torch")), cast("Any", import_module("torch_geometric.data"))
    made = data.HeteroData()
    for nodes in arrays.nodes:
        made[nodes.name].num_nodes = len(nodes.ids)
        made[nodes.name].ids = to_list(nodes.ids)
        if nodes.features is not None:
            made[nodes.name].x = torch.from_numpy(nodes.features)
    for edges in arrays.edges:
        store = made[edges.from_type, edges.name, edges.to_type]
        store.edge_index = torch.from_numpy(edges.index)
        if edges.weights is not None:
            store.edge_attr = torch.from_numpy(edges.weights.astype(np.float32)[:, np.newaxis])
    return made
