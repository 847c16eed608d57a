"""One cluster of Spark and one application for all tests of the group ``spark``."""

from __future__ import annotations

import pytest
from engine_cases import table, written
from spark_cluster import Cluster, session


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
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
