"""The commit section: the only way to a commit, and what finishes one whose writer died."""

from omnigraph.write.commit.audit import Recovery, list_recoveries
from omnigraph.write.commit.operation import (
    CommitOptions,
    CommitResult,
    PreparedWrite,
    SchemaChange,
    TableChange,
    TableCreation,
    WriteOperation,
)
from omnigraph.write.commit.recovery import (
    TableHead,
    audit_discarded_drift,
    has_same_rows,
    heal,
    heal_all,
    heal_branch,
    is_foreign_commit,
    restore_to_pins,
)
from omnigraph.write.commit.section import catch_up, commit
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from omnigraph.write.commit.table_shape import TableRewrite, TableShape

__all__ = [
    "CommitOptions",
    "CommitResult",
    "PreparedWrite",
    "Recovery",
    "SchemaChange",
    "TableChange",
    "TableCreation",
    "TableHead",
    "TableRewrite",
    "TableShape",
    "WriteOperation",
    "WriterKind",
    "audit_discarded_drift",
    "catch_up",
    "commit",
    "has_same_rows",
    "heal",
    "heal_all",
    "heal_branch",
    "is_foreign_commit",
    "list_recoveries",
    "list_sidecars",
    "restore_to_pins",
]
