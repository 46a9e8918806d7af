"""A real ``omnigraph serve`` process, and what a test needs of it: its address, its lines, its token."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.warm_programs import Program, start_program

WAIT = 120
"""Seconds that a busy machine may take for anything."""
MAIN = "import sys; from omnigraph.cli.app import main; sys.exit(main(sys.argv[1:]))"


@dataclass
class LiveServer:
    """A process that serves, and the lines that it wrote to stderr so far."""

    process: Program
    lines: list[str] = field(default_factory=list[str])
    _more: threading.Condition = field(default_factory=threading.Condition)
    _is_over: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        """Its address, once it listens."""
        return self.wait_for(r"^serving .* at (https?://\S+)$")

    @property
    def token(self) -> str:
        """The token that was made for the run."""
        return self.wait_for(r"^export OMNIGRAPH_TOKEN=(\S+)$")

    @property
    def code(self) -> str:
        """The one-time code of the link."""
        return self.wait_for(r"^open \S+/#code=(\S+)$")

    def wait_for(self, pattern: str) -> str:
        """The first group of the first line that fits, as soon as it is there."""

        def find() -> re.Match[str] | None:
            return next((found for line in self.lines if (found := re.search(pattern, line))), None)

        with self._more:
            self._more.wait_for(lambda: find() is not None or self._is_over, WAIT)
            found = find()
            assert found is not None, f"no line fits {pattern}:\n" + "\n".join(self.lines)
            return found.group(1) if found.groups() else found.group()

    def client(self, token: str | None = None) -> httpx.Client:
        """A client with a token: the one of the run, if none is given."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return httpx.Client(base_url=self.url, timeout=WAIT, headers=headers)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT)

    def collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()


@contextmanager
def start_server(
    *words: str,
    graph: Path | None = None,
    program: str = MAIN,
    arguments: Sequence[str] = (),
    start: Callable[[str, Sequence[str]], Program] = start_program,
) -> Generator[LiveServer]:
    """Serve a graph, or what ``words`` say. ``program`` may change the server before it runs ``main``."""
    target = [] if graph is None else ["-g", str(graph), "--bind", "127.0.0.1:0"]
    process = start(program, [*arguments, "serve", *target, *words])
    server = LiveServer(process)
    reader = threading.Thread(target=server.collect, daemon=True)
    reader.start()
    try:
        yield server
    finally:
        process.kill()
        process.wait(WAIT)
        reader.join(WAIT)
        assert process.stderr is not None
        process.stderr.close()


def list_workers(server: LiveServer) -> list[int]:
    """The processes of the workers. The supervisor has a child beside them that tracks resources."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [pid for pid in map(int, children) if b"spawn_main" in read_command(pid)]


def read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again until something holds; pytest's time limit is that of the whole run."""
    end = threading.Event()
    watch = threading.Timer(WAIT, end.set)
    watch.start()
    while not holds():
        assert not end.wait(0.05), "it never held"
    watch.cancel()
