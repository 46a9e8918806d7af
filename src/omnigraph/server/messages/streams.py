"""Answers that are sent in pieces, while a thread computes the next ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled

_CHUNKS_AHEAD: Final = 2
_IDLE_SECONDS: Final = 30


class CountedStream(StreamingResponse):
    """A stream that counts as under way until its last byte is sent, or its reader is gone."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        status: int,
        headers: Mapping[str, str],
        media_type: str,
        deadline: Deadline,
        admitted: AsyncExitStack,
    ) -> None:
        super().__init__(chunks, status, headers, media_type)
        self._deadline = deadline
        self._admitted = admitted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream. A reader that takes nothing for some time is dropped: others wait for its place."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_IDLE_SECONDS):
                await send(message)

        async with self._admitted:
            try:
                await super().__call__(scope, receive, send_in_time)
            finally:
                self._deadline.cancel()


async def send_chunks(first: bytes, rest: Iterator[bytes], deadline: Deadline) -> AsyncIterator[bytes]:
    """Send what a thread computes. It stays two chunks ahead at most."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_CHUNKS_AHEAD)

    def put(item: bytes | BaseException | None) -> None:
        # Whoever sends the chunks gives up before this does.
        asyncio.run_coroutine_threadsafe(queue.put(item), loop).result(2 * _IDLE_SECONDS)

    def produce() -> None:
        try:
            with deadline:
                for chunk in rest:
                    put(chunk)
            put(None)
        except Cancelled:
            pass
        except Exception as error:  # noqa: BLE001  whoever reads the queue raises it
            with suppress(TimeoutError):
                put(error)

    yield first
    producer = threading.Thread(target=produce, name="omnigraph-stream", daemon=True)
    producer.start()
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        deadline.cancel()
        while not queue.empty():
            queue.get_nowait()
