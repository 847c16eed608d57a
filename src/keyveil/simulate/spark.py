"""Public names for Apache Spark: DataFrames in, reports and tallies out. Needs ``keyveil[spark]``.

::

    reports = kv.spark.privatise(df, plan)
    reports.write.parquet("reports")
    tally = kv.spark.tally(spark.read.parquet("reports"), plan)

Where the data is files, ``kv.engines.tally_files(paths, plan, kv.spark.SparkEngine())`` sends paths to
the workers rather than rows, which is several times faster.

These names are in the room of simulations because ``simulate`` is one of them; the engine itself is in
``plan/engines``.
"""

from typing import TYPE_CHECKING, Any

from ..plan.engines.spark_engine import SparkEngine
from ..plan.engines.spark_frames import broken_rows, privatise, tally
from ..plan.engines.spark_stream import RunningTally, running_tally

if TYPE_CHECKING:
    from ..foundation.coins import Coins
    from ..people.population import Population
    from ..plan.plan import Plan
    from ..plan.tally import Tally

__all__ = [
    "RunningTally",
    "SparkEngine",
    "broken_rows",
    "privatise",
    "running_tally",
    "simulate",
    "tally",
]


def simulate(
    plan: "Plan",
    population: "Population",
    people: int,
    coins: "Coins | None" = None,
    *,
    session: Any = None,
) -> "Tally":
    """A tally of ``people`` independent draws from a population, made by the tasks of a Spark job."""
    from .simulation_segments import simulate_on

    return simulate_on(SparkEngine(session), plan, population, people, coins)
