"""Where a result comes from, as trailers of a commit message, and the analyses that a branch has in its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, cast

import orjson

from omnigraph.errors import HistoryGone, Json, NotFound
from omnigraph.language.schema import TableKey
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, list_commits
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.snapshot import Snapshot

_NAMES: Final = ("Algorithm", "Parameters", "Projection", "Source", "Engine", "Version", "Written")
"""The trailers, one on each line at the end of a message."""


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
    """Return the newest analysis of everything that was written on a branch, newest first."""
    seen: set[str] = set()
    found: list[Analysis] = []
    for commit in list_commits(manifest, branch):
        trailers = read_trailers(commit.message)
        parsed = None if trailers is None else _parse_trailers(trailers)
        if trailers is None or parsed is None or seen.issuperset(written := trailers["Written"].split(", ")):
            continue
        seen.update(written)
        stale = _is_stale(manifest, commit, parsed, trailers["Source"], written)
        found.append(Analysis(commit, parsed, trailers["Source"], tuple(written), stale))
    return found


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
    """Whether a table of the projection has another version on its branch now than where it was computed.

    Its own commit, and the merge of it, changes the tables that it was written to: of those the rows are counted.
    """
    projection = provenance.projection
    branch = str(projection.get("branch", commit.branch))
    with suppress(NotFound, HistoryGone):
        then, now = take_snapshot(manifest, branch, source), take_snapshot(manifest, branch)
        own = {TableKey.of("node" if "." in each else "edge", each.partition(".")[0]) for each in written}
        return any(_differs(key, then, now, is_own=key in own) for key in _list_tables(projection))
    return None


def _list_tables(projection: Mapping[str, Json]) -> Iterator[str]:
    for kind, names in (("node", projection.get("nodes")), ("edge", projection.get("edges"))):
        for name in names if isinstance(names, list | dict) else ():
            yield TableKey.of(kind, str(name))


def _differs(key: str, then: Snapshot, now: Snapshot, *, is_own: bool) -> bool:
    before, after = then.pins.get(key), now.pins.get(key)
    if before is None or after is None:
        return before is not after
    if is_own:
        return before.row_count != after.row_count
    return (before.version, before.branch) != (after.version, after.branch)
