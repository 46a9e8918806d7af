"""Proofs that a set rule holds, where its SQL would take longer than looking: of a few rows, and of ends of many edges.

Only the SQL of a rule finds violations. A proof looks at the same relations and answers either "the SQL returns no row"
or "unknown", and then the SQL runs. Where nulls make the two hard to compare, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import Cardinality
from omnigraph.storage.columns import Rows, Values, column_of, compute, is_among
from omnigraph.storage.keys import to_canonical_text
from omnigraph.write.rules.changed_table import subtract_values
from omnigraph.write.rules.set_rules import RuleKind, SetRule

_MOST_NODES: Final = 1_000_000
_EDGES_AT_ONCE: Final = 1_000_000

Relations = Mapping[str, Rows]
"""The relations of a rule by name, in the columns of its SQL."""


def is_proven(rule: SetRule, relations: Relations) -> bool:
    """Whether the rule's SQL surely returns no row for these relations."""
    match rule.kind:
        case RuleKind.UNIQUE:
            return _is_unique(relations)
        case RuleKind.ENDS:
            return _has_all_ends(relations)
        case RuleKind.CARDINALITY:
            return _is_within_limits(relations, rule.limits)


def _is_unique(relations: Relations) -> bool:
    """Whether no two incoming rows share a value, and no kept row has one of theirs."""
    values = column_of(relations["incoming"], "value").drop_null()
    return len(values.unique()) == len(values) and not _is_any_among(column_of(relations["kept"], "value"), values)


def _has_all_ends(relations: Relations) -> bool:
    """Whether every incoming edge has its end, and no kept edge ends at a deleted node."""
    ends = column_of(relations["incoming"], "node")
    nodes = pa.concat_arrays([column_of(relations[name], "id") for name in ("incoming_nodes", "kept_nodes")])
    deleted = column_of(relations["deleted_nodes"], "id")
    return (
        not ends.null_count
        and _are_all_among(ends, nodes)
        and not _is_any_among(column_of(relations["kept"], "node"), deleted)
    )


def are_ends_proven(rule: SetRule, rows: Mapping[str, pa.Table]) -> bool:
    """Whether the SQL of a rule on ends surely returns no row, for any number of edges between not too many nodes.

    The rows are those of the tables. Edges are looked at piece by piece, the ids of the nodes are held in memory.
    """
    relations = {relation.name: relation for relation in rule.relations}
    nodes = ("incoming_nodes", "kept_nodes")
    if rows["deleted_nodes"].num_rows or sum(rows[name].num_rows for name in nodes) > _MOST_NODES:
        return False
    ids = [
        to_canonical_text(piece, relations[name].columns["id"]) for name in nodes for piece in rows[name].to_batches()
    ]
    known = pa.concat_arrays([pa.array([], pa.string()), *ids])
    incoming = rows["incoming"]
    for begin in range(0, incoming.num_rows, _EDGES_AT_ONCE):
        check_deadline()
        # Each piece makes a hash table of all nodes, so it has many times as many edges.
        pieces = incoming.slice(begin, _EDGES_AT_ONCE).to_batches()
        ends = pa.concat_arrays([to_canonical_text(piece, relations["incoming"].columns["node"]) for piece in pieces])
        if ends.null_count or not _are_all_among(ends, known):
            return False
    return True


def _is_within_limits(relations: Relations, limits: Cardinality) -> bool:
    """Whether every remaining node whose edges change has an allowed number of edges."""
    incoming, kept = relations["incoming"], relations["kept"]
    touched = pa.concat_arrays([column_of(incoming, "node"), column_of(relations["superseded"], "node")]).unique()
    remaining = subtract_values(touched, column_of(relations["deleted_nodes"], "id"))
    edges = pa.concat_arrays([column_of(incoming, "node"), column_of(kept, "node")])
    if touched.null_count or any(column_of(each, "id").null_count for each in (incoming, kept)):
        return False
    counted = cast("pa.StructArray", compute("value_counts", edges.filter(is_among(edges, remaining))))
    counts = cast("pa.Int64Array", counted.field("counts")).to_numpy()
    fewest = 0 if len(counts) < len(remaining) else int(counts.min(initial=limits.minimum))
    return limits.minimum <= fewest and (limits.maximum is None or int(counts.max(initial=0)) <= limits.maximum)


def _are_all_among(values: Values, others: Values) -> bool:
    return not len(values) or pc.all(is_among(values, others)).as_py()


def _is_any_among(values: Values, others: Values) -> bool:
    return bool(len(values) and len(others)) and pc.any(is_among(values, others)).as_py()
