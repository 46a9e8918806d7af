"""Bind the checkpoint of a stream to its target: Spark records there how far it read, we record where the rows went.

A stream that continued from a checkpoint into another graph, branch or type would skip everything that was read before.
So a checkpoint is used for one target only. It can be on any file system that Spark can write to.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast

import orjson
from pyspark.sql import SparkSession

from omnigraph.errors import Json, ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.storage.location import Location

_BINDING_FILE: Final = "omnigraph.json"
"""The file in a checkpoint that records where the rows go."""
_SPARK_FILE: Final = "metadata"
"""The first file that Spark writes to a checkpoint."""
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
_S3: Final = ("s3", "s3a", "s3n")
_PATTERN: Final = re.compile(r"([\\{}\[\]*?,])")
_MISSING: Final = "PATH_NOT_FOUND"
_EXISTS: Final = "PATH_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """Where the rows of a checkpoint go, the name of their transactions, and the columns that identify them."""

    branch: str
    target: str
    app: str
    identity: str


@dataclass(frozen=True, slots=True)
class _CheckpointRecord:
    """What a checkpoint records. ``incarnation`` and ``begun_on`` tell a branch from a re-created one.

    ``identity`` is None in a checkpoint of an older release.
    """

    graph: str
    branch: str
    target: str
    app: str
    incarnation: str | None
    begun_on: str | None
    identity: str | None = None


def resolve_checkpoint(graph: Location, checkpoint: str | Path | None) -> str:
    """Return the path of a checkpoint for Spark. Without a scheme it is relative to the working directory."""
    if not checkpoint:
        raise ParameterError("no checkpoint is given", hint="give each stream a folder of its own, which outlives it")
    place = os.fspath(checkpoint)
    uri = _URI.fullmatch(place)
    if uri is None:
        place = os.path.abspath(place)  # noqa: PTH100  as Spark has it
    if _is_inside(graph, uri, place):
        raise ParameterError(f"the checkpoint '{place}' is inside the graph", hint="choose a folder outside of it")
    return place


def _is_inside(graph: Location, uri: re.Match[str] | None, place: str) -> bool:
    if graph.is_local:
        path = place if uri is None else uri[3] if uri[1].lower() == "file" else None
        return path is not None and Path(path).resolve().is_relative_to(Path(graph.base).resolve())
    if uri is None or uri[1].lower() not in _S3:
        return False
    return f"{uri[2]}{uri[3] or ''}/".startswith(f"{graph.base}/")


def bind_checkpoint(session: SparkSession, manifest: Manifest, checkpoint: str, binding: StreamBinding) -> None:
    """Record where the rows of a checkpoint go; refuse a checkpoint whose rows went elsewhere."""
    view = manifest.view(binding.branch, with_lineage=True)
    head = view.history.head()
    current = _CheckpointRecord(
        manifest.location.objects, **asdict(binding), incarnation=view.incarnation, begun_on=head.id if head else None
    )
    with translate_spark_errors("reading a checkpoint"):
        folder = _CheckpointFolder(session, checkpoint)
        data = folder.read(_BINDING_FILE)
        if data is None:
            if folder.read(_SPARK_FILE) is not None:
                raise _checkpoint_error(checkpoint, "belongs to a query that writes elsewhere")
            folder.write(_BINDING_FILE, orjson.dumps(asdict(current)).decode())
            # Another stream may have written it first.
            data = folder.read(_BINDING_FILE)
    recorded = _parse_record(checkpoint, data or "")
    for name, then, now in (
        ("graph", recorded.graph, current.graph),
        ("branch", recorded.branch, current.branch),
        ("target", recorded.target, current.target),
        ("app", recorded.app, current.app),
        # Batches that are matched by other columns would update other rows.
        ("identity", current.identity if recorded.identity is None else recorded.identity, current.identity),
    ):
        if then != now:
            message = f"belongs to a stream whose {name} is {then or 'none'}, not {now or 'none'}"
            raise _checkpoint_error(checkpoint, message)
    has_start = recorded.begun_on is None or view.history.find(recorded.begun_on) is not None
    if not has_start or recorded.incarnation != current.incarnation:
        raise _checkpoint_error(checkpoint, f"is older than branch '{binding.branch}', which was re-created since")


def _parse_record(checkpoint: str, data: str) -> _CheckpointRecord:
    try:
        return _CheckpointRecord(**cast("dict[str, str]", orjson.loads(data)))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise _checkpoint_error(
            checkpoint, f"does not record where its rows went: {_BINDING_FILE} is damaged"
        ) from error


def _checkpoint_error(checkpoint: str, why: str) -> ParameterError:
    details: dict[str, Json] = {"checkpoint": checkpoint}
    return ParameterError(f"the checkpoint '{checkpoint}' {why}", hint="give a new folder", details=details)


# --------------------------------------------------------------------------------------------- files on any file system


def read_query_id(session: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that a checkpoint belongs to. Spark writes it before the first batch."""
    text = _CheckpointFolder(session, checkpoint).read(_SPARK_FILE)
    try:
        return str(cast("dict[str, object]", orjson.loads(text or ""))["id"])
    except (orjson.JSONDecodeError, KeyError) as error:
        raise _checkpoint_error(checkpoint, f"does not name its query: {_SPARK_FILE} is damaged") from error


@dataclass(frozen=True, slots=True)
class _CheckpointFolder:
    """A folder on any file system that Spark can write to, through Spark's own readers and writers."""

    session: SparkSession
    place: str

    def read(self, name: str) -> str | None:
        """Return the content of a file, or None if it does not exist. Spark writes a file as a folder of one."""
        from pyspark.errors import PySparkException

        # Spark reads some characters of a path as a pattern.
        path = _PATTERN.sub(r"\\\1", f"{self.place}/{name}")
        try:
            found = cast("list[tuple[str]]", self.session.read.text([path], wholetext=True).collect())
        except PySparkException as error:
            if error.getCondition() == _MISSING:
                return None
            raise
        # Of two streams that began at the same moment, the same one wins for both.
        return min((text for (text,) in found), default=None)

    def write(self, name: str, text: str) -> None:
        """Write a file, unless it exists. A crash leaves files that nobody reads."""
        from pyspark.errors import PySparkException

        frame = self.session.createDataFrame([(text,)], "value string").coalesce(1)
        try:
            frame.write.mode("error").text(f"{self.place}/{name}")
        except PySparkException as error:
            if error.getCondition() != _EXISTS:
                raise
