"""Schema changes: one commit on main that brings the tables along, or nothing."""

from omnigraph.write.evolve.apply import SchemaApplied, SchemaChangeOptions, apply_schema, plan_schema

__all__ = [
    "SchemaApplied",
    "SchemaChangeOptions",
    "apply_schema",
    "plan_schema",
]
