"""Algorithms on Spark: the arrays of a projection as blocks in a scratch folder, and supersteps over them.

The algorithms and their kernels are those of :mod:`omnigraph.analytics`; this room only says where the edges are.
"""

from omnigraph.spark.analytics.projections import SparkProjector

__all__ = ["SparkProjector"]
