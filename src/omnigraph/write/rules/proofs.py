"""Proofs that a set rule holds, for few rows: planning SQL for them takes longer than looking.

The SQL of a rule says what it demands, and it alone finds violations. A proof looks at the same relations and says
that the SQL would give no row, or that it does not know: then the SQL runs. Where a null makes the two hard to compare
it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import Cardinality
from omnigraph.storage.columns import Rows, Values, column_of, is_among, is_not_among, to_list
from omnigraph.write.rules.set_rules import RuleKind, SetRule

Relations = Mapping[str, Rows]
"""The relations of a rule by name, in the columns that its SQL uses."""


def is_proven(rule: SetRule, relations: Relations) -> bool:
    """Whether it is proven that the rule's SQL gives no row for these relations."""
    match rule.kind:
        case RuleKind.UNIQUE:
            return _unique(relations)
        case RuleKind.ENDS:
            return _ends(relations)
        case RuleKind.CARDINALITY:
            return _cardinality(relations, rule.limits)


def _unique(relations: Relations) -> bool:
    """No two incoming rows share a value, and no kept row has one of theirs."""
    values = column_of(relations["incoming"], "value").drop_null()
    return len(values.unique()) == len(values) and not _any_among(column_of(relations["kept"], "value"), values)


def _ends(relations: Relations) -> bool:
    """Every incoming end is there, and no kept edge ends at a node that is lost."""
    ends = column_of(relations["incoming"], "node")
    nodes = pa.concat_arrays([column_of(relations[name], "id") for name in ("incoming_nodes", "kept_nodes")])
    lost = column_of(relations["lost_nodes"], "id")
    return (
        not ends.null_count and _all_among(ends, nodes) and not _any_among(column_of(relations["kept"], "node"), lost)
    )


def _cardinality(relations: Relations, limits: Cardinality) -> bool:
    """Every node whose edges change, and that stays, has as many edges as it may have."""
    incoming, kept = relations["incoming"], relations["kept"]
    touched = pa.concat_arrays([column_of(incoming, "node"), column_of(relations["gone"], "node")]).unique()
    judged = _without(touched, column_of(relations["lost_nodes"], "id"))
    edges = pa.concat_arrays([column_of(incoming, "node"), column_of(kept, "node")])
    if touched.null_count or any(column_of(each, "id").null_count for each in (incoming, kept)):
        return False
    counts = Counter(cast("list[str]", to_list(edges.filter(is_among(edges, judged)))))
    most = len(edges) if limits.maximum is None else limits.maximum
    return all(limits.minimum <= counts[node] <= most for node in cast("list[str]", to_list(judged)))


def _all_among(values: Values, others: Values) -> bool:
    return not len(values) or pc.all(is_among(values, others)).as_py()


def _any_among(values: Values, others: Values) -> bool:
    return bool(len(values) and len(others)) and pc.any(is_among(values, others)).as_py()


def _without(values: Values, others: Values) -> Values:
    return values.filter(is_not_among(values, others)) if len(others) else values
