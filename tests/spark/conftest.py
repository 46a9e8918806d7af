"""Fixtures that the tests of Spark share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.drivers import Java, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def java(spark: SparkSession) -> Java:
    """The Java of all tests, for drivers that die."""
    return java_of(spark)
