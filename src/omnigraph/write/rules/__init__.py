"""The rules of a schema, held against a change before it is committed: those of one row, and those of many."""

from omnigraph.write.rules.changed_table import Arrival, Image, RowLocations, no_ids
from omnigraph.write.rules.check import Checked, check_changes, check_rows, rules_at_stake
from omnigraph.write.rules.row_rules import row_violations
from omnigraph.write.rules.rule_texts import REQUIRED, cardinality_text, ends_text, key_text, shortened, unique_text
from omnigraph.write.rules.set_rules import (
    ANSWERS,
    Counts,
    Part,
    Relation,
    RuleKind,
    SetRule,
    answers_of,
    list_set_rules,
    rule_columns,
    type_of,
    violation_of,
)

__all__ = [
    "ANSWERS",
    "REQUIRED",
    "Arrival",
    "Checked",
    "Counts",
    "Image",
    "Part",
    "Relation",
    "RowLocations",
    "RuleKind",
    "SetRule",
    "answers_of",
    "cardinality_text",
    "check_changes",
    "check_rows",
    "ends_text",
    "key_text",
    "list_set_rules",
    "no_ids",
    "row_violations",
    "rule_columns",
    "rules_at_stake",
    "shortened",
    "type_of",
    "unique_text",
    "violation_of",
]
