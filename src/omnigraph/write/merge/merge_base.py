"""Build the merge base of two commits from their last common ancestors."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from omnigraph.errors import Unsupported
from omnigraph.manifest.common_ancestors import CommonAncestors, take_snapshot_at
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lineage import find_merge_bases
from omnigraph.manifest.rows import SchemaHead
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import find_changed_tables
from omnigraph.write.merge.alignment import MergeBase, RowImages, overlay_base


def build_merge_base(manifest: Manifest, ancestors: CommonAncestors, schema: SchemaHead | None) -> MergeBase:
    """Build the merge base: the best common ancestor, with the changes of the other ones on top.

    The ancestors may have been made under different schemas: all of them are compared in that of the merge.
    """
    first = take_snapshot_at(manifest, ancestors.commits[0])
    overlays: Mapping[str, RowImages] = {}
    for commit in ancestors.commits[1:]:
        earlier = find_merge_bases(ancestors.commits[0].id, commit.id, ancestors.known)
        if earlier:
            other, shared = take_snapshot_at(manifest, commit), take_snapshot_at(manifest, earlier[0])
            changed = find_changed_tables(shared, other)
            sides = tuple(each.read_with(schema) for each in (first, other, shared))
            for each in sides:
                refuse_renamed(each, changed)
            overlays = overlay_base(sides[0], sides[1], sides[2], overlays).overlays
    return MergeBase(first, overlays)


def refuse_renamed(base: Snapshot, changed: Collection[str]) -> None:
    """Refuse changes made before a rename: a row changed under the old name is not found under the new one."""
    for table_key, old, new in base.lag.list_renames() if base.lag is not None else ():
        if table_key in changed:
            raise Unsupported(
                f"'{old}' was renamed to '{new}' after these changes of {table_key} were made",
                hint="compare both sides with `omnigraph diff`, and apply the changes you want with a mutation",
                details={"table_key": table_key, "old_name": old, "new_name": new},
            )
