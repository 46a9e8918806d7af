"""Run a pipeline: build DataFrames from its sources, views and mappings, load them as one commit, run its checks."""

from omnigraph.spark.pipeline.run import CheckResult, PipelineResult, check_pipeline, run_pipeline
from omnigraph.spark.pipeline.step_recorder import PipelineStep

__all__ = [
    "CheckResult",
    "PipelineResult",
    "PipelineStep",
    "check_pipeline",
    "run_pipeline",
]
