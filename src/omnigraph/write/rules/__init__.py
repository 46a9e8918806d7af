"""The rules of a schema, checked on a change before it is committed: row rules and set rules."""

from omnigraph.write.rules.changed_table import IncomingMode, RowChanges, RowLocations, empty_ids
from omnigraph.write.rules.check import (
    RuleCheckResult,
    check_changes,
    check_rows,
    query_violations,
    select_set_rules,
)
from omnigraph.write.rules.independence import PreparedRows, is_independent
from omnigraph.write.rules.row_rules import AbsentValues, find_row_violations
from omnigraph.write.rules.rule_texts import (
    REQUIRED,
    format_cardinality,
    format_ends,
    format_key,
    format_unique,
    shorten,
)
from omnigraph.write.rules.set_rules import (
    MAX_NAMED_IDS,
    SET_VIOLATIONS,
    NodeIds,
    Relation,
    RuleKind,
    SetRule,
    TablePart,
    bound_ids,
    decode_set_violations,
    describe_violation,
    is_explained,
    list_rule_columns,
    list_set_rules,
    type_of_table,
)

__all__ = [
    "MAX_NAMED_IDS",
    "REQUIRED",
    "SET_VIOLATIONS",
    "AbsentValues",
    "IncomingMode",
    "NodeIds",
    "PreparedRows",
    "Relation",
    "RowChanges",
    "RowLocations",
    "RuleCheckResult",
    "RuleKind",
    "SetRule",
    "TablePart",
    "bound_ids",
    "check_changes",
    "check_rows",
    "decode_set_violations",
    "describe_violation",
    "empty_ids",
    "find_row_violations",
    "format_cardinality",
    "format_ends",
    "format_key",
    "format_unique",
    "is_explained",
    "is_independent",
    "list_rule_columns",
    "list_set_rules",
    "query_violations",
    "select_set_rules",
    "shorten",
    "type_of_table",
]
