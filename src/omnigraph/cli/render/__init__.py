"""How results look: a form for people and a form for programs, side by side, one module per family of commands.

A command makes a :class:`~omnigraph.cli.render.output.Result` and shows it; the global options chose the form. A new
family of commands adds a module of results here and changes nothing else.
"""

from omnigraph.cli.render.changes import ChangesFormat, Followed
from omnigraph.cli.render.diff import Counted, DiffFormat, Told
from omnigraph.cli.render.graph import MAIN, BranchChange, Branches, Commits, Described, Made, OneCommit, Shown
from omnigraph.cli.render.history import DrawnHistory, TagDeleted, TagMade, Tags
from omnigraph.cli.render.language import (
    Applied,
    CheckedSchema,
    CheckedSchemas,
    Linted,
    Migration,
    ShownSchema,
    Versions,
)
from omnigraph.cli.render.merge import Joined
from omnigraph.cli.render.output import JsonOutput, Output, TextOutput
from omnigraph.cli.render.page import many
from omnigraph.cli.render.pipeline import Planned, Ran, Tried
from omnigraph.cli.render.read import Answered, Explained, Exported, Format, Indexed, Profiled
from omnigraph.cli.render.upkeep import CleanedUp, OptimizedGraph, RepairedGraph, VerifiedGraph
from omnigraph.cli.render.write import Loaded, Mutated, Recoveries

__all__ = [
    "MAIN",
    "Answered",
    "Applied",
    "BranchChange",
    "Branches",
    "ChangesFormat",
    "CheckedSchema",
    "CheckedSchemas",
    "CleanedUp",
    "Commits",
    "Counted",
    "Described",
    "DiffFormat",
    "DrawnHistory",
    "Explained",
    "Exported",
    "Followed",
    "Format",
    "Indexed",
    "Joined",
    "JsonOutput",
    "Linted",
    "Loaded",
    "Made",
    "Migration",
    "Mutated",
    "OneCommit",
    "OptimizedGraph",
    "Output",
    "Planned",
    "Profiled",
    "Ran",
    "Recoveries",
    "RepairedGraph",
    "Shown",
    "ShownSchema",
    "TagDeleted",
    "TagMade",
    "Tags",
    "TextOutput",
    "Told",
    "Tried",
    "VerifiedGraph",
    "Versions",
    "many",
]
