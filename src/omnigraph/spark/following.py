"""The changes of a branch as a stream of Spark: commits are its offsets, and one task reads what one commit changed.

An offset holds the cursor of :mod:`omnigraph.read.changes`, so it stands only between commits and is bound to graph,
branch and type. Spark keeps it in the checkpoint of the query; a batch that is run again has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import orjson
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import ArrayType, StringType, StructField, StructType, TimestampType

from omnigraph.errors import ChangeGap, Json, ParameterError
from omnigraph.language.suggest import did_you_mean
from omnigraph.manifest import opening
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import NOW, Changes, changes
from omnigraph.read.cursor import BASELINE
from omnigraph.spark.reading import STORAGE, storage_options_of
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.pinned import Access

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

CHANGES: Final = "changes"
"""The option that asks for changes."""
_OPTIONS: Final = ("path", CHANGES, "branch", "start", "type")

SCHEMA: Final = StructType(
    [
        StructField("commit", StringType(), nullable=False),
        StructField("parents", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("branch", StringType(), nullable=False),
        StructField("actor", StringType()),
        StructField("message", StringType()),
        StructField("created_at", TimestampType(), nullable=False),
        StructField("op", StringType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("type", StringType(), nullable=False),
        StructField("id", StringType(), nullable=False),
        StructField("before", StringType()),
        StructField("after", StringType()),
        StructField("changed", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)
"""One row for each entity that a commit changed. The images are texts of JSON."""

_Offset: TypeAlias = "dict[str, str]"
_Row: TypeAlias = "tuple[str | datetime | list[str] | None, ...]"


@dataclass(frozen=True, slots=True)
class Following:
    """Whose changes are followed, and from where on."""

    path: str
    branch: str
    start: str
    type: str | None
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(repr=False)

    def changes(self, cursor: str | None) -> Changes:
        """The changes after a cursor; without one, from the start on."""
        location = locate(self.path, self.storage_options)
        manifest = Manifest(location, Access(location.options()), LockSettings())
        opening.check(manifest)
        types = None if self.type is None else [self.type]
        return changes(manifest, self.branch, self.start if cursor is None else None, cursor, types)


def following_of(options: Mapping[str, str]) -> Following:
    """Read the options of a stream; everything that is wrong with them is reported together."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE)}
    problems = [_unknown(name) for name in given if name not in _OPTIONS]
    if not given.get("path"):
        problems.append('no graph is named: give its path, as in load("s3://bucket/graph")')
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), details={"problems": listed})
    branch, start = given.get("branch", MAIN), given.get("start", NOW)
    return Following(given["path"], branch, start, given.get("type"), storage_options_of(options))


def _unknown(name: str) -> str:
    hint = did_you_mean(name, _OPTIONS) or f"the options of a stream are {', '.join(_OPTIONS)} and {STORAGE}*"
    return f"no option '{name}', {hint}"


@dataclass(frozen=True)
class OneCommit(InputPartition):
    """The commit after a cursor."""

    cursor: str
    commit: str


class ChangesReader(DataSourceStreamReader):
    """Reads the changes of a branch; pickled, it goes to the executors."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def initialOffset(self) -> _Offset:  # noqa: N802  Spark's name
        """Where a query begins that has no checkpoint."""
        return _offset(self._following.changes(None).cursor)

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: ARG002, N802  Spark's signature
        """The newest commit of the branch."""
        after = start["cursor"]
        for _, after in self._following.changes(start["cursor"]).places():  # noqa: B007  the last one is wanted
            pass
        return _offset(after)

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """The commits after one offset, up to another."""
        found: list[OneCommit] = []
        before = start["cursor"]
        if before == end["cursor"]:
            return found
        for commit, after in self._following.changes(before).places():
            found.append(OneCommit(before, commit))
            if after == end["cursor"]:
                return found
            before = after
        raise ChangeGap(
            "a commit that this query has seen is not in the history any more",
            hint=f"the graph was put back to an older state; {BASELINE}",
        )

    def read(self, partition: InputPartition) -> Iterator[_Row]:
        """All that one commit changed."""
        wanted = cast("OneCommit", partition)
        block = next(iter(self._following.changes(wanted.cursor)))
        commit = block.commit
        cause = (commit.id, list(commit.parents), commit.branch, commit.actor, commit.message, commit.created_at)
        for record in block.records():
            what = (cast("str", record[name]) for name in ("op", "kind", "type", "id"))
            images = (_text(record[name]) for name in ("before", "after"))
            yield (*cause, *what, *images, cast("list[str]", record["changed"]))


def _offset(cursor: str) -> _Offset:
    return {"cursor": cursor}


def _text(image: Json) -> str | None:
    return None if image is None else orjson.dumps(image).decode()
