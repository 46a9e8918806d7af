"""The body of a request: read within its limits of size, speed and depth, into fields or into a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final
from uuid import uuid4

from starlette.requests import Request

from omnigraph.server.config import Limits
from omnigraph.server.errors import RequestError
from omnigraph.server.messages.requests import RequestModel, build_model, parse_json_body
from omnigraph.server.work_threads import run_in_thread

JSON: Final = "application/json"


def media_type_of(request: Request) -> str:
    """Return the content type without its parameters; JSON if none is given."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


async def read_json(
    model: type[RequestModel], request: Request, limits: Limits, most: int, known: str = JSON
) -> tuple[RequestModel, bytes]:
    """Read a body of JSON; return its fields and its bytes."""
    media_type = media_type_of(request)
    if media_type != JSON:
        raise RequestError(415, "unsupported_media_type", f"a body of type '{media_type}'", hint=f"send {known}")
    data = b"".join([part async for part in _read_parts(request, limits, most)])
    return build_model(model, parse_json_body(data, limits.json_depth), is_text=False), data


def parse_query_string(request: Request) -> dict[str, object]:
    """Return the parameters; one that is given several times is a list."""
    parameters = request.query_params
    return {
        name: values if len(values) > 1 else values[0] for name in parameters for values in [parameters.getlist(name)]
    }


async def _read_parts(request: Request, limits: Limits, most: int) -> AsyncGenerator[bytes]:
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isascii() and declared.isdigit() else 0
    received = 0
    if size <= most:
        async for part in _watch_speed(request, limits):
            received += len(part)
            if received > most:
                break
            yield part
    if max(size, received) > most:
        raise RequestError(413, "body_too_large", f"the body has more than {most:,} bytes", hint="send less at once")


async def _watch_speed(request: Request, limits: Limits) -> AsyncGenerator[bytes]:
    """Receive a body; end with an error if too little of it arrives within a window of time."""
    parts = request.stream()
    received, end = 0, monotonic() + limits.body_window_seconds
    while True:
        try:
            async with asyncio.timeout(max(0.0, end - monotonic())):
                part = await anext(parts, None)
        except TimeoutError:
            raise RequestError(
                408,
                "body_too_slow",
                "the body arrives too slowly",
                hint="send it faster",
                headers={"Connection": "close"},
            ) from None
        if part is None:
            return
        received += len(part)
        if received >= limits.body_window_bytes:
            received, end = 0, monotonic() + limits.body_window_seconds
        yield part


async def save_upload(request: Request, limits: Limits, folder: Path) -> Path:
    """Save a body to a file, decoded or not: a load tells by its first bytes how it is compressed."""
    path = folder / uuid4().hex
    try:
        with path.open("xb") as file:
            async for part in _read_parts(request, limits, limits.load_bytes):
                await run_in_thread(partial(file.write, part))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path
