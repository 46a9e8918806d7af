"""How much memory this process may use, of which the limits of caches and queries are parts, and giving it back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import pyarrow as pa

_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def available_memory() -> int:
    """Return the bytes of memory of the machine, or of the container."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CONTAINER_LIMIT.read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def release_unused_memory() -> None:
    """Give memory that was freed back to the system: Arrow's, and that of the C library, which Lance allocates from.

    Both keep it for later. The next step of a large write runs in other threads, for which the C library takes more.
    """
    pa.default_memory_pool().release_unused()
    # Only glibc has it.
    trim = cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))
    if trim is not None:
        trim(0)
