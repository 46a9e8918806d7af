"""Upkeep after a command: a child process does it, which outlives the command, so that nobody waits for it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Mapping

import orjson

import omnigraph
from omnigraph.errors import OmniGraphError

_log = logging.getLogger("omnigraph")


def start_upkeep(uri: str, storage_options: Mapping[str, str], branch: str) -> None:
    """Start a process that does the upkeep of a branch, and do not wait for it."""
    # Storage options may hold credentials, which the arguments of a process would show to everybody.
    task = orjson.dumps({"uri": uri, "storage_options": dict(storage_options), "branch": branch})
    try:
        child = subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert child.stdin is not None
        with child.stdin as stdin:
            stdin.write(task)
    except OSError as error:
        _log.info("upkeep of branch '%s' is put off: %s", branch, error)


def run_upkeep(task: bytes) -> None:
    """Do the upkeep that a command asked for."""
    given = orjson.loads(task)
    try:
        with omnigraph.open(given["uri"], storage_options=given["storage_options"]) as graph:
            graph.do_upkeep(given["branch"])
    except OmniGraphError as error:
        _log.info("upkeep is put off: %s", error)


if __name__ == "__main__":
    run_upkeep(sys.stdin.buffer.read())
