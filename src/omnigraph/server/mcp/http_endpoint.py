"""MCP at ``POST /graphs/{id}/mcp``: one message in, one JSON answer out, nothing kept in between.

Any worker can answer any message. The transport checks Host and Origin itself too: it is always told which are ours.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_ANY_PORT: Final = ":*"


class McpResponse(Response):
    """The answer to one message."""

    def __init__(self, server: Server[Any], hosts: Collection[str], most_bytes: int) -> None:
        super().__init__()
        self._server = server
        self._hosts = hosts
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the message to the server, and send what it answers."""
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            security_settings=_describe_hosts(self._hosts),
            max_request_body_size=self._most_bytes,
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _describe_hosts(hosts: Collection[str]) -> TransportSecuritySettings:
    names = [f"[{host}]" if ":" in host else host for host in hosts]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}{_ANY_PORT}" for name in names)],
        allowed_origins=[*origins, *(f"{origin}{_ANY_PORT}" for origin in origins)],
    )
