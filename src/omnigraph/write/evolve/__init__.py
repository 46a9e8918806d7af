"""Schema changes: change the schema and migrate the tables in one commit on main, or change nothing."""

from omnigraph.write.evolve.apply import SchemaApplied, SchemaChangeOptions, apply_schema, plan_schema
from omnigraph.write.evolve.reshaped_rows import ReshapedRows
from omnigraph.write.evolve.rules import MAX_VIOLATIONS, FoundViolations

__all__ = [
    "MAX_VIOLATIONS",
    "FoundViolations",
    "ReshapedRows",
    "SchemaApplied",
    "SchemaChangeOptions",
    "apply_schema",
    "plan_schema",
]
