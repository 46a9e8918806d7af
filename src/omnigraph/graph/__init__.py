"""``Graph``, the facade: one short method per verb, no logic. A file holds a family of verbs."""

from __future__ import annotations

from omnigraph.graph.base import Mode
from omnigraph.graph.facade import Graph, StorageOptions, find_branch_of, init, open  # noqa: A004  the public name
from omnigraph.graph.history import GraphInfo

__all__ = ["Graph", "GraphInfo", "Mode", "StorageOptions", "find_branch_of", "init", "open"]
