"""Where a result comes from, as trailers of a commit message, and the analyses that a branch has in its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

import orjson
import pyarrow as pa

from omnigraph.errors import HistoryGone, Json, NotFound
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.analysis_trailers import AnalysisTrailers, list_trailers
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import find_commit, take_snapshot
from omnigraph.manifest.rows import CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import compare_values, read_changes
from omnigraph.read.rows import value_columns_of
from omnigraph.storage.columns import column_of

_ENDS: Final = ("src", "dst")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result comes from: the algorithm with its parameters, the projection, and the engine."""

    algorithm: str
    parameters: Mapping[str, Json]
    projection: Mapping[str, Json]
    engine: str
    version: str

    def hash(self, column: str) -> str:
        """Return a short text that is the same for the same column of the same computation on any commit."""
        told = (self.algorithm, self.parameters, self.projection, column)
        return blake2b(orjson.dumps(told, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Analysis:
    """A result that was written to a branch, read back from its commit."""

    commit: Commit
    """The commit that wrote it; the merge that brought it if its branch was deleted since."""
    provenance: Provenance
    source: str
    """The commit that it was computed on."""
    written: tuple[str, ...]
    """What was written, such as ``Port.rank``."""
    is_stale: bool | None
    """Whether what it was computed on has changed since; None if its branch or its commit is gone."""

    def to_json(self) -> dict[str, Json]:
        """Return what the command line prints."""
        found = self.provenance
        return {
            "commit": self.commit.id,
            "written": list[Json](self.written),
            "algorithm": found.algorithm,
            "parameters": dict(found.parameters),
            "projection": dict(found.projection),
            "source": self.source,
            "engine": found.engine,
            "version": found.version,
            "created_at": self.commit.created_at.isoformat(),
            "is_stale": self.is_stale,
        }


def write_trailers(message: str | None, provenance: Provenance, source: str, written: Sequence[str]) -> str:
    """Return the message of a commit with the trailers below it."""
    made = provenance
    trailers = AnalysisTrailers(
        "", made.algorithm, made.parameters, made.projection, source, made.engine, made.version, tuple(written)
    )
    title = message or f"{made.algorithm}: {', '.join(written)}"
    return f"{title}\n\n{trailers.to_text()}"


# --------------------------------------------------------------------------------------------- the analyses of a branch


def list_analyses(manifest: Manifest, branch: str) -> list[Analysis]:
    """Return the newest analysis of everything that was written on a branch, or merged into it, newest first."""
    found: list[Analysis] = []
    for record, told in list_trailers(manifest.view(branch, with_lineage=True).history):
        commit = to_commit(_find_writer(manifest, branch, record, told.commit_id))
        made = Provenance(told.algorithm, told.parameters, told.projection, told.engine, told.version)
        found.append(
            Analysis(
                commit, made, told.source, told.written, _is_stale(manifest, commit, made, told.source, told.written)
            )
        )
    return found


def _find_writer(manifest: Manifest, branch: str, record: CommitRecord, commit_id: str) -> CommitRecord:
    """Return the commit that wrote a result; the merge that brought it if its branch was deleted since."""
    if record.id == commit_id:
        return record
    with suppress(NotFound):
        return find_commit(manifest, branch, commit_id)
    return record


def _is_stale(
    manifest: Manifest, commit: Commit, provenance: Provenance, source: str, written: Sequence[str]
) -> bool | None:
    """Whether the rows that a projection looks at are others on its branch now than where it was computed.

    Tables of the same version are not opened; of the others only rows that can differ are read, so that neither upkeep
    nor the commit of the analysis itself makes it stale.
    """
    projection = provenance.projection
    branch = str(projection.get("branch", commit.branch))
    with suppress(NotFound, HistoryGone):
        then, now = take_snapshot(manifest, branch, source), take_snapshot(manifest, branch)
        return any(_has_changed(key, then, now, projection, written) for key in _list_tables(projection))
    return None


def _list_tables(projection: Mapping[str, Json]) -> Iterator[str]:
    for kind, names in (("node", projection.get("nodes")), ("edge", projection.get("edges"))):
        for name in names if isinstance(names, list | dict) else ():
            yield TableKey.of(kind, str(name))


def _has_changed(
    key: str, then: Snapshot, now: Snapshot, projection: Mapping[str, Json], written: Sequence[str]
) -> bool:
    before, after = then.catalog().find_type(key), now.catalog().find_type(key)
    if before is None or after is None:
        return True
    if after.name in written and isinstance(after, EdgeType):
        # Its own edges.
        return False
    columns = _list_columns(after, projection, written)
    if not {*columns, *_ENDS}.issubset({*before.properties, *_ENDS}):
        return True
    return any(
        part.num_rows and (part.before is None or part.after is None or _differ(part.before, part.after, columns))
        for parts in read_changes(then, now, key, ["id", *columns])
        for part in parts
    )


def _list_columns(type_: NodeType | EdgeType, projection: Mapping[str, Json], written: Sequence[str]) -> list[str]:
    """Return the columns whose values matter: the ends and the weight of an edge, or all if there is a filter."""
    filters = projection.get("filters")
    if isinstance(filters, dict) and not {type_.name, str(type_.table_key)}.isdisjoint(filters):
        own = {each.partition(".")[2] for each in written if each.partition(".")[0] == type_.name}
        return [name for name in value_columns_of(type_) if name != "id" and name not in own]
    weight = projection.get("weight")
    return [*_ENDS, *([str(weight)] if weight is not None else [])] if isinstance(type_, EdgeType) else []


def _differ(before: pa.RecordBatch, after: pa.RecordBatch, columns: list[str]) -> bool:
    return any(not compare_values(column_of(before, name), column_of(after, name)).all() for name in columns)
