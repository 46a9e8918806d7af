"""Rows of a match while it is computed: which entity each variable stands for, and the values of its properties.

Ids are texts at the edge of the house and dense integers in here. What is kept in memory between queries is kept in
this room, under one budget.
"""

from omnigraph.read.frames.cache import Cache, shared_cache
from omnigraph.read.frames.contents import Contents, contents_of
from omnigraph.read.frames.entity_tables import EntityTables, Strategy
from omnigraph.read.frames.expressions import Fixed, Request, evaluate, fixed_value, shown_type
from omnigraph.read.frames.frame import (
    Binding,
    Frame,
    Mask,
    Population,
    Positions,
    distinct,
    no_rows,
    one_below_the_other,
)
from omnigraph.read.frames.lookup import Chunks, Places, places_of
from omnigraph.read.frames.population import SeenRows, WholeTable, is_loaded, rows_with, whole_table
from omnigraph.read.frames.predicates import condition_of, holds

__all__ = [
    "Binding",
    "Cache",
    "Chunks",
    "Contents",
    "EntityTables",
    "Fixed",
    "Frame",
    "Mask",
    "Places",
    "Population",
    "Positions",
    "Request",
    "SeenRows",
    "Strategy",
    "WholeTable",
    "condition_of",
    "contents_of",
    "distinct",
    "evaluate",
    "fixed_value",
    "holds",
    "is_loaded",
    "no_rows",
    "one_below_the_other",
    "places_of",
    "rows_with",
    "shared_cache",
    "shown_type",
    "whole_table",
]
