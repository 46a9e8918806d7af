"""Keeps garbage collection short in the Python workers of Spark.

A worker collects all garbage after every task, and so walks over every object of every imported module: a tenth of a
second, often more than the task itself. What the modules made stays until the worker ends. Here it is taken out of
what the collector walks over.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from typing import Final

_DAEMON: Final = "pyspark.daemon"
_OLDEST: Final = 2


def is_worker() -> bool:
    """Whether this process is a Python worker, which Spark forked from its daemon."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def shorten_collections() -> None:
    """After a full collection, leave what is still there out of the next ones, if modules were imported since."""
    gc.callbacks.append(_make_callback())


def _make_callback() -> Callable[[str, Mapping[str, int]], None]:
    frozen = 0

    def freeze_modules(phase: str, info: Mapping[str, int]) -> None:
        nonlocal frozen
        if phase == "stop" and info["generation"] == _OLDEST and len(sys.modules) > frozen:
            frozen = len(sys.modules)
            gc.freeze()

    return freeze_modules
