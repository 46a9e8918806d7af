"""The lines at the end of a commit message that say from where the result of an algorithm comes.

A merge repeats those of the results that it brings, because the commits of a branch are gone once it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import orjson

from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.lineage import Lineage
from omnigraph.manifest.rows import CommitRecord

_NAMES: Final = ("Algorithm", "Parameters", "Projection", "Source", "Engine", "Version", "Written")
_MERGED: Final = "Merged"
"""In the message of a merge: the commit that wrote the result."""
_MARK: Final = r"\nWritten: "
"""How such a message looks in the JSON of its row."""


@dataclass(frozen=True, slots=True)
class AnalysisTrailers:
    """Where one result comes from, and the commit that wrote it."""

    commit_id: str
    algorithm: str
    parameters: Mapping[str, Json]
    projection: Mapping[str, Json]
    source: str
    """The commit that it was computed on."""
    engine: str
    version: str
    written: tuple[str, ...]
    """What was written, such as ``Port.rank``."""

    def to_json(self) -> dict[str, Json]:
        """Return the fields of a commit in JSON."""
        return {
            "commit": self.commit_id,
            "written": list[Json](self.written),
            "algorithm": self.algorithm,
            "parameters": dict(self.parameters),
            "projection": dict(self.projection),
            "source": self.source,
            "engine": self.engine,
            "version": self.version,
        }

    def to_text(self) -> str:
        """Return the lines."""
        parameters, projection = (orjson.dumps(each).decode() for each in (self.parameters, self.projection))
        written = ", ".join(self.written)
        values = (self.algorithm, parameters, projection, self.source, self.engine, self.version, written)
        return "\n".join(f"{name}: {value}" for name, value in zip(_NAMES, values, strict=True))


def append_merged(message: str, merged: Iterable[AnalysisTrailers]) -> str:
    """Return the message of a merge with the trailers of what it brings."""
    return "\n\n".join([message, *(f"{_MERGED}: {each.commit_id}\n{each.to_text()}" for each in merged)])


def list_trailers(
    history: Lineage, upto: CommitRecord | None = None
) -> Iterator[tuple[CommitRecord, AnalysisTrailers]]:
    """Yield the newest result of everything that was written or merged, until a commit: newest first."""
    seen: set[str] = set()
    for commit, found in _list_all(history, upto):
        if not seen.issuperset(found.written):
            seen.update(found.written)
            yield commit, found


def list_writers(
    history: Lineage, name: str, upto: CommitRecord | None = None
) -> Iterator[tuple[CommitRecord, AnalysisTrailers]]:
    """Yield all results that were written to one property or edge type, or merged, until a commit: newest first."""
    return ((commit, found) for commit, found in _list_all(history, upto) if name in found.written)


def _list_all(history: Lineage, upto: CommitRecord | None) -> Iterator[tuple[CommitRecord, AnalysisTrailers]]:
    """Yield all results. Only the commits that may have trailers are decoded."""
    for commit in history.list_by_metadata(_MARK):
        if upto is None or commit.order <= upto.order:
            yield from ((commit, found) for found in read_trailers(commit.id, commit.message))


def read_trailers(commit_id: str, message: str | None) -> list[AnalysisTrailers]:
    """Return the trailers at the end of a message: one paragraph, or in a merge one for each result."""
    found: list[AnalysisTrailers] = []
    for paragraph in reversed((message or "").split("\n\n")[1:]):
        parsed = _parse_trailers(paragraph, commit_id)
        if parsed is None:
            break
        found.append(parsed)
    return found[::-1]


def _parse_trailers(paragraph: str, commit_id: str) -> AnalysisTrailers | None:
    """Return what a paragraph says; None if a person wrote something like it."""
    values = {name: value for name, _, value in (line.partition(": ") for line in paragraph.split("\n"))}
    writer = values.pop(_MERGED, commit_id)
    if tuple(values) != _NAMES:
        return None
    try:
        parameters = cast("Json", orjson.loads(values["Parameters"]))
        projection = cast("Json", orjson.loads(values["Projection"]))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(parameters, dict) or not isinstance(projection, dict):
        return None
    return AnalysisTrailers(
        writer,
        values["Algorithm"],
        parameters,
        projection,
        values["Source"],
        values["Engine"],
        values["Version"],
        tuple(values["Written"].split(", ")),
    )
