"""Fills missing vectors of ``@embed`` properties from their source texts, and makes outdated ones again if asked to.

Only rows without a vector are read, and those with an outdated one, so an interrupted run continues where it stopped.
The provider is called before anything is written. A row whose text or vector others changed meanwhile is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.defaults import TEXTS_PER_EMBEDDING_CALL
from omnigraph.errors import EmbeddingError, Json, NotFound, ParameterError
from omnigraph.language.schema import Embedding, NodeType, Property, Schema
from omnigraph.language.source import suggest_name
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import compare_values
from omnigraph.read.rows import open_type_rows
from omnigraph.read.search import Embedder, EmbeddingSettings, Vectors, create_embedder, resolve_embedding_settings
from omnigraph.storage.arrow_schema import arrow_field
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.storage.filters import NullCondition, ValueCondition, ValueIn
from omnigraph.storage.tables import split_for_filters
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    PreparedWrite,
    WriterKind,
    begin_write,
    commit_operation,
    refuse_repeated,
)
from omnigraph.write.executor import Executor
from omnigraph.write.mutation import StagingArea
from omnigraph.write.outdated_vectors import find_outdated_ids

_MAX_NAMED: Final = 5
_MAX_IDS: Final = 100
"""How many rows an error names in its message, and in its details."""


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """The number of embedded rows by property, and the commits.

    ``skipped`` counts the rows that others changed while their texts were embedded.
    """

    type: str
    branch: str
    embedded: Mapping[str, int]
    skipped: int
    commits: tuple[Commit, ...]

    def add(self, embedded: Mapping[str, int], texts: int, commits: tuple[Commit, ...]) -> EmbedResult:
        """Return the sum of this result and one more commit."""
        total = {name: count + embedded.get(name, 0) for name, count in self.embedded.items()}
        skipped = self.skipped + texts - sum(embedded.values())
        return replace(self, embedded=total, skipped=skipped, commits=self.commits + commits)


@dataclass(frozen=True, slots=True)
class EmbedTarget:
    """A vector property and its ``@embed`` declaration."""

    type: NodeType
    vector: Property
    embedding: Embedding

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        assert self.vector.type.dimension is not None
        return self.vector.type.dimension


def embed(
    manifest: Manifest,
    schema: Schema,
    type_name: str,
    options: CommitOptions | None = None,
    *,
    settings: EmbeddingSettings | None = None,
    batch: int = TEXTS_PER_EMBEDDING_CALL,
    commit_each: bool = False,
    changed_since: str | None = None,
) -> EmbedResult:
    """Fill the missing vectors of a node type, in one commit or in one for each batch of texts.

    With ``changed_since`` also those whose texts changed after that commit, tag or time.
    """
    if batch < 1:
        raise ParameterError(f"batch is {batch}", hint="give 1 or more")
    options = begin_write(manifest, options or CommitOptions(MAIN))
    options = replace(options, schema_ir_hash=schema.hash, message=options.message or f"embed {type_name}")
    if options.key is not None and commit_each:
        raise ParameterError("a key belongs to one commit", hint="leave out the key, or commit_each")
    targets = _find_targets(schema, type_name)
    # Before anything is read: wrong settings are an error even if no vector is missing.
    embedders = [create_embedder(settings, target.embedding.model) for target in targets]
    result = EmbedResult(type_name, options.branch, {target.vector.name: 0 for target in targets}, 0, ())
    try:
        # Before any text is sent to the provider.
        refuse_repeated(manifest, options)
    except AlreadyCommitted as earlier:
        return result.add({}, 0, (to_commit(earlier.commit),))
    outdated = _find_outdated(manifest, options.branch, targets, changed_since)
    snapshot = take_snapshot(manifest, options.branch)
    filled = (
        piece
        for target, embedder in zip(targets, embedders, strict=True)
        for piece in _embed_waiting(
            _scan_waiting(target, snapshot, batch, outdated[target.vector.name]),
            target,
            embedder,
            whole=not commit_each,
        )
    )
    for pieces in ((piece,) for piece in filled) if commit_each else (tuple(filled),):
        done = commit_operation(manifest, EmbedOperation(pieces), options)
        made = () if done.commit is None else (to_commit(done.commit),)
        result = result.add(done.outcome, sum(piece.rows.num_rows for piece in pieces), made)
    return result


def _find_targets(schema: Schema, type_name: str) -> list[EmbedTarget]:
    type_ = schema.catalog.nodes.get(type_name)
    if type_ is None:
        hint = suggest_name(type_name, schema.catalog.nodes, "node types")
        raise NotFound(f"no node type '{type_name}' in the schema", hint=hint, details={"type": type_name})
    found = [
        EmbedTarget(type_, each, each.embedding) for each in type_.properties.values() if each.embedding is not None
    ]
    if not found:
        hint = 'declare one in the schema, such as gist: Vector(384)? @embed("title")'
        raise ParameterError(f"{type_name} has no property with @embed", hint=hint)
    return found


# --------------------------------------------------------------------------------------------- texts to vectors


@dataclass(frozen=True, slots=True)
class EmbeddedRows:
    """Vectors with the id of their row and the text that they were made from."""

    target: EmbedTarget
    rows: pa.Table


def _embed_waiting(
    waiting: Iterable[pa.Table], target: EmbedTarget, embedder: Embedder, *, whole: bool
) -> Iterator[EmbeddedRows]:
    """Embed the texts of batches of rows; yield the vectors of each batch, or of all batches together."""
    pieces: list[pa.Table] = []
    for rows in waiting:
        texts = [str(text) for text in to_list(column_of(rows, "text"))]
        try:
            vectors = embedder.vectors(texts, target.dimension)
        except EmbeddingError as error:
            message = f"{error.message}; {_name_rows(target, rows)}"
            raise EmbeddingError(message, hint=error.hint, details={**error.details, "ids": _list_ids(rows)}) from error
        pieces.append(rows.append_column("vector", _to_column(vectors, target.dimension)))
        if not whole:
            yield EmbeddedRows(target, pieces.pop())
    if pieces:
        yield EmbeddedRows(target, pa.concat_tables(pieces))


def _to_column(vectors: Vectors, dimension: int) -> Values:
    flat = pa.array(vectors.reshape(-1), pa.float32())
    return cast("Values", pa.FixedSizeListArray.from_arrays(flat, dimension))


def _find_outdated(
    manifest: Manifest, branch: str, targets: Sequence[EmbedTarget], since: str | None
) -> Mapping[str, pa.StringArray]:
    """Return the ids of rows with an outdated vector, by property."""
    return {
        each.vector.name: pa.array([], pa.string())
        if since is None
        else find_outdated_ids(manifest, branch, each.type, each.vector.name, each.embedding.source, since)
        for each in targets
    }


def _scan_waiting(target: EmbedTarget, snapshot: Snapshot, batch: int, outdated: pa.StringArray) -> Iterator[pa.Table]:
    """Scan the ids, texts and vectors of rows without a vector, or with an outdated one, in batches.

    Blank texts are left out.
    """
    source, vector = target.embedding.source, target.vector.name
    has_text = ValueCondition(source, target.type.properties[source].type, None)
    has_vector = ValueCondition(vector, target.vector.type, None)
    conditions = [[NullCondition(vector), has_text]]
    conditions += [
        [ValueIn(("id",), cast("pa.StringArray", each)), has_text, has_vector]
        for each in split_for_filters(cast("Values", outdated))
    ]
    rows_of_type = open_type_rows(snapshot, target.type)
    for piece in (piece for each in conditions for piece in rows_of_type.read(["id", source, vector], each)):
        rows = pa.Table.from_batches([piece]).rename_columns(["id", "text", "before"])
        blank = compute("equal", compute("utf8_trim_whitespace", column_of(rows, "text")), "")
        rows = rows.take(find_true(compute("invert", blank)))
        for begin in range(0, rows.num_rows, batch):
            yield rows.slice(begin, batch)


# --------------------------------------------------------------------------------------------- in tasks


@dataclass(frozen=True, slots=True)
class EmbedPace:
    """How a large run proceeds: how many texts a commit has, how many may be sent at all, and how fast."""

    texts_per_commit: int = 10_000
    max_texts: int | None = None
    calls_per_second: float | None = None
    """For each process that runs tasks."""

    def __post_init__(self) -> None:
        given = (self.texts_per_commit, self.max_texts, self.calls_per_second)
        names = ("texts_per_commit", "max_texts", "calls_per_second")
        wrong = [
            f"{name} is {value}" for name, value in zip(names, given, strict=True) if value is not None and value <= 0
        ]
        if wrong:
            raise ParameterError("; ".join(wrong), hint="give a number above 0")


@dataclass(frozen=True, slots=True)
class _FailedCall:
    """What a provider answered instead of vectors. It is no exception: a task that raises would be run again."""

    message: str
    hint: str | None


def embed_in_tasks(
    manifest: Manifest,
    schema: Schema,
    type_name: str,
    options: CommitOptions,
    executor: Executor,
    pace: EmbedPace,
    *,
    settings: EmbeddingSettings | None = None,
    batch: int = TEXTS_PER_EMBEDDING_CALL,
    changed_since: str | None = None,
) -> EmbedResult:
    """Fill the missing vectors of a node type: tasks call the provider, and every so many texts there is a commit.

    If a call fails, the vectors of all others are committed before the error is raised, and the next run goes on.
    """
    if batch < 1:
        raise ParameterError(f"batch is {batch}", hint="give 1 or more")
    options = replace(options, schema_ir_hash=schema.hash, message=options.message or f"embed {type_name}")
    targets = _find_targets(schema, type_name)
    for target in targets:
        create_embedder(settings, target.embedding.model)
    sent = resolve_embedding_settings(settings)
    result = EmbedResult(type_name, options.branch, {target.vector.name: 0 for target in targets}, 0, ())
    outdated = _find_outdated(manifest, options.branch, targets, changed_since)
    snapshot = take_snapshot(manifest, options.branch)
    left = pace.max_texts
    for target in targets:
        waiting = _scan_waiting(target, snapshot, batch, outdated[target.vector.name])
        task = partial(_call_provider, sent, target.embedding.model, target.dimension, pace.calls_per_second)
        while batches := list(islice(waiting, max(1, pace.texts_per_commit // batch))):
            batches = _keep_within(batches, left)
            if not batches:
                break
            answers = executor.run(task, [[str(text) for text in to_list(column_of(rows, "text"))] for rows in batches])
            pieces = [
                rows.append_column("vector", _to_column(answer, target.dimension))
                for rows, answer in zip(batches, answers, strict=True)
                if not isinstance(answer, _FailedCall)
            ]
            count = sum(rows.num_rows for rows in pieces)
            left = None if left is None else left - count
            if pieces:
                operation = EmbedOperation((EmbeddedRows(target, pa.concat_tables(pieces)),))
                done = commit_operation(manifest, operation, options)
                made = () if done.commit is None else (to_commit(done.commit),)
                result = result.add(done.outcome, count, made)
            _raise_first(target, batches, answers, result)
    return result


def _keep_within(batches: list[pa.Table], left: int | None) -> list[pa.Table]:
    """Return batches with no more texts than the budget has left."""
    if left is None:
        return batches
    kept: list[pa.Table] = []
    for rows in batches:
        kept.append(rows.slice(0, left))
        left -= kept[-1].num_rows
    return [rows for rows in kept if rows.num_rows]


def _raise_first(
    target: EmbedTarget, batches: Sequence[pa.Table], answers: Sequence[Vectors | _FailedCall], result: EmbedResult
) -> None:
    failed = [(rows, each) for rows, each in zip(batches, answers, strict=True) if isinstance(each, _FailedCall)]
    if failed:
        rows, first = failed[0]
        raise EmbeddingError(
            f"{len(failed)} of {len(answers)} calls failed: {first.message}; {_name_rows(target, rows)}",
            hint=first.hint or "run it again: what is committed is not sent again",
            details={
                "embedded": dict(result.embedded),
                "commits": [each.id for each in result.commits],
                "ids": _list_ids(rows),
            },
        )


def _list_ids(rows: pa.Table) -> list[Json]:
    return [str(each) for each in to_list(column_of(rows.slice(0, _MAX_IDS), "id"))]


def _name_rows(target: EmbedTarget, rows: pa.Table) -> str:
    """Say whose texts were sent together: one of them may be what the provider refuses."""
    named = ", ".join(str(each) for each in _list_ids(rows)[:_MAX_NAMED])
    more = rows.num_rows - _MAX_NAMED
    others = f" and {more:,} more" if more > 0 else ""
    return f"it was sent '{target.embedding.source}' of {target.type.name} {named}{others}"


@lru_cache(maxsize=8)
def _open_embedder(settings: EmbeddingSettings, model: str | None) -> Embedder:
    return create_embedder(settings, model)


_LAST_CALL: Final = {"at": float("-inf")}
"""When this process called a provider last, by its own clock."""


def _call_provider(
    settings: EmbeddingSettings, model: str | None, dimension: int, calls_per_second: float | None, texts: list[str]
) -> Vectors | _FailedCall:
    """Task: embed some texts, not before the turn of this process."""
    if calls_per_second is not None:
        time.sleep(max(0.0, _LAST_CALL["at"] + 1 / calls_per_second - time.monotonic()))
        _LAST_CALL["at"] = time.monotonic()
    try:
        return _open_embedder(settings, model).vectors(texts, dimension)
    except EmbeddingError as error:
        return _FailedCall(error.message, error.hint)


# --------------------------------------------------------------------------------------------- vectors to rows


@dataclass(frozen=True, slots=True)
class EmbedOperation:
    """Sets vectors of rows that still have the text and the vector that was there, if any.

    The outcome is their number by property.
    """

    pieces: tuple[EmbeddedRows, ...]
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[Mapping[str, int]]:
        """Set the vectors in the rows of the snapshot. No rule applies to vectors of a provider."""
        staging = StagingArea(snapshot)
        counts: dict[str, int] = {}
        for piece in self.pieces:
            ids = cast("pa.StringArray", column_of(piece.rows, "id"))
            rows = _set_vectors(staging.read_matching(piece.target.type, ValueIn(("id",), ids)), piece)
            counts[piece.target.vector.name] = rows.num_rows
            if rows.num_rows:
                staging.table(piece.target.type).upsert(rows)
        return PreparedWrite(
            tuple(table.to_change() for table in staging.list_changed()), frozenset(staging.reads), counts
        )


def _set_vectors(rows: pa.Table, piece: EmbeddedRows) -> pa.Table:
    """Return the rows that still have the same text, and the same vector or none, with the new vector set."""
    declared = piece.target.vector
    among = pc.SetLookupOptions(column_of(piece.rows, "id"))
    filled = piece.rows.take(compute("index_in", column_of(rows, "id"), options=among).to_numpy())
    stored = column_of(rows, declared.name)
    has_its_vector = compare_values(stored, column_of(filled, "before").cast(stored.type))
    has_its_text = compare_values(column_of(rows, piece.target.embedding.source), column_of(filled, "text"))
    kept = np.flatnonzero(has_its_vector & has_its_text)
    field = arrow_field(declared.name, declared.type)
    vectors = column_of(filled, "vector").take(kept).cast(field.type)
    return rows.take(kept).set_column(rows.column_names.index(declared.name), field, vectors)
