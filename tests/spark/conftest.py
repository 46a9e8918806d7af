"""Fixtures that the tests of Spark share."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from tests.spark.drivers import Java, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def java(spark: SparkSession) -> Java:
    """The Java of all tests, for drivers that die."""
    return java_of(spark)


@pytest.fixture
def eight_partitions(spark: SparkSession) -> Generator[None]:
    """More than one shuffle partition, and plans that change while they run."""
    settings = {"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.enabled": "true"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        assert value is not None
        spark.conf.set(name, value)
