"""Marks of processes: who is alive, who is gone, and whom nobody knows."""

from __future__ import annotations

import subprocess
import sys

import orjson
import pytest

from omnigraph.spark.process_marks import describe_process, is_dead_process


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    own = describe_process()
    assert not is_dead_process(own)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from omnigraph.spark.process_marks import *; print(describe_process().decode(), end='')",
        ],
        capture_output=True,
        check=True,
    )
    assert is_dead_process(done.stdout)
    # The number was given to another process meanwhile.
    assert is_dead_process(orjson.dumps({**orjson.loads(own), "started": "1"}))


@pytest.mark.parametrize("mark", [b"", b"{", b"[]", b"{}", b'{"pid": 1}', b'{"pid": 999999999, "machine": "other"}'])
def test_who_is_not_known_is_taken_to_be_alive(mark: bytes) -> None:
    assert not is_dead_process(mark)
