"""Ids of a form that releases before this one wrote: such a type can be read, and is not written before a rewrite.

They formed the id of a composite key from its first column alone and kept other keys as they were spelled. All rows
of a table have one form, since nothing is written while it is the old one, so a few of them tell.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from omnigraph.errors import LegacyRowIds, Violation
from omnigraph.language.schema import NodeType
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.keys import ids_of
from omnigraph.storage.pinned import Table

SAMPLE_ROWS: Final = 100
"""How many rows tell."""
# Single keys of these types were always spelled as they are now.
_UNCHANGED: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS


def may_have_legacy_ids(node_type: NodeType) -> bool:
    """Whether the key of a type is one that was once spelled in another way."""
    key = node_type.key or ()
    return len(key) > 1 or any(node_type.properties[name].type.scalar not in _UNCHANGED for name in key)


def refuse_legacy_ids(node_type: NodeType, table: Table) -> None:
    """Raise ``LegacyRowIds`` if the stored ids of a keyed type are not what its keys give now."""
    found = find_legacy_id(node_type, table.scan(["id", *(node_type.key or ())], limit=SAMPLE_ROWS).read_all())
    if found is not None:
        stored, given = found
        raise LegacyRowIds(
            f"the ids of {node_type.name} have the form of an older release: '{stored}' would be '{given}' now",
            [Violation(node_type.name, "id", "the stored id is not that of the key", id=stored, value=given)],
            hint="run `omnigraph schema apply --rewrite-ids` first",
        )


def find_legacy_id(node_type: NodeType, rows: pa.Table) -> tuple[str, str] | None:
    """The first id among rows that is not what its key gives now, and what that is."""
    ids = zip(to_list(column_of(rows, "id")), to_list(ids_of(node_type, rows)), strict=True)
    return next(((str(stored), str(given)) for stored, given in ids if stored != given), None)
