"""How much memory this process may use. The limits of caches and queries are parts of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CONTAINER_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def available_memory() -> int:
    """Return the bytes of memory of the machine, or of the container."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CONTAINER_LIMIT.read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical
