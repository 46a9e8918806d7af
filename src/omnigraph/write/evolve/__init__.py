"""Schema changes: one commit on main that brings the tables along, or nothing."""

from omnigraph.write.evolve.apply import Manner, SchemaApplied, apply_schema, plan_schema

__all__ = [
    "Manner",
    "SchemaApplied",
    "apply_schema",
    "plan_schema",
]
