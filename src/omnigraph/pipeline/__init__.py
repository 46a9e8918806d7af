"""Pipeline files: parse them, and plan them against a graph. Spark is not used here; ``spark/pipeline`` runs plans.

``omnigraph.pipeline.plan``, ``check`` and ``run`` are public, and so are ``infer_schema``, ``propose_pipeline`` and
``split_text``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.pipeline.proposals import infer_schema, propose_pipeline
    from omnigraph.pipeline.text_chunks import split_text
    from omnigraph.pipeline_runs import check, plan, run

__all__ = ["check", "infer_schema", "plan", "propose_pipeline", "run", "split_text"]


def __getattr__(name: str) -> object:
    # The facade of this package stands above it, beside the graph; it is imported only by who asks for it.
    if name in ("check", "plan", "run"):
        from omnigraph import pipeline_runs

        return getattr(pipeline_runs, name)
    if name in ("infer_schema", "propose_pipeline"):
        from omnigraph.pipeline import proposals

        return getattr(proposals, name)
    if name == "split_text":
        from omnigraph.pipeline import text_chunks

        return text_chunks.split_text
    raise AttributeError(f"module 'omnigraph.pipeline' has no attribute {name!r}")
