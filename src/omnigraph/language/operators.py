"""The operators of conditions, as queries write them and storage filters by them."""

from __future__ import annotations

from enum import StrEnum


class ComparisonOperator(StrEnum):
    """The operators of a comparison; ``a in b`` is ``b contains a``."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    MATCHES = "matches"
    IN = "in"


class LogicalOperator(StrEnum):
    """The operators between conditions."""

    AND = "and"
    OR = "or"
