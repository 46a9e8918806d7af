"""The changes of a branch as a stream of Spark: commits are its offsets, and a task reads what some of them changed.

An offset holds the cursor of :mod:`omnigraph.read.changes`, so it stands only between commits and is bound to graph,
branch and types. Spark keeps the end of each batch in the checkpoint of the query, and a batch that is run again has
the same rows.

Where a query begins Spark does not keep: it asks again, if the first batch has to be run again. What "now" means, or
the newest commit of some name, is another place by then. So the first batch of such a query has no rows, and its end
is the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import ArrayType, StringType, StructField, StructType, TimestampType

from omnigraph.errors import ChangeGap, Json, ParameterError
from omnigraph.language.source import suggest_similar
from omnigraph.manifest import opening
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import BASELINE_HINT, BEGINNING, NOW, ChangeBlock, Changes, follow_changes
from omnigraph.spark.source.type_reader import STORAGE_PREFIX, storage_options_of
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.pinned import Access

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

CHANGES: Final = "changes"
"""The option that asks for changes."""
_OPTIONS: Final = ("path", CHANGES, "branch", "start", "type")
_MAX_TASKS: Final = 64
"""A batch of more commits than this has tasks that read several: each task first reads the history."""

CHANGE_FIELDS: Final = (
    StructField("op", StringType(), nullable=False),
    StructField("kind", StringType(), nullable=False),
    StructField("type", StringType(), nullable=False),
    StructField("id", StringType(), nullable=False),
    StructField("before", StringType()),
    StructField("after", StringType()),
    StructField("changed", ArrayType(StringType(), containsNull=False), nullable=False),
)
"""One row for each entity: the records of a diff, and of what a commit changed."""
CHANGE_ARROW_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("op", "kind", "type", "id", "before", "after")),
        pa.field("changed", pa.list_(pa.string())),
    ]
)
"""The same as Arrow has it."""
CHANGE_STREAM_SCHEMA: Final = StructType(
    [
        StructField("commit", StringType(), nullable=False),
        StructField("parents", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("branch", StringType(), nullable=False),
        StructField("actor", StringType()),
        StructField("message", StringType()),
        StructField("created_at", TimestampType(), nullable=False),
        *CHANGE_FIELDS,
    ]
)
"""One row for each entity that a commit changed."""

_Offset: TypeAlias = "dict[str, str]"
_CURSOR: Final = "cursor"
_START: Final = "begins"
"""In the offset of a query that has not kept yet where it begins: what it was told about that."""
_Row: TypeAlias = "tuple[str | datetime | list[str] | None, ...]"


@dataclass(frozen=True, slots=True)
class ChangeStreamOptions:
    """Whose changes are followed, and from where on."""

    path: str
    branch: str
    start: str
    types: tuple[str, ...] | None
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(repr=False)

    def open_manifest(self) -> Manifest:
        """The graph."""
        location = locate(self.path, self.storage_options)
        manifest = Manifest(location, Access(location.options()), LockSettings())
        opening.check(manifest)
        return manifest

    def follow(self, manifest: Manifest, cursor: str | None) -> Changes:
        """The changes after a cursor; without one, from the start on."""
        return follow_changes(manifest, self.branch, self.start if cursor is None else None, cursor, self.types)


def parse_stream_options(options: Mapping[str, str]) -> ChangeStreamOptions:
    """Read the options of a stream; everything that is wrong with them is reported together."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE_PREFIX)}
    problems = [_unknown_option(name) for name in given if name not in _OPTIONS]
    if not given.get("path"):
        problems.append('no graph is named: give its path, as in load("s3://bucket/graph")')
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), details={"problems": listed})
    branch, start = given.get("branch", MAIN), given.get("start", NOW)
    types = tuple(name.strip() for name in given["type"].split(",")) if "type" in given else None
    return ChangeStreamOptions(given["path"], branch, start, types, storage_options_of(options))


def _unknown_option(name: str) -> str:
    hint = suggest_similar(name, _OPTIONS) or f"the options of a stream are {', '.join(_OPTIONS)} and {STORAGE_PREFIX}*"
    return f"no option '{name}', {hint}"


@dataclass(frozen=True)
class CommitRange(InputPartition):
    """So many commits after a cursor."""

    cursor: str
    count: int


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of a branch. Spark asks one of them, in a process of the query, and makes others for tasks."""

    def __init__(self, following: ChangeStreamOptions) -> None:
        self._options = following
        self._until: str | None = None
        """Where a query ends that takes what is there."""

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """What is there is what the branch has now."""
        self._until = replace(self._options, start=NOW).follow(self._manifest, None).cursor

    def initialOffset(self) -> _Offset:  # noqa: N802  Spark's name
        """Where a query begins that has no checkpoint."""
        begins = {} if self._options.start == BEGINNING else {_START: self._options.start}
        return {_CURSOR: self._follow(None).cursor, **begins}

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: ARG002, N802  Spark's signature
        """The newest commit of the branch; where a query begins, if it has not kept that yet."""
        found = self._follow(start[_CURSOR])
        ends = found.newest if self._until is None else self._until
        # A query may begin after what was there when it was told to end with that.
        goes_on = _START not in start and ends in found.cursors()
        return {_CURSOR: ends if goes_on else start[_CURSOR]}

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """The commits after one offset, up to another."""
        if _START in start or start == end:
            return []
        before = [start[_CURSOR]]
        for after in self._follow(start[_CURSOR]).cursors():
            if after == end[_CURSOR]:
                return _split_commits(before)
            before.append(after)
        raise ChangeGap(
            "a commit that this query has seen is not in the history any more",
            hint=f"the graph was put back to an older state; {BASELINE_HINT}",
        )

    def read(self, partition: InputPartition) -> Iterator[_Row]:
        """All that some commits changed."""
        wanted = cast("CommitRange", partition)
        for block in islice(self._follow(wanted.cursor), wanted.count):
            yield from _rows_of(block)

    def _follow(self, cursor: str | None) -> Changes:
        return self._options.follow(self._manifest, cursor)

    @cached_property
    def _manifest(self) -> Manifest:
        return self._options.open_manifest()


def _split_commits(cursors: Sequence[str]) -> list[CommitRange]:
    """The commits after each of these cursors, for as many tasks as may be."""
    size = -(-len(cursors) // _MAX_TASKS)
    return [CommitRange(cursors[at], len(cursors[at : at + size])) for at in range(0, len(cursors), size)]


def _rows_of(block: ChangeBlock) -> Iterator[_Row]:
    commit = block.commit
    cause = (commit.id, list(commit.parents), commit.branch, commit.actor, commit.message, commit.created_at)
    return ((*cause, *to_change_row(record)) for record in block.records())


def to_change_row(record: Mapping[str, Json]) -> tuple[str | list[str] | None, ...]:
    """A record as a row."""
    what = (cast("str", record[name]) for name in ("op", "kind", "type", "id"))
    images = (_to_json(record[name]) for name in ("before", "after"))
    return (*what, *images, cast("list[str]", record["changed"]))


def _to_json(image: Json) -> str | None:
    return None if image is None else orjson.dumps(image).decode()
