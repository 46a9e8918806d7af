"""Search functions of queries: text search, nearest vectors, fusion of rankings, and embedding providers."""

from omnigraph.read.search.embedding import (
    Embedder,
    EmbeddingSettings,
    Vectors,
    create_embedder,
    resolve_embedding_settings,
)
from omnigraph.read.search.scores import Ranking, Search, execute_fuse, execute_top_ranked, rankings_of
from omnigraph.read.search.top_k import RankedRows
from omnigraph.read.search.vectors import Vector, compute_distances

__all__ = [
    "Embedder",
    "EmbeddingSettings",
    "RankedRows",
    "Ranking",
    "Search",
    "Vector",
    "Vectors",
    "compute_distances",
    "create_embedder",
    "execute_fuse",
    "execute_top_ranked",
    "rankings_of",
    "resolve_embedding_settings",
]
