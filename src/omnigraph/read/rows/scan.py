"""Read the rows of a type, or one entity by its id, without a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias, cast

import pyarrow as pa

from omnigraph.arguments import check_text
from omnigraph.deadlines import CarriedDeadlines
from omnigraph.errors import ParameterError, Unsupported
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.language.values import ValueMismatch, convert_value
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.history import Commit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.conditions import Filter, parse_filter, resolve_columns
from omnigraph.read.rows.public_values import to_public_batch, to_python_rows
from omnigraph.read.rows.type_rows import (
    TypeRows,
    open_type_rows,
    public_schema_of,
    require_edge_type,
    require_node_type,
    require_type,
)
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values
from omnigraph.storage.filters import Condition, ValueIn
from omnigraph.storage.keys import make_ids

if TYPE_CHECKING:
    import pandas as pd

Key: TypeAlias = str | Mapping[str, object] | object
"""How a caller names an entity: its id, the values of its key by name, or the value of a single-property key."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of one type, read lazily from one snapshot: later writes do not change them, and they can be read again.

    A scan is an Arrow stream: ``pa.table(scan)``, ``polars.DataFrame(scan)`` and ``load(nodes=...)`` accept it.
    """

    schema: pa.Schema
    branch: str
    commit: Commit | None
    """The commit that is read."""
    _rows: TypeRows = field(repr=False)
    _columns: tuple[str, ...] = field(repr=False)
    _conditions: tuple[Condition, ...] = field(repr=False)
    _deadlines: CarriedDeadlines = field(default_factory=CarriedDeadlines, repr=False, compare=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for rows in self._deadlines.iterate(lambda: iter(self._rows.read(self._columns, self._conditions))):
            yield to_public_batch(rows, self.schema)

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of record batches."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """Read all rows as an Arrow table."""
        return self.reader().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows as a pandas DataFrame."""
        require_package("pandas")
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return cast("object", self.reader().__arrow_c_stream__(requested_schema))


def require_package(name: str, extra: str | None = None) -> None:
    """Raise an error that says what to install, if an optional package is missing: it, or the extra that brings it."""
    if find_spec(name) is None:
        wanted = name if extra is None else f'"omnigraph[{extra}]"'
        raise Unsupported(f"{name} is not installed", hint=f"install it: pip install {wanted}")


def scan_nodes(
    snapshot: Snapshot, catalog: Catalog, name: str, given: Filter | None, columns: Sequence[str] | None
) -> Scan:
    """Scan the nodes of a type."""
    return _open_scan(snapshot, require_node_type(catalog, name), given, columns)


def scan_edges(
    snapshot: Snapshot, catalog: Catalog, name: str, given: Filter | None, columns: Sequence[str] | None
) -> Scan:
    """Scan the edges of a type."""
    return _open_scan(snapshot, require_edge_type(catalog, name), given, columns)


def _open_scan(
    snapshot: Snapshot, type_: NodeType | EdgeType, given: Filter | None, columns: Sequence[str] | None
) -> Scan:
    stored = resolve_columns(type_, columns)
    return Scan(
        public_schema_of(type_, stored),
        snapshot.branch,
        snapshot.commit,
        open_type_rows(snapshot, type_),
        tuple(stored),
        tuple(parse_filter(type_, given)),
    )


# --------------------------------------------------------------------------------------------- one entity


def get_entity(
    snapshot: Snapshot, catalog: Catalog, name: str, key: Key, columns: Sequence[str] | None = None
) -> dict[str, object] | None:
    """Read one node or edge; None if it does not exist."""
    type_ = require_type(catalog, name)
    stored = resolve_columns(type_, columns)
    schema = public_schema_of(type_, stored)
    for batch in open_type_rows(snapshot, type_).read(stored, [build_id_condition(type_, key)]):
        for found in to_python_rows(to_public_batch(batch, schema)):
            return found
    return None


def build_id_condition(type_: NodeType | EdgeType, key: Key) -> Condition:
    """Build the condition that selects one entity."""
    return ValueIn(("id",), pa.array([resolve_id(type_, key)], pa.string()))


def resolve_id(type_: NodeType | EdgeType, key: Key) -> str:
    """Return the id of an entity that is named by its id or by the values of its key."""
    if isinstance(key, str):
        check_text("id", key)
        return key
    if isinstance(type_, NodeType) and type_.key is not None:
        if isinstance(key, Mapping):
            return _build_id(type_, type_.key, cast("Mapping[str, object]", key))
        if len(type_.key) == 1 and not isinstance(key, tuple | list):
            return _build_id(type_, type_.key, {type_.key[0]: key})
        parts = ", ".join(f"{part!r}: ..." for part in type_.key)
        raise ParameterError(f"{key!r} is not a key of {type_.name}", hint=f"give {{{parts}}}, or its id")
    raise ParameterError(f"{key!r} is not an id of {type_.name}", hint="give its id, a text")


def _build_id(type_: NodeType, parts: Sequence[str], values: Mapping[str, object]) -> str:
    unknown = [name for name in values if name not in parts]
    if unknown or len(values) < len(parts):
        wrong = (
            f"'{unknown[0]}' is not part of it" if unknown else f"{_quote_names(set(parts) - set(values))} is missing"
        )
        hint = (suggest_similar(str(unknown[0]), parts) if unknown else None) or f"give {_quote_names(parts)}"
        raise ParameterError(f"not a key of {type_.name}: {wrong}", hint=hint)
    columns: dict[str, Values] = {}
    for part in parts:
        declared = type_.properties[part].type
        try:
            columns[part] = arrow_values(declared, [convert_value(values[part], declared)])
        except ValueMismatch as mismatch:
            raise ParameterError(f"'{part}': {mismatch.message}", hint=mismatch.hint) from None
    return cast("list[str]", make_ids(type_, pa.record_batch(columns)).to_pylist())[0]


def _quote_names(names: Sequence[str] | set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
