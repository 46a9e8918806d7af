"""What jobs write beside the graph: it is gone when they end, and what the dead left goes with age."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from ulid import ULID

import omnigraph
from omnigraph.manifest.handle import Manifest
from omnigraph.spark import scratch as spark_scratch
from omnigraph.spark.scratch import open_scratch_folder
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import Access
from tests.s3 import S3Server


def manifest_at(location: Location) -> Manifest:
    return Manifest(location, Access(location.options()), LockSettings())


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    omnigraph.init(tmp_path / "ships.og", "node Ship { code: String @key }")
    return manifest_at(locate(tmp_path / "ships.og"))


def left(loading: Path, name: str, *, hours: float) -> Path:
    """The folder of a load whose last write is so long ago."""
    file = loading / name / "data" / "rows.lance"
    file.parent.mkdir(parents=True)
    file.touch()
    old = file.with_name("older.lance")
    old.touch()
    at = time.time() - hours * 3600
    os.utime(file, (at, at))
    os.utime(old, (at - 864_000, at - 864_000))
    return loading / name


def test_what_dead_loads_left_is_removed_when_it_is_old(manifest: Manifest, tmp_path: Path) -> None:
    loading = tmp_path / "ships.og.loading"
    abandoned = left(loading, str(ULID()), hours=25)
    recent = left(loading, str(ULID()), hours=23)
    foreign = left(loading, "notes", hours=1000)
    with open_scratch_folder(manifest) as folder:
        assert (loading / folder.name).is_dir()
        assert not abandoned.exists()
        assert recent.exists()
        assert foreign.exists()
    assert sorted(loading.iterdir()) == sorted([recent, foreign])


def test_nothing_is_left_of_a_load_that_ends(manifest: Manifest, tmp_path: Path) -> None:
    with open_scratch_folder(manifest):
        pass
    assert not (tmp_path / "ships.og.loading").exists()


def test_a_load_that_lives_says_so(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, put = Event(), Objects.put

    def told(objects: Objects, path: str, data: bytes) -> None:
        put(objects, path, data)
        said.set()

    monkeypatch.setattr(spark_scratch, "_HEARTBEAT", timedelta(milliseconds=1))
    monkeypatch.setattr(Objects, "put", told)
    with open_scratch_folder(manifest) as folder:
        assert said.wait(30)
        assert (tmp_path / "ships.og.loading" / folder.name / "alive").exists()
    assert not (tmp_path / "ships.og.loading").exists()


def test_on_an_object_store(s3_location: Location, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    omnigraph.init(s3_location.uri, "node Ship { code: String @key }", storage_options=s3_server.options)
    objects, name = Objects(s3_location.sibling("loading")), str(ULID())
    objects.put(f"{name}/data/rows.lance", b"")
    with open_scratch_folder(manifest_at(s3_location)):
        assert objects.list(name)
    monkeypatch.setattr(spark_scratch, "_ABANDONED", timedelta(days=-1))
    with open_scratch_folder(manifest_at(s3_location)):
        assert objects.list(name) == []
    assert objects.list() == []
