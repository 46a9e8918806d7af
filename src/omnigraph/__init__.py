"""A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark.

``og.init`` makes a graph and ``og.open`` opens one; ``og.Graph`` has every verb. What the verbs return, and what they
take, is here by name; all errors are in ``og.errors``, and their groups, which callers catch, are here too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from omnigraph import errors
from omnigraph.errors import (
    AccessError,
    AlreadyExists,
    ConflictError,
    FormatError,
    InputError,
    LimitError,
    MergeConflicts,
    NotFoundError,
    OmniGraphError,
    OperatorError,
    ReadOnly,
)

if TYPE_CHECKING:
    from omnigraph import pipeline
    from omnigraph.analytics import Analysis, AnalyticsResult, GraphProjection
    from omnigraph.deadlines import Deadline
    from omnigraph.graph import Graph, GraphInfo, init
    from omnigraph.language.schema import MigrationPlan, Schema
    from omnigraph.language.source import Source
    from omnigraph.maintain.cleanup import Cleaned
    from omnigraph.maintain.health import Health
    from omnigraph.maintain.optimize import Optimized
    from omnigraph.maintain.repair import Repaired
    from omnigraph.maintain.verify import Verified
    from omnigraph.manifest.branches import Branch
    from omnigraph.manifest.commit_list import CommitList
    from omnigraph.manifest.history import Commit
    from omnigraph.manifest.settings import GraphSettings
    from omnigraph.manifest.snapshot import Pin, Snapshot
    from omnigraph.manifest.tags import Tag
    from omnigraph.policy import Policy
    from omnigraph.progress import ProgressStep, watch_progress
    from omnigraph.read.changes import ChangeBlock, Changes, Diff, EntityChange, EntityRevision
    from omnigraph.read.profile import Profile
    from omnigraph.read.result import Result
    from omnigraph.read.rows import ExportResult, Scan
    from omnigraph.read.search import EmbeddingSettings
    from omnigraph.remote import RemoteGraph
    from omnigraph.remote import open_location as open  # noqa: A004  the public name
    from omnigraph.write.commit import Recovery
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.evolve import SchemaApplied
    from omnigraph.write.indexes import IndexReport
    from omnigraph.write.load import LoadResult
    from omnigraph.write.merge import MergeResult
    from omnigraph.write.mutation import MutationResult, Transaction

__version__: str
_HOMES: Final = {
    # Open a graph
    "Graph": "omnigraph.graph",
    "init": "omnigraph.graph",
    "open": "omnigraph.remote:open_location",
    "RemoteGraph": "omnigraph.remote",
    # Options
    "Deadline": "omnigraph.deadlines",
    "EmbeddingSettings": "omnigraph.read.search",
    "Policy": "omnigraph.policy",
    "GraphSettings": "omnigraph.manifest.settings",
    "Schema": "omnigraph.language.schema",
    "ProgressStep": "omnigraph.progress",
    "watch_progress": "omnigraph.progress",
    "Source": "omnigraph.language.source",
    # Results of reads
    "Result": "omnigraph.read.result",
    "Profile": "omnigraph.read.profile",
    "Scan": "omnigraph.read.rows",
    "ExportResult": "omnigraph.read.rows",
    "GraphInfo": "omnigraph.graph",
    "Snapshot": "omnigraph.manifest.snapshot",
    "Pin": "omnigraph.manifest.snapshot",
    # History
    "Branch": "omnigraph.manifest.branches",
    "Tag": "omnigraph.manifest.tags",
    "Commit": "omnigraph.manifest.history",
    "CommitList": "omnigraph.manifest.commit_list",
    "Diff": "omnigraph.read.changes",
    "EntityChange": "omnigraph.read.changes",
    "EntityRevision": "omnigraph.read.changes",
    "Changes": "omnigraph.read.changes",
    "ChangeBlock": "omnigraph.read.changes",
    # Results of writes
    "MutationResult": "omnigraph.write.mutation",
    "Transaction": "omnigraph.write.mutation",
    "LoadResult": "omnigraph.write.load",
    "MergeResult": "omnigraph.write.merge",
    "EmbedResult": "omnigraph.write.embed",
    "MigrationPlan": "omnigraph.language.schema",
    "SchemaApplied": "omnigraph.write.evolve",
    # Analytics
    "Analysis": "omnigraph.analytics",
    "AnalyticsResult": "omnigraph.analytics",
    "GraphProjection": "omnigraph.analytics",
    # Upkeep
    "Cleaned": "omnigraph.maintain.cleanup",
    "Health": "omnigraph.maintain.health",
    "IndexReport": "omnigraph.write.indexes",
    "Optimized": "omnigraph.maintain.optimize",
    "Recovery": "omnigraph.write.commit",
    "Repaired": "omnigraph.maintain.repair",
    "Verified": "omnigraph.maintain.verify",
}
"""Where the public names live. Lance takes half a second to import: only who needs a name waits for it."""

__all__ = [
    "AccessError",
    "AlreadyExists",
    "Analysis",
    "AnalyticsResult",
    "Branch",
    "ChangeBlock",
    "Changes",
    "Cleaned",
    "Commit",
    "CommitList",
    "ConflictError",
    "Deadline",
    "Diff",
    "EmbedResult",
    "EmbeddingSettings",
    "EntityChange",
    "EntityRevision",
    "ExportResult",
    "FormatError",
    "Graph",
    "GraphInfo",
    "GraphProjection",
    "GraphSettings",
    "Health",
    "IndexReport",
    "InputError",
    "LimitError",
    "LoadResult",
    "MergeConflicts",
    "MergeResult",
    "MigrationPlan",
    "MutationResult",
    "NotFoundError",
    "OmniGraphError",
    "OperatorError",
    "Optimized",
    "Pin",
    "Policy",
    "Profile",
    "ProgressStep",
    "ReadOnly",
    "Recovery",
    "RemoteGraph",
    "Repaired",
    "Result",
    "Scan",
    "Schema",
    "SchemaApplied",
    "Snapshot",
    "Source",
    "Tag",
    "Transaction",
    "Verified",
    "__version__",
    "errors",
    "init",
    "open",
    "pipeline",
    "watch_progress",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module, _, inner_name = _HOMES[name].partition(":")
        return getattr(import_module(module), inner_name or name)
    if name == "pipeline":
        return import_module("omnigraph.pipeline")
    if name == "__version__":
        # The list of installed packages takes a twentieth of a second.
        from importlib.metadata import version

        return version("omnigraph")
    raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
