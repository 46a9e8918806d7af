"""A real S3 over HTTP for the tests: a moto server in a process of its own, on a port that the system chooses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import httpx

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


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

    def create_version_table(self) -> str:
        """Make the DynamoDB table in which Lance lists the versions of its datasets, and return its name."""
        name = f"versions-{uuid4().hex[:12]}"
        keys = {"base_uri": ("HASH", "S"), "version": ("RANGE", "N")}
        self._dynamodb(
            "CreateTable",
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": key, "KeyType": role} for key, (role, _) in keys.items()],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, (_, kind) in keys.items()],
        )
        return name

    def listed_versions(self, table: str, base_uri: str) -> list[int]:
        """The versions that DynamoDB lists for one folder, oldest first."""
        return [int(item["version"]["N"]) for item in self._items(table, base_uri)]

    def forget_versions(self, table: str, base_uri: str) -> None:
        """Delete the items of one folder, as an operator would."""
        for item in self._items(table, base_uri):
            key = {name: item[name] for name in ("base_uri", "version")}
            self._dynamodb("DeleteItem", TableName=table, Key=key)

    def _items(self, table: str, base_uri: str) -> list[dict[str, dict[str, str]]]:
        found = self._dynamodb(
            "Query",
            TableName=table,
            KeyConditionExpression="base_uri = :base_uri",
            ExpressionAttributeValues={":base_uri": {"S": base_uri}},
        )
        return cast("list[dict[str, dict[str, str]]]", found["Items"])

    def _dynamodb(self, operation: str, **arguments: object) -> dict[str, object]:
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            # The server reads the region here and checks nothing.
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/dynamodb/aws4_request",
        }
        answer = httpx.post(self.endpoint, headers=headers, json=arguments).raise_for_status()
        return cast("dict[str, object]", answer.json())


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
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application, turn = DomainDispatcherApplication(create_backend_app), Lock()

    def answer_in_turn(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # S3 decides a conditional write at once; moto looks first and writes then, so requests take turns.
        with turn:
            return application(environ, start_response)

    server = make_server("127.0.0.1", 0, answer_in_turn, threaded=True)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    _serve()
