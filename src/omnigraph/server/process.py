"""The process of a server: listen, say where, and drain when a signal asks it to stop.

After SIGTERM or Ctrl-C new requests are refused, and those under way have some seconds to end. A second signal ends the
process at once: recovery makes that safe.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Final

import uvicorn

from omnigraph.errors import ServerUnavailable
from omnigraph.server.app import build_app
from omnigraph.server.hosting import Hosting, ReadSettings, open_hosting
from omnigraph.server.settings import ServerSettings

Announce = Callable[[str], object]

_DRAINED: Final = 0
_WORK_LEFT: Final = 2
_BACKLOG: Final = 2048
_POLL_SECONDS: Final = 0.02
_EXTRA_SECONDS: Final = 5.0
_FOLLOW_SECONDS: Final = 1.0
_log = logging.getLogger("omnigraph.server")


def serve(settings: ServerSettings, announce: Announce, read_settings: ReadSettings | None = None) -> int:
    """Serve until a signal comes. ``announce`` is given lines for people: the address, and how to sign in.

    ``read_settings`` reads a configuration that is followed. Returns 0, or 2 if work had to be left.
    """
    hosting, token = open_hosting(settings, read_settings)
    try:
        listener = _listen(settings)
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        config = uvicorn.Config(
            build_app(hosting),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            proxy_headers=False,
        )
        server = _DrainingServer(config, hosting)
        names = ", ".join(hosted.uri for hosted in hosting.state.graphs.values()) or "no graph"
        announce(f"serving {names} at {address}")
        if token is not None and hosting.made is not None:
            if settings.has_page:
                announce(f"open {address}/#code={hosting.sessions.make_code(hosting.made)}")
            announce(f"export OMNIGRAPH_TOKEN={token}")
        with _follow_changes(hosting):
            server.run([listener])
        return server.exit_code
    finally:
        hosting.close()


def _listen(settings: ServerSettings) -> socket.socket:
    host, port = settings.address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ServerUnavailable(
            f"cannot listen at {settings.bind}: {error.strerror or error}", hint="give another --bind HOST:PORT"
        ) from error


@contextmanager
def _follow_changes(hosting: Hosting) -> Generator[None]:
    """Look at the configuration every second, and at once after SIGHUP; try quarantined graphs in their turn."""
    wake, is_over = threading.Event(), threading.Event()

    def follow() -> None:
        while not is_over.is_set():
            wake.wait(_FOLLOW_SECONDS)
            wake.clear()
            if not is_over.is_set():
                hosting.reload()
                hosting.retry_quarantined()
                hosting.obey_cancels()

    def hurry(_number: int, _frame: FrameType | None) -> None:
        wake.set()

    before = signal.signal(signal.SIGHUP, hurry)
    follower = threading.Thread(target=follow, name="omnigraph-follow", daemon=True)
    follower.start()
    try:
        yield
    finally:
        is_over.set()
        wake.set()
        signal.signal(signal.SIGHUP, before)


class _DrainingServer(uvicorn.Server):
    """Refuses new requests after the first signal, and stops when those under way have ended."""

    def __init__(self, config: uvicorn.Config, hosting: Hosting) -> None:
        super().__init__(config)
        self._hosting = hosting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None
        self.exit_code = _DRAINED

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Remember the loop, which signals wake up."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  uvicorn passes them
        """Begin to drain; at the second signal, stop."""
        if self._hosting.is_draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self._hosting.is_draining = True
        self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        self._drain = asyncio.create_task(self._wait_for_requests())

    async def _wait_for_requests(self) -> None:
        _log.info("draining: %d requests are under way", self._hosting.traffic.requests)
        end = monotonic() + self._hosting.state.settings.limits.drain_seconds
        while self._hosting.traffic.requests and monotonic() < end and not self.force_exit:
            await asyncio.sleep(_POLL_SECONDS)
        if self._hosting.traffic.requests:
            self._hosting.cancel_work()
            end = monotonic() + _EXTRA_SECONDS
            while self._hosting.traffic.requests and monotonic() < end and not self.force_exit:
                await asyncio.sleep(_POLL_SECONDS)
        if self._hosting.traffic.requests:
            self.exit_code = _WORK_LEFT
            self.force_exit = True
            print(f"{self._hosting.traffic.requests} requests were left", file=sys.stderr)  # noqa: T201
        self.should_exit = True
