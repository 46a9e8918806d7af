"""The commit section: the only way to a commit, and what finishes one whose writer died."""

from omnigraph.write.commit.audit import Recovery, recoveries
from omnigraph.write.commit.operation import (
    Change,
    CommitOptions,
    NewSchema,
    NewTable,
    PreparedWrite,
    Result,
    WriteOperation,
)
from omnigraph.write.commit.recovery import (
    Found,
    audit_discarded_drift,
    heal,
    heal_all,
    heal_branch,
    is_foreign,
    is_neutral,
    take_back,
)
from omnigraph.write.commit.section import catch_up, commit
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from omnigraph.write.commit.table_shape import Rewriting, Shape

__all__ = [
    "Change",
    "CommitOptions",
    "Found",
    "NewSchema",
    "NewTable",
    "PreparedWrite",
    "Recovery",
    "Result",
    "Rewriting",
    "Shape",
    "WriteOperation",
    "WriterKind",
    "audit_discarded_drift",
    "catch_up",
    "commit",
    "heal",
    "heal_all",
    "heal_branch",
    "is_foreign",
    "is_neutral",
    "list_sidecars",
    "recoveries",
    "take_back",
]
