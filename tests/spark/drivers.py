"""Drivers that are processes of their own in front of the Java of all tests, so that they can be killed alone."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Java:
    """Where a running Java listens to Python, as ``spark-submit`` tells it to the program that it starts."""

    port: int
    secret: str

    def session(self) -> SparkSession:
        """The session that runs there, for this process."""
        os.environ.update(PYSPARK_GATEWAY_PORT=str(self.port), PYSPARK_GATEWAY_SECRET=self.secret)
        os.environ.update(PYSPARK_PYTHON=sys.executable)
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        gateway = cast("Any", java_gateway).launch_gateway()
        spark = gateway.jvm.org.apache.spark
        running = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
        conf = SparkConf(_jconf=running.getConf())
        return SparkSession(SparkContext(gateway=gateway, jsc=running, conf=conf))


def java_of(spark: SparkSession) -> Java:
    """The Java of a session."""
    parameters = cast("Any", spark.sparkContext._gateway).gateway_parameters
    return Java(parameters.port, parameters.auth_token)
