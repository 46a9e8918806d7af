"""Running a pipeline file: its sources, views and mappings as DataFrames, one load, then its checks."""

from omnigraph.spark.pipeline.progress import PipelineStep
from omnigraph.spark.pipeline.run import CheckResult, PipelineResult, check_pipeline, run_pipeline

__all__ = [
    "CheckResult",
    "PipelineResult",
    "PipelineStep",
    "check_pipeline",
    "run_pipeline",
]
