"""Stored queries: the ``.gq`` files of a folder, offered by name to whoever may invoke them.

A folder is read as a whole and is part of the settings, so that an edited file is a change that the server follows.
Queries are checked against a schema when they are listed or run. A broken one is listed with its problems, and never
keeps the graph or the other queries from being served.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Final

from omnigraph.errors import ConfigError, Json, NotFound, Problem, QueryError
from omnigraph.language.query import (
    MutationBody,
    Query,
    QueryLint,
    SchemaSource,
    find_broken_queries,
    lint_queries,
    parse_queries,
)
from omnigraph.language.schema import Catalog, Schema
from omnigraph.language.source import Source, Span, decode_source
from omnigraph.language.types import FLOATS, INTEGER_RANGES, Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.pipeline import codes
from omnigraph.server.errors import RequestError

RESERVED_PREFIX: Final = "graph_"
"""Tools of agents that are no stored queries have names that begin so."""
_SUFFIX: Final = ".gq"
_FORMATS: Final[Mapping[Scalar, str]] = {Scalar.DATE: "date", Scalar.DATETIME: "date-time"}
_WIDE: Final = (Scalar.I64, Scalar.U64)
_KEPT_SCHEMAS: Final = 4
_log = logging.getLogger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class QueryFolder:
    """The texts of a folder of queries at one moment, by the name of their file."""

    files: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """One query of a folder."""

    query: Query
    source: Source
    """The text of the whole file."""

    @property
    def name(self) -> str:
        """Its id."""
        return self.query.name

    @property
    def is_mutation(self) -> bool:
        """Whether it writes."""
        return isinstance(self.query.body, MutationBody)

    @property
    def text(self) -> str:
        """The text of the query alone."""
        return self.source.text[self.query.span.start : self.query.span.end]


def read_query_folder(path: Path) -> QueryFolder:
    """Read the ``.gq`` files of a folder; every text must be one of queries, and every name unique."""
    try:
        paths = sorted(each for each in path.iterdir() if each.suffix == _SUFFIX and each.is_file())
        found = [decode_source(each.read_bytes(), each.name) for each in paths]
    except OSError as error:
        raise NotFound(
            f"cannot read the folder of queries {path}: {error.strerror}", hint="check 'queries', or --queries"
        ) from error
    problems = [each for each in found if isinstance(each, Problem)]
    if problems:
        raise ConfigError(problems)
    folder = QueryFolder(tuple(each for each in found if isinstance(each, Source)))
    _index_queries(folder)
    return folder


class StoredQueries:
    """The queries of a folder by name, and what they mean under a schema."""

    def __init__(self, folder: QueryFolder) -> None:
        self._folder = folder
        self._queries = _index_queries(folder)
        self._lock = threading.Lock()
        self._checked: dict[str, Mapping[str, QueryLint]] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def list_queries(self) -> list[StoredQuery]:
        """Return all queries, sorted by name."""
        return [self._queries[name] for name in sorted(self._queries)]

    def find(self, name: str) -> StoredQuery | None:
        """Return a query by name."""
        return self._queries.get(name)

    def check(self, schema: Schema) -> Mapping[str, QueryLint]:
        """Check all queries against a schema; return what is found by name. Each schema is looked at once."""
        return self._check(schema.hash, lambda: schema.catalog)

    def check_snapshot(self, snapshot: Snapshot) -> Mapping[str, QueryLint]:
        """Check all queries against the schema of a snapshot."""
        return self._check(str(snapshot.schema_ir_hash), snapshot.catalog)

    def _check(self, schema_hash: str, load_catalog: Callable[[], Catalog]) -> Mapping[str, QueryLint]:
        with self._lock:
            found = self._checked.get(schema_hash)
            if found is None:
                found = self._lint(load_catalog())
                while len(self._checked) >= _KEPT_SCHEMAS:
                    del self._checked[next(iter(self._checked))]
                self._checked[schema_hash] = found
        return found

    def _lint(self, catalog: Catalog) -> Mapping[str, QueryLint]:
        reports = [lint_queries(file, catalog, SchemaSource("graph", "")) for file in self._folder.files]
        found = {result.name: result for report in reports for result in report.results}
        for result in found.values():
            if result.problems:
                _log.warning("the stored query '%s' is broken: %s", result.name, result.problems[0])
        return found

    def find_breakage(self, old: Catalog, new: Catalog) -> dict[str, list[Problem]]:
        """Return the queries that one schema accepts and another does not, with the problems."""
        broken = [each for file in self._folder.files for each in find_broken_queries(file, old, new)]
        return {each.name: list(each.problems) for each in broken if each.is_new}


# The folder is read every second, and seldom changes.
@lru_cache(maxsize=16)
def _index_queries(folder: QueryFolder) -> Mapping[str, StoredQuery]:
    """Return the queries of all files by name; all problems of all files are reported at once."""
    found: dict[str, StoredQuery] = {}
    problems: list[Problem] = []
    for source in folder.files:
        try:
            queries = parse_queries(source).queries
        except QueryError as error:
            problems += error.problems
            continue
        for query in queries:
            problems += _refuse_name(source, query, found)
            found.setdefault(query.name, StoredQuery(query, source))
    if problems:
        raise ConfigError(problems)
    return found


def _refuse_name(source: Source, query: Query, known: Mapping[str, StoredQuery]) -> Collection[Problem]:
    span: Span = query.name_span
    if query.name.startswith(RESERVED_PREFIX):
        hint = "give it another name: agents have tools that begin so"
        return [source.problem(codes.BAD_NAME, f"'{query.name}' begins with '{RESERVED_PREFIX}'", span, hint)]
    if query.name in known:
        message = f"'{query.name}' is a query of {known[query.name].source.name} too"
        return [source.problem(codes.BAD_NAME, message, span, "names are unique in the folder")]
    return ()


# --------------------------------------------------------------------------------------------- one query


def describe_query(stored: StoredQuery, checked: QueryLint) -> dict[str, Json]:
    """Return an entry of the catalog: the fields of release 0.8, then ours."""
    operation = checked.operation
    shown = {} if operation is None else operation.to_json()
    return {
        "name": stored.name,
        "tool_name": stored.name,
        "description": stored.query.description,
        "instruction": stored.query.instruction,
        "mutation": stored.is_mutation,
        "params": [describe_parameter(each.name, each.type) for each in stored.query.parameters],
        "input_schema": make_input_schema(stored.query),
        "columns": shown.get("result", []),
        "reads": shown.get("reads", []),
        "writes": shown.get("writes", []),
        "file": stored.source.name,
        "problems": [problem.to_json() for problem in checked.problems],
    }


def refuse_broken(name: str, problems: Collection[Problem]) -> None:
    """Raise the error of a query that the schema does not accept."""
    if problems:
        raise RequestError(
            409,
            "query_broken",
            f"the stored query '{name}' does not fit the schema",
            hint="correct its file, or read a state that has the schema it was written for",
            details={"problems": [problem.to_json() for problem in problems]},
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    """The word of release 0.8 for a type, and its JSON Schema."""

    word: str
    schema: Mapping[str, Json] = field(default_factory=dict[str, Json])


def _kind_of(scalar: Scalar) -> _Kind:
    """Return how one scalar is written in JSON."""
    if scalar in _WIDE:
        sign = "-?" if scalar is Scalar.I64 else ""
        return _Kind("bigint", {"type": ["integer", "string"], "pattern": f"^{sign}[0-9]+$"})
    if scalar in INTEGER_RANGES:
        numbers = INTEGER_RANGES[scalar]
        return _Kind("int", {"type": "integer", "minimum": numbers[0], "maximum": numbers[-1]})
    if scalar in FLOATS:
        return _Kind("float", {"type": "number"})
    if scalar in _FORMATS:
        return _Kind(scalar.lower(), {"type": "string", "format": _FORMATS[scalar]})
    if scalar is Scalar.BLOB:
        return _Kind("blob", {"type": "string", "contentEncoding": "base64"})
    return _Kind("bool", {"type": "boolean"}) if scalar is Scalar.BOOL else _Kind("string", {"type": "string"})


def describe_parameter(name: str, type_: ValueType) -> dict[str, Json]:
    """Return a parameter as release 0.8 describes it."""
    if type_.scalar is Scalar.VECTOR:
        return {"name": name, "kind": "vector", "vector_dim": type_.dimension, "nullable": type_.nullable}
    word = _kind_of(type_.scalar).word
    if type_.is_list:
        return {"name": name, "kind": "list", "item_kind": word, "nullable": type_.nullable}
    return {"name": name, "kind": word, "nullable": type_.nullable}


def make_input_schema(query: Query) -> dict[str, Json]:
    """Return the JSON Schema of the parameters of a query."""
    return {
        "type": "object",
        "properties": {each.name: make_value_schema(each.type) for each in query.parameters},
        "required": [each.name for each in query.parameters if not each.type.nullable],
        "additionalProperties": False,
    }


def make_value_schema(type_: ValueType) -> dict[str, Json]:
    """Return the JSON Schema of a value."""
    if type_.scalar is Scalar.VECTOR:
        found: dict[str, Json] = {
            "type": "array",
            "items": {"type": "number"},
            "minItems": type_.dimension,
            "maxItems": type_.dimension,
        }
    elif type_.is_list:
        found = {"type": "array", "items": make_value_schema(type_.item)}
    elif type_.enum_values is not None:
        found = {"enum": list(type_.enum_values)}
    else:
        found = dict(_kind_of(type_.scalar).schema)
    return {"anyOf": [found, {"type": "null"}]} if type_.nullable else found
