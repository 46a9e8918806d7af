"""What an agent does with a graph: explore it, propose a change on a branch, and show the difference.

A program stands in for the model; the client is the official one of the Model Context Protocol, over stdin and stdout.
    python examples/server/agent_session.py brain.og
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

QUERIES = Path(__file__).parent / "queries"
COUNT = "query by_status() { match { $t: Trial } return { $t.status as status, count($t) as trials } order { status } }"
BRANCH = "agent/stop-peltide"


async def call(client: Client, tool: str, **arguments: Any) -> None:
    """Call a tool, and print what the model would see."""
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    print(f"> {tool}({shown})")
    result = await client.call_tool(tool, arguments)
    for part in result.content:
        if isinstance(part, TextContent):
            print(part.text)
    print()


async def work(graph: str) -> None:
    """Run the session."""
    command = ["-m", "omnigraph", "mcp", "-g", graph, "--as", "act-agent", "--queries", str(QUERIES)]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        await call(client, "graph_query", query=COUNT)
        await call(client, "trials_of_compound", params={"name": "Peltide-9"})
        await call(client, "set_status", params={"trial": "tri-106", "status": "stopped"}, branch="main")
        await call(client, "graph_branch_create", name=BRANCH)
        await call(
            client,
            "set_status",
            params={"trial": "tri-106", "status": "stopped"},
            branch=BRANCH,
            message="the sponsor withdrew",
            key="stop-peltide-1",
        )
        await call(client, "graph_diff", a="main", b=BRANCH)
        await call(client, "graph_merge_preview", source=BRANCH)


if __name__ == "__main__":
    anyio.run(work, sys.argv[1])
