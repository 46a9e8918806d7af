"""The changes of a branch as a Spark stream: offsets are commits, and each task reads the changes of some commits.

An offset holds a cursor of :mod:`omnigraph.read.changes`, which lies between two commits and belongs to one graph,
branch and set of types. Spark stores the end of each batch in the checkpoint, so a repeated batch has the same rows.

Spark does not store where a query starts: it asks again if the first batch has to be repeated, and by then "now" or
the newest commit of a branch is another one. So the first batch of such a query is empty, and its end is the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
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
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import opening
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import BASELINE_HINT, BEGINNING, NOW, ChangeBlock, Changes, follow_changes
from omnigraph.spark.source.change_parts import DiffPart, divide_diff, read_part_records
from omnigraph.spark.source.type_reader import STORAGE_PREFIX, storage_options_of
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.tables import Access

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

CHANGES: Final = "changes"
"""The option that selects the change stream."""
_OPTIONS: Final = ("path", CHANGES, "branch", "start", "type", "max_commits")
_MAX_TASKS: Final = 64
"""With more commits than this in a batch, a task reads several of them: each task has to read the history first."""

CHANGE_FIELDS: Final = (
    StructField("op", StringType(), nullable=False),
    StructField("kind", StringType(), nullable=False),
    StructField("type", StringType(), nullable=False),
    StructField("id", StringType(), nullable=False),
    StructField("before", StringType()),
    StructField("after", StringType()),
    StructField("changed", ArrayType(StringType(), containsNull=False), nullable=False),
)
"""The columns of a changed entity, in diffs and in the changes of a commit."""
CHANGE_ARROW_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("op", "kind", "type", "id", "before", "after")),
        pa.field("changed", pa.list_(pa.string())),
    ]
)
"""The same columns in Arrow."""
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
"""The columns of the stream: one row for each entity that a commit changed."""

_Offset: TypeAlias = "dict[str, str]"
_CURSOR: Final = "cursor"
_START: Final = "begins"
"""In the initial offset of a query whose start is not fixed yet: its ``start`` option."""
_Row: TypeAlias = "tuple[str | datetime | list[str] | None, ...]"


@dataclass(frozen=True, slots=True)
class ChangeStreamOptions:
    """The parsed options of a change stream: which changes to follow, and from where."""

    path: str
    branch: str
    start: str
    types: tuple[str, ...] | None
    max_commits: int | None
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(repr=False)

    def open_manifest(self) -> Manifest:
        """Open the graph."""
        location = locate(self.path, self.storage_options)
        manifest = Manifest(location, Access(location.options()), LockSettings())
        opening.check_graph(manifest)
        return manifest

    def follow(self, manifest: Manifest, cursor: str | None) -> Changes:
        """Return the changes after a cursor, or from the start without one."""
        return follow_changes(manifest, self.branch, self.start if cursor is None else None, cursor, self.types)


def parse_stream_options(options: Mapping[str, str]) -> ChangeStreamOptions:
    """Parse the options of a stream; report all problems together."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE_PREFIX)}
    problems = [_unknown_option(name) for name in given if name not in _OPTIONS]
    if not given.get("path"):
        problems.append('the path of the graph is missing: give it as in load("s3://bucket/graph")')
    limit = given.get("max_commits")
    if limit is not None and not (limit.isdecimal() and int(limit) > 0):
        problems.append(f"max_commits is '{limit}', which is not a positive number")
    if problems:
        listed: list[Json] = list(problems)
        raise ParameterError("; ".join(problems), details={"problems": listed})
    branch, start = given.get("branch", MAIN), given.get("start", NOW)
    types = tuple(name.strip() for name in given["type"].split(",")) if "type" in given else None
    max_commits = None if limit is None else int(limit)
    return ChangeStreamOptions(given["path"], branch, start, types, max_commits, storage_options_of(options))


def _unknown_option(name: str) -> str:
    hint = suggest_similar(name, _OPTIONS) or f"the options of a stream are {', '.join(_OPTIONS)} and {STORAGE_PREFIX}*"
    return f"no option '{name}', {hint}"


@dataclass(frozen=True)
class CommitRange(InputPartition):
    """A number of commits after a cursor."""

    cursor: str
    count: int


@dataclass(frozen=True)
class CommitPart(InputPartition):
    """A share of the changes of the commit after a cursor."""

    cursor: str
    part: DiffPart


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of a branch. Spark has one of them in the driver, and a copy in each task."""

    def __init__(self, following: ChangeStreamOptions) -> None:
        self._options = following
        self._until: str | None = None
        """The cursor at which an ``availableNow`` query stops."""

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Stop the query at the current head of the branch."""
        self._until = replace(self._options, start=NOW).follow(self._manifest, None).cursor

    def initialOffset(self) -> _Offset:  # noqa: N802  Spark's name
        """Return where a query without a checkpoint starts."""
        start = {} if self._options.start == BEGINNING else {_START: self._options.start}
        return {_CURSOR: self._follow(None).cursor, **start}

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: ARG002, N802  Spark's signature
        """Return the newest commit of the branch, or the start of the query as long as it is not fixed.

        With ``max_commits``, a batch ends after so many commits.
        """
        found = self._follow(start[_CURSOR])
        end = found.newest if self._until is None else self._until
        if _START in start:
            return {_CURSOR: start[_CURSOR]}
        limited: str | None = None
        for number, cursor in enumerate(found.cursors(), 1):
            limited = cursor if number == self._options.max_commits else limited
            if cursor == end:
                return {_CURSOR: limited or cursor}
        # The start may lie after the cursor at which an availableNow query stops.
        return {_CURSOR: start[_CURSOR]}

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """Divide the commits between two offsets into tasks. A commit that changed many rows becomes several."""
        if _START in start or start == end:
            return []
        before = [start[_CURSOR]]
        for after in self._follow(start[_CURSOR]).cursors():
            if after == end[_CURSOR]:
                # With many commits, a look at each of them would take this process longer than it saves the tasks.
                return self._split_rows(before) if len(before) <= _MAX_TASKS else _split_commits(before)
            before.append(after)
        raise ChangeGap(
            "a commit that this query has seen is no longer in the history",
            hint=f"the graph was restored to an older state; {BASELINE_HINT}",
        )

    def read(self, partition: InputPartition) -> Iterator[_Row]:
        """Read the changes of some commits, or a share of those of one commit."""
        if isinstance(partition, CommitPart):
            block = next(iter(self._follow(partition.cursor)))
            with block.report_gaps():
                yield from _to_rows(block, read_part_records(block.diff, partition.part))
            return
        commits = cast("CommitRange", partition)
        for block in islice(self._follow(commits.cursor), commits.count):
            yield from _to_rows(block, block.records())

    def _split_rows(self, cursors: Sequence[str]) -> list[InputPartition]:
        """Make a task of each commit after these cursors, or several of one that changed many rows."""
        found: list[InputPartition] = []
        blocks = islice(self._follow(cursors[0]), len(cursors))
        for cursor, block in zip(cursors, blocks, strict=True):
            parts = divide_diff(block.diff)
            is_large = len(parts) > len(block.diff.types)
            found += [CommitPart(cursor, part) for part in parts] if is_large else [CommitRange(cursor, 1)]
        return found

    def _follow(self, cursor: str | None) -> Changes:
        return self._options.follow(self._manifest, cursor)

    @cached_property
    def _manifest(self) -> Manifest:
        return self._options.open_manifest()


def _split_commits(cursors: Sequence[str]) -> list[CommitRange]:
    """Group the commits after these cursors into at most :data:`_MAX_TASKS` tasks."""
    size = -(-len(cursors) // _MAX_TASKS)
    return [CommitRange(cursors[at], len(cursors[at : at + size])) for at in range(0, len(cursors), size)]


def _to_rows(block: ChangeBlock, records: Iterator[dict[str, Json]]) -> Iterator[_Row]:
    commit = block.commit
    cause = (commit.id, list(commit.parents), commit.branch, commit.actor, commit.message, commit.created_at)
    return ((*cause, *to_change_row(record)) for record in records)


def to_change_row(record: Mapping[str, Json]) -> tuple[str | list[str] | None, ...]:
    """Convert a diff record to a row."""
    entity = (cast("str", record[name]) for name in ("op", "kind", "type", "id"))
    images = (_to_json(record[name]) for name in ("before", "after"))
    return (*entity, *images, cast("list[str]", record["changed"]))


def _to_json(image: Json) -> str | None:
    return None if image is None else orjson.dumps(image).decode()
