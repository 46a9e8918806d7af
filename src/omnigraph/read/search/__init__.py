"""Search in a query: words in texts, nearest vectors, fusion of rankings, and the providers of embeddings."""

from omnigraph.read.search.embedding import Embedder, EmbeddingSettings, embedder, settings_of
from omnigraph.read.search.scores import Ranking, Search, fuse, fused_rankings, top_ranked
from omnigraph.read.search.vectors import Vector, distances

__all__ = [
    "Embedder",
    "EmbeddingSettings",
    "Ranking",
    "Search",
    "Vector",
    "distances",
    "embedder",
    "fuse",
    "fused_rankings",
    "settings_of",
    "top_ranked",
]
