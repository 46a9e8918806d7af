"""MCP: a graph as tools, resources and prompts for agents, over HTTP and over stdio.

Every tool is a request to a route of the server. So agents pass the same gate, the same limits and the same audit as
any other client, and answers have the same fields; what is here is how tools are described and shown.
"""

from omnigraph.server.mcp.graph_client import GraphClient, connect_app, connect_url
from omnigraph.server.mcp.http_endpoint import McpResponse
from omnigraph.server.mcp.tool_server import make_tool_server

__all__ = ["GraphClient", "McpResponse", "connect_app", "connect_url", "make_tool_server"]
