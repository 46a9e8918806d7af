"""Ids of a form that releases before this one wrote: such a type can be read, and is not written before a rewrite.

They formed the id of a composite key from its first column alone and kept other keys as they were spelled. All rows
of a table have one form, since nothing is written while it is the old one, so a few of them tell.
"""

from __future__ import annotations

from typing import Final

from omnigraph.errors import LegacyRowIds, Violation
from omnigraph.language.schema.catalog import NodeType
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.storage.keys import ids_of
from omnigraph.storage.pinned import Table

_LOOKED_AT: Final = 100
# Single keys of these types were always spelled as they are now.
_UNCHANGED: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS


def may_have_legacy_ids(node_type: NodeType) -> bool:
    """Whether the key of a type is one that was once spelled in another way."""
    key = node_type.key or ()
    return len(key) > 1 or any(node_type.properties[name].type.scalar not in _UNCHANGED for name in key)


def refuse_legacy_ids(node_type: NodeType, table: Table) -> None:
    """Raise ``LegacyRowIds`` if the stored ids of a keyed type are not what its keys give now."""
    rows = table.scan(["id", *(node_type.key or ())], limit=_LOOKED_AT).read_all()
    for stored, given in zip(rows["id"].to_pylist(), ids_of(node_type, rows).to_pylist(), strict=True):
        if stored != given:
            raise LegacyRowIds(
                f"the ids of {node_type.name} have the form of an older release: '{stored}' would be '{given}' now",
                [Violation(node_type.name, "id", "the stored id is not that of the key", id=stored, value=given)],
                hint="run `omnigraph schema apply --rewrite-ids` first",
            )
