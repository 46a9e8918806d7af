"""Read the plans that Spark prints. A session over Spark Connect has no other access to a plan."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final, cast

from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPLAIN: Final = "EXPLAIN EXTENDED "
"""Before a query, Spark returns the plans of the query instead of its rows."""
_ANALYZED: Final = "== Analyzed Logical Plan =="
_OPTIMIZED: Final = "== Optimized Logical Plan =="
_MAX_FIELDS: Final = "spark.sql.debug.maxToStringFields"
_ALL_FIELDS: Final = str(2**31 - 1)
_SETTING: Final = Lock()

_NODE: Final = re.compile(r"^(?P<indent>(?:[ :] {2})*)[:+]- (?P<text>.*)$")
_INDENT: Final = 3
_FILES: Final = re.compile(r"Relation .*\] \w+|HiveTableRelation .*")
"""Files that Spark reads with a built-in reader. Other relations, such as that of JDBC, end differently."""
_SHARED: Final = re.compile(r"CTERelation(?P<part>Def|Ref) (?P<number>\d+)")
_JOINED: Final = 2


@contextmanager
def print_all_fields(session: SparkSession) -> Generator[None]:
    """Let Spark print lists of columns whole. Otherwise it prints the first 25."""
    # One thread at a time. Otherwise a thread could restore the setting of another one.
    with _SETTING:
        before = cast(str, session.conf.get(_MAX_FIELDS))
        session.conf.set(_MAX_FIELDS, _ALL_FIELDS)
        try:
            yield
        finally:
            session.conf.set(_MAX_FIELDS, before)


def find_optimized_plan(plans: str) -> str:
    """Return the optimized plan of an extended explanation; an empty string if it is missing."""
    return plans.partition(_OPTIMIZED)[2]


def has_joined_files(frame: DataFrame) -> bool:
    """Return whether rows of a frame may come from several files at once, so that no single file can be named.

    Spark asks the same of a plan with ``input_file_name()``, and refuses the plan if it is so.
    """
    from pyspark.sql import functions

    one = frame.select(functions.lit(1).alias("one"))
    text = f"{EXPLAIN}TABLE {{one}}"
    ((plans,),) = cast("list[tuple[str]]", frame.sparkSession.sql(text, one=one).collect())
    analyzed = plans.partition(_ANALYZED)[2].partition(_OPTIMIZED)[0]
    return _count_file_relations(analyzed) >= _JOINED


@dataclass(slots=True)
class _Node:
    """A node of a plan while its children are read, and the file relations of these children."""

    depth: int
    text: str
    files: int = 0


def _count_file_relations(plan: str) -> int:
    """Count the file relations that take part in one row of a plan: those of a union do not meet."""
    shared: dict[str, int] = {}
    open_nodes = [_Node(0, "")]

    def close(depth: int) -> None:
        while open_nodes[-1].depth >= depth:
            node = open_nodes.pop()
            parent, files = open_nodes[-1], _files_of(node, shared)
            # The plan of a subquery is printed one step deeper than a child.
            if node.depth != parent.depth + 1:
                continue
            parent.files = max(parent.files, files) if parent.text.startswith("Union") else parent.files + files

    for line in plan.splitlines():
        found = _NODE.match(line)
        if found is not None:
            depth = len(found["indent"]) // _INDENT + 1
            close(depth)
            open_nodes.append(_Node(depth, found["text"]))
    close(1)
    return open_nodes[0].files


def _files_of(node: _Node, shared: dict[str, int]) -> int:
    """Return the file relations of a node whose children are complete; ``shared`` are those of common tables."""
    part = _SHARED.match(node.text)
    if part is not None and part["part"] == "Ref":
        return shared.get(part["number"], 0)
    if part is not None:
        shared[part["number"]] = node.files
        return 0
    return 1 if _FILES.fullmatch(node.text) else node.files
