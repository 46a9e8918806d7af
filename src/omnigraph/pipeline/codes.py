"""The codes of problems in pipeline files. A code never changes its meaning; the documentation lists them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SYNTAX = "P000"

UNKNOWN_KEY = "P101"
MISSING_KEY = "P102"
REPEATED_KEY = "P103"
WRONG_KIND = "P104"
WRONG_VALUE = "P105"
NO_VARIABLE = "P106"
BAD_NAME = "P107"

UNKNOWN_TYPE = "P201"
UNKNOWN_PROPERTY = "P202"
MISSING_PROPERTY = "P203"
WRONG_TYPE = "P204"
BAD_END = "P205"
UNKNOWN_VIEW = "P206"
UNKNOWN_COLUMN = "P207"
BAD_CHECK = "P208"
BAD_BRANCH = "P209"

NO_GRAPH = "P301"
NO_SOURCE = "P302"
BAD_SQL = "P303"
STEP_FAILED = "P304"

PROBLEM_CODES: Mapping[str, str] = MappingProxyType(
    {
        SYNTAX: "The text cannot be read: syntax, encoding, or nesting.",
        UNKNOWN_KEY: "There is no such key at this place.",
        MISSING_KEY: "A key that must be there is not.",
        REPEATED_KEY: "A key stands twice in one mapping.",
        WRONG_KIND: "A text, a list or a mapping stands where another of them belongs.",
        WRONG_VALUE: "A value is none of those that are possible here.",
        NO_VARIABLE: "A variable of the environment is not set.",
        BAD_NAME: "A source or view has a name that Spark SQL cannot use, or that is taken.",
        UNKNOWN_TYPE: "The schema has no such node or edge type.",
        UNKNOWN_PROPERTY: "The type has no such property.",
        MISSING_PROPERTY: "A property that must have a value gets none.",
        WRONG_TYPE: "An expression gives values that the property cannot hold.",
        BAD_END: "An end of an edge does not fit the key of its node type.",
        UNKNOWN_VIEW: "No source or view has this name.",
        UNKNOWN_COLUMN: "The view has no such column.",
        BAD_CHECK: "A check is no query that can be asked.",
        BAD_BRANCH: "The branch cannot be loaded into, begin where it should, or be merged where it should.",
        NO_GRAPH: "There is no graph at this place.",
        NO_SOURCE: "A source is not there, or cannot be read.",
        BAD_SQL: "Spark does not understand an SQL text.",
        STEP_FAILED: "Spark failed while it computed the rows.",
    }
)
