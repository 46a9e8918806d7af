"""Locks of a graph: one per branch and one for refs, as file locks or as leases."""

from omnigraph.storage.locks.leases import LeaseChain, LeaseLost
from omnigraph.storage.locks.lock import (
    LOCK_KINDS,
    HeldLock,
    LockKind,
    LockSettings,
    branch_lock,
    choose_lock_kind,
    find_turn_pause,
    refs_lock,
)

__all__ = [
    "LOCK_KINDS",
    "HeldLock",
    "LeaseChain",
    "LeaseLost",
    "LockKind",
    "LockSettings",
    "branch_lock",
    "choose_lock_kind",
    "find_turn_pause",
    "refs_lock",
]
