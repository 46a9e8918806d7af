"""Proofs that a set rule holds, where its SQL would take longer than looking: of a few rows, and of ends of many edges.

Only the SQL of a rule finds violations. A proof looks at the same relations and answers either "the SQL returns no row"
or "unknown", and then the SQL runs. Where nulls make the two hard to compare, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.deadlines import check_deadline
from omnigraph.language.schema import Cardinality
from omnigraph.storage.columns import Rows, Values, column_of, compute, is_among
from omnigraph.worker_threads import WorkerThreads
from omnigraph.write.rules.changed_table import ChangedTable, subtract_values
from omnigraph.write.rules.set_rules import RuleKind, SetRule, TablePart

_MOST_NODES: Final = 1_000_000
_EDGES_AT_ONCE: Final = 1_000_000
_FEW_NODES: Final = 250_000
"""Up to so many nodes, both ends of edges are looked up at a time: each makes a hash table of all nodes."""

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


def drop_proven_ends(rules: Iterable[SetRule], tables: Mapping[str, ChangedTable]) -> Iterator[SetRule]:
    """Yield the rules except those on ends that surely hold, for any number of edges between not too many nodes.

    The edges of a table are read once and looked at piece by piece. The ids of the nodes are held in memory.
    """
    for table_key, group in groupby(rules, lambda each: each.relations[0].table_key):
        found = list(group)
        of_ends = [each for each in found if each.kind is RuleKind.ENDS and tables[table_key].incoming_count]
        proven = _prove_ends(of_ends, tables[table_key], tables)
        yield from (each for each in found if each not in proven)


def _prove_ends(rules: Sequence[SetRule], edges: ChangedTable, tables: Mapping[str, ChangedTable]) -> list[SetRule]:
    """Return the rules on the ends of the edges of a table that are proven to hold."""
    nodes = {key: _read_node_ids(tables[key]) for key in dict.fromkeys(map(_node_table_of, rules))}
    left = [(rule, ids) for rule in rules if (ids := nodes[_node_table_of(rule)]) is not None]
    if not left:
        return []
    # Arrow releases the interpreter lock.
    with WorkerThreads(2 if max(len(ids) for _, ids in left) <= _FEW_NODES else 1) as threads:
        for block in _combine_pieces(edges.iterate_incoming([rule.property for rule, _ in left])):
            check_deadline()
            ends = [cast("Values", block.column(rule.property)) for rule, _ in left]
            hold = threads.map(_are_ends_among, ends, [ids for _, ids in left])
            left = [each for each, holds in zip(left, hold, strict=True) if holds]
            if not left:
                break
    return [rule for rule, _ in left]


def _node_table_of(rule: SetRule) -> str:
    return next(each.table_key for each in rule.relations if each.name == "incoming_nodes")


def _read_node_ids(nodes: ChangedTable) -> Values | None:
    """Return the ids that a node table has after the change; None if it loses some, or has too many."""
    if nodes.read_part(TablePart.DELETED, ["id"]).num_rows:
        return None
    parts = [nodes.read_part(part, ["id"]) for part in (TablePart.INCOMING, TablePart.KEPT)]
    if sum(each.num_rows for each in parts) > _MOST_NODES:
        return None
    # Not as one array: the rows of a large load lie in a mapped file and must not be copied into memory.
    return cast("Values", pa.chunked_array([chunk for each in parts for chunk in each["id"].chunks], pa.string()))


def _combine_pieces(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine pieces: each makes a hash table of all nodes, so it has many times as many edges."""
    pending: list[pa.Table] = []
    for piece in pieces:
        for begin in range(0, piece.num_rows, _EDGES_AT_ONCE):
            pending.append(piece.slice(begin, _EDGES_AT_ONCE))
            if sum(each.num_rows for each in pending) >= _EDGES_AT_ONCE:
                yield pa.concat_tables(pending)
                pending = []
    if pending:
        yield pa.concat_tables(pending)


def _are_ends_among(ends: Values, ids: Values) -> bool:
    return not ends.null_count and _are_all_among(ends, ids)


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
