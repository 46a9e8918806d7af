"""Where graphs live: what a root may look like, and what is opened below it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import ParameterError
from omnigraph.storage.location import locate


def test_a_local_path_is_made_absolute_for_use_and_printed_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    location = locate("./a/../brain.og//")
    assert location.is_local
    assert str(location) == "./a/../brain.og"
    assert location.objects == f"{tmp_path}/brain.og"
    monkeypatch.chdir("/")
    assert location.join("nodes/abc") == f"{tmp_path}/brain.og/nodes/abc"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/brain", "/data/brain"),
        (Path("/data/s3:/x"), "/data/s3:/x"),
        ("/", "/"),
        ("file:///data/brain/", "/data/brain"),
        ("file://localhost/data/brain", "/data/brain"),
        ("FILE:///data/a%20b", "/data/a b"),
        ("file:/data/brain", "/data/brain"),
        ("file:/data/a%20b/", "/data/a b"),
        ("data:2024/brain", f"{Path.cwd()}/data:2024/brain"),
        ("/data/a%20b#1?", "/data/a%20b#1?"),
    ],
)
def test_local_roots(uri: str | Path, root: str) -> None:
    assert locate(uri).objects == root
    assert locate(uri).join("x") == f"{root.rstrip('/')}/x"


def test_an_s3_root() -> None:
    location = locate("s3://bucket/a/b//")
    assert not location.is_local
    assert (location.uri, location.bucket, location.prefix) == ("s3://bucket/a/b", "bucket", "a/b")
    assert location.objects == "s3://bucket/a/b"
    assert location.join("nodes/abc") == "s3://bucket/a/b/nodes/abc"


def test_a_whole_bucket_is_a_root() -> None:
    location = locate("s3://bucket/")
    assert (location.bucket, location.prefix, location.join("x")) == ("bucket", "", "s3://bucket/x")


def test_an_external_manifest_store_keeps_its_query_behind_the_path() -> None:
    location = locate("s3+ddb://bucket/p/?ddbTableName=t")
    assert location.uri == "s3+ddb://bucket/p?ddbTableName=t"
    assert location.join("nodes/abc") == "s3+ddb://bucket/p/nodes/abc?ddbTableName=t"
    assert location.objects == "s3://bucket/p"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("gs://bucket/p", "unknown scheme 'gs'"),
        ("", "empty"),
        ("a\0b", "no file can be called"),
        ("a\ud800", "no file can be called"),
        ("file://other/data", "no local path"),
        ("file://data", "no local path"),
        ("s3://", "no bucket and prefix"),
        ("s3:///p", "no bucket and prefix"),
        ("s3://bucket/a//b", "no bucket and prefix"),
        ("s3://bucket/../b", "no bucket and prefix"),
        ("s3://bucket/a%20b", "no bucket and prefix"),
        ("s3://bucket/a#b", "no bucket and prefix"),
        ("s3://bucket/p?ddbTableName=t", "has a query"),
        ("s3+ddb://bucket/p", "names no table"),
        ("s3+ddb://bucket/p?ddbTableName=", "names no table"),
    ],
)
def test_a_bad_root_is_refused(uri: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message) as raised:
        locate(uri)
    assert raised.value.hint


def test_a_location_travels_with_its_options_and_prints_none_of_them() -> None:
    location = locate("s3://bucket/p", {"aws_secret_access_key": "hush"})
    assert pickle.loads(pickle.dumps(location)) == location  # noqa: S301  our own bytes
    assert "hush" not in repr(location) + str(location)
    assert location.options()["aws_secret_access_key"] == "hush"


@pytest.mark.parametrize("key", ["endpoint", "aws_endpoint", "AWS_ENDPOINT_URL"])
def test_an_http_endpoint_is_allowed_without_saying_so(key: str) -> None:
    assert locate("s3://bucket/p", {key: "http://localhost:1"}).options()["allow_http"] == "true"
    assert "allow_http" not in locate("s3://bucket/p", {key: "https://localhost:1"}).options()


def test_an_http_endpoint_of_the_environment_is_allowed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    assert locate("s3://bucket/p").options() == {"allow_http": "true"}
    assert locate("s3://bucket/p", {"aws_allow_http": "false"}).options() == {"aws_allow_http": "false"}
    assert locate("/data").options() == {}


@pytest.mark.parametrize("scheme", ["s3a", "s3n", "S3A"])
def test_other_names_of_s3_mean_s3(scheme: str) -> None:
    assert locate(f"{scheme}://bucket/a") == locate("s3://bucket/a")


@pytest.mark.parametrize("uri", ["dbfs:/g", "gs://bucket/g", "hdfs:///g", "abfss://c@a.net/g", "s3:/bucket/g", "x:/g"])
def test_an_unknown_scheme_is_an_error_that_lists_the_known_ones(uri: str) -> None:
    with pytest.raises(ParameterError, match=f"unknown scheme '{uri.partition(':')[0]}'") as refused:
        locate(uri)
    assert all(scheme in str(refused.value.hint) for scheme in ("file:/", "s3://", "s3a://", "s3n://", "s3+ddb://"))


@pytest.mark.parametrize("uri", ["s3://bucket/g", "file:///data/g", "s3a://bucket/g"])
def test_a_path_object_that_was_a_uri_is_refused(uri: str) -> None:
    with pytest.raises(ParameterError, match="give a URI as a text"):
        locate(Path(uri))


def test_what_lies_next_to_a_whole_bucket_lies_in_it() -> None:
    assert locate("s3://bucket").sibling("loading").base == "bucket/__loading"
    assert locate("s3://bucket/a").sibling("loading").base == "bucket/a.loading"


_TAKES_APART: Final = re.compile(r'"://" (not )?in |compile\(r"[^"\n]*:/|startswith\("(file|s3)')
_OTHERS: Final = {
    "storage/location.py": "the one parser",
    "storage/tables/table.py": "asks whether an address of Lance is local, and for DynamoDB",
    "storage/tables/writes.py": "asks whether an address of Lance is one with DynamoDB",
    "storage/lance_internals/base_folders.py": "reads addresses that Lance has stored",
    "write/mutation/run.py": "asks whether an address of Lance is one with DynamoDB",
    "pipeline/imports/neo4j_files.py": "a cell of a CSV file",
    "spark/stream/checkpoint.py": "Spark resolves the place of a checkpoint",
    "spark/pipeline/problems.py": "finds a place in a message of Spark",
}


def test_no_other_module_takes_a_location_apart() -> None:
    root = Path(omnigraph.__file__).parent
    modules = {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py") if "remote" not in path.parts
    }
    assert {name for name, text in modules.items() if _TAKES_APART.search(text)} <= _OTHERS.keys()
