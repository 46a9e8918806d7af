"""Schema changes: change the schema and migrate the tables in one commit on main, or change nothing."""

from omnigraph.write.evolve.apply import SchemaApplied, SchemaChangeOptions, apply_schema, plan_schema

__all__ = [
    "SchemaApplied",
    "SchemaChangeOptions",
    "apply_schema",
    "plan_schema",
]
