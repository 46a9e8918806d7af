"""Mutations: the statements of a ``.gq`` mutation, staged over one snapshot, checked together, made one commit."""

from omnigraph.write.mutation.run import MutationResult, mutate, retry_on_conflict
from omnigraph.write.mutation.staging import PendingTable, StagingArea
from omnigraph.write.mutation.transaction import Transaction

__all__ = [
    "MutationResult",
    "PendingTable",
    "StagingArea",
    "Transaction",
    "mutate",
    "retry_on_conflict",
]
