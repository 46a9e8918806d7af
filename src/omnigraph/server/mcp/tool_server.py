"""The MCP server of one graph and one caller: lists what the caller may use, and turns calls into requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, cast

import orjson
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from omnigraph.errors import Forbidden, Json, OmniGraphError, ParameterError, ResultTooLarge
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.config import AgentSettings
from omnigraph.server.errors import ErrorContext, to_error_answer
from omnigraph.server.mcp.answer_text import render_answer, render_error
from omnigraph.server.mcp.arguments import InvokeArguments
from omnigraph.server.mcp.graph_client import FailedRequest, GraphClient, ToolRequest
from omnigraph.server.mcp.prompts import INSTRUCTIONS, PROMPTS, find_prompt
from omnigraph.server.mcp.tools import ROWS_SCHEMA, TOOLS, WRITTEN, GraphTool, make_output_schema, make_tool
from omnigraph.server.messages import RELEASE, build_model, to_safe_numbers
from omnigraph.server.openapi import make_json_schema

MOST_BYTES: Final = 256 * 1024
_Context = ServerRequestContext[Any, Any]


def make_tool_server(client: GraphClient, settings: AgentSettings) -> Server[Any]:
    """Make the server of one graph and one caller."""
    tools = ToolSession(client, settings)
    return Server(
        "omnigraph",
        version=RELEASE,
        title=f"OmniGraph: {client.graph_id}",
        instructions=INSTRUCTIONS,
        on_list_tools=tools.list_tools,
        on_call_tool=tools.call_tool,
        on_list_resources=tools.list_resources,
        on_read_resource=tools.read_resource,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )


async def _list_prompts(_context: _Context, _given: PaginatedRequestParams | None) -> ListPromptsResult:
    return ListPromptsResult(prompts=[prompt.describe() for prompt in PROMPTS])


async def _get_prompt(_context: _Context, given: GetPromptRequestParams) -> GetPromptResult:
    try:
        return find_prompt(given.name).fill(given.arguments or {})
    except OmniGraphError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error


@dataclass(frozen=True, slots=True)
class _StoredTool:
    """A stored query as a tool."""

    entry: Mapping[str, Json]

    @property
    def name(self) -> str:
        return str(self.entry["tool_name"])

    @property
    def writes(self) -> bool:
        return self.entry["mutation"] is True

    def describe(self) -> Tool:
        texts = [self.entry.get("description"), self.entry.get("instruction")]
        shown = ". ".join(str(text).rstrip(".") for text in texts if text) or f"The stored query {self.name}"
        hints = ToolAnnotations(
            read_only_hint=not self.writes,
            destructive_hint=self.writes,
            idempotent_hint=not self.writes,
            open_world_hint=False,
        )
        output = make_output_schema(WRITTEN) if self.writes else ROWS_SCHEMA
        return make_tool(self.name, f"{shown}.", self._make_input_schema(), output, hints)

    def build(self, given: InvokeArguments) -> ToolRequest:
        body: dict[str, Json] = {"params": given.params, "branch": given.branch, "message": given.message}
        if not self.writes:
            paging: dict[str, Json] = {"at": given.at, "limit": given.limit, "offset": given.offset, "numbers": "safe"}
            body = {"params": given.params, "branch": given.branch, **paging}
        return ToolRequest("POST", f"queries/{self.name}", body=body, key=given.key)

    def _make_input_schema(self) -> dict[str, Any]:
        general = make_json_schema(InvokeArguments)
        unused = ("at", "limit", "offset") if self.writes else ("message", "key")
        properties = {name: each for name, each in general["properties"].items() if name not in unused}
        parameters = cast("Mapping[str, Any]", self.entry["input_schema"])
        required = [*(["params"] if parameters["required"] else []), *(["branch"] if self.writes else [])]
        return {**general, "properties": {**properties, "params": parameters}, "required": required}


class ToolSession:
    """What one caller may use of one graph. Nothing is kept between calls: rights and queries are asked every time."""

    def __init__(self, client: GraphClient, settings: AgentSettings) -> None:
        self._client = client
        self._settings = settings

    async def list_tools(self, _context: _Context, _given: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools of the caller: those that the gate allows, and the stored queries that it may invoke."""
        found = [*await self._list_graph_tools(), *await self._list_stored()]
        return ListToolsResult(tools=[tool.describe() for tool in found])

    async def call_tool(self, _context: _Context, given: CallToolRequestParams) -> CallToolResult:
        """Run a tool. What goes wrong is an answer with the body of the error; only an unknown name is a fault."""
        arguments = given.arguments or {}
        try:
            for tool in await self._list_graph_tools():
                if tool.name == given.name:
                    return await self._run(tool, arguments)
            for stored in await self._list_stored():
                if stored.name == given.name:
                    return await self._run_stored(stored, arguments)
        except FailedRequest as error:
            return _to_error(error.body)
        except OmniGraphError as error:
            return _to_error(to_error_answer(error, ErrorContext("mcp")).body)
        raise MCPError(INVALID_PARAMS, f"unknown tool '{given.name}'")

    async def list_resources(self, _context: _Context, _given: PaginatedRequestParams | None) -> ListResourcesResult:
        """List the schema, the stored queries, the branches and the guide of the query language."""
        return ListResourcesResult(resources=[self._describe_resource(name) for name in _RESOURCES])

    async def read_resource(self, _context: _Context, given: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a resource."""
        name = str(given.uri).removeprefix(self._prefix)
        if name not in _RESOURCES or str(given.uri) == name:
            raise MCPError(INVALID_PARAMS, f"no resource {given.uri}")
        try:
            text = await self._read(name)
        except FailedRequest as error:
            raise MCPError(INVALID_PARAMS, render_error(error.body)) from error
        content = TextResourceContents(uri=given.uri, mime_type=_RESOURCES[name].mime_type, text=text)
        return ReadResourceResult(contents=[content])

    @property
    def _prefix(self) -> str:
        return f"omnigraph://{self._client.graph_id}/"

    def _describe_resource(self, name: str) -> Resource:
        found = _RESOURCES[name]
        return Resource(
            name=name, uri=f"{self._prefix}{name}", description=found.description, mime_type=found.mime_type
        )

    async def _read(self, name: str) -> str:
        if name == _GUIDE:
            return files("omnigraph.server.mcp").joinpath("guide.md").read_text("utf-8")
        answer = await self._client.send(ToolRequest("GET", name))
        if name == "schema":
            return str(answer["schema_source"])
        return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()

    async def _list_graph_tools(self) -> list[GraphTool[Any]]:
        actions = await self._client.list_actions()
        return [
            tool
            for tool in TOOLS
            if tool.action in actions
            and (self._settings.is_ad_hoc or not tool.is_ad_hoc)
            and (self._settings.write != "off" or not tool.writes)
        ]

    async def _list_stored(self) -> Sequence[_StoredTool]:
        try:
            answer = await self._client.send(ToolRequest("GET", "queries"))
        except FailedRequest as error:
            if error.status == _FORBIDDEN:
                return ()
            raise
        entries = cast("list[Mapping[str, Json]]", answer["queries"])
        stored = [_StoredTool(entry) for entry in entries if not entry["problems"]]
        return [each for each in stored if self._settings.write != "off" or not each.writes]

    async def _run(self, tool: GraphTool[Any], arguments: Mapping[str, object]) -> CallToolResult:
        given = build_model(tool.arguments, arguments, is_text=False)
        if tool.target is not None:
            await self._check_target(tool.target(given))
        return _to_result(await self._client.send(tool.build(given)))

    async def _run_stored(self, stored: _StoredTool, arguments: Mapping[str, object]) -> CallToolResult:
        given = build_model(InvokeArguments, arguments, is_text=False)
        if stored.writes:
            if given.branch is None:
                raise ParameterError("'branch' is missing", hint="name the branch to write to")
            await self._check_target(given.branch)
        return _to_result(await self._client.send(stored.build(given)))

    async def _check_target(self, branch: str) -> None:
        """Refuse to write to a protected branch, unless the settings allow any."""
        if self._settings.write == "any":
            return
        answer = await self._client.send(ToolRequest("GET", "branches"))
        items = cast("list[Mapping[str, Json]]", answer["items"])
        if any(item["name"] == branch and item["protected"] for item in items):
            raise Forbidden(
                f"agents may not write to '{branch}'",
                hint="create a branch with graph_branch_create, write there, and show graph_diff to who may merge it",
            )


@dataclass(frozen=True, slots=True)
class _ResourceKind:
    description: str
    mime_type: str


_FORBIDDEN: Final = 403
_GUIDE: Final = "guide/query-language"
_RESOURCES: Final[Mapping[str, _ResourceKind]] = {
    "schema": _ResourceKind("The schema of the graph: types, properties, keys and rules", "text/plain"),
    "queries": _ResourceKind("The stored queries, with their parameters", "application/json"),
    "branches": _ResourceKind("The branches and their newest commits", "application/json"),
    _GUIDE: _ResourceKind("The query language in one page", "text/markdown"),
}


def _to_result(answer: Mapping[str, Json]) -> CallToolResult:
    content = to_safe_numbers(answer)
    size = len(orjson.dumps(content))
    if size > MOST_BYTES:
        raise ResultTooLarge(
            f"the answer has {size:,} bytes; a tool gives at most {MOST_BYTES:,}",
            hint="ask for fewer rows with limit, for fewer columns, or for counts",
        )
    shown = render_answer(cast("Mapping[str, Json]", content))
    return CallToolResult(content=[TextContent(type="text", text=shown)], structured_content=content)


def _to_error(body: Mapping[str, Json]) -> CallToolResult:
    text = TextContent(type="text", text=render_error(body))
    return CallToolResult(content=[text], structured_content=dict(body), is_error=True)
