"""Mutations: run the statements of a ``.gq`` mutation on one snapshot, check the result, and commit it once."""

from omnigraph.write.mutation.run import MutationResult, begin_mutation, mutate, retry_on_conflict
from omnigraph.write.mutation.staging import PendingTable, StagingArea
from omnigraph.write.mutation.statements import replace_columns
from omnigraph.write.mutation.transaction import Transaction

__all__ = [
    "MutationResult",
    "PendingTable",
    "StagingArea",
    "Transaction",
    "begin_mutation",
    "mutate",
    "replace_columns",
    "retry_on_conflict",
]
