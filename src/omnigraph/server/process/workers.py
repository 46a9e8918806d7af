"""Several processes that serve the same address, under uvicorn's supervisor.

Each worker opens the graphs itself. What workers must agree on is in files: commits and keys in the graph; operations,
codes and sessions in the state folder. A worker that dies is replaced. What it was about to commit is finished or
rolled back by the next writer.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from omnigraph.errors import OmniGraphError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.config import ServerSettings
from omnigraph.server.hosting import ReadSettings, ServerRun
from omnigraph.server.process.server_log import LogSettings, start_log
from omnigraph.server.request_log import METRICS_VARIABLE, forget_worker

_HEALTH_SECONDS: Final = 120
"""A long step of NumPy holds the interpreter; the default of five seconds would kill a writer."""
_JOIN_SECONDS: Final = 0.1
_LONGEST_PAUSE: Final = 60
_log = logging.getLogger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """What a worker is started with. All of it can be pickled."""

    read_settings: ReadSettings
    """Reads the settings, now and again."""
    run: ServerRun
    count: int
    log: LogSettings

    def read_share(self) -> ServerSettings:
        """Read the settings of one worker: what one actor or address may do is divided by the number of workers."""
        settings = self.read_settings()
        limits = settings.limits
        share = replace(
            limits,
            actor_reads=math.ceil(limits.actor_reads / self.count),
            actor_writes=math.ceil(limits.actor_writes / self.count),
            failed_logins=math.ceil(limits.failed_logins / self.count),
        )
        return replace(settings, limits=share, state=self.run.state)


Ready = Callable[[uvicorn.Server], None]
RunWorker = Callable[[WorkerJob, socket.socket, Ready], int]


def supervise(job: WorkerJob, listener: socket.socket, run: RunWorker, announce: Callable[[], None]) -> int:
    """Serve with several workers until a signal comes. ``announce`` is called when all of them take requests.

    Returns 0, 1 if a worker could not start, or 2 if work had to be left.
    """
    metrics = job.run.state / "metrics" / job.run.id
    metrics.mkdir(0o700, parents=True)
    # Workers count into files of this folder, so that each of them can tell the counts of all.
    os.environ[METRICS_VARIABLE] = str(metrics)
    config = uvicorn.Config("omnigraph.server.app:build_app", workers=job.count, log_config=None)
    supervisor = _Supervisor(config, listener, partial(_Worker, config, [listener], job, run), announce)
    try:
        supervisor.run()
    finally:
        _remove_folder(metrics)
        del os.environ[METRICS_VARIABLE]
    return supervisor.exit_code


def _remove_folder(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink(missing_ok=True)
    folder.rmdir()


class _Worker(Process):
    """One worker. It is pickled to be started, so it holds nothing of a running server."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], job: WorkerJob, run: RunWorker) -> None:
        self._job = job
        self._run = run
        self._asked: float | None = None
        """When it was asked whether it lives, and has not answered yet."""
        self.is_serving = False
        self.failures = 0
        """How often in a row a worker in its place could not start."""
        super().__init__(config, sockets)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the graphs and serve them, in the process of the worker."""
        assert sockets is not None
        # With this end closed here, the other end tells when the supervisor is gone.
        self.parent_conn.close()
        threading.Thread(target=self._answer_pings, daemon=True).start()
        start_log(self._job.log)
        try:
            code = self._run(self._job, sockets[0], self._take_server)
        except OmniGraphError as error:
            print(f"a worker cannot start: {error}", file=sys.stderr, flush=True)  # noqa: T201
            code = STARTUP_FAILURE
        sys.exit(code)

    def _take_server(self, server: uvicorn.Server) -> None:
        self._server = server

    def _answer_pings(self) -> None:
        with suppress(EOFError, OSError):
            self.always_pong()
        # Without its supervisor nobody would ever stop it.
        os.kill(os.getpid(), signal.SIGTERM)

    def look(self) -> bool:
        """Return whether the worker lives and answered in time. Does not wait for its answer."""
        if not self.process.is_alive():
            return False
        with suppress(OSError, EOFError):
            if self.parent_conn.poll():
                self.is_serving = bool(self.parent_conn.recv())
                self._asked = None
            if self._asked is None:
                self.parent_conn.send(b"ping")
                self._asked = monotonic()
        return self._asked is None or monotonic() - self._asked < _HEALTH_SECONDS

    def send(self, number: int) -> None:
        """Send a signal to the process."""
        if self.process.is_alive() and self.pid is not None:
            os.kill(self.pid, number)


class _Supervisor(Multiprocess):
    """Replaces workers that die, and hands signals on to them."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        make: Callable[[], _Worker],
        announce: Callable[[], None],
    ) -> None:
        super().__init__(config, [listener])
        self._make = make
        self._announce: Callable[[], None] | None = announce
        self._workers: list[_Worker] = []
        self._due: dict[int, float] = {}
        """When a worker that could not start is tried again, by its place."""
        self.exit_code = 0

    def init_processes(self) -> None:
        """Start the workers."""
        self._workers = [self._make() for _ in range(self.processes_num)]
        for worker in self._workers:
            worker.start()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died or do not answer."""
        for place, worker in enumerate(self._workers):
            if self.should_exit.is_set():
                return
            if place in self._due:
                if self._due[place] <= monotonic():
                    del self._due[place]
                    self._replace(place, worker.failures)
            elif not worker.look():
                self._bury(place, worker)
        if self._announce is not None and all(worker.is_serving for worker in self._workers):
            self._announce()
            self._announce = None

    def _bury(self, place: int, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        assert worker.pid is not None
        forget_worker(worker.pid)
        if worker.exitcode != STARTUP_FAILURE:
            _log.error("worker %d ended with %s and is replaced", worker.pid, worker.exitcode)
            self._replace(place, 0)
        elif self._announce is not None:
            # The first workers: the server cannot be started as it is.
            self.exit_code = 1
            self.should_exit.set()
        else:
            worker.failures += 1
            pause = min(2 ** (worker.failures - 1), _LONGEST_PAUSE)
            _log.error("a worker cannot start; it is tried again in %d s", pause)
            self._due[place] = monotonic() + pause

    def _replace(self, place: int, failures: int) -> None:
        self._workers[place] = self._make()
        self._workers[place].failures = failures
        self._workers[place].start()

    def handle_hup(self) -> None:
        """Let the workers read their configuration again."""
        for worker in self._workers:
            worker.send(signal.SIGHUP)

    def handle_ttin(self) -> None:
        """Keep the number of workers: it is one of the settings."""

    def handle_ttou(self) -> None:
        """Keep the number of workers."""

    def terminate_all(self) -> None:
        """Let the workers drain. New connections are refused once the last of them has stopped to listen."""
        for sock in self.sockets:
            sock.close()
        for worker in self._workers:
            worker.send(signal.SIGTERM)

    def join_all(self) -> None:
        """Wait for the workers to drain. A further signal goes on to them, and ends them at once."""
        while any(worker.process.is_alive() for worker in self._workers):
            for worker in self._workers:
                worker.process.join(_JOIN_SECONDS)
            if any(number in (signal.SIGINT, signal.SIGTERM) for number in self.signal_queue):
                self.signal_queue.clear()
                for worker in self._workers:
                    worker.send(signal.SIGTERM)
        codes = [worker.exitcode or 0 for worker in self._workers if worker.exitcode != STARTUP_FAILURE]
        self.exit_code = max([self.exit_code, *codes])
