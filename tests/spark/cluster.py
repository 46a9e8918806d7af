"""A real standalone cluster for the tests: a master and two workers of one core each, from the installed package.

Every part is a process of its own, on ports of this machine that the system chooses. Each worker has an address of its
own, for two attempts of a task never run on one machine. Nothing waits for a time to pass: the master tells where it is
in its log, and which workers are alive on its page.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final, TypeVar, cast

import httpx
import pyspark

Found = TypeVar("Found")

PATIENCE: Final = 300.0
"""In seconds; nothing here takes that long, unless it never ends."""
_TURN: Final = 0.05
_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_HERE: Final = "127.0.0.1"
_THERE: Final = ("127.0.0.2", "127.0.0.3")
"""Where the workers are. To Linux all of these are this machine."""
_ADDRESS: Final = re.compile(r"Starting Spark master at (\S+)")
_PAGE: Final = re.compile(r"'MasterUI' on port (\d+)")
_ANY: Final = ("--port", "0", "--webui-port", "0")
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
_GUARDED: Final = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 0) & exec "$@"'
"""A program that ends when the process dies that started it, whatever it died of: its standard input closes then."""
_DECIDED: Final = (
    "PYSPARK_GATEWAY_PORT",
    "SPARK_REMOTE",
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
)
"""Variables that would send a program elsewhere."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster; ``address`` is what programs have as their master."""

    address: str
    workers: tuple[int, ...]

    def executors(self) -> set[int]:
        """The processes that run tasks now."""
        return {child for worker in self.workers for child in _children(worker) if _EXECUTOR in _command(child)}


def executor_of(process: int) -> int:
    """The executor that a process of it belongs to, such as one that runs Python."""
    while process > 1:
        if _EXECUTOR in _command(process):
            return process
        process = _parent(process)
    raise AssertionError("this process belongs to no executor")


def environment() -> dict[str, str]:
    """That of every process: what is installed here is found by all of them."""
    kept = {name: value for name, value in os.environ.items() if name not in _DECIDED}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": _HERE, "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def standalone(folder: Path) -> Generator[Cluster]:
    """Start a cluster that writes to a folder, and end every process of it."""
    with ExitStack() as running:
        log = folder / "master.log"
        master = running.enter_context(_daemon("master.Master", ["--host", _HERE, *_ANY], log))
        address = until(lambda: _told(_ADDRESS, log, master))
        page = until(lambda: _told(_PAGE, log, master))
        workers: list[int] = []
        for host in _THERE:
            offer = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / host), address]
            worker = _daemon("worker.Worker", ["--host", host, *offer], folder / f"{host}.log", host)
            workers.append(running.enter_context(worker).pid)
        until(lambda: _alive(page) == len(workers))
        yield Cluster(address, tuple(workers))


def until(found: Callable[[], Found | None], patience: float = PATIENCE) -> Found:
    """What is found at last; a look costs little and is repeated until there is something."""
    end, never = monotonic() + patience, Event()
    while not (result := found()):
        assert monotonic() < end, f"nothing was found in {patience} s"
        never.wait(_TURN)
    return result


@contextmanager
def _daemon(name: str, arguments: Iterable[str], log: Path, host: str = _HERE) -> Generator[subprocess.Popen[bytes]]:
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.master.rest.enabled=false"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            ["bash", "-c", _GUARDED, "guarded", _CLASS, f"org.apache.spark.deploy.{name}", *arguments],
            stdin=subprocess.PIPE,
            env={**environment(), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_JAVA_OPTS": options},
            stdout=output,
            stderr=output,
            # What it starts is in its group, and ends with it.
            start_new_session=True,
        )
    with daemon:
        try:
            yield daemon
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)


def _told(pattern: re.Pattern[str], log: Path, daemon: subprocess.Popen[bytes]) -> str | None:
    text = log.read_text("utf-8", errors="replace")
    assert daemon.poll() is None, text
    found = pattern.search(text)
    return found and found[1]


def _alive(page: str) -> int:
    state = cast(
        "dict[str, list[dict[str, object]]]", httpx.get(f"http://{_HERE}:{page}/json/").raise_for_status().json()
    )
    return sum(worker["state"] == "ALIVE" for worker in state["workers"])


# --------------------------------------------------------------------------------------------- processes


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text("utf-8", errors="replace")
    except OSError:
        # It has ended meanwhile.
        return ""


def _parent(process: int) -> int:
    # The name of the program stands in brackets, and may hold anything.
    return int(Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for each in found for child in each.read_text("utf-8").split()]
