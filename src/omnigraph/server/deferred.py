"""Writes that go on after their request was answered: ``Prefer: respond-async`` and ``Prefer: wait=N``.

The work is the same as without the header. It becomes an operation, does not end with its client, and is waited for
when the server drains.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeAlias, cast

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive

from omnigraph.errors import Json
from omnigraph.server.hosting import Hosting
from omnigraph.server.operations import RunningOperation

Perform: TypeAlias = Callable[[Receive], Awaitable[Response]]

_WAIT: Final = re.compile(r"wait=(\d{1,6})")
_CLIENT_GONE: Final = 499


def read_preference(header: str | None) -> float | None:
    """Return how many seconds a client wants to wait for an answer; None for as long as it takes.

    What is not understood is ignored: a preference is no demand.
    """
    parts = [part.strip().lower() for part in (header or "").split(",")]
    waits = [float(found.group(1)) for part in parts if (found := _WAIT.fullmatch(part)) is not None]
    if waits:
        return waits[0]
    return 0.0 if "respond-async" in parts else None


def wants_representation(header: str | None) -> bool:
    """Whether a client prefers what a write made to its id."""
    return any(part.strip().lower() == "return=representation" for part in (header or "").split(","))


async def defer(hosting: Hosting, running: RunningOperation, seconds: float, uri: str, perform: Perform) -> Response:
    """Work in the background; answer with the result if it is there in time, or else with the operation."""
    task = asyncio.create_task(_run(hosting, running, perform))
    hosting.tasks.add(task)
    task.add_done_callback(hosting.tasks.discard)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if done:
        return task.result()
    operation = running.operation
    headers = {
        "Location": f"{uri}/operations/{operation.id}",
        "Preference-Applied": "respond-async",
        "Cache-Control": "no-store",
    }
    body = orjson.dumps({"operation": operation.to_wire()})
    return Response(body, HTTPStatus.ACCEPTED, headers, "application/json")


async def _run(hosting: Hosting, running: RunningOperation, perform: Perform) -> Response:
    with hosting.traffic.count():
        response = await perform(_receive_nothing)
        fields = cast("dict[str, Json]", orjson.loads(bytes(response.body)))
        commit = fields.get("commit")
        if response.status_code == _CLIENT_GONE:
            running.end("cancelled")
        elif response.status_code >= HTTPStatus.BAD_REQUEST:
            running.end("failed", error=fields)
        else:
            running.end("succeeded", result=fields, commit=commit if isinstance(commit, str) else None)
        return response


async def _receive_nothing() -> Message:
    """Wait for ever: who sent the request may go away."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")
