"""The tests' Spark session: local, on loopback, with workers that import our packages."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from dynamic_kafka.executor import native
from tests.support.native import readers
from tests.support.spark import class_archive


def where() -> tuple[str, str]:
    import dynamic_kafka

    return sys.executable, dynamic_kafka.__name__


def test_workers_run_this_python_and_import_the_source(spark: SparkSession) -> None:
    places = spark.sparkContext.parallelize([1]).map(lambda _: where()).collect()

    assert places == [(sys.executable, "dynamic_kafka")]


def test_workers_have_the_reader_of_this_process(spark: SparkSession) -> None:
    """Also with `make test READER=python`."""
    has = spark.sparkContext.parallelize([1]).map(lambda _: native.load() != "DYNAMIC_KAFKA_NATIVE=no").collect()

    assert has == ["native" in readers()]


def test_the_session_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_the_session_starts_with_the_classes_of_the_warm_up(spark: SparkSession) -> None:
    archive, jvm = class_archive(), spark._jvm
    assert archive is not None and jvm is not None

    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text()

    assert str(archive) in maps, f"{archive} is not there, or of other jars: delete it, and `make setup`"
