"""Run SQL over the types of a graph: as they are now, or at another moment, and only the columns that are used.

Spark does not tell a source written in Python which columns a query uses. So the columns that the text does not name
are replaced by expressions that fail, and the plan of Spark shows that it dropped all of them; if it did not, the query
reads all columns. Rows without any column are counted by the manifest, and not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from omnigraph.errors import NotFound, ParameterError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.diagnosis import find_cause, translate_spark_errors
from omnigraph.spark.plan_text import EXPLAIN, find_optimized_plan, print_all_fields
from omnigraph.spark.source.snapshot import SparkSnapshot, view_names
from omnigraph.spark.source.spark_types import stored_names_of, to_spark_schema
from omnigraph.spark.source.sql_text import SqlText, parse_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACTIVITY: Final = "running SQL"
_CONDITION_AND_POSITION: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*|\s+SQLSTATE: .*|\n.*", re.DOTALL)
_MARK: Final = "omnigraph does not read this column"
_CUT: Final = "more fields"
"""In a plan whose lists of columns are not printed whole."""

SqlArguments: TypeAlias = Mapping[str, object] | list[object]
"""The parameters of a text: named ones, or those in the place of question marks."""


def run_sql(
    tables: SparkSnapshot, at: Callable[[str], SparkSnapshot], text: str, args: SqlArguments | None
) -> DataFrame:
    """Run a query whose tables are types of the graph; ``at`` returns the graph at another moment."""
    query = _SqlQuery(parse_sql(text, _list_views(tables)), tables, at)
    with _translate_sql_errors():
        if query.can_prune and not query.reads_marked_columns(args):
            return query.run(args, used_only=True)
        return query.run(args, used_only=False)


@contextmanager
def _translate_sql_errors() -> Generator[None]:
    """Raise errors of Spark as errors of OmniGraph. SQL that Spark rejects is an input error."""
    with translate_spark_errors(_ACTIVITY):
        try:
            yield
        except AnalysisException as error:
            raise find_cause(_ACTIVITY, str(error)) or _explain_rejected(error) from error


def _explain_rejected(error: AnalysisException) -> ParameterError:
    # The position is one in the text that Spark was given, where types have other names.
    reason = _CONDITION_AND_POSITION.sub("", str(error).strip())
    return ParameterError(
        f"Spark rejects the SQL: {reason}",
        details={"condition": error.getCondition(), "sqlstate": error.getSqlState()},
    )


def _list_views(tables: SparkSnapshot) -> dict[str, NodeType | EdgeType]:
    """Return the types by the names of their views, in lower case: Spark ignores the case of names."""
    types = list(tables.catalog.types())
    views = view_names(types)
    return {views[type_.table_key].lower(): type_ for type_ in types}


@dataclass(frozen=True, slots=True)
class _SqlQuery:
    """A query, and the DataFrames that it is given."""

    sql: SqlText
    tables: SparkSnapshot
    at: Callable[[str], SparkSnapshot]
    _moments: dict[str, SparkSnapshot] = field(default_factory=dict[str, SparkSnapshot])

    @property
    def session(self) -> SparkSession:
        return self.tables.session

    @property
    def can_prune(self) -> bool:
        """Whether the text leaves out columns of some type."""
        return bool(self.sql.relations) and not self.sql.shows_every_column

    def reads_marked_columns(self, args: SqlArguments | None) -> bool:
        """Whether the plan of Spark still has a column that the text does not name."""
        with print_all_fields(self.session):
            (row,) = self.run(args, used_only=True, prefix=EXPLAIN).collect()
        optimized = find_optimized_plan(cast(str, row[0]))
        return not optimized or _MARK in optimized or _CUT in optimized

    def run(self, args: SqlArguments | None, *, used_only: bool, prefix: str = "") -> DataFrame:
        """Have Spark run the text, with a DataFrame in the place of each type."""
        if not self.sql.relations:
            return self.session.sql(prefix + self.sql.text, cast("Any", args))
        frames: dict[str, DataFrame] = {}
        names: dict[tuple[str, str | None], str] = {}
        parts: list[str] = []
        end = 0
        for relation in self.sql.relations:
            key = (relation.name.lower(), relation.at)
            if key not in names:
                names[key] = f"t{len(names)}"
                frames[names[key]] = self._open(*key, used_only=used_only)
            alias = "" if relation.has_alias else f" AS `{relation.name}`"
            parts += [_escape(self.sql.text[end : relation.start]), "{", names[key], "}", _escape(alias)]
            end = relation.end
        text = prefix + "".join([*parts, _escape(self.sql.text[end:])])
        return self.session.sql(text, cast("Any", args), **cast("Any", frames))

    def _open(self, name: str, at: str | None, *, used_only: bool) -> DataFrame:
        tables = self._take_snapshot(at)
        type_ = _list_views(tables).get(name)
        if type_ is None:
            raise NotFound(f"there was no type '{name}' at {at}", details={"type": name})
        columns = list(stored_names_of(type_))
        used = [column for column in columns if column.lower() in self.sql.words] if used_only else columns
        if len(used) == len(columns):
            return tables.rows(type_)
        found = tables.rows(type_, used) if used else self.session.range(_count_rows(tables, type_))
        marked = {
            each.name: fn.raise_error(fn.lit(_MARK)).cast(each.dataType).alias(each.name)
            for each in to_spark_schema(type_, columns).fields
        }
        return found.select(*(fn.col(f"`{name}`") if name in used else marked[name] for name in columns))

    def _take_snapshot(self, at: str | None) -> SparkSnapshot:
        if at is None:
            return self.tables
        if at not in self._moments:
            self._moments[at] = self.at(at)
        return self._moments[at]


def _count_rows(tables: SparkSnapshot, type_: NodeType | EdgeType) -> int:
    pin = tables.snapshot.pins.get(type_.table_key)
    return 0 if pin is None else pin.row_count


def _escape(text: str) -> str:
    """Escape braces, which stand for DataFrames."""
    return text.replace("{", "{{").replace("}", "}}")
