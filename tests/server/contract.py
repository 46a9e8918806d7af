"""The twenty operations of release 0.8 over HTTP: what its clients send, and the fields that they read, with types.

Held as data of our own, after the tables of the specification. An answer of ours may have more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

Shape: TypeAlias = "type | tuple[type, ...] | dict[str, Shape] | list[Shape]"
"""A type, one of several, an object with at least these fields, or a list of one kind."""

TEXT_OR_NULL: Final = (str, type(None))
COMMIT: Final[Shape] = {
    "graph_commit_id": str,
    "manifest_branch": TEXT_OR_NULL,
    "manifest_version": int,
    "parent_commit_id": TEXT_OR_NULL,
    "merged_parent_commit_id": TEXT_OR_NULL,
    "actor_id": TEXT_OR_NULL,
    "created_at": int,
}
ROWS: Final[Shape] = {
    "query_name": str,
    "target": {"branch": TEXT_OR_NULL, "snapshot": TEXT_OR_NULL},
    "row_count": int,
    "columns": [str],
    "rows": [dict],
}
CHANGE: Final[Shape] = {
    "branch": str,
    "query_name": str,
    "affected_nodes": int,
    "affected_edges": int,
    "actor_id": TEXT_OR_NULL,
}
LOAD: Final[Shape] = {
    "uri": str,
    "branch": str,
    "base_branch": TEXT_OR_NULL,
    "branch_created": bool,
    "mode": str,
    "tables": [{"table_key": str, "rows_loaded": int}],
    "actor_id": TEXT_OR_NULL,
}
LINES: Final = '{"type": "City", "data": {"name": "%s"}}\n'
PEOPLE: Final = "query people() { match { $p: Person } return { $p.name as name } }"
ADD: Final = "query add($n: String) { insert City { name: $n } }"


@dataclass(frozen=True)
class OldOperation:
    """One operation of release 0.8, as its client sends it: with nulls for what is not given."""

    method: str
    path: str
    answer: Shape
    body: dict[str, object] | None = field(default=None)


OPERATIONS: Final[dict[str, OldOperation]] = {
    "health": OldOperation(
        "GET",
        "/healthz",
        {"status": str, "version": str, "internal_schema_version": int, "source_version": TEXT_OR_NULL},
    ),
    "list graphs": OldOperation("GET", "/graphs", {"graphs": [{"graph_id": str, "uri": str}]}),
    "snapshot": OldOperation(
        "GET",
        "snapshot?branch=main",
        {
            "branch": str,
            "manifest_version": int,
            "internal_schema_version": int,
            "tables": [
                {
                    "table_key": str,
                    "table_path": str,
                    "table_version": int,
                    "table_branch": TEXT_OR_NULL,
                    "row_count": int,
                }
            ],
        },
    ),
    "query": OldOperation(
        "POST", "query", ROWS, {"query": PEOPLE, "name": None, "params": None, "branch": None, "snapshot": None}
    ),
    "read": OldOperation(
        "POST",
        "read",
        ROWS,
        {"query_source": PEOPLE, "query_name": "people", "params": None, "branch": "main", "snapshot": None},
    ),
    "mutate": OldOperation(
        "POST", "mutate", CHANGE, {"query": ADD, "name": "add", "params": {"n": "rome"}, "branch": None}
    ),
    "change": OldOperation(
        "POST", "change", CHANGE, {"query_source": ADD, "query_name": None, "params": {"n": "oslo"}, "branch": "main"}
    ),
    "load": OldOperation(
        "POST", "load", LOAD, {"data": LINES % "bern", "branch": "old/load", "from": "main", "mode": "merge"}
    ),
    "ingest": OldOperation("POST", "ingest", LOAD, {"data": LINES % "nice", "branch": None, "from": None}),
    "export": OldOperation("POST", "export", str, {"branch": None, "type_names": ["City"], "table_keys": None}),
    "list queries": OldOperation(
        "GET",
        "queries",
        {
            "queries": [
                {
                    "name": str,
                    "tool_name": TEXT_OR_NULL,
                    "description": TEXT_OR_NULL,
                    "instruction": TEXT_OR_NULL,
                    "mutation": bool,
                    "params": list,
                }
            ]
        },
    ),
    "invoke": OldOperation(
        "POST", "queries/cities", ROWS, {"params": None, "branch": None, "snapshot": None, "expect_mutation": None}
    ),
    "schema": OldOperation("GET", "schema", {"schema_source": str}),
    "apply": OldOperation(
        "POST",
        "schema/apply",
        {"uri": str, "supported": bool, "applied": bool, "step_count": int, "manifest_version": int, "steps": list},
        {"schema_source": "<the schema, and a type>", "allow_data_loss": None},
    ),
    "list branches": OldOperation("GET", "branches", {"branches": [str]}),
    "create a branch": OldOperation(
        "POST",
        "branches",
        {"uri": str, "from": str, "name": str, "actor_id": TEXT_OR_NULL},
        {"name": "old/side", "from": "main"},
    ),
    "merge": OldOperation(
        "POST",
        "branches/merge",
        {"source": str, "target": str, "outcome": str, "actor_id": TEXT_OR_NULL},
        {"source": "old/load", "target": None},
    ),
    "delete a branch": OldOperation(
        "DELETE", "branches/old%2Fside", {"uri": str, "name": str, "actor_id": TEXT_OR_NULL}
    ),
    "list commits": OldOperation("GET", "commits?branch=main", {"commits": [COMMIT]}),
    "commit": OldOperation("GET", "commits/<head>", COMMIT),
}


def find_misfits(value: object, shape: Shape, place: str = "") -> list[str]:
    """What of a shape a value does not have."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        found = cast("dict[str, object]", value)
        missing = [f"{place}.{name} is missing" for name in shape if name not in found]
        return missing + [
            problem
            for name, each in shape.items()
            if name in found
            for problem in find_misfits(found[name], each, f"{place}.{name}")
        ]
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return [f"{place} is no list, or has nothing to look at"]
        items = cast("list[object]", value)
        return [problem for each in items for problem in find_misfits(each, shape[0], f"{place}[]")]
    # True is an int in Python, and no number in JSON.
    is_fit = isinstance(value, shape) and (not isinstance(value, bool) or shape is bool)
    return [] if is_fit else [f"{place} is {value!r}"]
