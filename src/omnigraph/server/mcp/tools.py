"""The tools of a graph: what each is for, what it takes, and which request it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from mcp.types import Tool, ToolAnnotations

from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.access import Action
from omnigraph.server.mcp.arguments import (
    BranchArguments,
    ChangesArguments,
    CommitsArguments,
    DiffArguments,
    EntityArguments,
    ExplainArguments,
    HistoryArguments,
    LoadArguments,
    MergeArguments,
    MutateArguments,
    NeighborArguments,
    NoArguments,
    PreviewArguments,
    QueryArguments,
    QueryTextArguments,
    RevertArguments,
    SchemaArguments,
)
from omnigraph.server.mcp.graph_client import ToolRequest
from omnigraph.server.messages import RequestModel
from omnigraph.server.openapi import make_json_schema

Arguments = TypeVar("Arguments", bound=RequestModel)
_SAFE: Final = "safe"
_COMMIT: Final[Json] = {"type": ["string", "null"]}
_OBJECTS: Final[Json] = {"type": "array", "items": {"type": "object"}}
_ROWS: Final[Mapping[str, Json]] = {
    "row_count": {"type": "integer"},
    "columns": {"type": "array", "items": {"type": "string"}},
    "rows": _OBJECTS,
    "types": {"type": "object"},
    "next": {"type": ["object", "null"]},
    "commit": _COMMIT,
}
WRITTEN: Final[Mapping[str, Json]] = {
    "branch": {"type": "string"},
    "affected_nodes": {"type": "integer"},
    "affected_edges": {"type": "integer"},
    "commit": _COMMIT,
    "replayed": {"type": "boolean"},
    "rounded": _OBJECTS,
}
_MERGED: Final[Mapping[str, Json]] = {
    "source": {"type": "string"},
    "target": {"type": "string"},
    "nodes": {"type": "object"},
    "edges": {"type": "object"},
    "left_out": _OBJECTS,
    "conflicts": _OBJECTS,
    "commit": _COMMIT,
}


@dataclass(frozen=True, slots=True)
class GraphTool(Generic[Arguments]):
    """One tool. ``output`` names fields that its answers always have, with their JSON Schemas."""

    name: str
    description: str
    arguments: type[Arguments]
    action: Action
    build: Callable[[Arguments], ToolRequest]
    output: Mapping[str, Json]
    is_ad_hoc: bool = False
    """Whether the agent writes the query itself, or brings records of its own."""
    target: Callable[[Arguments], str] | None = None
    """The branch that a write goes to; None for tools that write to none."""
    writes: bool = False
    destroys: bool = False
    """Whether it may change or delete what is there."""
    repeats: bool = True
    """Whether a second call with the same arguments changes nothing more."""

    def describe(self) -> Tool:
        """Return the tool as a client lists it."""
        return make_tool(
            self.name,
            self.description,
            make_json_schema(self.arguments),
            make_output_schema(self.output),
            ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=self.destroys,
                idempotent_hint=self.repeats,
                open_world_hint=False,
            ),
        )


def make_tool(
    name: str,
    description: str,
    arguments: Mapping[str, Any],
    output: Mapping[str, Any],
    annotations: ToolAnnotations,
) -> Tool:
    """Return a tool as a client lists it."""
    return Tool(
        name=name,
        description=description,
        input_schema=dict(arguments),
        output_schema=dict(output),
        annotations=annotations,
    )


def make_output_schema(fields: Mapping[str, Json]) -> dict[str, Any]:
    """Return the JSON Schema of an answer that always has some fields, and may have others."""
    return {"type": "object", "properties": dict(fields), "required": list(fields)}


ROWS_SCHEMA: Final = make_output_schema(_ROWS)


def _list_fields(given: RequestModel, *left_out: str) -> dict[str, Json]:
    return cast("dict[str, Json]", given.model_dump(by_alias=True, exclude_none=True, exclude=set(left_out)))


def _get(path: str) -> Callable[[RequestModel], ToolRequest]:
    """Make a request of the arguments as they are, in the query string."""
    return lambda given: ToolRequest("GET", path, _list_fields(given))


def _post(path: str, extra: Mapping[str, Json] | None = None) -> Callable[[RequestModel], ToolRequest]:
    """Make a request of the arguments as they are, in the body."""
    more = extra or {}
    return lambda given: ToolRequest(
        "POST", path, body={**_list_fields(given, "key"), **more}, key=cast("str | None", getattr(given, "key", None))
    )


TOOLS: Final[Sequence[GraphTool[Any]]] = (
    GraphTool(
        "graph_schema",
        "Show the schema: node and edge types, properties, keys and rules. Read it before anything else.",
        SchemaArguments,
        Action.READ,
        _get("schema"),
        {"hash": {"type": "string"}, "commit": _COMMIT},
    ),
    GraphTool(
        "graph_query",
        "Run a read query. Give values as parameters, never inside the text. Rows come in pages.",
        QueryArguments,
        Action.READ,
        _post("query", {"numbers": _SAFE}),
        _ROWS,
        is_ad_hoc=True,
    ),
    GraphTool(
        "graph_lint",
        "Check queries against the schema without running them; every problem has a place and a hint.",
        QueryTextArguments,
        Action.READ,
        _post("lint"),
        {"status": {"type": "string"}, "errors": {"type": "integer"}, "results": _OBJECTS},
    ),
    GraphTool(
        "graph_explain",
        "Show the plan of a query and how many rows each step is expected to give. Nothing is read.",
        ExplainArguments,
        Action.READ,
        _post("explain"),
        {"plan": {"type": "string"}},
        is_ad_hoc=True,
    ),
    GraphTool(
        "graph_entity",
        "Show one node or edge with its properties; of a node also how many edges of each type it has.",
        EntityArguments,
        Action.READ,
        lambda given: ToolRequest("GET", "entity", {**_list_fields(given), "numbers": _SAFE}),
        {"type": {"type": "string"}, "id": {"type": "string"}, "properties": {"type": "object"}, "degrees": _OBJECTS},
    ),
    GraphTool(
        "graph_neighbors",
        "List edges of a node, and the nodes at their other ends.",
        NeighborArguments,
        Action.READ,
        _get("entity/neighbors"),
        {"edges": _OBJECTS, "nodes": _OBJECTS, "next": {"type": ["object", "null"]}},
    ),
    GraphTool(
        "graph_history",
        "List the commits that changed one node or edge, newest first, with its properties before and after.",
        HistoryArguments,
        Action.READ,
        _get("entity/history"),
        {"entries": _OBJECTS, "next": _COMMIT},
    ),
    GraphTool(
        "graph_branches",
        "List the branches with their newest commits.",
        NoArguments,
        Action.READ,
        _get("branches"),
        {"branches": {"type": "array", "items": {"type": "string"}}, "items": _OBJECTS},
    ),
    GraphTool(
        "graph_commits",
        "List the commits of a branch, newest first: who changed something, when and why.",
        CommitsArguments,
        Action.READ,
        _get("commits"),
        {"commits": _OBJECTS, "next": _COMMIT},
    ),
    GraphTool(
        "graph_diff",
        "Show what differs between two branches, commits, tags or times, or what one commit changed.",
        DiffArguments,
        Action.READ,
        _get("diff"),
        {"before": {"type": "object"}, "after": {"type": "object"}, "next": {"type": ["integer", "null"]}},
    ),
    GraphTool(
        "graph_changes",
        "Follow what changed, commit by commit, from a cursor. Keep the cursor of the answer for the next call.",
        ChangesArguments,
        Action.READ,
        _get("changes"),
        {"blocks": _OBJECTS, "cursor": {"type": "string"}, "at_end": {"type": "boolean"}},
    ),
    GraphTool(
        "graph_merge_preview",
        "Try a merge without doing it: what would change, and which conflicts there are.",
        PreviewArguments,
        Action.READ,
        _post("merges", {"dry_run": True}),
        _MERGED,
    ),
    GraphTool(
        "graph_branch_create",
        "Create a branch to work on. Nothing is copied, and main stays as it is.",
        BranchArguments,
        Action.BRANCH_CREATE,
        _post("branches"),
        {"name": {"type": "string"}, "commit": _COMMIT},
        writes=True,
        repeats=False,
    ),
    GraphTool(
        "graph_mutate",
        "Insert, update or delete on a branch, as one commit. Look at graph_diff afterwards.",
        MutateArguments,
        Action.CHANGE,
        _post("mutate"),
        WRITTEN,
        is_ad_hoc=True,
        target=lambda given: given.branch,
        writes=True,
        destroys=True,
        repeats=False,
    ),
    GraphTool(
        "graph_load",
        "Load up to 1 MiB of records into a branch, as one commit. With check, only report what is wrong.",
        LoadArguments,
        Action.CHANGE,
        _post("load"),
        {
            "branch": {"type": "string"},
            "nodes": {"type": "object"},
            "edges": {"type": "object"},
            "counts": {"type": "object"},
            "commit": _COMMIT,
            "rounded": _OBJECTS,
        },
        is_ad_hoc=True,
        target=lambda given: given.branch,
        writes=True,
        destroys=True,
        repeats=False,
    ),
    GraphTool(
        "graph_merge",
        "Merge a branch into another one. Try graph_merge_preview first.",
        MergeArguments,
        Action.BRANCH_MERGE,
        _post("merges"),
        _MERGED,
        target=lambda given: given.target,
        writes=True,
        destroys=True,
    ),
    GraphTool(
        "graph_revert",
        "Undo a commit on a branch with a new commit.",
        RevertArguments,
        Action.CHANGE,
        _post("reverts"),
        _MERGED,
        target=lambda given: given.branch,
        writes=True,
        destroys=True,
        repeats=False,
    ),
)
