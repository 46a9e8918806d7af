"""Every Lance operation that Python can stage, on one small table of two fragments.

The table has the columns ``id``, ``v`` and ``w``, fragment 0 with the rows a and b, fragment 1 with c and d.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, cast
from uuid import uuid4

import lance
import pyarrow as pa
from lance import fragment as lance_fragment
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata
from lance.optimize import Compaction
from lance.schema import LanceSchema

Operation: TypeAlias = LanceOperation.BaseOperation
Stage: TypeAlias = Callable[[LanceDataset], Operation]

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64()), pa.field("w", pa.int64())])


class Outcome(StrEnum):
    """What becomes of the second of two operations that were staged on the same version."""

    COMPATIBLE = "compatible"
    REBASED = "rebased"
    RETRYABLE = "retryable"
    INCOMPATIBLE = "incompatible"


def rows(ids: str, v: int = 1) -> pa.Table:
    """One row for each letter."""
    return pa.table({"id": list(ids), "v": [v] * len(ids), "w": [2] * len(ids)}, schema=SCHEMA)


def two_fragments(folder: Path) -> LanceDataset:
    dataset = lance.write_dataset(rows("ab"), str(folder), data_storage_version="2.2", enable_stable_row_ids=True)
    return lance.write_dataset(rows("cd"), dataset, mode="append")


def write(dataset: LanceDataset, data: pa.Table) -> list[FragmentMetadata]:
    return lance_fragment.write_fragments(data, dataset)


def appending(ids: str) -> Stage:
    return lambda dataset: LanceOperation.Append(write(dataset, rows(ids)))


def deleting(fragment_id: int, ident: str) -> Stage:
    def stage(dataset: LanceDataset) -> Operation:
        fragment = dataset.get_fragment(fragment_id)
        assert fragment is not None
        left = fragment.delete(f"id = '{ident}'")
        assert left is not None
        return LanceOperation.Delete([left], [], f"id = '{ident}'")

    return stage


def updating(ids: str) -> Stage:
    def stage(dataset: LanceDataset) -> Operation:
        builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return cast("tuple[Transaction, object]", builder.execute_uncommitted(rows(ids, v=7)))[0].operation

    return stage


def overwriting(dataset: LanceDataset) -> Operation:
    return LanceOperation.Overwrite(SCHEMA, write(dataset, rows("xy")))


def indexing(column: str) -> Stage:
    def stage(dataset: LanceDataset) -> Operation:
        built = dataset.create_index_uncommitted(column, "BTREE", name=f"{column}_idx", fragment_ids=[0, 1])
        return LanceOperation.CreateIndex([built], [])

    return stage


def rewriting(dataset: LanceDataset) -> Operation:
    """Both fragments as one. Its id is far above any that another operation could take."""
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    groups: list[LanceOperation.RewriteGroup] = []
    for result in results:
        for fragment in result.new_fragments:
            fragment.id = 1000
        olds = [fragment.metadata for fragment in dataset.get_fragments()]
        groups.append(LanceOperation.RewriteGroup(olds, result.new_fragments))
    return LanceOperation.Rewrite(groups, [])


def merging(*, preserves_nullability: bool) -> Stage:
    """A new column ``x``."""

    def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["v"]).rename_columns(["x"])

    def stage(dataset: LanceDataset) -> Operation:
        merged = [fragment.merge_columns(copied, columns=["v"]) for fragment in dataset.get_fragments()]
        return LanceOperation.Merge([fragment for fragment, _ in merged], merged[0][1], preserves_nullability)

    return stage


def projecting(*, preserves_nullability: bool) -> Stage:
    """Without the last column, ``w``; a schema made anew numbers its fields from 0, as the table's do."""

    def stage(dataset: LanceDataset) -> Operation:
        schema = LanceSchema.from_pyarrow(dataset.schema.remove(2))
        return LanceOperation.Project(schema, preserves_nullability)

    return stage


def restoring(_: LanceDataset) -> Operation:
    return LanceOperation.Restore(1)


def configuring(key: str) -> Stage:
    return lambda _: LanceOperation.UpdateConfig(config_updates=LanceOperation.UpdateMap({key: uuid4().hex}))


def replacing(fragment_id: int, column: str) -> Stage:
    """New values for one column of one fragment."""

    def stage(dataset: LanceDataset) -> Operation:
        name = f"{uuid4().hex}.lance"
        values = pa.record_batch({column: pa.array([9, 9], pa.int64())})
        with LanceFileWriter(f"{dataset.uri}/data/{name}", values.schema, version="2.2") as writer:
            writer.write_batch(values)
        group = LanceOperation.DataReplacementGroup(fragment_id, DataFile.create(dataset, name))
        return LanceOperation.DataReplacement([group])

    return stage


def commit(dataset: LanceDataset, operation: Operation, max_retries: int = 20) -> LanceDataset:
    """Commit on the version of the handle, as its reader saw it."""
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=max_retries)


def outcome(folder: Path, first: Stage, second: Stage) -> Outcome:
    """Stage both on one version, commit the first, and see what the second meets."""
    dataset = two_fragments(folder)
    winner, loser = first(dataset), second(dataset)
    commit(dataset, winner)
    try:
        landed = commit(dataset, loser)
    except CommitConflictError as conflict:
        return Outcome.RETRYABLE if conflict.retryable else Outcome.INCOMPATIBLE
    assert landed.version == dataset.version + 2
    return Outcome.REBASED if _deletions(landed, loser) != _staged_deletions(loser) else Outcome.COMPATIBLE


def _staged_deletions(operation: Operation) -> dict[int, int]:
    if not isinstance(operation, LanceOperation.Delete | LanceOperation.Update):
        return {}
    return {fragment.id: fragment.num_deletions for fragment in operation.updated_fragments}


def _deletions(dataset: LanceDataset, operation: Operation) -> dict[int, int]:
    fragments = (fragment.metadata for fragment in dataset.get_fragments())
    touched = _staged_deletions(operation)
    return {fragment.id: fragment.num_deletions for fragment in fragments if fragment.id in touched}
