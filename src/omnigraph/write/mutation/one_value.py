"""Rows of one statement that give values to the same entity: equal values count once, different ones are an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import ConflictingValues, Json, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.changes import compare_values
from omnigraph.read.rows import to_json_rows, to_public_batch, to_public_schema
from omnigraph.storage.columns import Values, encode_values, to_list
from omnigraph.write.rules import shorten

_MAX_CONFLICTS: Final = 100
_RULE: Final = "one value"


def keep_one_row_per_id(
    type_: NodeType | EdgeType, ids: Values, columns: Mapping[str, Values]
) -> npt.NDArray[np.int64] | None:
    """Return the first row of each id, in order; None if every id has one row. Rows without an id are all kept.

    Raises ``ConflictingValues`` if the rows of an id do not have the same values in all ``columns``.
    """
    codes = encode_values(ids)
    rows = np.arange(len(codes))
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    first_row = np.where(codes < 0, rows, first[place])
    if np.array_equal(first_row, rows):
        return None
    # Only rows that are not the first of their id are compared, with the first.
    later = np.flatnonzero(first_row != rows)
    differing = {
        name: later[~compare_values(values.take(later), values.take(first_row[later]))]
        for name, values in columns.items()
    }
    if any(map(len, differing.values())):
        raise _describe_conflicts(type_, ids, columns, differing)
    return np.flatnonzero(first_row == rows)


def _describe_conflicts(
    type_: NodeType | EdgeType,
    ids: Values,
    columns: Mapping[str, Values],
    differing: Mapping[str, npt.NDArray[np.int64]],
) -> ConflictingValues:
    """Name the first entities by id, and of each two of its values, the smallest ones."""
    found = sorted(
        {(str(owner), name) for name, rows in differing.items() for owner in to_list(ids.take(rows))},
        key=lambda conflict: (conflict[0], list(columns).index(conflict[1])),
    )
    all_ids = np.array(to_list(ids), dtype=object)
    violations: list[Violation] = []
    for owner, name in found[:_MAX_CONFLICTS]:
        one, other = _smallest_two(_to_json(columns[name].take(np.flatnonzero(all_ids == owner))))
        message = f"{type_.name} '{owner}' is given two values for '{name}': {_print(one)} and {_print(other)}"
        violations.append(
            Violation(
                type_.name,
                _RULE,
                message,
                id=owner,
                property=name,
                value=[one, other],
                table_key=type_.table_key,
            )
        )
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    hint = "narrow the match until each entity has one row, or one value in all its rows"
    return ConflictingValues(f"{violations[0].message}{more}", violations, hint=hint)


def _to_json(values: Values) -> list[Json]:
    rows = pa.RecordBatch.from_arrays([values], names=["value"])
    return [row["value"] for row in to_json_rows(to_public_batch(rows, to_public_schema(rows.schema)))]


def _smallest_two(values: list[Json]) -> tuple[Json, Json]:
    """Return the smallest two different values; null is the smallest."""
    # Both zeros are one value.
    distinct = {json.dumps(value + 0.0 if isinstance(value, float) else value): value for value in values}
    # All values that are not null have one type, so they compare as numbers do.
    ordered = sorted(
        distinct.values(), key=lambda value: (value is not None, cast(float, 0 if value is None else value))
    )
    return ordered[0], ordered[1]


def _print(value: Json) -> str:
    return shorten(json.dumps(value, ensure_ascii=False))
