"""Mutations: the statements of a ``.gq`` mutation, staged over one snapshot, checked together, made one commit."""

from omnigraph.write.mutation.run import MutationResult, mutate, retried
from omnigraph.write.mutation.staging import PendingTable, Staging
from omnigraph.write.mutation.transaction import Transaction

__all__ = [
    "MutationResult",
    "PendingTable",
    "Staging",
    "Transaction",
    "mutate",
    "retried",
]
