"""Python runs this when it starts with this folder on its path, where the short-lived Spark of daily tests puts it.

Spark forks its Python workers from daemons, a new one for each plan of a data source. Here the daemons import what
workers need, once, as ``tests.preloaded`` does for children of other tests. Nothing is opened or read before a fork.
"""

from __future__ import annotations

import gc
import sys
import warnings
from importlib import import_module
from typing import Final

DAEMON: Final = ["-m", "pyspark.daemon"]
MODULES: Final = ("pandas", "pyarrow.parquet", "pyspark.worker", "omnigraph.spark.data_source", "tests.preloaded")

if sys.orig_argv[1:3] == DAEMON:
    # Workers are forks that use Lance only after the fork.
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    for module in (*MODULES, *sys.orig_argv[3:4]):
        import_module(module)
    # The main module, by which a worker is known, is not there yet.
    import_module("omnigraph.spark.worker_memory").shorten_collections()
    gc.collect()
    gc.freeze()
