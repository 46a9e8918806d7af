"""Components from an earlier result: after inserts alone they are a union over the edges that came since.

The earlier result says which nodes belong together; of the edges only the inserted ones are read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.analytics.kernels import NumberedGraph
from omnigraph.analytics.projection import ProjectedGraph, ProjectedNodes, ProjectionPlan, number_nodes
from omnigraph.analytics.results import Analysis, list_analyses
from omnigraph.deadlines import check_deadline
from omnigraph.errors import HistoryGone, Json, NotFound, ParameterError
from omnigraph.language.types import Scalar
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import compare_values, read_changes
from omnigraph.read.frames import Positions
from omnigraph.storage.columns import column_of

_log = logging.getLogger("omnigraph")


def load_warm_components(
    manifest: Manifest, snapshot: Snapshot, plan: ProjectionPlan, property_: str
) -> ProjectedGraph | None:
    """Return a graph with the components of now: a link of each node to its earlier component, and inserted edges.

    None if that is not known any more: nodes or edges went, edges moved, or somebody changed the values.
    """
    node = _find_node(plan, property_)
    analysis = _find_analysis(manifest, snapshot, plan, f"{node}.{property_}")
    if len(analysis.commit.parents) > 1:
        # A merge, which may have brought only some of the values.
        return _begin_anew("the commit that wrote them is gone")
    try:
        source = take_snapshot(manifest, str(analysis.provenance.projection["branch"]), analysis.source)
        written = take_snapshot(manifest, snapshot.branch, analysis.commit.id)
    except (NotFound, HistoryGone):
        return _begin_anew("the commit that they were computed on is gone")
    (nodes,) = number_nodes(snapshot, plan)
    if not _are_values_kept(written, snapshot, nodes, property_):
        return _begin_anew("somebody changed the components")
    earlier = _read_earlier(nodes, property_)
    links = [] if earlier is None else [(np.arange(len(earlier)), earlier)]
    for edges in plan.edges:
        inserted = _read_inserted(source, snapshot, edges.type.table_key, nodes)
        if inserted is None or earlier is None:
            return _begin_anew("edges were deleted or moved, or a component lost its name")
        links.append(inserted)
    begins, ends = (np.concatenate([pair[side] for pair in links]).astype(np.int32) for side in (0, 1))
    return ProjectedGraph((nodes,), NumberedGraph(len(nodes), begins, ends))


def _begin_anew(reason: str) -> None:
    _log.info("components are computed from all edges: %s", reason)


def _find_node(plan: ProjectionPlan, property_: str) -> str:
    """Return the node type; refuse what cannot be started from. All problems are reported together."""
    problems: list[str] = []
    if len(plan.nodes) != 1:
        problems.append("start is for a projection of one node type: a component is named by an id")
    if plan.has_filters:
        problems.append("start is for a projection without filters")
    node = plan.nodes[0][0]
    declared = node.properties.get(property_)
    if declared is None:
        problems.append(f"start: {node.name} has no property '{property_}'")
    elif declared.type.scalar is not Scalar.STRING or declared.type.is_list:
        problems.append(f"start: {node.name}.{property_} is {declared.type}, and no id of a component")
    if problems:
        hint = 'write it first: wcc().write("component", column="component_id", create=True)'
        raise ParameterError("; ".join(problems), hint=hint, details={"problems": list[Json](problems)})
    return node.name


def _find_analysis(manifest: Manifest, snapshot: Snapshot, plan: ProjectionPlan, written: str) -> Analysis:
    wanted = _list_types(plan.to_json())
    for each in list_analyses(manifest, snapshot.branch):
        made = each.provenance
        if each.written == (written,) and made.algorithm == "wcc" and _list_types(made.projection) == wanted:
            return each
    raise ParameterError(
        f"start: no wcc of this projection wrote {written} on '{snapshot.branch}'",
        hint='write it first: wcc().write("component", column="component_id", create=True)',
    )


def _list_types(projection: Mapping[str, Json]) -> tuple[list[str], list[str], bool]:
    """Return what components depend on: types, and whether there are filters, but no directions and weights."""
    nodes, edges = projection.get("nodes"), projection.get("edges")
    return (
        sorted(map(str, nodes)) if isinstance(nodes, list) else [],
        sorted(edges) if isinstance(edges, dict) else [],
        bool(projection.get("filters")),
    )


def _are_values_kept(written: Snapshot, now: Snapshot, nodes: ProjectedNodes, property_: str) -> bool:
    """Whether no node has another value than the one that was written. Those that went took their edges along."""
    for parts in read_changes(written, now, nodes.type.table_key, ["id", property_]):
        check_deadline()
        for part in parts:
            if part.before is not None and part.after is not None:
                same = compare_values(column_of(part.before, property_), column_of(part.after, property_))
                if not same.all():
                    return False
    return True


def _read_earlier(nodes: ProjectedNodes, property_: str) -> Positions | None:
    """Return the number of the earlier component of each node, its own for a new one; None if one is not found."""
    values = nodes.table.load_column(property_).take(nodes.order).cast(pa.string())
    own = np.arange(len(nodes))
    is_old = values.is_valid().to_numpy(zero_copy_only=False)
    found = nodes.locate(cast("pa.StringArray", values.filter(pa.array(is_old))))
    if (found < 0).any():
        return None
    earlier = own.copy()
    earlier[is_old] = found
    return earlier


def _read_inserted(
    before: Snapshot, now: Snapshot, key: str, nodes: ProjectedNodes
) -> tuple[Positions, Positions] | None:
    """Return the ends of inserted edges; None if others went or moved."""
    begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for parts in read_changes(before, now, key, ["id", "src", "dst"]):
        check_deadline()
        for part in parts:
            if not part.num_rows:
                continue
            if part.after is None:
                return None
            if part.before is None:
                begins.append(nodes.locate(cast("pa.StringArray", column_of(part.after, "src"))))
                ends.append(nodes.locate(cast("pa.StringArray", column_of(part.after, "dst"))))
            elif not all(
                compare_values(column_of(part.before, side), column_of(part.after, side)).all()
                for side in ("src", "dst")
            ):
                return None
    return np.concatenate(begins), np.concatenate(ends)
