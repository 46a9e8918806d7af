"""Objects on a local folder and on S3: one set of promises, and the failures of each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which
from typing import cast

import pytest

from omnigraph.errors import ParameterError, ReadOnly, StorageError, Unsupported
from omnigraph.storage.failpoints import InjectedFault, fail_at, record_writes
from omnigraph.storage.location import Location, locate
from omnigraph.storage.objects import Objects
from tests.crash import run
from tests.s3 import S3Server


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest) -> Objects:
    return Objects(cast("Location", request.getfixturevalue(f"{request.param}_location")))


class TestEveryStore:
    def test_a_missing_object_is_none(self, objects: Objects) -> None:
        assert objects.get("a/b.json") is None
        assert objects.read("a/b.json") is None
        assert objects.head("a/b.json") is None
        assert objects.list("a") == objects.list() == []

    def test_put_creates_and_replaces(self, objects: Objects) -> None:
        objects.put("a/b.json", b"one")
        assert objects.get("a/b.json") == b"one"
        objects.put("a/b.json", b"")
        assert objects.get("a/b.json") == b""

    def test_put_if_absent_writes_once(self, objects: Objects) -> None:
        assert objects.put_if_absent("claim", b"first")
        assert not objects.put_if_absent("claim", b"second")
        assert objects.get("claim") == b"first"

    def test_put_if_absent_has_one_winner(self, objects: Objects) -> None:
        with ThreadPoolExecutor(8) as pool:
            claims = [pool.submit(objects.put_if_absent, "claim", b"%d" % number) for number in range(8)]
        won = [claim.result() for claim in claims]
        assert won.count(True) == 1
        assert objects.get("claim") == b"%d" % won.index(True)

    def test_the_etag_names_the_content(self, objects: Objects) -> None:
        objects.put("x", b"one")
        first = objects.read("x")
        objects.put("x", b"two!")
        second = objects.read("x")
        assert first is not None
        assert second is not None
        assert first.etag != second.etag
        head = objects.head("x")
        assert head is not None
        assert (head.path, head.size, head.etag) == ("x", 4, second.etag)
        assert abs(datetime.now(UTC) - head.modified) < timedelta(minutes=5)

    def test_a_listing_is_sorted_and_stays_in_its_folder(self, objects: Objects) -> None:
        for path in ("a/2", "a/10", "ab/1", "a/c/1", "a0"):
            objects.put(path, path.encode())
        assert [info.path for info in objects.list("a")] == ["a/10", "a/2", "a/c/1"]
        assert [info.path for info in objects.list("a/")] == ["a/10", "a/2", "a/c/1"]
        assert [info.path for info in objects.list()] == ["a/10", "a/2", "a/c/1", "a0", "ab/1"]
        assert objects.list("a")[0] == objects.head("a/10")

    def test_delete_and_delete_again(self, objects: Objects) -> None:
        objects.put("a/1", b"")
        objects.delete("a/1")
        objects.delete("a/1")
        assert objects.list() == []

    def test_delete_prefix_takes_the_folder_and_nothing_else(self, objects: Objects) -> None:
        for path in ("tree/x/1", "tree/x/y/2", "tree/xy/3"):
            objects.put(path, b"")
        objects.delete_prefix("tree/x")
        objects.delete_prefix("tree/x")
        assert [info.path for info in objects.list()] == ["tree/xy/3"]

    @pytest.mark.parametrize("prefix", ["", "/"])
    def test_delete_prefix_refuses_the_root(self, objects: Objects, prefix: str) -> None:
        objects.put("x", b"")
        with pytest.raises(ValueError, match="whole graph"):
            objects.delete_prefix(prefix)
        assert objects.get("x") == b""

    def test_every_write_passes_the_seam(self, objects: Objects) -> None:
        with record_writes() as steps:
            objects.put("a/1", b"")
            objects.put_if_absent("a/2", b"")
            objects.get("a/1")
            objects.list()
            objects.delete("a/1")
            objects.delete_prefix("a")
        assert [(step.name, step.detail) for step in steps] == [
            ("objects.put", "a/1"),
            ("objects.put_if_absent", "a/2"),
            ("objects.delete", "a/1"),
            ("objects.delete_prefix", "a"),
        ]

    def test_an_injected_fault_is_not_translated_and_a_real_one_is(self, objects: Objects) -> None:
        with fail_at(1, "before"), pytest.raises(InjectedFault):
            objects.put("x", b"")
        assert objects.get("x") is None
        with fail_at(1, "after", OSError(28, "No space left on device")), pytest.raises(StorageError, match="no space"):
            objects.put("x", b"")
        assert objects.get("x") == b""


# --------------------------------------------------------------------------------------------- the local folder


def test_special_characters_of_a_local_root_are_plain_characters(tmp_path: Path) -> None:
    root = tmp_path / "a b%20c#1?é"
    objects = Objects(locate(str(root)))
    objects.put("x/y.json", b"1")
    assert (root / "x" / "y.json").read_bytes() == b"1"
    assert [info.path for info in objects.list()] == ["x/y.json"]


def test_a_read_creates_nothing(local_location: Location) -> None:
    Objects(local_location).list("a")
    assert not Path(local_location.objects).exists()


def test_unfinished_puts_are_not_listed_but_deleted_with_their_folder(local_location: Location) -> None:
    objects = Objects(local_location)
    objects.put("a/x.json", b"1")
    unfinished = Path(local_location.join("a/x.json#1"))
    unfinished.write_bytes(b"half")
    assert [info.path for info in objects.list()] == ["a/x.json"]
    objects.put("a/x.json", b"2")
    assert objects.get("a/x.json") == b"2"
    objects.delete_prefix("a")
    assert not unfinished.parent.exists()


def test_a_reader_never_sees_half_a_put(local_location: Location) -> None:
    objects = Objects(local_location)
    contents = [bytes([number]) * 1_000_000 for number in range(30)]
    objects.put("x", contents[0])
    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(lambda: [objects.put("x", content) for content in contents])
        while not writing.done():
            assert objects.get("x") in contents


def test_a_file_is_never_replaced_on_condition(local_location: Location) -> None:
    with pytest.raises(Unsupported, match="conditional replace"):
        Objects(local_location).replace_if_match("x", b"", "etag")


def test_a_file_where_a_folder_should_be_is_a_storage_error(local_location: Location) -> None:
    objects = Objects(local_location)
    objects.put("a", b"")
    with pytest.raises(StorageError, match=r"cannot write 'a/b' in .*Not a directory") as raised:
        objects.put("a/b", b"")
    assert "\n" not in raised.value.message
    assert raised.value.details == {"path": "a/b", "location": local_location.uri}


def as_nobody(folder: Path) -> list[str]:
    if os.geteuid() == 0:
        os.setuid(65534)
    objects = Objects(locate(folder))
    assert objects.get("x") == b"1"
    return [outcome(lambda: objects.put("y", b"")), outcome(lambda: objects.delete("x"))]


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except (ReadOnly, StorageError) as error:
        return f"{type(error).__name__}: {error.message}"
    return "done"


def test_a_folder_without_the_right_to_write_is_read_only(forbidden: Path) -> None:
    assert run(as_nobody, forbidden) == [
        f"ReadOnly: cannot write 'y' in {forbidden}: permission denied",
        f"ReadOnly: cannot delete 'x' in {forbidden}: permission denied",
    ]


def unreadable(folder: Path) -> str:
    if os.geteuid() == 0:
        os.setuid(65534)
    return outcome(lambda: Objects(locate(folder)).get("x"))


def test_a_file_without_the_right_to_read_is_not_missing(forbidden: Path) -> None:
    (forbidden / "x").chmod(0)
    assert run(unreadable, forbidden).startswith(f"StorageError: cannot read 'x' in {forbidden}: ")


UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def can_mount() -> bool:
    trial = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return which("unshare") is not None and subprocess.run(trial, capture_output=True, check=False).returncode == 0


PUT = """
import sys
from omnigraph.errors import OmniGraphError
from omnigraph.storage.location import locate
from omnigraph.storage.objects import Objects
try:
    Objects(locate(sys.argv[1])).put("x", bytes(1_000_000))
except OmniGraphError as error:
    print(f"{type(error).__name__}: {error.message}")
"""


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a file system of its own")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("size=64k", "StorageError: cannot write 'x' in {}: no space left"),
        ("ro", "ReadOnly: cannot write 'x' in {}: the file system is read-only"),
    ],
)
def test_a_full_and_a_read_only_file_system(tmp_path: Path, options: str, said: str) -> None:
    program = 'mount -t tmpfs -o "$1" none "$2" && exec "$3" -c "$4" "$2"'
    words = [*UNSHARE, "sh", "-c", program, "sh", options, str(tmp_path), sys.executable, PUT]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said.format(tmp_path)


# --------------------------------------------------------------------------------------------- the object store


def test_replace_if_match_replaces_what_the_etag_names(s3_location: Location) -> None:
    objects = Objects(s3_location)
    objects.put("x", b"one")
    first = objects.read("x")
    assert first is not None
    second = objects.replace_if_match("x", b"two", first.etag)
    assert second is not None
    assert objects.replace_if_match("x", b"three", first.etag) is None
    assert objects.get("x") == b"two"
    assert objects.replace_if_match("x", b"three", second)
    objects.delete("x")
    assert objects.replace_if_match("x", b"four", second) is None


def test_replace_if_match_has_one_winner(s3_location: Location) -> None:
    objects = Objects(s3_location)
    objects.put("x", b"")
    head = objects.head("x")
    assert head is not None
    with ThreadPoolExecutor(8) as pool:
        swaps = [pool.submit(objects.replace_if_match, "x", b"%d" % number, head.etag) for number in range(8)]
    winners = [number for number, swap in enumerate(swaps) if swap.result() is not None]
    assert [objects.get("x")] == [b"%d" % number for number in winners]


def test_the_endpoint_may_come_from_the_environment(
    s3_server: S3Server, s3_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    Objects(locate(s3_location.uri)).put("x", b"1")
    assert Objects(s3_location).get("x") == b"1"


def test_objects_beside_an_external_manifest_store_are_plain_objects(
    s3_server: S3Server, s3_location: Location
) -> None:
    external = locate(f"s3+ddb://{s3_location.base}?ddbTableName=t", s3_server.options)
    Objects(external).put("x", b"1")
    assert Objects(s3_location).get("x") == b"1"


def test_a_missing_bucket_is_an_error_for_a_write(s3_server: S3Server) -> None:
    with pytest.raises(StorageError, match="cannot write 'x' in s3://no-such-bucket"):
        Objects(locate("s3://no-such-bucket", s3_server.options)).put("x", b"")


def test_a_store_that_does_not_answer_is_an_error_and_not_an_absence(s3_server: S3Server) -> None:
    options = {**s3_server.options, "aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "0"}
    objects = Objects(locate("s3://bucket", {**options, "client_retry_timeout": "1"}))
    with pytest.raises(StorageError, match="cannot read 'x' in s3://bucket"):
        objects.get("x")
    with pytest.raises(StorageError, match="cannot list"):
        objects.list()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aws_reigon": "x"}, "'aws_reigon'"),
        ({"client_max_retries": "many"}, "'many'"),
        ({"timeout": "soon"}, "soon"),
    ],
)
def test_a_wrong_storage_option_is_named(s3_server: S3Server, options: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=f"a storage option of s3://bucket is wrong: .*{message}"):
        Objects(locate("s3://bucket", {**s3_server.options, **options})).get("x")
