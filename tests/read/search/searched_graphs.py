"""A graph of documents to search in, and the expressions of a query over them, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.language.query.ast import TextFunction
from omnigraph.language.query.plan.operators import Count
from omnigraph.language.query.typed_tree import Constant, Distance, Expression, PropertyValue, TextMatch, TextScore
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.entity_sets import FullTable, PartialTable, open_full_table
from omnigraph.read.frames.evaluation import EvaluationContext
from omnigraph.read.frames.frame import EntityColumn, Frame
from omnigraph.read.search.embedding import EmbeddingSettings
from omnigraph.read.search.scores import Search

SCHEMA = """
node Doc {
  code: String @key
  body: String? @index
  plain: String?
  shelf: I32?
  vec: Vector(2)? @index
  gist: Vector(4)? @embed("body", model="m1")
}
edge Cites: Doc -> Doc
"""
DOC = "node:Doc"
TEXT, BOOL, NUMBER = (
    ValueType(Scalar.STRING, nullable=True),
    ValueType(Scalar.BOOL),
    ValueType(Scalar.F64, nullable=True),
)
VECTOR = ValueType(Scalar.VECTOR, nullable=True, dimension=2)


def documents(folder: Path, rows: Sequence[Mapping[str, object]] = ()) -> Graph:
    graph = omnigraph.init(folder / "docs.og", SCHEMA)
    if rows:
        add(graph, rows)
    return graph


def add(graph: Graph, rows: Sequence[Mapping[str, object]]) -> None:
    """Load documents; one whose code is there is replaced."""
    types: dict[str, pa.DataType] = {
        **dict.fromkeys(("code", "body", "plain"), pa.string()),
        "shelf": pa.int32(),
        "vec": pa.list_(pa.float32()),
    }
    columns = {name: pa.array([row.get(name) for row in rows], type_) for name, type_ in types.items()}
    graph.load(nodes={"Doc": pa.table(columns)}, mode="merge")


@dataclass(frozen=True, slots=True)
class SearchContext:
    """A search with its parameters, as the executor of a query passes it on."""

    search: Search
    evaluation: EvaluationContext

    def resolve_total(self, count: Count | None, skip: Count | None) -> int | None:
        found = [self._resolve(each) for each in (count, skip) if each is not None]
        return None if count is None else sum(found)

    def _resolve(self, count: Count) -> int:
        value = count.value if isinstance(count, Constant) else self.evaluation.parameters[count.name]
        assert isinstance(value, int)
        return value


def make_search_context(
    graph: Graph,
    parameters: Mapping[str, ConstantValue] | None = None,
    embed: EmbeddingSettings | None = None,
    cache: Cache | None = None,
) -> SearchContext:
    search = Search(graph.snapshot(), graph.schema.catalog, cache or Cache(2**24), parameters or {}, embed)
    return SearchContext(search, EvaluationContext(parameters or {}, 0, search))


def full_table(graph: Graph) -> FullTable:
    return open_full_table(graph.snapshot(), DOC, graph.schema.catalog.nodes["Doc"], Cache(2**24))


def partial_table(graph: Graph, ids: Sequence[str]) -> PartialTable:
    """Some documents, numbered in this order."""
    rows = PartialTable(graph.snapshot().table(DOC), graph.schema.catalog.nodes["Doc"])
    rows.intern(pa.table({"id": pa.array(ids, pa.string())}))
    return rows


def frame_of(
    population: FullTable | PartialTable, positions: Sequence[int] | None = None, variable: str = "d"
) -> Frame:
    """Rows that bind one variable; every entity once, unless positions are given."""
    at = np.arange(len(population)) if positions is None else np.array(positions, np.int64)
    return Frame(len(at), {variable: EntityColumn(population, at)})


def ids_of(
    population: FullTable | PartialTable, positions: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[str]:
    return [str(each) for each in population.take_ids(np.asarray(positions, np.int64)).to_pylist()]


def text(value: str | None) -> Constant:
    return Constant(value, TEXT)


def match(words: Expression, column: str = "body", function: TextFunction = TextFunction.SEARCH) -> TextMatch:
    return TextMatch(function, PropertyValue("d", column, TEXT), words, None, BOOL)


def fuzzy(words: str, edits: int | None = None, column: str = "body") -> TextMatch:
    given = None if edits is None else Constant(edits, ValueType(Scalar.I64))
    return TextMatch(TextFunction.FUZZY, PropertyValue("d", column, TEXT), text(words), given, BOOL)


def bm25(words: Expression, column: str = "body") -> TextScore:
    return TextScore(PropertyValue("d", column, TEXT), words, NUMBER)


def nearest(query: Expression, column: str = "vec") -> Distance:
    type_ = VECTOR if column == "vec" else ValueType(Scalar.VECTOR, nullable=True, dimension=4)
    return Distance(PropertyValue("d", column, type_), query, NUMBER)


def vector(*numbers: float) -> Constant:
    return Constant(tuple(numbers), ValueType(Scalar.VECTOR, dimension=len(numbers)))
