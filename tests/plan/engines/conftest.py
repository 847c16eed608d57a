"""One cluster of Spark and one application for all tests of Spark, which run on one worker."""

from __future__ import annotations

import os

import pytest
from engine_cases import table, written
from spark_cluster import Cluster, session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if "PYTEST_XDIST_WORKER" in os.environ:  # a second one in a run fails
        (tmp_path_factory.getbasetemp().parent / "cluster").touch(exist_ok=False)
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def spark(cluster):
    made = session(cluster.folder, cluster.url)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def frame(spark, cluster):
    """Everyone's rows as a DataFrame of several partitions."""
    path = written(table(), cluster.folder / "table.parquet")
    return spark.read.parquet(str(path)).repartition(3).cache()
