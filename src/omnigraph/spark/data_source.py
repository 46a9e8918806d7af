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
    from omnigraph.spark.source.type_reader import Request


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
        if self._follows:
            from omnigraph.spark.source.change_stream import SCHEMA

            return SCHEMA
        return self._request().schema(self._pinned().type)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the columns of a schema."""
        if self._follows:
            raise Unsupported(
                "changes are a stream", hint="use spark.readStream, with trigger(availableNow=True) for those up to now"
            )
        from omnigraph.spark.source.type_reader import TypeReader

        request = self._request()
        return TypeReader(self._pinned(), schema, request.filter, request.rows_per_partition)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's signature
        """What reads the changes of a branch as they come."""
        if not self._follows:
            raise Unsupported(
                "the rows of a type are no stream",
                hint='read changes with option("changes", "true"), or the rows with spark.read',
            )
        from omnigraph.spark.source.change_stream import ChangesReader, following_of

        return ChangesReader(following_of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001  Spark's signature
        """Refuse: a write of one table at a time could not be checked, nor become visible together with others."""
        raise _no_writing()

    def streamWriter(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001, N802  as in writer
        """Refuse, as :meth:`writer` does."""
        raise _no_writing()

    def __getstate__(self) -> dict[str, object]:
        # Spark keeps the source as a pickle and plans every action from it. With a schema of the user's it asks for
        # nothing before, so this is the last moment at which all of them can be given the same rows.
        if not self._follows:
            self._pinned()
        return dict(self.__dict__)

    @property
    def _follows(self) -> bool:
        given = self.options.get("changes", "false")
        if given.lower() not in ("true", "false"):
            raise ParameterError(f"option 'changes' is '{given}'", hint="use true, with spark.readStream, or false")
        return given.lower() == "true"

    def _request(self) -> Request:
        from omnigraph.spark.source.type_reader import request_of

        return request_of(self.options)

    def _pinned(self) -> TypeRows:
        if self._rows is None:
            self._rows = self._request().rows()
        return self._rows


def _no_writing() -> Unsupported:
    return Unsupported(
        'format("omnigraph") only reads',
        hint='write nodes and edges as one commit: graph.spark().load(nodes={"Person": df}, edges={"Knows": df2})',
    )
