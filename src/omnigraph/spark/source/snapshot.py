"""The types of a graph as DataFrames that all read one snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field

from pyspark.sql import DataFrame, SparkSession

from omnigraph.errors import ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import Filter, open_type_rows, parse_filter, require_edge_type, require_node_type
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.source.spark_types import to_spark_schema
from omnigraph.spark.source.type_reader import (
    STORAGE_PREFIX,
    TypeReader,
    encode_filter,
    pin_type,
    resolve_spark_columns,
)
from omnigraph.storage.condition_text import encode_conditions
from omnigraph.storage.filters import Condition
from omnigraph.storage.location import Location


@dataclass(frozen=True, slots=True)
class SparkSnapshot:
    """A snapshot of a graph whose types can be read as DataFrames."""

    session: SparkSession = field(repr=False)
    snapshot: Snapshot
    catalog: Catalog = field(repr=False)
    location: Location

    def nodes(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  the word that Lance and Arrow use
    ) -> DataFrame:
        """Return the nodes of a type."""
        return self.rows(require_node_type(self.catalog, name), columns, filter)

    def edges(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  as in nodes
    ) -> DataFrame:
        """Return the edges of a type; their ends are the columns ``from`` and ``to``."""
        return self.rows(require_edge_type(self.catalog, name), columns, filter)

    def rows(
        self,
        type_: NodeType | EdgeType,
        columns: Iterable[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  as in nodes
        conditions: Sequence[Condition] = (),
    ) -> DataFrame:
        """Return the rows of a type, not read yet; Lance applies the filter and the conditions.

        To plan a data source, Spark starts Python twice. So it is used only where Spark would take our tasks for small.
        """
        executor = SparkExecutor(self.session, f"reading {type_.name}")
        if not executor.can_map_many:
            return self.source_rows(type_, columns, filter, conditions)
        rows, names = open_type_rows(self.snapshot, type_), resolve_spark_columns(type_, columns)
        schema = to_spark_schema(type_, names)
        reader = TypeReader(rows, schema, [*parse_filter(type_, filter), *conditions], None)
        return executor.map_many(reader.read, reader.partitions(), schema)

    def source_rows(
        self,
        type_: NodeType | EdgeType,
        columns: Iterable[str] | None = None,
        filter: Filter | None = None,  # noqa: A002  as in nodes
        conditions: Sequence[Condition] = (),
    ) -> DataFrame:
        """Return the rows of a type by the data source: the table is not even opened before they are read."""
        reader = self.session.read.format("omnigraph").option("pin", pin_type(self.snapshot, type_).encode())
        reader = reader.option("columns", ",".join(resolve_spark_columns(type_, columns)))
        if filter is not None:
            reader = reader.option("filter", encode_filter(type_, filter))
        if conditions:
            reader = reader.option("conditions", encode_conditions(conditions))
        for name, value in self.location.storage_options:
            reader = reader.option(f"{STORAGE_PREFIX}{name}", value)
        # Spark plans in another process, which may have another working directory.
        return reader.load(self.location.base if self.location.is_local else self.location.uri)


def view_names(types: Iterable[NodeType | EdgeType]) -> dict[str, str]:
    """Return the name of the view of each table key: that of the type, or ``node_X`` and ``edge_X`` if both exist."""
    keys = [type_.table_key for type_ in types]
    # Spark ignores the case of names.
    counts = Counter(key.type_name.lower() for key in keys)
    found: dict[str, str] = {
        key: f"{key.kind}_{key.type_name}" if counts[key.type_name.lower()] > 1 else key.type_name for key in keys
    }
    for view, count in Counter(name.lower() for name in found.values()).items():
        if count > 1:
            raise ParameterError(
                f"two types would have the view '{view}'",
                hint="name the views yourself: graph.spark().nodes(...).createOrReplaceTempView(...)",
            )
    return found
