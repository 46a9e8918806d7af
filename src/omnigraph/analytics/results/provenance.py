"""Where a result comes from, as trailers of a commit message, and the analyses that a branch has in its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

import orjson
import pyarrow as pa

from omnigraph.errors import HistoryGone, Json, NotFound
from omnigraph.language.schema import EdgeType, NodeType, TableKey
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, list_ancestry
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import compare_values, read_changes
from omnigraph.read.rows import value_columns_of
from omnigraph.storage.columns import column_of

_NAMES: Final = ("Algorithm", "Parameters", "Projection", "Source", "Engine", "Version", "Written")
"""The trailers, one on each line at the end of a message."""


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


def write_trailers(message: str | None, provenance: Provenance, source: str, written: Iterable[str]) -> str:
    """Return the message of a commit with the trailers below it."""
    values = {
        "Algorithm": provenance.algorithm,
        "Parameters": _dump(provenance.parameters),
        "Projection": _dump(provenance.projection),
        "Source": source,
        "Engine": provenance.engine,
        "Version": provenance.version,
        "Written": ", ".join(written),
    }
    title = message or f"{provenance.algorithm}: {values['Written']}"
    return "\n".join([title, "", *(f"{name}: {values[name]}" for name in _NAMES)])


def _dump(value: Mapping[str, Json]) -> str:
    return orjson.dumps(value).decode()


def read_trailers(message: str | None) -> dict[str, str] | None:
    """Return the trailers of a message; None if it does not end with all of them."""
    lines = (message or "").rsplit("\n", len(_NAMES))[1:]
    parts = [line.partition(": ") for line in lines]
    found = {name: value for name, _, value in parts}
    return found if tuple(found) == _NAMES else None


# --------------------------------------------------------------------------------------------- the analyses of a branch


def list_analyses(manifest: Manifest, branch: str) -> list[Analysis]:
    """Return the newest analysis of everything that was written on a branch, or merged into it, newest first."""
    return [
        Analysis(commit, parsed, source, tuple(written), _is_stale(manifest, commit, parsed, source, written))
        for commit, parsed, source, written in _read_analyses(manifest, branch)
    ]


def list_written(manifest: Manifest, branch: str) -> set[str]:
    """Return the properties and edge types that analyses of a branch, or merged into it, wrote."""
    return {name for *_, written in _read_analyses(manifest, branch) for name in written}


def _read_analyses(manifest: Manifest, branch: str) -> Iterator[tuple[Commit, Provenance, str, list[str]]]:
    """Yield the commit, the provenance, the source and what was written of each such analysis, newest first."""
    seen: set[str] = set()
    # What was merged is written on this branch too.
    for commit in list_ancestry(manifest, branch, None):
        trailers = read_trailers(commit.message)
        parsed = None if trailers is None else _parse_trailers(trailers)
        if trailers is None or parsed is None or seen.issuperset(written := trailers["Written"].split(", ")):
            continue
        seen.update(written)
        yield commit, parsed, trailers["Source"], written


def _parse_trailers(trailers: Mapping[str, str]) -> Provenance | None:
    """Read back what was written; None if a person wrote something like it."""
    try:
        parameters = cast("Json", orjson.loads(trailers["Parameters"]))
        projection = cast("Json", orjson.loads(trailers["Projection"]))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parameters, dict) or not isinstance(projection, dict):
        return None
    return Provenance(trailers["Algorithm"], parameters, projection, trailers["Engine"], trailers["Version"])


def _is_stale(
    manifest: Manifest, commit: Commit, provenance: Provenance, source: str, written: list[str]
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


def _has_changed(key: str, then: Snapshot, now: Snapshot, projection: Mapping[str, Json], written: list[str]) -> bool:
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


def _list_columns(type_: NodeType | EdgeType, projection: Mapping[str, Json], written: list[str]) -> list[str]:
    """Return the columns whose values matter: the ends and the weight of an edge, or all if there is a filter."""
    filters = projection.get("filters")
    if isinstance(filters, dict) and not {type_.name, str(type_.table_key)}.isdisjoint(filters):
        own = {each.partition(".")[2] for each in written if each.partition(".")[0] == type_.name}
        return [name for name in value_columns_of(type_) if name != "id" and name not in own]
    weight = projection.get("weight")
    return [*_ENDS, *([str(weight)] if weight is not None else [])] if isinstance(type_, EdgeType) else []


def _differ(before: pa.RecordBatch, after: pa.RecordBatch, columns: list[str]) -> bool:
    return any(not compare_values(column_of(before, name), column_of(after, name)).all() for name in columns)
