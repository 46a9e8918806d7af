"""Set rules: rules over several rows, as SQL that runs on DataFusion and on Spark.

A rule reads named relations with fixed column names. A relation is one part of a changed table: incoming, kept,
superseded or deleted rows. Every column is a string, the canonical text of one or more columns of the table, so an
engine never sees a type that it lacks. The caller that runs a rule provides its relations, and turns the rows of the
SQL into violations with :func:`describe_violation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Violation
from omnigraph.language.schema import Cardinality, Catalog, EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Rows, Values, column_of, compute, to_list
from omnigraph.storage.keys import to_canonical_text
from omnigraph.write.rules.row_rules import is_comparable
from omnigraph.write.rules.rule_texts import format_cardinality, format_ends, format_key, format_unique, shorten

MAX_NAMED_IDS: Final = 100
"""How many ids a violation that fails a write names. To set rows aside, all must be named."""

NodeIds: TypeAlias = Mapping[str, frozenset[str]]
"""Ids of nodes by table key."""


class TablePart(StrEnum):
    """The parts of a changed table."""

    INCOMING = "incoming"
    """New rows, and rows that replace one of the same id."""
    KEPT = "kept"
    """Rows of the pinned version that stay as they are."""
    SUPERSEDED = "superseded"
    """Rows of the pinned version that are removed or replaced: their before images."""
    DELETED = "lost"
    """Rows of the pinned version whose ids are gone after the change."""


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The rows that a rule needs: those whose ``column`` equals a value of one of the (relation, column) pairs.

    An engine may leave out all others: the result is the same.
    """

    column: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """One part of one table under its name in the SQL. Each of its columns is made of columns of the table."""

    name: str
    table_key: str
    part: TablePart
    columns: Mapping[str, tuple[str, ...]]
    semi_join: SemiJoin | None = None

    @property
    def physical_columns(self) -> tuple[str, ...]:
        """The columns of the table that the relation is made of."""
        return tuple(dict.fromkeys(column for columns in self.columns.values() for column in columns))

    @property
    def join_column(self) -> str:
        """The one column by which the rule compares rows, of this relation and of others."""
        return next(column for column in ("value", "node", "id") if column in self.columns)

    def encode(self, rows: Rows) -> pa.RecordBatch:
        """Convert rows of the table to the string columns of the relation."""
        return pa.record_batch({name: to_canonical_text(rows, columns) for name, columns in self.columns.items()})


class RuleKind(StrEnum):
    """The kinds of set rules."""

    UNIQUE = "unique"
    ENDS = "ends"
    CARDINALITY = "cardinality"


_ANY_NUMBER: Final = Cardinality()


@dataclass(frozen=True, slots=True)
class SetRule:
    """One rule over several rows.

    ``relations`` are ordered so that a semi-join uses values of earlier ones only. While all relations named in
    ``triggers`` are empty, the rule holds. The SQL returns one row for each violation: :data:`SET_VIOLATIONS`.
    """

    kind: RuleKind
    type: str
    table_key: str
    rule: str
    property: str
    sql: str
    relations: tuple[Relation, ...]
    triggers: tuple[str, ...]
    end_type: str = ""
    """The node type that an edge must end in, for a rule on ends."""
    limits: Cardinality = _ANY_NUMBER
    """How many edges may leave a node, for a rule on cardinality."""


SET_VIOLATIONS: Final = pa.schema(
    [
        pa.field("value", pa.string()),
        pa.field("id", pa.string()),
        pa.field("ids", pa.list_(pa.string())),
        pa.field("found", pa.int64()),
        pa.field("total", pa.int64()),
    ]
)
"""What the SQL of a rule returns, and ``total``: how many ids it named, of which :func:`bound_ids` may leave some."""


@dataclass(frozen=True, slots=True)
class SetViolation:
    """One violation as the SQL returns it: the value, one incoming row and all rows that break the rule, a count.

    ``total`` is the number of these rows, if ``ids`` are only some of them.
    """

    value: str
    id: str | None
    ids: tuple[str, ...]
    count: int
    total: int


def list_set_rules(catalog: Catalog, table_key: str) -> tuple[SetRule, ...]:
    """List the rules on the rows of one table: key and unique, and for an edge type its ends and its cardinality."""
    return tuple(_list_rules(type_of_table(catalog, table_key)))


def type_of_table(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    """The type whose rows a table holds."""
    found = catalog.find_type(table_key)
    if found is None:
        raise KeyError(table_key)
    return found


def list_rule_columns(catalog: Catalog, table_key: str) -> tuple[str, ...]:
    """List the columns of a table that set rules read, ``id`` first. A check needs no others."""
    read = {
        column
        for rule in list_set_rules(catalog, table_key)
        for relation in rule.relations
        if relation.table_key == table_key
        for columns in relation.columns.values()
        for column in columns
    }
    return ("id", *sorted(read - {"id"}))


def decode_set_violations(rows: Rows) -> Iterator[SetViolation]:
    """Decode the rows of a rule's SQL, given as :data:`SET_VIOLATIONS`."""
    for row in rows.to_pylist():
        # For a node without edges DataFusion and Spark differ: one collects a null, the other nothing.
        ids = tuple(id_ for id_ in row["ids"] if id_ is not None)
        yield SetViolation(row["value"], row["id"], ids, row["found"], row["total"])


def count_ids(found: pa.Table) -> pa.Table:
    """Complete the rows that the SQL of a rule returned to :data:`SET_VIOLATIONS`."""
    counted = found.append_column("total", compute("list_value_length", column_of(found, "ids")))
    return counted.cast(SET_VIOLATIONS)


def bound_ids(found: pa.Table) -> pa.Table:
    """Leave the first ids, in order, and the last one of each violation that names more than ``MAX_NAMED_IDS``."""
    totals = column_of(found, "total").to_numpy(zero_copy_only=False)
    if totals.max(initial=0) <= MAX_NAMED_IDS:
        return found
    listed = cast("pa.ListArray[pa.StringScalar]", column_of(found, "ids"))
    ids = pa.array([_bound_list(listed.slice(row, 1)) for row in range(found.num_rows)], listed.type)
    return found.set_column(found.schema.get_field_index("ids"), "ids", ids)


def _bound_list(listed: pa.ListArray[pa.StringScalar]) -> list[str | None]:
    ids = cast("Values", listed.flatten())
    if len(ids) > MAX_NAMED_IDS:
        order = pc.select_k_unstable(ids, MAX_NAMED_IDS - 1, sort_keys=[("", "ascending")])
        ids = pa.concat_arrays([ids.take(order), pa.array([pc.max(ids).as_py()], ids.type)])
    return cast("list[str | None]", to_list(ids))


def is_explained(rule: SetRule, value: str, rejected: NodeIds) -> bool:
    """Whether an edge lacks a node only because the record of the node was rejected."""
    return rule.kind is RuleKind.ENDS and value in rejected.get(TableKey.of_node(rule.end_type), ())


def describe_violation(rule: SetRule, found: SetViolation) -> Violation:
    """Describe one row of a rule's SQL in words."""
    ids, value = tuple(sorted(found.ids)), shorten(found.value)
    message = f"{rule.rule}{_format_scope(rule)}: {_format_finding(rule, found, value)}"
    return Violation(
        rule.type,
        rule.rule,
        message,
        id=found.id,
        property=rule.property,
        value=value,
        ids=ids,
        table_key=rule.table_key,
    )


def _format_scope(rule: SetRule) -> str:
    # The rule on the ends of an edge type begins with its name.
    return "" if rule.kind is RuleKind.ENDS else f" on {rule.type}"


def _format_finding(rule: SetRule, found: SetViolation, value: str) -> str:
    match rule.kind:
        case RuleKind.ENDS:
            return f"'{found.id}' has '{value}' as its {rule.property}, and there is no such {rule.end_type}"
        case RuleKind.CARDINALITY:
            return f"'{value}' would have {found.count} edge{'' if found.count == 1 else 's'}"
        case RuleKind.UNIQUE:
            first, last = min(found.ids), max(found.ids)
            if first != last:
                more = f" and {found.total - 2} more" if found.total > 2 else ""
                return f"value '{value}' is held by '{first}' and '{last}'{more}"
            return f"'{value}' exists already" if found.count == 1 else f"'{value}' is given {found.count} times"


# --------------------------------------------------------------------------------------------- the rules of a type

_UNIQUE: Final = """
with matching as (
  select kept.id, kept.value from kept left semi join incoming on kept.value = incoming.value
),
held as (
  select id, value, id as newcomer from incoming where value is not null
  union all
  select id, value, cast(null as string) as newcomer from matching
),
shared as (
  select value from held group by value having count(*) > 1
)
select held.value, max(held.newcomer) as id, array_agg(held.id) as ids, count(held.newcomer) as found
from held left semi join shared on held.value = shared.value group by held.value
"""

_ENDS: Final = """
with nodes as (
  select id from incoming_nodes union all select id from kept_nodes
),
dangling as (
  select incoming.id, incoming.node from incoming left anti join nodes on incoming.node = nodes.id
  union all
  select kept.id, kept.node from kept left semi join deleted_nodes on kept.node = deleted_nodes.id
)
select node as value, id, array_agg(id) as ids, count(*) as found from dangling group by node, id
"""

_CARDINALITY: Final = """
with touched as (
  select node from incoming union select node from superseded
),
remaining as (
  select touched.node from touched left anti join deleted_nodes on touched.node = deleted_nodes.id
),
edges as (
  select id, node, id as newcomer from incoming
  union all
  select id, node, cast(null as string) as newcomer from kept
),
broken as (
  select remaining.node, count(edges.id) as found from remaining left join edges on remaining.node = edges.node
  group by remaining.node having {broken}
)
select broken.node as value, max(edges.newcomer) as id, array_agg(edges.id) as ids, max(broken.found) as found
from broken left join edges on broken.node = edges.node group by broken.node
"""


def _list_rules(type_: NodeType | EdgeType) -> Iterator[SetRule]:
    yield _build_unique_rule(type_, format_key(type_), ("id",))
    for columns in type_.unique:
        if all(name not in type_.properties or is_comparable(type_.properties[name].type) for name in columns):
            yield _build_unique_rule(type_, format_unique(columns), columns)
    if isinstance(type_, EdgeType):
        yield _build_ends_rule(type_, "src", type_.from_type)
        yield _build_ends_rule(type_, "dst", type_.to_type)
        if type_.cardinality.minimum > 0 or type_.cardinality.maximum is not None:
            yield _build_cardinality_rule(type_)


def _build_unique_rule(type_: NodeType | EdgeType, rule: str, columns: tuple[str, ...]) -> SetRule:
    held = {"id": ("id",), "value": columns}
    key = type_.key if isinstance(type_, NodeType) and columns == ("id",) else None
    return SetRule(
        RuleKind.UNIQUE,
        type_.name,
        type_.table_key,
        rule,
        ", ".join(key or columns),
        _UNIQUE,
        (
            Relation("incoming", type_.table_key, TablePart.INCOMING, held),
            Relation("kept", type_.table_key, TablePart.KEPT, held, SemiJoin("value", (("incoming", "value"),))),
        ),
        triggers=("incoming",),
    )


def _build_ends_rule(edge: EdgeType, end: Literal["src", "dst"], node_type: str) -> SetRule:
    ends = {"id": ("id",), "node": (end,)}
    nodes, node_ids = TableKey.of_node(node_type), {"id": ("id",)}
    return SetRule(
        RuleKind.ENDS,
        edge.name,
        edge.table_key,
        format_ends(edge),
        end,
        _ENDS,
        (
            Relation("incoming", edge.table_key, TablePart.INCOMING, ends),
            Relation("incoming_nodes", nodes, TablePart.INCOMING, node_ids),
            Relation("deleted_nodes", nodes, TablePart.DELETED, node_ids),
            Relation("kept_nodes", nodes, TablePart.KEPT, node_ids, SemiJoin("id", (("incoming", "node"),))),
            Relation("kept", edge.table_key, TablePart.KEPT, ends, SemiJoin("node", (("deleted_nodes", "id"),))),
        ),
        triggers=("incoming", "deleted_nodes"),
        end_type=node_type,
    )


def _build_cardinality_rule(edge: EdgeType) -> SetRule:
    limits = edge.cardinality
    broken = [f"count(edges.id) < {limits.minimum}"] if limits.minimum > 0 else []
    if limits.maximum is not None:
        broken.append(f"count(edges.id) > {limits.maximum}")
    ends, touched = {"id": ("id",), "node": ("src",)}, (("incoming", "node"), ("superseded", "node"))
    return SetRule(
        RuleKind.CARDINALITY,
        edge.name,
        edge.table_key,
        format_cardinality(edge),
        "src",
        _CARDINALITY.format(broken=" or ".join(broken)),
        (
            Relation("incoming", edge.table_key, TablePart.INCOMING, ends),
            Relation("superseded", edge.table_key, TablePart.SUPERSEDED, ends),
            Relation("deleted_nodes", TableKey.of_node(edge.from_type), TablePart.DELETED, {"id": ("id",)}),
            Relation("kept", edge.table_key, TablePart.KEPT, ends, SemiJoin("node", touched)),
        ),
        triggers=("incoming", "superseded"),
        limits=limits,
    )
