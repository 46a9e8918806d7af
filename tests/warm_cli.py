"""The command line without the second that its imports take: each command is a fork of a process that has them.

``python -m tests.warm_cli SOCKET`` waits there; :func:`warm_commands` starts it and gives a folder with an
``omnigraph`` that hands its arguments, environment, folder and streams over to it. Everything else is as in a process
of its own: the fork is made before anything is opened or read.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypedDict, cast

ROOT = Path(__file__).parent.parent
READY = b"ready\n"
_MOST_BYTES = 1 << 20

_COMMAND = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({path!r})
    order = {{"argv": ["omnigraph", *sys.argv[1:]], "folder": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
    line.shutdown(socket.SHUT_WR)
    answer = line.recv(16)
sys.exit(int(answer) if answer else 1)
"""


class Order(TypedDict):
    """One command: what it is given."""

    argv: list[str]
    folder: str
    environment: dict[str, str]


@contextmanager
def warm_commands(folder: Path) -> Generator[Path]:
    """A folder for the path, in which ``omnigraph`` starts at once."""
    # The name of a socket may not be long.
    path = str(folder / "s")
    command = folder / "bin" / "omnigraph"
    command.parent.mkdir()
    command.write_text(_COMMAND.format(python=sys.executable, path=path), "utf-8")
    command.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.warm_cli", path],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == READY
    try:
        yield command.parent
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def serve(path: str) -> NoReturn:
    """Import everything, then run each command that comes in a fork."""
    import_module("tests.preloaded")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()
        while True:
            line, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(line)
            line.close()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    os._exit(0)


def _answer(line: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    text, streams, _, _ = socket.recv_fds(line, _MOST_BYTES, 3)
    while part := line.recv(_MOST_BYTES):
        text += part
    order = cast(Order, json.loads(text))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["argv"]
    code = _run()
    sys.stdout.flush()
    sys.stderr.flush()
    line.sendall(str(code).encode())
    os._exit(code)


def _run() -> int:
    from omnigraph.cli.app import main

    try:
        return main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


if __name__ == "__main__":
    serve(sys.argv[1])
