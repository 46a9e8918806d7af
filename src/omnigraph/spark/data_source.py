"""``format("omnigraph")``: the graph as a data source that Spark finds by itself.

Every Spark user on a machine that has this package installed imports this module, whether they read a graph or not:
what needs Lance is imported when a graph is.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Never

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from omnigraph.errors import ParameterError, Unsupported

if TYPE_CHECKING:
    from omnigraph.read.rows import TypeRows
    from omnigraph.spark.source import TypeReadOptions


class OmniGraphSource(DataSource):
    """Rows of one type of a graph, or the changes of a branch as a stream.

    The moment that they are read at is settled when a DataFrame is made of them.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._rows: TypeRows | None = None

    @classmethod
    def name(cls) -> str:
        """The word in ``format(...)`` and ``USING``."""
        return "omnigraph"

    def schema(self) -> StructType:
        """The columns that the options name, or all of the type; those of changes, if these are asked for."""
        if self._is_change_stream:
            from omnigraph.spark.source import CHANGE_STREAM_SCHEMA

            return CHANGE_STREAM_SCHEMA
        return self._parse_options().spark_schema(self._pin_rows().type)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the columns of a schema."""
        if self._is_change_stream:
            raise Unsupported(
                "changes are a stream", hint="use spark.readStream, with trigger(availableNow=True) for those up to now"
            )
        from omnigraph.spark.source import TypeReader

        request = self._parse_options()
        return TypeReader(self._pin_rows(), schema, request.filter, request.rows_per_partition)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's signature
        """What reads the changes of a branch as they come."""
        if not self._is_change_stream:
            raise Unsupported(
                "the rows of a type are no stream",
                hint='read changes with option("changes", "true"), or the rows with spark.read',
            )
        from omnigraph.spark.source import ChangeStreamReader, parse_stream_options

        return ChangeStreamReader(parse_stream_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001  Spark's signature
        """Refuse: a write of one table at a time could not be checked, nor become visible together with others."""
        raise _write_error()

    def streamWriter(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001, N802  as in writer
        """Refuse, as :meth:`writer` does."""
        raise _write_error()

    def __getstate__(self) -> dict[str, object]:
        # Spark keeps the source as a pickle and plans every action from it. With a schema of the user's it asks for
        # nothing before, so this is the last moment at which all of them can be given the same rows.
        if not self._is_change_stream:
            self._pin_rows()
        return dict(self.__dict__)

    @property
    def _is_change_stream(self) -> bool:
        given = self.options.get("changes", "false")
        if given.lower() not in ("true", "false"):
            raise ParameterError(f"option 'changes' is '{given}'", hint="use true, with spark.readStream, or false")
        return given.lower() == "true"

    def _parse_options(self) -> TypeReadOptions:
        from omnigraph.spark.source import parse_read_options

        return parse_read_options(self.options)

    def _pin_rows(self) -> TypeRows:
        if self._rows is None:
            self._rows = self._parse_options().pin_rows()
        return self._rows


def _write_error() -> Unsupported:
    return Unsupported(
        'format("omnigraph") only reads',
        hint='write nodes and edges as one commit: graph.spark().load(nodes={"Person": df}, edges={"Knows": df2})',
    )
