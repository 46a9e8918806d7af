"""Proofs that a set rule holds for a few rows, where planning its SQL would take longer than looking.

Only the SQL of a rule finds violations. A proof looks at the same relations and answers either "the SQL returns no row"
or "unknown", and then the SQL runs. Where nulls make the two hard to compare, the answer is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import Cardinality
from omnigraph.storage.columns import Rows, Values, column_of, is_among, to_list
from omnigraph.write.rules.changed_table import subtract_values
from omnigraph.write.rules.set_rules import RuleKind, SetRule

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


def _is_within_limits(relations: Relations, limits: Cardinality) -> bool:
    """Whether every remaining node whose edges change has an allowed number of edges."""
    incoming, kept = relations["incoming"], relations["kept"]
    touched = pa.concat_arrays([column_of(incoming, "node"), column_of(relations["superseded"], "node")]).unique()
    remaining = subtract_values(touched, column_of(relations["deleted_nodes"], "id"))
    edges = pa.concat_arrays([column_of(incoming, "node"), column_of(kept, "node")])
    if touched.null_count or any(column_of(each, "id").null_count for each in (incoming, kept)):
        return False
    counts = Counter(cast("list[str]", to_list(edges.filter(is_among(edges, remaining)))))
    most = len(edges) if limits.maximum is None else limits.maximum
    return all(limits.minimum <= counts[node] <= most for node in cast("list[str]", to_list(remaining)))


def _are_all_among(values: Values, others: Values) -> bool:
    return not len(values) or pc.all(is_among(values, others)).as_py()


def _is_any_among(values: Values, others: Values) -> bool:
    return bool(len(values) and len(others)) and pc.any(is_among(values, others)).as_py()
