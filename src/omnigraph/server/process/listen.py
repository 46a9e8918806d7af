"""The process of a server: listen, say where, and drain when a signal asks it to stop.

After SIGTERM or Ctrl-C new requests are refused, and those under way have some seconds to end. A second signal ends the
process at once: recovery makes that safe.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from types import FrameType
from typing import Final

import uvicorn

from omnigraph.errors import ServerUnavailable
from omnigraph.server.access import SessionStore
from omnigraph.server.app import build_app
from omnigraph.server.config import ServerSettings
from omnigraph.server.hosting import Hosting, ReadSettings, ServerRun, begin_run, open_hosting
from omnigraph.server.process.connections import HEADER_BYTES, make_protocol
from omnigraph.server.process.server_log import LogSettings
from omnigraph.server.process.workers import WorkerJob, supervise

Announce = Callable[[str], object]

_DRAINED: Final = 0
_WORK_LEFT: Final = 2
_BACKLOG: Final = 2048
_POLL_SECONDS: Final = 0.02
_EXTRA_SECONDS: Final = 5.0
_FOLLOW_SECONDS: Final = 1.0
_SWITCH_SECONDS: Final = 0.0005
"""How long a thread keeps the interpreter while others wait. With the default of 5 ms, the event loop waits that long
behind each busy thread, several times in one request: too long for a probe of health."""
_log = logging.getLogger("omnigraph.server")


def serve(
    settings: ServerSettings,
    announce: Announce,
    read_settings: ReadSettings | None = None,
    log: LogSettings | None = None,
) -> int:
    """Serve until a signal comes. ``announce`` is given lines for people: the address, and how to sign in.

    ``read_settings`` reads a configuration that is followed; where there are several workers it can be pickled, and
    ``log`` says how they log. Returns 0; if work had to be left, the process ends with 2.
    """
    if settings.workers > 1:
        assert read_settings is not None, "workers read their settings themselves"
        return _serve_with_workers(settings, announce, read_settings, log or LogSettings())
    hosting, token = open_hosting(settings, read_settings)
    try:
        listener = _listen(settings)
        server = _DrainingServer(_make_config(hosting), hosting)
        served = [hosted.uri for hosted in hosting.state.graphs.values()]
        with _follow_changes(hosting):
            _announce_start(settings, served, listener, hosting.run, token, announce)
            server.run([listener])
        return _DRAINED
    finally:
        hosting.close()


def _serve_with_workers(
    settings: ServerSettings, announce: Announce, read_settings: ReadSettings, log: LogSettings
) -> int:
    """Serve with several processes. This one opens no graph."""
    settings.check()
    with ExitStack() as stack:
        # Workers find each other's operations in one place, if only for this run.
        state = settings.state or Path(stack.enter_context(TemporaryDirectory(prefix="omnigraph-state-")))
        run, token = begin_run(settings, state)
        listener = _listen(settings)
        stack.callback(listener.close)
        served = [each.public_uri for each in settings.graphs]
        return supervise(
            WorkerJob(read_settings, run, settings.workers, log),
            listener,
            _run_worker,
            lambda: _announce_start(settings, served, listener, run, token, announce),
        )


def _run_worker(job: WorkerJob, listener: socket.socket, take_server: Callable[[uvicorn.Server], None]) -> int:
    """Serve in the process of one worker."""
    # A worker that starts reads its configuration in any case.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hosting, _ = open_hosting(job.read_share(), job.read_share, job.run)
    try:
        server = _DrainingServer(_make_config(hosting), hosting, is_worker=True)
        take_server(server)
        with _follow_changes(hosting):
            server.run([listener])
        return _DRAINED
    finally:
        hosting.close()


def _make_config(hosting: Hosting) -> uvicorn.Config:
    tls = hosting.state.settings.tls
    return uvicorn.Config(
        build_app(hosting),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        http=make_protocol(lambda: hosting.state.settings.limits.header_seconds),
        ws="none",
        h11_max_incomplete_event_size=HEADER_BYTES,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )


def _announce_start(
    settings: ServerSettings,
    served: Sequence[str],
    listener: socket.socket,
    run: ServerRun,
    token: str | None,
    announce: Announce,
) -> None:
    host, port = listener.getsockname()[:2]
    address = f"{'http' if settings.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    announce(f"serving {', '.join(served) or 'no graph'} at {address}")
    if token is not None and run.made is not None:
        if settings.has_page:
            announce(f"open {address}/#code={SessionStore(run.state, run.id).make_code(run.made)}")
        announce(f"export OMNIGRAPH_TOKEN={token}")


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
        # A thread that returns from Lance while the interpreter ends makes the process abort.
        follower.join(_EXTRA_SECONDS)


class _DrainingServer(uvicorn.Server):
    """Refuses new requests after the first signal, and stops when those under way have ended."""

    def __init__(self, config: uvicorn.Config, hosting: Hosting, *, is_worker: bool = False) -> None:
        super().__init__(config)
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._hosting = hosting
        self._is_worker = is_worker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Remember the loop, which signals wake up."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  uvicorn passes them
        """Begin to drain; at the second signal, stop."""
        if self._is_worker and sig == signal.SIGINT:
            # Ctrl-C reaches all processes of a terminal, and the supervisor tells its workers itself.
            return
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
        self.force_exit = self.force_exit or self._hosting.traffic.requests > 0
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to serve. If work is left, end the process: the loop would wait for its threads.

        A thread that returns from Lance while the interpreter ends makes the process abort.
        """
        await super().shutdown(sockets)
        left = self._hosting.traffic.requests
        if not left:
            return
        self._hosting.close()
        print(f"{left} requests were left", file=sys.stderr)  # noqa: T201
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_WORK_LEFT)
