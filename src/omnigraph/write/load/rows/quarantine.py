"""Rejected records: collect their violations for one error, or write them to a file for correction."""

from __future__ import annotations

import base64
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, cast, runtime_checkable

import orjson
import pyarrow as pa
from ulid import ULID

from omnigraph.errors import AlreadyExists, KeyConflict, ParameterError, StorageError, ValidationError, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar
from omnigraph.read.rows import INLINE_PREFIX, PUBLIC_NAMES, BlobValue
from omnigraph.storage.columns import column_of, compute, to_bool_array, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.location import Location, locate, strip_file_scheme
from omnigraph.storage.objects import Objects
from omnigraph.violation_groups import Locate, ViolationCounts, ViolationGroup, sort_violation_groups
from omnigraph.write.load.rows.partial_rows import Mask, unpack_given
from omnigraph.write.load.rows.rejects_file import (
    PARQUET_SUFFIX,
    RejectsLine,
    encode_rejects_line,
    read_rejects_lines,
    write_rejects_parquet,
)
from omnigraph.write.load.rows.validation import RejectedRecord

MAX_VIOLATIONS: Final = 100
NO_TYPE: Final = "unknown"
"""Stands for the table of rejected records whose type is not known, such as a line that is not JSON."""


class RejectSink(Protocol):
    """Receives each rejected record while the input is read."""

    def take(self, rejected: RejectedRecord) -> None:
        """Receive one rejected record."""
        ...


class ViolationCollector:
    """Collects the first violations to report them together, and counts all."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.violations: list[Violation] = []
        self.counts = ViolationCounts()
        self.locate: Locate | None = None
        """Completes the place of a violation that was counted."""

    def take(self, rejected: RejectedRecord) -> None:
        """Collect the violations of a record."""
        for each in rejected.violations:
            self.counts.add(each)
            if self._limit is None or len(self.violations) < self._limit:
                self.violations.append(each)

    def to_error(self, others: Iterable[Violation] = (), groups: Iterable[ViolationGroup] = ()) -> ValidationError:
        """Return an error with all collected violations and ``others``, which are in ``groups``."""
        found = [*self.violations, *others][: self._limit]
        return build_load_error(found, [*self.counts.to_groups(self.locate), *groups])


def build_load_error(
    violations: Iterable[Violation],
    groups: Iterable[ViolationGroup],
    kind: type[ValidationError] = ValidationError,
) -> ValidationError:
    """Build the error of a load that changed nothing. Violations are sorted by file and line."""
    found = sorted(violations, key=_sort_key)
    ordered = sort_violation_groups(groups)
    first, count = found[0], sum(each.count for each in ordered)
    position = f"{first.file or 'record'}:{first.line}: " if first.line is not None else ""
    others = f" (and {count - 1:,} more)" if count > 1 else ""
    hint = 'nothing was loaded; correct the records, or load the others with on_error="quarantine"'
    if kind is KeyConflict or any(each.rule.startswith("@key(") for each in found):
        hint = 'nothing was loaded; mode="merge" changes what exists, on_error="quarantine" loads the others'
    error = kind(f"{position}{first.message}{others}", found, hint=hint, groups=ordered)
    error.details["more"] = count > len(found)
    return error


def _sort_key(violation: Violation) -> tuple[bool, str, int, str, str]:
    """The sort key of a violation. Rows that were already in the graph have no line and come last."""
    return (
        violation.line is None,
        violation.file or "",
        violation.line or 0,
        violation.type,
        violation.id or "",
    )


# --------------------------------------------------------------------------------------------- the file


class RejectedPart(Protocol):
    """Rows of a load that are rejected after they were read. A delivery knows the parts that its engine makes."""

    @property
    def count(self) -> int:
        """How many rows are rejected."""
        ...


@runtime_checkable
class RecordedPart(RejectedPart, Protocol):
    """Rejected rows that this process formats as records."""

    def to_records(self) -> Iterator[RejectedRecord]:
        """Yield each row as a record with its violations."""
        ...


class RejectDelivery(Protocol):
    """Holds the rejected records of a load until they are delivered to their file."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rejected records so far, by table key; :data:`NO_TYPE` for those of no known type."""
        ...

    def deliver(self, more: Iterable[RejectedPart]) -> str:
        """Write them and ``more`` to their file and return its path. A later delivery replaces an earlier one."""
        ...


class Quarantine:
    """Spools rejected records to a local file and finally writes them to the target, as Parquet if it is named so."""

    def __init__(self, spool_file: Path, target: RejectsTarget) -> None:
        self._spool_file = spool_file
        self._target = target
        self._file = spool_file.open("wb")
        self.counts: Counter[str] = Counter()

    def take(self, rejected: RejectedRecord) -> None:
        """Spool one rejected record."""
        self._file.write(encode_rejects_line(to_rejects_line(rejected)))
        self.counts[table_key_of(rejected)] += 1

    def deliver(self, more: Iterable[RejectedPart]) -> str:
        """Write everything that was spooled, and ``more``, to the target. Replaces an earlier delivery."""
        self._file.flush()
        complete = self._spool_file.with_suffix(".whole")
        shutil.copyfile(self._spool_file, complete)
        with complete.open("ab") as file:
            for part in more:
                assert isinstance(part, RecordedPart)
                file.writelines(encode_rejects_line(to_rejects_line(each)) for each in part.to_records())
        if not self._target.name.endswith(PARQUET_SUFFIX):
            return self._target.put(complete)
        rows = self._spool_file.with_suffix(PARQUET_SUFFIX)
        write_rejects_parquet(rows, read_rejects_lines(complete))
        return self._target.put(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def table_key_of(rejected: RejectedRecord) -> str:
    """Return the table that a rejected record was meant for; :data:`NO_TYPE` if its type is not known."""
    return str(rejected.violations[0].table_key or NO_TYPE)


def to_rejects_line(rejected: RejectedRecord) -> RejectsLine:
    """Convert a rejected record to its line in the file. Its first violation gives the position and the rule."""
    first = rejected.violations[0]
    return RejectsLine(
        record=rejected.record,
        file=first.file,
        line=first.line,
        type=first.type,
        id=first.id,
        rule=first.rule,
        message="; ".join(violation.message for violation in rejected.violations),
        table_key=first.table_key,
    )


class RejectsTarget(Protocol):
    """Where the file of rejected records is written. It pickles."""

    @property
    def name(self) -> str:
        """The name of the file: its end says the format, where there is a choice."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes that read the graph can write the file too."""
        ...

    def put(self, file: Path) -> str:
        """Write the file there and return its path."""
        ...


class _FileTarget:
    def __init__(self, path: Path, *, is_shared: bool) -> None:
        self._path = path
        self._absolute = path.absolute()
        self.name = path.name
        self.is_shared = is_shared

    def put(self, file: Path) -> str:
        try:
            self._absolute.parent.mkdir(parents=True, exist_ok=True)
            # Copy, then rename, so that nobody reads a partial file.
            temporary = self._absolute.with_name(f".{self._path.name}.{ULID()}")
            shutil.copyfile(file, temporary)
            temporary.replace(self._absolute)
        except OSError as error:
            raise StorageError(f"the rejected records cannot be written to '{self._path}': {error}") from error
        return str(self._path)


class _ObjectTarget:
    is_shared = True

    def __init__(self, folder: Location, name: str) -> None:
        self._folder = folder
        self.name = name

    def put(self, file: Path) -> str:
        Objects(self._folder).put(self.name, file.read_bytes())
        return f"{self._folder.uri}/{self.name}"


def choose_rejects_target(graph: Location, rejects: str | Path | None, suffix: str = ".jsonl") -> RejectsTarget:
    """Return the requested file, or a new one in a folder next to the graph. A file inside the graph is refused."""
    if rejects is not None:
        place = locate(rejects, dict(graph.storage_options), subject="rejects")
        if not place.is_local:
            return _check_rejects_object(graph, place)
        path = Path(strip_file_scheme(rejects) if isinstance(rejects, str) else rejects)
        # Who reads a graph in a local folder is on this machine.
        return _FileTarget(_check_rejects_path(graph, path), is_shared=graph.is_local)
    name = f"{ULID()}{suffix}"
    folder = graph.sibling("rejects")
    return _FileTarget(Path(folder.base) / name, is_shared=True) if graph.is_local else _ObjectTarget(folder, name)


def _check_rejects_path(graph: Location, path: Path) -> Path:
    if graph.is_local and path.resolve().is_relative_to(Path(graph.base).resolve()):
        raise ParameterError(f"rejects is '{path}', inside the graph", hint="choose a file outside of it")
    if path.exists():
        raise AlreadyExists(f"'{path}' exists already", hint="choose another file for the rejected records")
    return path


def _check_rejects_object(graph: Location, place: Location) -> RejectsTarget:
    folder, slash, name = place.base.rpartition("/")
    if not slash:
        raise ParameterError(f"rejects is '{place}', a bucket", hint="name a file in it")
    if not graph.is_local and f"{place.base}/".startswith(f"{graph.base}/"):
        raise ParameterError(f"rejects is '{place}', inside the graph", hint="choose a file outside of it")
    parent = replace(place, uri=f"s3://{folder}", scheme="s3", base=folder, query="")
    if Objects(parent).head(name) is not None:
        raise AlreadyExists(f"'{place}' exists already", hint="choose another file for the rejected records")
    return _ObjectTarget(parent, name)


# --------------------------------------------------------------------------------------------- rows as records


def format_records(type_: NodeType | EdgeType, rows: pa.Table, *, with_id: Mask) -> list[str]:
    """Format rows of a table as the records that would load them; of an update, what its records mention."""
    columns = {name: _to_json_values(type_, rows, name) for name in ("id", *type_.properties)}
    given = {"id": with_id} | (
        unpack_given(type_, rows)
        if InternalColumn.GIVEN in rows.column_names
        else {name: to_bool_array(compute("is_valid", column_of(rows, name))) for name in rows.column_names[1:]}
    )
    ends = {name: to_list(column_of(rows, name)) for name in PUBLIC_NAMES} if isinstance(type_, EdgeType) else {}
    kind = "edge" if isinstance(type_, EdgeType) else "type"
    return [
        orjson.dumps(
            {
                kind: type_.name,
                **{PUBLIC_NAMES[name]: values[row] for name, values in ends.items() if given[name][row]},
                "data": {name: values[row] for name, values in columns.items() if given[name][row]},
            }
        ).decode()
        for row in range(rows.num_rows)
    ]


def _to_json_values(type_: NodeType | EdgeType, rows: pa.Table, name: str) -> list[object]:
    values = column_of(rows, name)
    scalar = type_.properties[name].type.scalar if name in type_.properties else Scalar.STRING
    is_list = pa.types.is_list(values.type)
    if scalar is Scalar.DATETIME:
        values = values.cast(pa.list_(pa.int64()) if is_list else pa.int64())
    elif scalar is Scalar.DATE:
        values = values.cast(pa.list_(pa.string()) if is_list else pa.string())
    found = to_list(values)
    return [_format_blob(cast("BlobValue | None", value)) for value in found] if scalar is Scalar.BLOB else found


def _format_blob(blob: BlobValue | None) -> str | None:
    if blob is None or blob["data"] is None:
        return None if blob is None else blob["uri"]
    return INLINE_PREFIX + base64.b64encode(blob["data"]).decode()
