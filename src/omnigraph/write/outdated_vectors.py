"""Finds the vectors that are older than the texts they were made from.

No hash is stored: the history tells. A vector is outdated if a commit changed the text of its row, and neither that
commit nor a later one changed the vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa

from omnigraph.language.schema import NodeType
from omnigraph.manifest.handle import Manifest
from omnigraph.read.changes import ChangedRows, Op, compare_values, follow_changes, read_changes
from omnigraph.storage.columns import column_of, to_list


def find_outdated_ids(
    manifest: Manifest, branch: str, type_: NodeType, vector: str, text: str, since: str
) -> pa.StringArray:
    """Return the ids of rows whose text changed after a commit, a tag or a time, and whose vector did not since.

    Only the changes of commits that touched the type are read. Memory grows with the ids that are returned.
    """
    outdated: dict[str, None] = {}
    for block in follow_changes(manifest, branch, f"after:{since}", None, [type_.name]):
        if type_.table_key not in block.diff.tables:
            continue
        with block.report_gaps():
            found = read_changes(block.diff.before, block.diff.after, type_.table_key, ["id", text, vector])
            for part in (part for parts in found for part in parts):
                for id_, is_outdated in _judge_rows(part, vector, text):
                    if is_outdated:
                        outdated[id_] = None
                    else:
                        outdated.pop(id_, None)
    return pa.array(outdated, pa.string())


def _judge_rows(part: ChangedRows, vector: str, text: str) -> Iterator[tuple[str, bool]]:
    """Yield rows whose text or vector changed, and whether the vector is older now."""
    ids = cast("list[str]", to_list(column_of(part.rows, "id")))
    before, after = part.before, part.after
    images = [each for each in (before, after) if each is not None and {vector, text} <= set(each.schema.names)]
    if part.op is not Op.UPDATED or before is None or after is None or len(images) < 2:
        # A row that comes or goes, and one that had no such property before: nothing is older than its text.
        yield from ((id_, False) for id_ in ids)
        return
    same_text, same_vector = (
        compare_values(column_of(before, each), column_of(after, each)) for each in (text, vector)
    )
    for id_, has_text, has_vector in zip(ids, same_text.tolist(), same_vector.tolist(), strict=True):
        if not (has_text and has_vector):
            yield id_, bool(has_vector)
