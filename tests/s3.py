"""A real S3 over HTTP for the tests: a moto server in a process of its own, on a port that the system chooses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import httpx


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server: S3, and DynamoDB for Lance's external manifest store, at one endpoint."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """Storage options for Lance and obstore."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_region": "us-east-1",
            "dynamodb_endpoint": self.endpoint,
        }

    def create_bucket(self) -> str:
        """Make a new, empty bucket and return its name."""
        name = f"bucket-{uuid4().hex[:12]}"
        httpx.put(f"{self.endpoint}/{name}").raise_for_status()
        return name


@contextmanager
def serving() -> Generator[S3Server]:
    """Start a server, and stop it at the end. It also stops when this process dies: its standard input closes then."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        assert endpoint.startswith("http://"), "the moto server did not start"
        yield S3Server(endpoint)


def _serve() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve()
