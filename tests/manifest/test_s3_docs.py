"""The page about object stores is true: its examples run, in order, against a server of the test."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.s3 import S3Server

PAGE = Path(__file__).parents[2] / "docs/how-to/object-stores.md"


def test_the_examples_run(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "DYNAMODB_ENDPOINT": s3_server.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    httpx.put(f"{s3_server.endpoint}/my-bucket").raise_for_status()
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102  our own page
