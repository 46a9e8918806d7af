"""The commit section: the only way to a commit, and the recovery of commits whose writer died.

How a write flows: :mod:`.operation` (what a writer hands in), :mod:`.section` (before and under the branch's lock),
:mod:`.phases` (sidecar, table commits, publish). :mod:`.recovery` and :mod:`.drift` clean up after dead writers.
"""

from typing import TYPE_CHECKING

from omnigraph.late_imports import import_late
from omnigraph.write.commit.audit import Recovery, list_recoveries
from omnigraph.write.commit.recovery import finish_removals, heal, heal_all, heal_branch, prepare_for_writing
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from omnigraph.write.commit.table_heads import RECOVERY_ACTOR, TableHead, has_same_rows

if TYPE_CHECKING:
    from omnigraph.write.commit.branch_setup import delete_branch_at
    from omnigraph.write.commit.drift import audit_discarded_drift, is_foreign_commit, restore_to_pins
    from omnigraph.write.commit.keys import Key, find_written, make_write_key, resolve_key
    from omnigraph.write.commit.operation import (
        AlreadyCommitted,
        CommitOptions,
        CommitResult,
        PreparedWrite,
        SchemaChange,
        TableChange,
        TableCreation,
        WriteOperation,
    )
    from omnigraph.write.commit.section import (
        CATCH_UP_MESSAGE,
        HANDOFF_MESSAGE,
        begin_write,
        catch_up,
        check_basis_schema,
        commit_operation,
        make_recreated_error,
        refuse_repeated,
        run_on_newest,
        take_basis,
    )
    from omnigraph.write.commit.table_shape import TableRewrite, TableShape
else:
    # Opening a graph ends interrupted writes, which takes less than writing.
    __getattr__ = import_late(
        __name__,
        {
            "branch_setup": ("delete_branch_at",),
            "drift": (
                "audit_discarded_drift",
                "is_foreign_commit",
                "restore_to_pins",
            ),
            "keys": (
                "Key",
                "find_written",
                "make_write_key",
                "resolve_key",
            ),
            "operation": (
                "AlreadyCommitted",
                "CommitOptions",
                "CommitResult",
                "PreparedWrite",
                "SchemaChange",
                "TableChange",
                "TableCreation",
                "WriteOperation",
            ),
            "section": (
                "CATCH_UP_MESSAGE",
                "HANDOFF_MESSAGE",
                "begin_write",
                "catch_up",
                "check_basis_schema",
                "commit_operation",
                "make_recreated_error",
                "refuse_repeated",
                "run_on_newest",
                "take_basis",
            ),
            "table_shape": (
                "TableRewrite",
                "TableShape",
            ),
        },
    )

__all__ = [
    "CATCH_UP_MESSAGE",
    "HANDOFF_MESSAGE",
    "RECOVERY_ACTOR",
    "AlreadyCommitted",
    "CommitOptions",
    "CommitResult",
    "Key",
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
    "begin_write",
    "catch_up",
    "check_basis_schema",
    "commit_operation",
    "delete_branch_at",
    "find_written",
    "finish_removals",
    "has_same_rows",
    "heal",
    "heal_all",
    "heal_branch",
    "is_foreign_commit",
    "list_recoveries",
    "list_sidecars",
    "make_recreated_error",
    "make_write_key",
    "prepare_for_writing",
    "refuse_repeated",
    "resolve_key",
    "restore_to_pins",
    "run_on_newest",
    "take_basis",
]
