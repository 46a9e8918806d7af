"""The codes of problems in pipeline files. The meaning of a code never changes; the documentation lists all codes."""

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
BAD_IDENTITY = "P210"

NO_GRAPH = "P301"
NO_SOURCE = "P302"
BAD_SQL = "P303"
STEP_FAILED = "P304"

PROBLEM_CODES: Mapping[str, str] = MappingProxyType(
    {
        SYNTAX: "The text cannot be parsed: syntax, encoding, or nesting.",
        UNKNOWN_KEY: "The key does not exist here.",
        MISSING_KEY: "A required key is missing.",
        REPEATED_KEY: "A mapping has the same key twice.",
        WRONG_KIND: "A value has the wrong kind: text, list or mapping.",
        WRONG_VALUE: "A value is not one of the allowed values.",
        NO_VARIABLE: "An environment variable is not set.",
        BAD_NAME: "The name of a source or view is invalid in Spark SQL, or already used.",
        UNKNOWN_TYPE: "The schema does not have this node or edge type.",
        UNKNOWN_PROPERTY: "The type does not have this property.",
        MISSING_PROPERTY: "A required property is not mapped.",
        WRONG_TYPE: "An expression has a type that cannot be converted to that of the property.",
        BAD_END: "An end of an edge does not match the key of its node type.",
        UNKNOWN_VIEW: "No source or view has this name.",
        UNKNOWN_COLUMN: "The view does not have this column.",
        BAD_CHECK: "A check is not a valid read query.",
        BAD_BRANCH: "The branch, the branch to create it from, or the branch to merge into is invalid.",
        BAD_IDENTITY: "The columns cannot identify the rows of the type in a merge or an update.",
        NO_GRAPH: "There is no graph at this location.",
        NO_SOURCE: "A source does not exist, or cannot be read.",
        BAD_SQL: "Spark rejects an SQL text.",
        STEP_FAILED: "Spark failed while computing the rows.",
    }
)
