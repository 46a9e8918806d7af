"""``format("omnigraph")``: the data source that Spark discovers by itself.

Spark imports this module for every user on a machine with this package, whether they read a graph or not. So Lance, and
everything that needs it, is imported only when a graph is read.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, Never

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from omnigraph.errors import ParameterError, Unsupported
from omnigraph.spark.catalog import CATALOG_HINT, CATALOG_REFUSAL

if TYPE_CHECKING:
    from omnigraph.read.rows import TypeRows
    from omnigraph.spark.source import TypeReadOptions

_CATALOG_PROPERTY: Final = "provider"
"""A property that Spark adds to the options of CREATE TABLE."""


class OmniGraphSource(DataSource):
    """The rows of one type of a graph, to read or to write, or the changes of a branch as a stream.

    The snapshot is fixed when the DataFrame is created.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        _refuse_catalog_table(options)
        self._rows: TypeRows | None = None

    @classmethod
    def name(cls) -> str:
        """The name in ``format(...)`` and ``USING``."""
        return "omnigraph"

    def schema(self) -> StructType:
        """Return the columns of the change stream, or those of the type: all, or the ones that the options name."""
        if self._is_change_stream:
            from omnigraph.spark.source import CHANGE_STREAM_SCHEMA

            return CHANGE_STREAM_SCHEMA
        return self._parse_options().spark_schema(self._pin_rows().type)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a type."""
        if self._is_change_stream:
            raise Unsupported(
                "changes can only be read as a stream",
                hint="use spark.readStream, with trigger(availableNow=True) to stop at the newest commit",
            )
        from omnigraph.spark.source import TypeReader

        options, rows = self._parse_options(), self._pin_rows()
        return TypeReader(rows, schema, options.parse_conditions(rows.type), options.rows_per_partition)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  Spark's signature
        """Return the reader of the changes of a branch."""
        if not self._is_change_stream:
            raise Unsupported(
                "the rows of a type cannot be read as a stream",
                hint='read changes with option("changes", "true"), or rows with spark.read',
            )
        from omnigraph.spark.source import ChangeStreamReader, parse_stream_options

        return ChangeStreamReader(parse_stream_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  Spark's signature
        """Return the writer of a type: its rows become one commit."""
        from omnigraph.spark.source import open_type_writer

        return open_type_writer(self.options, schema, "overwrite" if overwrite else "append")

    def streamWriter(self, schema: StructType, overwrite: bool) -> Never:  # noqa: ARG002, FBT001, N802  as in writer
        """Refuse: a stream has a writer of its own, which commits each batch exactly once."""
        raise Unsupported(
            'a stream is not written with format("omnigraph")',
            hint='use graph.spark().stream(df, node="Person", checkpoint=...)',
        )

    def __getstate__(self) -> dict[str, object]:
        # Spark pickles the source and plans every action from the pickle. If the user gives a schema, Spark calls
        # nothing before that, so this is the last chance to pin one snapshot for all actions.
        if not (self._is_change_stream or self._is_write):
            self._pin_rows()
        return dict(self.__dict__)

    @property
    def _is_change_stream(self) -> bool:
        given = self.options.get("changes", "false")
        if given.lower() not in ("true", "false"):
            raise ParameterError(f"option 'changes' is '{given}'", hint="use true, with spark.readStream, or false")
        return given.lower() == "true"

    @property
    def _is_write(self) -> bool:
        """Whether there are options that only a write has. A write without them pins rows that it does not read."""
        from omnigraph.spark.source import WRITE_OPTIONS

        return any(name in self.options for name in WRITE_OPTIONS)

    def _parse_options(self) -> TypeReadOptions:
        from omnigraph.spark.source import parse_read_options

        return parse_read_options(self.options)

    def _pin_rows(self) -> TypeRows:
        if self._rows is None:
            self._rows = self._parse_options().pin_rows()
        return self._rows


def _refuse_catalog_table(options: Mapping[str, str]) -> None:
    """Refuse a table of Spark's catalog: Spark creates it with properties of its own, and reads it without options."""
    if _CATALOG_PROPERTY in options:
        raise Unsupported(CATALOG_REFUSAL, hint=CATALOG_HINT)
    if not options:
        missing = 'the path of the graph is missing: give it as in load("s3://bucket/graph")'
        raise Unsupported(f"{missing}; {CATALOG_REFUSAL}", hint=CATALOG_HINT)
