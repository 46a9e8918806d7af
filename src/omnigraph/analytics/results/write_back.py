"""Write a result into a property of its nodes: one commit on a branch, through the load path, with its provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

import pyarrow as pa

from omnigraph.analytics.result_rows import FrameMaker, ResultRows, find_column_type
from omnigraph.analytics.results.edited_values import Replaced, refuse_edited
from omnigraph.analytics.results.provenance import Provenance, write_trailers
from omnigraph.analytics.results.values_kept import SelectedValues, are_values_kept
from omnigraph.errors import Json, ParameterError, ReadOnly
from omnigraph.language.schema import Schema, declare_property
from omnigraph.language.source import Source
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest, branch_names, missing_branch
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference, find_branch_point, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import require_node_type
from omnigraph.write.commit import CommitOptions
from omnigraph.write.evolve import SchemaChangeOptions, apply_schema
from omnigraph.write.load import (
    ARROW_VALUES,
    LoadMode,
    LoadOptions,
    LoadResult,
    load,
)

_SCALARS: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "Bool",
    pa.int64(): "I64",
    pa.float64(): "F64",
    pa.string(): "String",
    pa.large_string(): "String",
}


_AGAIN: Final = ":again:"
"""In the ``txn`` of a result that is written once more, before the commit that it comes after."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The graph that results are written to, as it was opened."""

    manifest: Manifest
    actor: str | None = None
    is_writable: bool = True
    make_frame: FrameMaker | None = field(default=None, compare=False)
    """Makes a DataFrame of Spark of a table, where results were computed for one."""

    def check_writable(self) -> None:
        """Refuse a graph that was opened for reading."""
        if not self.is_writable:
            raise ReadOnly(f"{self.manifest.location.uri} was opened read-only", hint='open it with mode="rw"')


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a result is written to, and what may be changed for it."""

    source: Commit
    """The commit that the result was computed on."""
    branch: str
    from_: Reference | None
    message: str | None
    actor: str | None
    create: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class ColumnWrite:
    """One column of a result, and the property that it becomes."""

    rows: ResultRows
    column: str
    property_name: str
    provenance: Provenance
    to: Destination

    @property
    def types(self) -> list[str]:
        """The node types of the rows."""
        return self.rows.types

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return find_column_type(self.rows, self.column)

    @property
    def written(self) -> list[str]:
        """The properties, with their types."""
        return [f"{name}.{self.property_name}" for name in self.types]

    @property
    def declaration(self) -> str:
        """The line that declares the property."""
        return f"{self.property_name}: {_type_text(self.type)}?"


def _type_text(type_: pa.DataType) -> str:
    """Return the type of a property that holds the values."""
    if isinstance(type_, pa.FixedSizeListType):
        return f"Vector({type_.list_size})"
    return _SCALARS[type_]


def write_column(target: WriteTarget, write: ColumnWrite) -> LoadResult:
    """Write a column as one commit. What is refused is refused before anything is written."""
    target.check_writable()
    if not write.types:
        raise ParameterError("the result has no rows", hint="there is nothing to write")
    schema = load_current_schema(target.manifest)
    missing = _find_missing(schema, write)
    if missing and not write.to.create:
        raise ParameterError(
            f"{' and '.join(missing)} {'have' if len(missing) > 1 else 'has'} no property '{write.property_name}'",
            hint=f"add the line {write.declaration} to the schema, or give create=True",
            details={"types": list[Json](missing), "declaration": write.declaration},
        )
    declared = [name for name in write.types if name not in missing]
    _refuse_unfit(schema, write, declared)
    basis = take_replaced_snapshot(target.manifest, write.to)
    if not write.to.overwrite:
        nodes = [require_node_type(schema.catalog, name) for name in declared]
        refuse_edited(target.manifest, basis, [Replaced(node, write.property_name) for node in nodes])
    if missing:
        schema = _declare_properties(target.manifest, schema, write, missing)
    return _load_column(target.manifest, schema, write)


def _find_missing(schema: Schema, write: ColumnWrite) -> list[str]:
    return [
        name for name in write.types if write.property_name not in require_node_type(schema.catalog, name).properties
    ]


def _refuse_unfit(schema: Schema, write: ColumnWrite, types: Sequence[str]) -> None:
    """Refuse a property that cannot hold the values, or that ids are made of."""
    name, found = write.property_name, write.type
    wrong: dict[str, str] = {}
    for node in (require_node_type(schema.catalog, each) for each in types):
        if name in (node.key or ()):
            wrong[node.name] = f"{node.name}.{name} is part of its key"
        elif not ARROW_VALUES.accepts(found, node.properties[name].type):
            wrong[node.name] = (
                f"{node.name}.{name} is {node.properties[name].type}, and {write.column} {_type_text(found)}"
            )
    if wrong:
        raise ParameterError(
            "; ".join(wrong.values()),
            hint="name another property, or another column",
            details={"types": list[Json](wrong), "property": name, "column": write.column},
        )


def take_replaced_snapshot(manifest: Manifest, to: Destination) -> Snapshot:
    """Take the snapshot that is written to, as the branch reads it."""
    branch, at = _find_basis(manifest, to)
    basis, schema = take_snapshot(manifest, branch, at), manifest.current_schema()
    return basis if at is None or schema is None else basis.read_with(schema)


def _find_basis(manifest: Manifest, to: Destination) -> tuple[str, Reference | None]:
    """Return the branch that is written to, or what it begins at. Without either there is nothing to write to."""
    known = branch_names(manifest)
    if to.branch in known:
        return to.branch, None
    if to.from_ is None:
        raise missing_branch(manifest.location, to.branch, "from_")
    return find_branch_point(manifest, to.from_)


def _declare_properties(manifest: Manifest, schema: Schema, write: ColumnWrite, types: Sequence[str]) -> Schema:
    """Add the property to the schema, in a commit of its own on main."""
    text = schema.text
    for name in types:
        text = declare_property(text, name, write.declaration)
    return change_schema(manifest, text, f"{write.property_name} for {write.provenance.algorithm}", write.to.actor)


def change_schema(manifest: Manifest, text: str, message: str, actor: str | None) -> Schema:
    """Apply a schema on main, and return it."""
    options = CommitOptions(MAIN, actor=actor, message=message)
    apply_schema(manifest, Source(text, "schema.pg"), SchemaChangeOptions(), options)
    return load_current_schema(manifest)


def _load_column(manifest: Manifest, schema: Schema, write: ColumnWrite) -> LoadResult:
    names = {"id": "id", write.column: write.property_name}
    rows = {name: write.rows.select_nodes(name, names) for name in write.types}
    key = write.provenance.hash(write.column)
    return load_result(
        manifest, schema, SelectedValues(rows, {}), "update", write.provenance, key, write.written, write.to
    )


def load_result(
    manifest: Manifest,
    schema: Schema,
    values: SelectedValues,
    mode: LoadMode,
    provenance: Provenance,
    key: str,
    written: Sequence[str],
    to: Destination,
) -> LoadResult:
    """Load the rows of a result as one commit with its provenance, once for each source and ``key``."""
    message = write_trailers(to.message, provenance, to.source.id, written)
    txn = _choose_txn(manifest, schema, values, f"analytics:{','.join(written)}:{key}", to)
    result = load(
        manifest,
        schema,
        values.to_input(),
        LoadOptions(mode, from_branch=to.from_),
        CommitOptions(to.branch, actor=to.actor, message=message, txn=txn),
    )
    if result.replayed and result.commit is not None and result.commit.txn != txn:
        raise ParameterError(
            f"'{to.branch}' has this result of a newer commit than {to.source.id} already",
            hint="compute it again on the newest commit",
            details={"commit": result.commit.id},
        )
    return result


def _choose_txn(
    manifest: Manifest, schema: Schema, values: SelectedValues, app: str, to: Destination
) -> tuple[str, int]:
    """Return the ``txn`` of a result: that of the commit that wrote it, if its values are still there.

    If others took their place since, by another analysis or by hand, the result is written again. By then it is known
    that this may be done.
    """
    txn = (app, to.source.manifest_version)
    branch, at = _find_basis(manifest, to)
    view = manifest.view(branch, with_lineage=True)
    written = view.tables.txns.get(app)
    if written is None or written.number != to.source.manifest_version:
        return txn
    now = take_snapshot(manifest, branch, at)
    if are_values_kept(now, schema.catalog, values):
        again = next((each for each in view.history.list_by_metadata(f"{app}{_AGAIN}") if each.txn is not None), None)
        return txn if again is None or again.txn is None or again.txn[1] != txn[1] else again.txn
    return f"{app}{_AGAIN}{'' if now.commit is None else now.commit.id}", txn[1]
