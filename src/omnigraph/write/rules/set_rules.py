"""Set rules: what rows can only break together, as SQL that DataFusion and Spark read alike.

A rule speaks of named relations with fixed column names. Every column is a string: the canonical text of one or
more columns of a table, so types that an engine lacks never reach it. A relation is one part of a table that
changes: the rows that come in, the rows that stay, the rows that go. Who runs a rule provides its relations and
turns the answers into violations with :func:`describe_violation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Cardinality, Catalog, EdgeType, NodeType, TableKey
from omnigraph.storage.columns import Rows
from omnigraph.storage.keys import canonical_text
from omnigraph.write.rules.row_rules import is_comparable
from omnigraph.write.rules.rule_texts import format_cardinality, format_ends, format_key, format_unique, shorten

ViolationCounts: TypeAlias = Mapping[tuple[str, str], int]
"""How often rules are broken, by type and rule."""


class TablePart(StrEnum):
    """The parts of a table that changes."""

    INCOMING = "incoming"
    """Rows that are new, or that replace a row of the same id."""
    KEPT = "kept"
    """Rows of the pinned version that stay as they are."""
    SUPERSEDED = "gone"
    """Rows of the pinned version that are removed or replaced, as they were."""
    DELETED = "lost"
    """Rows of the pinned version whose ids will not be there any more."""


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """The rows that a rule looks at: those whose ``column`` equals a value of one of the (relation, column) pairs.

    A runner may leave out all others; the answer stays the same.
    """

    column: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """One part of one table under the name that the SQL uses; each column is made of columns of the table."""

    name: str
    table_key: str
    part: TablePart
    columns: Mapping[str, tuple[str, ...]]
    semi_join: SemiJoin | None = None

    @property
    def physical_columns(self) -> tuple[str, ...]:
        """The columns of the table that it is made of."""
        return tuple(dict.fromkeys(column for columns in self.columns.values() for column in columns))

    @property
    def join_column(self) -> str:
        """The column by which its rows are compared with others, of this relation or of another one of the rule."""
        return next(column for column in ("value", "node", "id") if column in self.columns)

    def encode(self, rows: Rows) -> pa.RecordBatch:
        """The relation itself, made of rows in the columns of its table."""
        return pa.record_batch({name: canonical_text(rows, columns) for name, columns in self.columns.items()})


class RuleKind(StrEnum):
    """What a set rule demands."""

    UNIQUE = "unique"
    ENDS = "ends"
    CARDINALITY = "cardinality"


_ANY_NUMBER: Final = Cardinality()


@dataclass(frozen=True, slots=True)
class SetRule:
    """One rule over several rows.

    ``relations`` stand in an order in which each matches values of earlier ones only. Nothing can be wrong while all
    relations named in ``triggers`` are empty. The SQL gives one row for each violation, with the columns of
    :class:`SetViolation`.
    """

    kind: RuleKind
    type: str
    rule: str
    property: str
    sql: str
    relations: tuple[Relation, ...]
    triggers: tuple[str, ...]
    about: str = ""
    """The node type that an end of an edge must be in."""
    limits: Cardinality = _ANY_NUMBER
    """How many edges may leave a node, of a rule on that."""


SET_VIOLATIONS: Final = pa.schema(
    [
        pa.field("value", pa.string()),
        pa.field("id", pa.string()),
        pa.field("ids", pa.list_(pa.string())),
        pa.field("found", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class SetViolation:
    """One violation as the SQL gives it: the value, one incoming row that has a part in it, all rows, and a number."""

    value: str
    id: str | None
    ids: tuple[str, ...]
    found: int


def list_set_rules(catalog: Catalog, table_key: str) -> tuple[SetRule, ...]:
    """The rules on the rows of one table: key and unique; of an edge type also its ends and its cardinality."""
    return tuple(_rules(type_of_table(catalog, table_key)))


def type_of_table(catalog: Catalog, table_key: str) -> NodeType | EdgeType:
    """The type whose rows a table holds."""
    found = catalog.find_type(table_key)
    if found is None:
        raise KeyError(table_key)
    return found


def list_rule_columns(catalog: Catalog, table_key: str) -> tuple[str, ...]:
    """The columns of a table that set rules of the schema read, ``id`` first: all that a check needs of its rows."""
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
    """The answers of a rule's SQL, which came as :data:`SET_VIOLATIONS`."""
    for row in rows.to_pylist():
        # For a node without edges one engine collects a null, the other nothing.
        yield SetViolation(row["value"], row["id"], tuple(id_ for id_ in row["ids"] if id_ is not None), row["found"])


def describe_violation(rule: SetRule, answer: SetViolation) -> Violation:
    """An answer of a rule's SQL in words."""
    ids, value = tuple(sorted(answer.ids)), shorten(answer.value)
    message = f"{rule.rule}{_on(rule)}: {_says(rule, answer, value)}"
    return Violation(rule.type, rule.rule, message, id=answer.id, property=rule.property, value=value, ids=ids)


def _on(rule: SetRule) -> str:
    # The rule on the ends of an edge type begins with its name.
    return "" if rule.kind is RuleKind.ENDS else f" on {rule.type}"


def _says(rule: SetRule, answer: SetViolation, value: str) -> str:
    match rule.kind:
        case RuleKind.ENDS:
            return f"'{answer.id}' has '{value}' as its {rule.property}, and there is no such {rule.about}"
        case RuleKind.CARDINALITY:
            return f"'{value}' would have {answer.found} edge{'' if answer.found == 1 else 's'}"
        case RuleKind.UNIQUE:
            first, last = min(answer.ids), max(answer.ids)
            if first != last:
                more = f" and {len(answer.ids) - 2} more" if len(answer.ids) > 2 else ""
                return f"value '{value}' is held by '{first}' and '{last}'{more}"
            return f"'{value}' exists already" if answer.found == 1 else f"'{value}' comes in {answer.found} times"


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
  select kept.id, kept.node from kept left semi join lost_nodes on kept.node = lost_nodes.id
)
select node as value, id, array_agg(id) as ids, count(*) as found from dangling group by node, id
"""

_CARDINALITY: Final = """
with touched as (
  select node from incoming union select node from gone
),
judged as (
  select touched.node from touched left anti join lost_nodes on touched.node = lost_nodes.id
),
edges as (
  select id, node, id as newcomer from incoming
  union all
  select id, node, cast(null as string) as newcomer from kept
),
broken as (
  select judged.node, count(edges.id) as found from judged left join edges on judged.node = edges.node
  group by judged.node having {broken}
)
select broken.node as value, max(edges.newcomer) as id, array_agg(edges.id) as ids, max(broken.found) as found
from broken left join edges on broken.node = edges.node group by broken.node
"""


def _rules(type_: NodeType | EdgeType) -> Iterator[SetRule]:
    yield _unique(type_, format_key(type_), ("id",))
    for columns in type_.unique:
        if all(name not in type_.properties or is_comparable(type_.properties[name].type) for name in columns):
            yield _unique(type_, format_unique(columns), columns)
    if isinstance(type_, EdgeType):
        yield _ends(type_, "src", type_.from_type)
        yield _ends(type_, "dst", type_.to_type)
        if type_.cardinality.minimum > 0 or type_.cardinality.maximum is not None:
            yield _cardinality(type_)


def _unique(type_: NodeType | EdgeType, rule: str, columns: tuple[str, ...]) -> SetRule:
    held = {"id": ("id",), "value": columns}
    key = type_.key if isinstance(type_, NodeType) and columns == ("id",) else None
    return SetRule(
        RuleKind.UNIQUE,
        type_.name,
        rule,
        ", ".join(key or columns),
        _UNIQUE,
        (
            Relation("incoming", type_.table_key, TablePart.INCOMING, held),
            Relation("kept", type_.table_key, TablePart.KEPT, held, SemiJoin("value", (("incoming", "value"),))),
        ),
        triggers=("incoming",),
    )


def _ends(edge: EdgeType, end: Literal["src", "dst"], node_type: str) -> SetRule:
    ends = {"id": ("id",), "node": (end,)}
    nodes, node_ids = TableKey.of_node(node_type), {"id": ("id",)}
    return SetRule(
        RuleKind.ENDS,
        edge.name,
        format_ends(edge),
        end,
        _ENDS,
        (
            Relation("incoming", edge.table_key, TablePart.INCOMING, ends),
            Relation("incoming_nodes", nodes, TablePart.INCOMING, node_ids),
            Relation("lost_nodes", nodes, TablePart.DELETED, node_ids),
            Relation("kept_nodes", nodes, TablePart.KEPT, node_ids, SemiJoin("id", (("incoming", "node"),))),
            Relation("kept", edge.table_key, TablePart.KEPT, ends, SemiJoin("node", (("lost_nodes", "id"),))),
        ),
        triggers=("incoming", "lost_nodes"),
        about=node_type,
    )


def _cardinality(edge: EdgeType) -> SetRule:
    limits = edge.cardinality
    broken = [f"count(edges.id) < {limits.minimum}"] if limits.minimum > 0 else []
    if limits.maximum is not None:
        broken.append(f"count(edges.id) > {limits.maximum}")
    ends, touched = {"id": ("id",), "node": ("src",)}, (("incoming", "node"), ("gone", "node"))
    return SetRule(
        RuleKind.CARDINALITY,
        edge.name,
        format_cardinality(edge),
        "src",
        _CARDINALITY.format(broken=" or ".join(broken)),
        (
            Relation("incoming", edge.table_key, TablePart.INCOMING, ends),
            Relation("gone", edge.table_key, TablePart.SUPERSEDED, ends),
            Relation("lost_nodes", TableKey.of_node(edge.from_type), TablePart.DELETED, {"id": ("id",)}),
            Relation("kept", edge.table_key, TablePart.KEPT, ends, SemiJoin("node", touched)),
        ),
        triggers=("incoming", "gone"),
        limits=limits,
    )
