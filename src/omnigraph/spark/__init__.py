"""The graph on PySpark: data source, queries, loads, merges, streams and pipelines.

Each room does on executors what the room of the same name below does in one process, with the same results.
"""

from omnigraph.spark.worker_memory import is_worker, shorten_collections

if is_worker():
    shorten_collections()
