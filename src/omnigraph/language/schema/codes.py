"""The problem codes of `.pg`, and the findings that carry them.

A code never changes its meaning; the reference documentation lists all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from omnigraph.errors import Problem
from omnigraph.language.source import Source, Span, suggest_similar
from omnigraph.lazy_dataclass import dataclass

SYNTAX = "S000"

DUPLICATE_DECLARATION = "S101"
DUPLICATE_PROPERTY = "S102"
RESERVED_NAME = "S103"
UNKNOWN_TYPE = "S104"
INTERFACE_MISMATCH = "S105"
NAMES_DIFFER_IN_CASE = "S106"
INTERFACES_DISAGREE = "S107"
BAD_TYPE = "S108"
DUPLICATE_ENUM_VALUE = "S109"
BAD_CARDINALITY = "S110"
CARDINALITY_WITHOUT_RANGE = "S111"
TOO_MANY_PROPERTIES = "S112"

ANNOTATION_MISPLACED = "S201"
ANNOTATION_REPEATED = "S202"
ANNOTATION_VALUE = "S203"
BAD_EMBED = "S204"
BAD_RENAME_HINT = "S205"
BAD_DEFAULT = "S206"

CONSTRAINT_MISPLACED = "S301"
CONSTRAINT_ARGUMENTS = "S302"
UNKNOWN_PROPERTY = "S303"
CONSTRAINT_TYPE = "S304"
SECOND_KEY = "S305"
RANGE_REVERSED = "S306"
BAD_PATTERN = "S307"
UNIQUE_BLOB = "S308"
SURPLUS_ARGUMENTS = "S309"

PROBLEM_CODES: Mapping[str, str] = MappingProxyType(
    {
        SYNTAX: "The text cannot be read: syntax, encoding, or nesting.",
        DUPLICATE_DECLARATION: "A type is declared twice, or two edge names differ only in case.",
        DUPLICATE_PROPERTY: "A property is declared twice in one type.",
        RESERVED_NAME: "A property has a name that the system uses itself.",
        UNKNOWN_TYPE: "An edge or `implements` names a type that is not declared.",
        INTERFACE_MISMATCH: "A node declares an interface's property with another type.",
        NAMES_DIFFER_IN_CASE: "Two properties of a type, or two node types, differ only in case.",
        INTERFACES_DISAGREE: "Two interfaces of a node declare a property differently.",
        BAD_TYPE: "A vector's dimension is out of range, or a list holds blobs.",
        DUPLICATE_ENUM_VALUE: "An enum has a value twice.",
        BAD_CARDINALITY: "A cardinality's minimum exceeds its maximum, or a bound is too large.",
        CARDINALITY_WITHOUT_RANGE: "`@card` on an edge does not say from how many to how many.",
        TOO_MANY_PROPERTIES: "The interfaces give the nodes of a schema more properties than can be handled.",
        ANNOTATION_MISPLACED: "An annotation does not belong on this declaration or this kind of property.",
        ANNOTATION_REPEATED: "An annotation that may stand once stands twice.",
        ANNOTATION_VALUE: "An annotation lacks its value, or has one that it does not take.",
        BAD_EMBED: "`@embed` is not on a vector, or its source or keywords are wrong.",
        BAD_RENAME_HINT: "`@rename_from` does not name exactly one old name.",
        BAD_DEFAULT: "The text of `@default` is not a value of the property's type.",
        CONSTRAINT_MISPLACED: "An edge has a constraint that only nodes may have.",
        CONSTRAINT_ARGUMENTS: "The arguments of a constraint are not of its form.",
        UNKNOWN_PROPERTY: "A constraint names a property that the type does not have.",
        CONSTRAINT_TYPE: "A constraint does not fit the type of its property.",
        SECOND_KEY: "A node has more than one key.",
        RANGE_REVERSED: "The minimum of a `@range` exceeds its maximum.",
        BAD_PATTERN: "The pattern of a `@check` is not an RE2 expression.",
        UNIQUE_BLOB: "A `@unique` constraint names a blob.",
        SURPLUS_ARGUMENTS: "A `@range` or `@check` has more arguments than it uses.",
    }
)

STRICTER_THAN_0_8 = frozenset(
    {
        RESERVED_NAME,
        NAMES_DIFFER_IN_CASE,
        INTERFACES_DISAGREE,
        CARDINALITY_WITHOUT_RANGE,
        BAD_RENAME_HINT,
        BAD_DEFAULT,
        RANGE_REVERSED,
        BAD_PATTERN,
        UNIQUE_BLOB,
        SURPLUS_ARGUMENTS,
    }
)
"""Problems that release 0.8 accepted. A graph that it made still opens, with these as warnings."""

MAX_PROBLEMS = 100
# Searching 10,000 names takes 0.1 s.
_MAX_SUGGESTIONS = 20


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A broken rule. If a name is unknown, ``word`` is that name and ``known`` are the names it could be."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    word: str = ""
    known: Collection[str] = ()


def report_findings(findings: Iterable[SchemaFinding], source: Source) -> list[Problem]:
    """Return the findings as problems, without duplicates, in order of position, at most ``MAX_PROBLEMS``."""
    distinct = {(each.span.start, each.code, each.message): each for each in findings}
    first = [distinct[place] for place in sorted(distinct)][:MAX_PROBLEMS]
    suggestions = _MAX_SUGGESTIONS
    problems: list[Problem] = []
    for each in first:
        hint = each.hint
        if each.known and suggestions > 0:
            hint = suggest_similar(each.word, each.known) or hint
            suggestions -= 1
        problems.append(source.problem(each.code, each.message, each.span, hint))
    return problems
